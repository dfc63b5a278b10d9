"""Author's tools in processes of their own: real processes, a real server that counts."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.hosts.toolhost.tool_frames import MAX_FRAME
from holdfast.hosts.toolhost.tool_host import HostLimits, ToolHost
from holdfast.workers.tools.author_tool import AuthorTool
from holdfast.workers.tools.declarations import declarations_of
from holdfast.workers.tools.seam import DidNotHappen, Effect, Happened, Unknown, verdict_on
from holdfast.workers.tools.secrets import EnvironmentSecrets, Secrets
from tests.tools.calls import a_call, called, failure
from tests.tools.servers import site

TICK = 0.01
KEY = "s3cr3t/value+1234"
SOURCE = """
import asyncio, os, subprocess, sys, time
from holdfast import ToolCall, tool
from beside import GREETING

STATE = {"calls": 0}

@tool(effect="write", secrets=["PAY_KEY"])
def pay(call: ToolCall, url: str, cents: int = 1) -> dict:
    return call.http.post(url, json={"cents": cents}, headers={
        "Authorization": call.secret("PAY_KEY"), "Idempotency-Key": call.idempotency_key}).raise_for_status().json()

@pay.reconcile
def paid(call: ToolCall, url: str, cents: int = 1):
    word = call.http.get(url).text
    return {"yes": call.happened({"id": call.secret("PAY_KEY")}), "no": call.did_not_happen(), "hm": call.unknown()}.get(word, word)

@tool(effect="read")
async def count(call: ToolCall) -> dict:
    await asyncio.sleep(0)
    STATE["calls"] += 1
    return {"calls": STATE["calls"], "pid": os.getpid(), "greeting": GREETING}

@tool(effect="read", secrets=["PAY_KEY"])
def look(call: ToolCall, what: str):
    return {
        "environment": lambda: dict(os.environ), "other": lambda: call.secret("OTHER"), "arguments": lambda: sys.argv,
        "print": lambda: print("key is " + call.secret("PAY_KEY")), "leak": lambda: {"k": ["a " + call.secret("PAY_KEY")]},
        "raise": lambda: 1 / 0, "leak-raise": lambda: (_ for _ in ()).throw(ValueError("bad " + call.secret("PAY_KEY"))),
        "refuse": lambda: (_ for _ in ()).throw(call.refused("card declined", "access_denied")),
        "bytes": lambda: b"no json", "nan": lambda: float("nan"), "huge": lambda: "x" * 3_000_000, "surrogate": lambda: "\\ud800",
        "remaining": lambda: call.remaining().total_seconds(), "repr": lambda: repr(call), "noise": lambda: print("x" * 3_000_000),
    }[what]()

@tool(timeout_seconds=1.0)
def hang(call: ToolCall, file: str, alone: bool = False) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=alone)
    with open(file, "w") as out:
        out.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)

@tool
def die(call: ToolCall, how: str) -> None:
    os._exit(3) if how == "exit" else os.kill(os.getpid(), 9)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("GREETING = 'hello'\n")
    path = tmp_path / "tools_of_mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
async def host(lines: list[str]) -> AsyncIterator[ToolHost]:
    made = ToolHost(HostLimits(processes=2), log=lambda tool, line: lines.append(f"{tool}: {line}"))
    yield made
    await made.close()
    assert made.pids == []


def made(host: ToolHost, file: Path, name: str, **environment: str) -> AuthorTool:
    declared = next(found for found in declarations_of(file.read_bytes()).tools if found.name == name)
    return AuthorTool(declared, file, host, Secrets([EnvironmentSecrets({"PAY_KEY": KEY, "OTHER": "other-secret"} | environment)]))


async def test_a_tool_calls_out_with_its_secret_and_a_stable_key(host: ToolHost, file: Path) -> None:
    async with site() as web:
        web.page("/refunds", '{"id": "r-1"}', content_type="application/json")
        result = await called(made(host, file, "pay"), {"url": f"{web.url}/refunds", "cents": 1900})
        (asked,) = web.asked
        assert (result.result, asked.headers["authorization"], asked.headers["idempotency-key"]) == ({"id": "r-1"}, KEY, "k-1")
        assert asked.body == b'{"cents":1900}'


async def test_a_process_stays_warm_for_its_tool_and_its_imports_work(host: ToolHost, file: Path) -> None:
    tool = made(host, file, "count")
    first, second = (await called(tool, {})).result, (await called(tool, {})).result
    assert (first["calls"], second["calls"], first["pid"] == second["pid"], first["greeting"]) == (1, 2, True, "hello")
    assert tool.effect is Effect.READ


async def test_calls_at_once_run_in_processes_of_their_own_and_no_more_than_allowed(host: ToolHost, file: Path) -> None:
    tool = made(host, file, "count")
    results = await asyncio.gather(*(called(tool, {}) for _ in range(6)))
    assert len({result.result["pid"] for result in results}) <= 2
    assert sum(1 for result in results if result.result["calls"] == 1) <= 2


async def test_each_tool_has_processes_of_its_own_and_an_idle_one_makes_room(host: ToolHost, file: Path) -> None:
    count = (await called(made(host, file, "count"), {})).result["pid"]
    await called(made(host, file, "look"), {"what": "repr"})
    await failure(made(host, file, "die"), {"how": "exit"})
    assert (len(host.pids) <= 2, count in host.pids) == (True, False)


async def test_slow_calls_of_one_tenant_leave_room_for_the_others(file: Path, tmp_path: Path) -> None:
    host = ToolHost(HostLimits(processes=2, tenant_processes=1))
    try:
        slow = asyncio.ensure_future(failure(made(host, file, "hang"), {"file": str(tmp_path / "pids")}, tenant="ann"))
        while not (tmp_path / "pids").exists():
            await asyncio.sleep(TICK)
        full = await failure(made(host, file, "count"), {}, tenant="ann", seconds=TICK)
        assert (full.code, full.known) == ("overloaded", True)
        assert (await called(made(host, file, "count"), {}, tenant="ben")).result["calls"] == 1
        assert (await slow).code == "tool_timeout"
    finally:
        await host.close()


async def test_only_so_many_processes_are_kept_warm(file: Path) -> None:
    host = ToolHost(HostLimits(warm_processes=1))
    try:
        await asyncio.gather(*(called(made(host, file, "count"), {}) for _ in range(3)))
        assert len(host.pids) == 1
    finally:
        await host.close()


async def test_a_closed_host_starts_no_process(file: Path) -> None:
    host = ToolHost()
    await host.close()
    refused = await failure(made(host, file, "count"), {})
    assert (refused.code, refused.known, host.pids) == ("tool_unavailable", True, [])


async def test_a_call_for_an_idle_process_that_was_killed_goes_to_another_one(host: ToolHost, file: Path) -> None:
    """The loop has not heard of the death when the call begins."""
    count = made(host, file, "count")
    idle = (await called(count, {})).result["pid"]
    os.kill(idle, signal.SIGKILL)
    without_the_loop(idle, "ZX")
    again = (await called(count, {})).result
    assert (again["calls"], host.pids) == (1, [again["pid"]])


async def test_a_call_that_a_process_has_not_read_when_it_is_killed_goes_to_another_one(host: ToolHost, file: Path) -> None:
    """The process takes no time when the call is sent, so that the call lies in its socket."""
    async with site() as web:
        web.page("/refunds", '{"id": "r-1"}', content_type="application/json")
        pay, order = made(host, file, "pay"), {"url": f"{web.url}/refunds"}
        await called(pay, order)
        (idle,) = host.pids
        os.kill(idle, signal.SIGSTOP)
        without_the_loop(idle, "T")
        calling = asyncio.create_task(called(pay, order))
        while host._idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        os.kill(idle, signal.SIGKILL)
        assert (await calling).result == {"id": "r-1"}
        assert (len(web.asked), idle in host.pids) == (2, False)


# --- secrets


async def test_a_tool_sees_only_the_secrets_it_named_and_none_in_its_environment(
    host: ToolHost, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_KEY", KEY)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    tool = made(host, file, "look")
    environment = (await called(tool, {"what": "environment"})).result
    assert set(environment) <= {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "LC_CTYPE"}
    error = await failure(tool, {"what": "other"})
    assert (error.code, "did not name the secret 'OTHER'" in error.message) == ("tool_failed", True)
    assert KEY not in str((await called(tool, {"what": "arguments"})).result)
    assert "secret" not in str((await called(tool, {"what": "repr"})).result)


async def test_a_secret_is_redacted_from_results_errors_and_logs(host: ToolHost, file: Path, lines: list[str]) -> None:
    tool = made(host, file, "look")
    assert (await called(tool, {"what": "leak"})).result == {"k": ["a [redacted:PAY_KEY]"]}
    error = await failure(tool, {"what": "leak-raise"})
    assert (error.message.startswith("look raised ValueError: bad [redacted:PAY_KEY]"), KEY in str(error)) == (True, False)
    await called(tool, {"what": "print"})
    async with asyncio.timeout(10):
        while not lines:
            await asyncio.sleep(TICK)
    assert lines == ["look: key is [redacted:PAY_KEY]"]


async def test_a_missing_secret_fails_before_anything_is_sent(host: ToolHost, file: Path) -> None:
    error = await failure(made(host, file, "pay", PAY_KEY=""), {"url": "http://127.0.0.1:1"})
    assert (error.code, error.known, "PAY_KEY" in error.message, host.pids) == ("tool_failed", True, True, [])


# --- what went wrong


@pytest.mark.parametrize("what,code,words", [
    ("raise", "tool_failed", "raised ZeroDivisionError: division by zero (tools_of_mine.py:"), ("refuse", "access_denied", "card declined"),
    ("bytes", "tool_failed", "cannot be written as JSON"), ("nan", "tool_failed", "cannot be written as JSON"),
    ("huge", "tool_failed", "are allowed"), ("surrogate", "tool_failed", "cannot be written as JSON"),
])  # fmt: skip
async def test_what_a_tool_raises_or_returns_wrongly_is_told(host: ToolHost, file: Path, what: str, code: str, words: str) -> None:
    error = await failure(made(host, file, "look"), {"what": what})
    assert (error.code, error.known, words in error.message) == (code, True, True), error.message
    assert len(host.pids) == 1  # the process lives on


async def test_a_tool_that_prints_a_lot_does_not_block(host: ToolHost, file: Path) -> None:
    assert (await called(made(host, file, "look"), {"what": "noise"})).result is None


async def test_at_the_deadline_the_whole_group_is_killed_and_nobody_knows_whether_it_happened(
    host: ToolHost, file: Path, tmp_path: Path
) -> None:
    told = tmp_path / "pids"
    error = await failure(made(host, file, "hang"), {"file": str(told)})
    assert (error.code, error.known, host.pids) == ("tool_timeout", False, [])
    for pid in map(int, told.read_text().split()):
        await gone(pid)


async def test_a_process_that_a_tool_put_into_a_session_of_its_own_holds_up_nobody(host: ToolHost, file: Path, tmp_path: Path) -> None:
    """It is not of the tool's group, so it lives on, and it keeps the end of the pipe to which the tool printed."""
    told = tmp_path / "pids"
    async with asyncio.timeout(20):
        error = await failure(made(host, file, "hang"), {"file": str(told), "alone": True})
    assert (error.code, host.pids) == ("tool_timeout", [])
    own, alone = map(int, told.read_text().split())
    await gone(own)
    os.kill(alone, signal.SIGKILL)


@pytest.mark.parametrize("how,words", [("exit", "exited with 3"), ("kill", "SIGKILL")])
async def test_a_crash_leaves_the_outcome_unknown(host: ToolHost, file: Path, how: str, words: str) -> None:
    error = await failure(made(host, file, "die"), {"how": how})
    assert (error.code, error.known, words in error.message) == ("tool_unavailable", False, True), error.message


async def test_a_caller_that_gives_up_ends_the_call(host: ToolHost, file: Path, tmp_path: Path) -> None:
    told = tmp_path / "pids"
    task = asyncio.create_task(called(made(host, file, "hang"), {"file": str(told)}))
    async with asyncio.timeout(20):
        while not told.exists() or " " not in told.read_text():
            await asyncio.sleep(TICK)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert host.pids == []


async def test_a_runner_that_is_gone_takes_its_tools_with_it(host: ToolHost, file: Path, tmp_path: Path) -> None:
    from holdfast.hosts.toolhost.tool_process import HostedTool, ToolProcess

    process = await ToolProcess.start(HostedTool(file, "hang"), max_result_bytes=1000, log=None)
    told = tmp_path / "pids"
    about = {"run_id": "r", "tool": "hang", "idempotency_key": "k"}
    frame = {"op": "call", "call": about, "arguments": {"file": str(told)}, "secrets": {}, "seconds": 60}
    asking = asyncio.create_task(process.ask(frame))
    async with asyncio.timeout(20):
        while not told.exists() or " " not in told.read_text():
            await asyncio.sleep(TICK)
    asking.cancel()
    await asyncio.wait([asking])
    process._writer.transport.abort()  # as the kernel does it when the runner dies
    for pid in map(int, told.read_text().split()):
        await gone(pid)
    await process.kill()


@pytest.mark.parametrize("source,words", [
    ("import nowhere_to_be_found", "ModuleNotFoundError"), ("raise ValueError('at the top')", "at the top"),
    ("import os; os._exit(9)", "exited with 9"), ("raise SystemExit(0)", "SystemExit"), ("del pay", "no tool named"),
])  # fmt: skip
async def test_a_file_that_cannot_be_imported_is_known_not_to_have_done_it(host: ToolHost, tmp_path: Path, source: str, words: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"from holdfast import tool\n@tool\ndef pay(call): ...\n{source}\n")
    error = await failure(made(host, file, "pay"), {})
    assert (error.code, error.known, words in error.message) == ("tool_failed", True, True), error.message


async def test_a_process_that_cannot_be_started_is_known_not_to_have_done_it(
    host: ToolHost, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as system:
        system.setattr(sys, "executable", str(file.parent / "no-python"))
        error = await failure(made(host, file, "count"), {})
    words = "count was not called: its process cannot be started: No such file"
    assert (error.code, error.known, words in error.message) == ("tool_unavailable", True, True), error.message
    assert (await called(made(host, file, "count"), {})).result["calls"] == 1


async def test_a_call_that_is_too_large_is_not_sent_and_its_process_lives(host: ToolHost, file: Path) -> None:
    await called(made(host, file, "look"), {"what": "remaining"})
    before = host.pids
    error = await failure(made(host, file, "look"), {"what": "ü" * (MAX_FRAME // 6)})
    words = "look was not called: A frame has"
    assert (error.code, error.known, words in error.message) == ("tool_failed", True, True), error.message
    assert host.pids == before


async def test_a_file_may_be_named_like_a_module_of_python(host: ToolHost, tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text("from holdfast import tool\n@tool(effect='read')\ndef look(call) -> str:\n    return 'seen'\n")
    assert (await called(made(host, file, "look"), {})).result == "seen"


async def test_arguments_that_do_not_fit_never_reach_the_tool(host: ToolHost, file: Path) -> None:
    error = await failure(made(host, file, "pay"), {"url": 7})
    assert (error.code, error.details, host.pids) == ("tool_failed", {"reason": "arguments"}, [])


async def test_a_full_host_says_so(host: ToolHost, file: Path, tmp_path: Path) -> None:
    hang = made(host, file, "hang")
    busy = [asyncio.create_task(failure(hang, {"file": str(tmp_path / str(at))})) for at in range(2)]
    await asyncio.sleep(0)
    error = await failure(made(host, file, "count"), {}, seconds=0.2)
    assert (error.code, error.known) == ("overloaded", True)
    await asyncio.gather(*busy)


@pytest.mark.parametrize("status,code,known", [(400, "tool_failed", True), (403, "access_denied", True), (500, "tool_unavailable", False)])
async def test_a_server_that_refuses_did_not_do_it_and_one_that_fails_may_have(
    host: ToolHost, file: Path, status: int, code: str, known: bool
) -> None:
    async with site() as web:
        web.page("/x", "{}", status=status)
        error = await failure(made(host, file, "pay"), {"url": f"{web.url}/x"})
    assert (error.code, error.known) == (code, known)


async def test_a_line_that_breaks_after_sending_leaves_it_unknown_and_one_that_never_stood_does_not(host: ToolHost, file: Path) -> None:
    async def broken(asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with site() as web:
        web.pages["/x"] = broken
        lost = await failure(made(host, file, "pay"), {"url": f"{web.url}/x"})
    never = await failure(made(host, file, "pay"), {"url": f"{web.url}/x"})
    assert (lost.code, lost.known, never.code, never.known) == ("tool_unavailable", False, "tool_unavailable", True)


async def test_too_many_requests_close_the_tool(host: ToolHost, file: Path) -> None:
    async with site() as web:
        web.page("/x", "", status=429, retry_after="9")
        error = await failure(made(host, file, "pay"), {"url": f"{web.url}/x"})
    assert (error.code, error.known, error.retry_after_seconds, error.closes) == ("rate_limited", True, 9, "tool:pay")


# --- reconcile


async def test_reconcile_says_what_became_of_a_lost_call(host: ToolHost, file: Path) -> None:
    async with site() as web:
        for word in ("yes", "no", "hm", "nonsense"):
            web.page(f"/{word}", word)
        pay = made(host, file, "pay")
        words = [await pay.reconcile(a_call("pay"), {"url": f"{web.url}/{word}"}) for word in ("yes", "no", "hm", "nonsense")]
    assert words == [Happened({"id": "[redacted:PAY_KEY]"}), DidNotHappen(), Unknown(), Unknown()]
    assert await pay.reconcile(a_call("pay"), {"url": "http://127.0.0.1:1/"}) == Unknown()  # it could not find out
    assert await verdict_on(made(host, file, "die"), a_call("die"), {"how": "exit"}) == Unknown()


async def test_a_reconcile_whose_idle_process_was_killed_looks_again(host: ToolHost, file: Path) -> None:
    async with site() as web:
        web.page("/yes", "yes")
        pay = made(host, file, "pay")
        await pay.reconcile(a_call("pay"), {"url": f"{web.url}/yes"})
        (idle,) = host.pids
        os.kill(idle, 9)
        verdict = await pay.reconcile(a_call("pay"), {"url": f"{web.url}/yes"})
    assert isinstance(verdict, Happened)


async def gone(pid: int) -> None:
    """Wait until a process is dead (or a zombie whose parent is init)."""
    async with asyncio.timeout(10):
        while _runs(pid):
            await asyncio.sleep(TICK)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def without_the_loop(pid: int, states: str) -> None:
    """Wait until a process is in one of these states, or gone, while the event loop stands still."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in states:
            continue
