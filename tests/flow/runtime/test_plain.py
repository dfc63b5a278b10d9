"""Plain functions in processes: what they are told, what they answer, and what their platform says of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.lambda_api.runtime import environment
from holdfast.lambda_api.runtime.jobs import JobResult
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.model.errors import EngineClosed, FunctionNotFound, InvalidParameter, TooManyRequests
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import FUNCTIONS, alive, hosting, plain, until


async def call(host: RuntimeHost, function: str, event: Any = None, **members: Any) -> JobResult:
    return await host.call(function, LATEST, json.dumps(event).encode(), **members)


@pytest.fixture(params=["awslambdaric", "ours"])
def python_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The official client, and ours for where it is missing: they must be one thing to a function."""
    name: str = request.param
    monkeypatch.setattr(environment, "_has_official_client", lambda: name == "awslambdaric")
    return name


async def test_a_function_answers_what_it_returns(python_client: str) -> None:
    async with hosting(plain("echo")) as (host, _):
        event = {"a": [1, None, "ü"], "large": 10**30}
        called = await call(host, "echo", event)
        assert called.error is None
        assert json.loads(called.payload) == event


async def test_a_function_sees_a_lambda_around_it(python_client: str) -> None:
    runtime = plain("about", version="7", memory_mb=256, timeout_seconds=20, environment={"MINE": "yes"})
    async with hosting(runtime) as (host, _):
        told = {"request": "11111111-2222-3333-4444-555555555555", "tenant": "blue", "client_context": '{"custom":{"k":"v\\nü"}}'}
        about = json.loads((await host.call("about", "7", b"{}", trace="Root=1-2-3", **told)).payload)
        assert about["request"] == told["request"]
        assert about["arn"] == "arn:aws:lambda:local:000000000000:function:about:7"
        assert (about["name"], about["version"], about["memory"]) == ("about", "7", "256")
        assert about["group"] == "/aws/lambda/about"
        assert 10_000 < about["left"] <= 20_000
        assert (about["tenant"], about["client"], about["trace"]) == ("blue", {"k": "v\nü"}, "Root=1-2-3")
        assert about["cwd"] == str(FUNCTIONS)
        seen = about["env"]
        assert seen["MINE"] == "yes"
        assert seen["AWS_ENDPOINT_URL_LAMBDA"] == f"http://{seen['AWS_LAMBDA_RUNTIME_API']}"
        assert seen["_HANDLER"] == "plain.about"
        assert (seen["TZ"], seen["LAMBDA_TASK_ROOT"]) == (":UTC", str(FUNCTIONS))


async def test_nothing_of_our_environment_is_handed_on(monkeypatch: pytest.MonkeyPatch, python_client: str) -> None:
    monkeypatch.setenv("MY_DATABASE_PASSWORD", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    monkeypatch.setenv("HOME", "where-our-keys-are")
    async with hosting(plain("about")) as (host, _):
        seen = json.loads((await call(host, "about")).payload)["env"]
        assert "MY_DATABASE_PASSWORD" not in seen
        assert "secret" not in seen.values()
        assert (seen["AWS_SECRET_ACCESS_KEY"], seen["AWS_SHARED_CREDENTIALS_FILE"]) == ("holdfast", os.devnull)
        assert seen["HOME"] != "where-our-keys-are"


async def test_two_functions_do_not_see_each_others_environment() -> None:
    one = plain("about", function="one", environment={"ONE": "1", "BOTH": "one"})
    two = plain("about", function="two", environment={"TWO": "2", "BOTH": "two"})
    async with hosting(one, two) as (host, _):
        first, second = [json.loads(called.payload) for called in await asyncio.gather(call(host, "one"), call(host, "two"))]
        assert (first["env"]["ONE"], first["env"]["BOTH"]) == ("1", "one")
        assert (second["env"]["TWO"], second["env"]["BOTH"]) == ("2", "two")
        assert "TWO" not in first["env"]
        assert "ONE" not in second["env"]
        assert first["pid"] != second["pid"]
        assert first["env"]["AWS_LAMBDA_RUNTIME_API"] != second["env"]["AWS_LAMBDA_RUNTIME_API"]


async def test_an_exception_is_an_answer_with_its_type_and_stack(python_client: str) -> None:
    async with hosting(plain("fails")) as (host, _):
        called = await call(host, "fails", 5)
        assert called.error is not None
        assert (called.error.type, called.error.message) == ("ValueError", "no good: 5")
        shown = json.loads(called.payload)
        assert (shown["errorType"], shown["errorMessage"]) == ("ValueError", "no good: 5")
        assert any("raise ValueError" in line for line in shown["stackTrace"])
        assert (await call(host, "fails", 6)).error is not None, "the same process goes on"


async def test_what_cannot_be_written_as_json_is_the_functions_error(python_client: str) -> None:
    async with hosting(plain("not_json")) as (host, _):
        called = await call(host, "not_json")
        assert called.error is not None
        assert called.error.type == "Runtime.MarshalError"
        assert "Unable to marshal response" in (called.error.message or "")


@pytest.mark.parametrize(
    "handler, kind, message",
    [
        ("nowhere.handler", "Runtime.ImportModuleError", "Unable to import module 'nowhere'"),
        ("plain.missing", "Runtime.HandlerNotFound", "Handler 'missing' missing on module 'plain'"),
        ("broken.handler", "Runtime.UserCodeSyntaxError", "Syntax error in module 'broken'"),
        ("nodot", "Runtime.MalformedHandlerName", "Bad handler 'nodot'"),
        ("raising.handler", "ZeroDivisionError", "division by zero"),
    ],
)
async def test_a_function_that_cannot_begin_says_why(python_client: str, handler: str, kind: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text((FUNCTIONS / "plain.py").read_text())
    (tmp_path / "broken.py").write_text("def handler(:\n")
    (tmp_path / "raising.py").write_text("1 / 0\n")
    async with hosting(plain("echo", handler=handler, folder=str(tmp_path))) as (host, _):
        for _ in range(2):  # nothing is left in the way of the next try
            called = await call(host, "echo")
            assert called.error is not None
            assert called.error.type == kind
            assert message in (called.error.message or "")


async def test_a_process_that_exits_is_an_exit_error_and_is_replaced(python_client: str) -> None:
    async with hosting(plain("exits"), plain("echo")) as (host, _):
        called = await call(host, "exits", 3)
        assert b"Max Memory Used: 0 MB" not in called.tail
        assert called.error is not None
        assert called.error.type == "Runtime.ExitError"
        assert called.error.message == f"RequestId: {called.request} Error: Runtime exited with error: exit status 3"
        assert json.loads(called.payload) == {"errorType": called.error.type, "errorMessage": called.error.message}
        again = await call(host, "exits", 0)
        assert again.error is not None
        assert (again.error.message or "").endswith("Runtime exited without providing a reason")


async def test_a_folder_or_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    gone = plain("echo", function="gone", folder=str(tmp_path / "gone"))
    other = plain("echo", function="other", command=("no-such-program", "x"))
    odd = plain("echo", function="odd", runtime="cobol85")
    async with hosting(gone, other, odd) as (host, _):
        errors = [(await call(host, name)).error for name in ("gone", "other", "odd")]
        assert [error and error.type for error in errors] == ["Runtime.InvalidEntrypoint", "Runtime.ExitError", "Runtime.InvalidEntrypoint"]
        assert "gone" in str(errors[0])
        assert "exit status 127" in str(errors[1])
        assert "cobol85" in str(errors[2])


async def test_a_function_that_takes_too_long_to_begin_is_told_and_its_log_kept(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import threading\nprint('beginning', flush=True)\nthreading.Event().wait()\n")
    async with hosting(plain("echo", handler="slow.handler", folder=str(tmp_path)), init_seconds=1.5) as (host, lines):
        called = await call(host, "echo")
        assert called.error is not None
        assert called.error.type == "Sandbox.Timedout"
        assert b"Max Memory Used: 0 MB" not in called.tail
        assert called.error.message == f"RequestId: {called.request} Error: Task timed out after 1.50 seconds"
        assert b"beginning\n" in called.tail
        assert [line.text.split()[0] for line in lines] == ["INIT_START", "beginning", "INIT_REPORT"]


async def test_a_wrong_description_is_refused() -> None:
    for wrong in (plain("echo", timeout_seconds=0), plain("echo", handler=""), plain("echo", environment={"a=b": "c"})):
        with pytest.raises(InvalidParameter):
            RuntimeHost([wrong], token=str)


async def test_who_asks_for_what_is_not_here_is_told() -> None:
    async with hosting(plain("echo")) as (host, _):
        with pytest.raises(FunctionNotFound, match="version 9"):
            await host.call("echo", "9", b"{}")
        with pytest.raises(InvalidParameter, match="not JSON"):
            await call(host, "echo", client_context="{")
        with pytest.raises(InvalidParameter, match="The tenant"):
            await call(host, "echo", tenant="a\r\nb: c")


async def test_a_timeout_is_told_as_lambda_tells_it(tmp_path: Path) -> None:
    async with hosting(plain("waits", timeout_seconds=1)) as (host, lines):
        called = await call(host, "waits", str(tmp_path / "began"))
        assert called.error is not None
        assert called.error.type == "Sandbox.Timedout"
        assert called.error.message == f"RequestId: {called.request} Error: Task timed out after 1.00 seconds"
        assert alive([int((tmp_path / "began").read_text())]) == []
        assert b"Status: timeout" in called.tail
        assert [line.text.split()[0] for line in lines] == ["INIT_START", "START", "RequestId:", "END", "REPORT"]


async def test_an_answer_of_more_than_six_megabytes_is_refused(python_client: str) -> None:
    async with hosting(plain("large")) as (host, _):
        fits = await call(host, "large", 6 * 1024 * 1024)
        assert fits.error is None
        assert len(fits.payload) == 6 * 1024 * 1024 + 2
        called = await call(host, "large", 7 * 1024 * 1024)
        assert called.error is not None
        assert called.error.type == "Function.ResponseSizeTooLarge"
        assert called.error.message == "Response payload size exceeded maximum allowed payload size (6291556 bytes)."
        assert (await call(host, "large", 3)).payload == b'"xxx"'


async def test_the_log_tells_every_request_with_its_lines(python_client: str) -> None:
    async with hosting(plain("logs", log_format="Text")) as (host, lines):
        called = await call(host, "logs", "this")
        mine = [line for line in lines if line.request == called.request]
        texts = [line.text for line in mine]
        assert texts[0] == f"START RequestId: {called.request} Version: $LATEST"
        assert "printed" in texts
        assert "to the other stream" in texts
        (logged,) = [text for text in texts if "logged this" in text]
        assert logged.startswith("[INFO]\t")
        assert called.request in logged
        assert texts[-2] == f"END RequestId: {called.request}"
        assert "Init Duration: " in texts[-1]
        assert "Memory Size: 128 MB\tMax Memory Used: " in texts[-1]
        assert {(line.function, line.version, line.stream) for line in lines} == {("logs", LATEST, mine[0].stream)}
        assert called.tail.decode().splitlines() == texts
        again = await call(host, "logs", "that")
        assert b"Init Duration" not in again.tail, "it was warm"


async def test_json_records_keep_what_was_logged_beside_the_message(python_client: str) -> None:
    async with hosting(plain("logs", log_format="JSON")) as (host, lines):
        called = await call(host, "logs", "this")
        (record,) = [
            json.loads(line.text) for line in lines if line.request == called.request and line.text.startswith("{") and not line.platform
        ]
        assert (record["message"], record["level"], record["answer"]) == ("logged this", "INFO", 42)
        assert record["requestId"] == called.request


async def test_a_traceback_is_one_record_and_the_next_line_is_another(python_client: str) -> None:
    async with hosting(plain("traces", log_format="Text")) as (host, lines):
        called = await call(host, "traces", "raise")
        mine = [line for line in lines if line.request == called.request and not line.platform]
        (logged,) = [line.text for line in mine if "it failed" in line.text]
        assert logged.startswith("[ERROR]\t")
        assert logged.endswith("\nValueError: first\nsecond"), "the whole traceback, and nothing after it"
        assert "printed after it" in [line.text for line in mine]
        assert [line.text.split("\t")[3] for line in mine if line.text.startswith("[WARNING]")] == ["logged after it"]
        (raised,) = [line for line in mine if line.text.startswith("[ERROR] KeyError: 'its own'\nTraceback (most recent call last):\n")]
        assert raised.level == "ERROR"
        assert called.tail.decode().splitlines()[0] == f"START RequestId: {called.request} Version: $LATEST"


async def test_json_records_and_the_platforms_events_obey_their_levels(python_client: str) -> None:
    quiet = {"application_log_level": "WARN", "system_log_level": "WARN"}
    for levels, wanted, platform in (
        ({}, ["it failed", "printed after it", "not grave", "logged after it"], ["initStart", "start", "report"]),
        (quiet, ["it failed", "logged after it"], []),
    ):
        async with hosting(plain("traces", log_format="JSON", **levels)) as (host, lines):
            called = await call(host, "traces")
            events = [json.loads(line.text)["type"] for line in lines if line.platform]
            assert events == [f"platform.{name}" for name in platform]
            told = [json.loads(line.text) if line.text.startswith("{") else {"message": line.text} for line in lines if not line.platform]
            assert sorted(one["message"] for one in told) == sorted(wanted)
            (failed,) = [one for one in told if one["message"] == "it failed"]
            assert (failed["level"], failed["errorType"], failed["errorMessage"]) == ("ERROR", "ValueError", "first\nsecond")
            assert (failed["requestId"], failed["location"].split(":")[1]) == (called.request, "traces")
            before = len(lines)
            raised = await call(host, "traces", "raise")
            (own,) = [json.loads(line.text) for line in lines[before:] if '"KeyError"' in line.text and not line.platform]
            assert (own["level"], own["requestId"]) == ("ERROR", raised.request)
            (report,) = [json.loads(line.text)["record"] for line in lines[before:] if '"platform.report"' in line.text]
            assert (report["status"], report["errorType"]) == ("error", "KeyError"), "what went wrong is said at every level"


async def test_a_hundred_megabytes_of_output_do_not_stay_in_memory() -> None:
    seen = {"lines": 0, "bytes": 0}
    most = 0

    def count(lines: list[Any]) -> None:
        nonlocal most
        seen["lines"] += len(lines)
        seen["bytes"] += sum(len(line.text) for line in lines)
        most = max(most, _resident_mb())

    host = RuntimeHost([plain("prints", timeout_seconds=60)], token=str, log=count)
    try:
        await call(host, "prints", 1)
        before = _resident_mb()
        called = await call(host, "prints", 100_000)
        assert seen["bytes"] > 99_000_000
        assert most - before < 40
        assert len(called.tail) <= 4096
        assert b"the end\nEND RequestId" in called.tail
    finally:
        await host.close()


def _resident_mb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


async def test_warm_processes_are_used_again_and_bounded() -> None:
    async with hosting(plain("spins"), per_function=2) as (host, _):
        pids = {(await call(host, "spins", 0)).payload for _ in range(5)}
        assert len(pids) == 1
        while len(pids) == 1:  # on a busy machine the first process may serve all calls before the second has started
            pids |= {called.payload for called in await asyncio.gather(*(call(host, "spins", 0.05) for _ in range(12)))}
        assert len(pids) == 2


async def test_an_idle_process_makes_room_for_another_function() -> None:
    async with hosting(plain("echo"), plain("about"), processes=1) as (host, _):
        first = json.loads((await call(host, "about")).payload)["pid"]
        assert (await call(host, "echo", 1)).payload == b"1"
        assert alive([first]) == []
        assert (await call(host, "about")).error is None


async def test_a_busy_function_does_not_starve_another() -> None:
    async with hosting(plain("spins"), plain("echo"), processes=1) as (host, _):
        busy = [asyncio.create_task(call(host, "spins", 0.02)) for _ in range(3)]
        other = asyncio.create_task(call(host, "echo", 1))
        later = [asyncio.create_task(call(host, "spins", 0.02)) for _ in range(3)]
        await asyncio.wait([other, *later], return_when=asyncio.FIRST_COMPLETED)
        assert other.done(), "it came before the later ones"
        assert all(called.error is None for called in await asyncio.gather(*busy, other, *later))


async def test_an_idle_process_that_was_killed_is_not_asked_again() -> None:
    async with hosting(plain("spins")) as (host, _):
        pid = int((await call(host, "spins", 0)).payload)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive([pid]), "the process to die")
        called = await call(host, "spins", 0)
        while called.error is not None:  # the host had not noticed the death yet
            assert called.error.type == "Runtime.ExitError"
            called = await call(host, "spins", 0)
        assert int(called.payload) != pid


async def test_closing_tells_those_who_wait(tmp_path: Path) -> None:
    async with hosting(plain("waits"), per_function=1) as (host, _):
        began = tmp_path / "began"
        calls = [asyncio.create_task(call(host, "waits", str(began))) for _ in range(2)]
        await until(began.exists, "the first to begin")
        await host.close()
        assert [type(ended) for ended in await asyncio.gather(*calls, return_exceptions=True)] == [EngineClosed, EngineClosed]
        with pytest.raises(EngineClosed):
            await call(host, "waits", "later")


async def test_a_process_is_replaced_after_so_many_invocations() -> None:
    async with hosting(plain("spins"), invocations=3) as (host, _):
        pids = [(await call(host, "spins", 0)).payload for _ in range(7)]
        assert [len(set(pids[:3])), len(set(pids[3:6])), len(set(pids))] == [1, 1, 3]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_processes_leave_nothing_open_behind_them() -> None:
    def children() -> int:
        return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    def kept() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), children()

    others = children()  # processes that earlier tests started
    async with hosting(plain("spins"), invocations=1, per_function=2) as (host, _):
        await asyncio.gather(*(call(host, "spins", 0) for _ in range(2)))
        await until(lambda: children() == others, "the first processes to be gone")
        before = kept()
        await asyncio.gather(*(call(host, "spins", 0) for _ in range(10)))
        await until(lambda: kept() == before, "everything to be given back")


async def test_a_process_that_was_idle_for_long_is_ended() -> None:
    async with hosting(plain("spins"), idle_seconds=0.05) as (host, _):
        pid = int((await call(host, "spins", 0)).payload)
        await until(lambda: not alive([pid]), "the idle process to be ended")


async def test_more_than_may_wait_is_refused() -> None:
    async with hosting(plain("spins"), per_function=1, waiting=3) as (host, _):
        await call(host, "spins", 0)
        running = [asyncio.create_task(call(host, "spins", 0.3)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await call(host, "spins", 0)
        assert [called.error for called in await asyncio.gather(*running)] == [None] * 3


async def test_new_code_is_for_new_invocations_and_old_ones_end_on_the_old(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        code = "import os\ndef handler(event, context):\n    while event and not os.path.exists(event): pass\n"
        (folder / "app.py").write_text(f"{code}    return {folder.name!r}\n")
    gate = tmp_path / "gate"
    first = Runtime(function="f", folder=str(old), handler="app.handler", durable=False, timeout_seconds=30)
    async with hosting(first) as (host, lines):
        assert (await call(host, "f", "")).payload == b'"old"'
        under_way = asyncio.create_task(call(host, "f", str(gate)))
        await asyncio.sleep(0)
        host.put(Runtime(function="f", folder=str(new), handler="app.handler", durable=False, timeout_seconds=30))
        assert (await call(host, "f", "")).payload == b'"new"'
        gate.touch()
        assert (await under_way).payload == b'"old"'
        host.drop("f", LATEST)
        with pytest.raises(FunctionNotFound):
            await call(host, "f", "")
    assert [line.text for line in lines if "Traceback" in line.text] == []  # no runtime logs an error because it is ended


async def test_who_stops_waiting_ends_the_process(tmp_path: Path) -> None:
    async with hosting(plain("waits")) as (host, _):
        waiting = asyncio.create_task(call(host, "waits", str(tmp_path / "began")))
        began = tmp_path / "began"
        pid = int(await until(lambda: began.exists() and began.read_text(), "the function to begin"))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: not alive([pid]), "the process to be ended")


async def test_a_listener_serves_nobody_who_names_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    async with hosting(plain("about")) as (host, _):
        address = json.loads((await call(host, "about")).payload)["env"]["AWS_LAMBDA_RUNTIME_API"]
        monkeypatch.setattr("holdfast.lambda_api.runtime.runtime_listener.is_from_below", lambda *_: True)
        once = httpx.Limits(max_keepalive_connections=0)  # the listener may close a connection after its answer
        async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, limits=once) as client:
            assert (await client.get("/2018-06-01/runtime/invocation/next", headers={"host": "evil.example"})).status_code == 403
            assert (await client.get("/2018-06-01/runtime/invocation/next")).status_code == 403, "it has an invocation, or waits for one"
            assert (await client.get("/2018-06-01/runtime/other")).status_code == 404
            stale = await client.post("/2018-06-01/runtime/invocation/of-yesterday/response", content=b"1")
            assert (stale.status_code, stale.json()["errorType"]) == (400, "InvalidRequestID")
            assert (await client.get("/2025-12-01/anything")).status_code == 404
        assert json.loads((await call(host, "about")).payload)["name"] == "about"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")
async def test_a_timeout_kills_what_the_function_started(tmp_path: Path) -> None:
    async with hosting(plain("breeds", timeout_seconds=3)) as (host, _):
        called = await call(host, "breeds", {"tell": str(tmp_path / "pids"), "stays": True})
        assert called.error is not None
        assert called.error.type == "Sandbox.Timedout"
        pids = json.loads((tmp_path / "pids").read_text())["pids"]
        assert len(pids) == 4
        assert alive(pids) == [], "child, grandchild and daemon are gone with it"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")
async def test_a_daemon_does_not_hold_its_function_and_goes_with_its_process(tmp_path: Path) -> None:
    async with hosting(plain("breeds", timeout_seconds=30)) as (host, _):
        called = await call(host, "breeds", {"tell": str(tmp_path / "pids"), "stays": False})
        pids = json.loads(called.payload)["pids"]
        assert alive(pids) == pids, "a warm process keeps what it started"
    assert alive(pids) == []
