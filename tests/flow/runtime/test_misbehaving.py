"""Runtime clients that do not behave: what they break is told as what it is, and soon, and only their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.lambda_api.runtime.jobs import JobResult
from holdfast.lambda_api.runtime.process_output import MAX_LINE, OutputLine
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.runtime_listener import RuntimeListener
from holdfast.model.clock import monotonic
from holdfast.model.errors import EngineClosed
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import alive, hosting, parent_of, plain, until

_CLIENT = """
import os, socket, sys, threading
host, port = os.environ["AWS_LAMBDA_RUNTIME_API"].split(":")
API = "/2018-06-01/runtime/invocation/"

def connect():
    return socket.create_connection((host, int(port)))

def send(line, head="", body=b"", to=None):
    to = to or connect()
    to.sendall(f"{line} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n{head}\\r\\n".encode() + body)
    return to

def request_of(connection):
    heard = b""
    while b"\\r\\n\\r\\n" not in heard:
        heard += connection.recv(65536)
    for line in heard.split(b"\\r\\n"):
        if line.lower().startswith(b"lambda-runtime-aws-request-id:"):
            return line.split(b":")[1].strip().decode()

def next():
    return request_of(send(f"GET {API}next"))
"""


def misbehaving(folder: Path, code: str, **members: Any) -> Runtime:
    """A function whose runtime client is this code."""
    script = folder / "client.py"
    script.write_text(_CLIENT + code)
    members = {"timeout_seconds": 30, "durable": False} | members
    return Runtime(function="f", folder=str(folder), handler="f", command=(sys.executable, str(script)), **members)


def begun(folder: Path) -> list[int]:
    """The processes that left their number here."""
    return [int(path.name) for path in folder.glob("[0-9]*")]


async def call(host: Any, function: str = "f", event: Any = None) -> JobResult:
    called: JobResult = await host.call(function, LATEST, json.dumps(event).encode())
    return called


async def test_a_process_that_dies_while_it_answers_is_an_exit_and_no_answer(tmp_path: Path) -> None:
    code = """
send(f"POST {API}{next()}/response", "Content-Length: 1000\\r\\n", b'"half').close()
threading.Event().wait(0.2)
os._exit(3)
"""
    async with hosting(misbehaving(tmp_path, code)) as (host, _):
        called = await call(host)
        assert called.error is not None
        assert called.error.type == "Runtime.ExitError"
        assert "exit status 3" in (called.error.message or "")


async def test_a_client_that_hangs_up_on_its_question_is_ended_and_replaced(tmp_path: Path) -> None:
    code = """
while True:
    send(f"POST {API}{next()}/response", "Content-Length: 5\\r\\n", f"{os.getpid():5}".encode()).recv(100)
    if not os.path.exists("first"):
        send(f"GET {API}next").close()
        open("first", "w").close()
        threading.Event().wait()
"""
    async with hosting(misbehaving(tmp_path, code, timeout_seconds=5)) as (host, _):
        first = int((await call(host)).payload)
        await until(lambda: not alive([first]), "the process that hung up to be ended")
        assert int((await call(host)).payload) != first, "the host does not wait for a client that is gone"


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_its_listener_closes_is_closed_too(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr("holdfast.lambda_api.runtime.runtime_listener.is_from_below", lambda *_: True)

    listener = RuntimeListener(nothing, lambda client: None, os.getpid)
    await listener.open()
    with socket.socket() as client:
        client.setblocking(False)
        host, port = listener.address.split(":")
        with contextlib.suppress(BlockingIOError):
            client.connect((host, int(port)))
        for _ in range(turns):
            await asyncio.sleep(0)
        listener.close()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


async def test_a_function_that_prints_for_ever_neither_fills_memory_nor_holds_up_others() -> None:
    async with hosting(plain("raves", timeout_seconds=3), plain("echo")) as (host, _):
        most = 0

        def bounded(lines: list[OutputLine]) -> None:
            nonlocal most
            most = max(most, sum(len(line.text) for line in lines))

        host.log = bounded
        raving = asyncio.create_task(call(host, "raves"))
        took = []
        while not raving.done():
            began = monotonic()
            assert (await call(host, "echo", 1)).payload == b"1"
            took.append(monotonic() - began)
        called = await raving
        assert called.error is not None
        assert called.error.type == "Sandbox.Timedout"
        assert len(called.tail) <= 4096
        assert statistics.median(took) < 0.1
        assert most < 2 * MAX_LINE


async def test_a_line_of_a_hundred_megabytes_is_told_in_pieces() -> None:
    async with hosting(plain("drones")) as (host, lines):
        called = await call(host, "drones", 100)
        assert called.payload == b"100"
        pieces = [len(line.text) for line in lines if line.text.startswith("z")]
        assert (sum(pieces), max(pieces)) == (100 * 2**20, MAX_LINE)


async def test_closing_while_functions_begin_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, threading\nopen(str(os.getpid()), 'w').close()\nthreading.Event().wait()\n")
    async with hosting(plain("echo", handler="slow.handler", folder=str(tmp_path)), per_function=4) as (host, _):
        calls = [asyncio.create_task(call(host, "echo")) for _ in range(8)]
        await until(lambda: begun(tmp_path), "one of them to begin")  # the others are earlier
        await host.close()
        assert {type(ended) for ended in await asyncio.gather(*calls, return_exceptions=True)} == {EngineClosed}
        assert alive(begun(tmp_path)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_a_guard_that_does_not_move_does_not_hold_the_end(tmp_path: Path) -> None:
    async with hosting(plain("waits"), kill_seconds=0.5) as (host, _):
        began = tmp_path / "began"
        waiting = asyncio.create_task(call(host, "waits", str(began)))
        pid = int(await until(lambda: began.exists() and began.read_text(), "the function to begin"))
        guard = parent_of(pid)
        os.kill(guard, signal.SIGSTOP)
        await host.close()
        assert alive([guard]) == []
        await until(lambda: not alive([pid]), "the runtime to be gone with its guard")
        with pytest.raises(EngineClosed):
            await waiting


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")
async def test_daemons_are_gone_too_if_their_guard_does_not_move(tmp_path: Path) -> None:
    async with hosting(plain("breeds", timeout_seconds=30), kill_seconds=0.5) as (host, _):
        called = await call(host, "breeds", {"tell": str(tmp_path / "pids"), "stays": False})
        pids = json.loads(called.payload)["pids"]
        assert alive(pids) == pids, "a warm process keeps what it started"
        guard = parent_of(pids[0])
        os.kill(guard, signal.SIGSTOP)
        await host.close()
        assert alive([guard]) == []
        await until(lambda: not alive(pids), "runtime, child, grandchild and daemon to be gone")


async def test_code_that_is_replaced_again_and_again_under_load_loses_nothing(tmp_path: Path) -> None:
    def version(number: int) -> Runtime:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "app.py").write_text(f"def handler(event, context):\n    return {number}\n")
        return Runtime(function="f", folder=str(folder), handler="app.handler", durable=False, timeout_seconds=30)

    async with hosting(version(0), processes=3, per_function=2) as (host, _):
        calls = []
        for number in range(1, 6):
            calls += [asyncio.create_task(call(host)) for _ in range(4)]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            host.put(version(number))
        answers = [int((await made).payload) for made in calls]
        assert answers == sorted(answers), "each has the code that was there when it was asked for"
        assert (await call(host)).payload == b"5"
