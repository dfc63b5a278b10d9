"""Nothing is left behind, whatever happens to us."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.runtime.running import alive, durable, hosting, parent_of, plain, serving, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")


@contextlib.contextmanager
def parent(folder: Path, what: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.flow.runtime.parent", str(folder), what]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def bred(folder: Path) -> list[int]:
    for name in ("done", "stays"):
        await until((folder / name).exists, f"the function to have told of its processes ({name})")
    return [pid for name in ("done", "stays") for pid in json.loads((folder / name).read_text())["pids"]]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_when_we_are_killed_everything_goes(number: signal.Signals, tmp_path: Path) -> None:
    with parent(tmp_path, "plain") as process:
        pids = await bred(tmp_path)
        assert len(alive(pids)) == len(pids) == 8, "runtime, child, grandchild and daemon, of two calls"
        os.kill(process.pid, number)
        await until(lambda: not alive(pids), "all processes to be gone")


async def test_a_child_of_ours_that_lives_on_does_not_hold_them(tmp_path: Path) -> None:
    with parent(tmp_path, "fork") as process:
        pids = await bred(tmp_path)
        process.kill()
        await until(lambda: not alive(pids), "all processes to be gone")
        forked = int((tmp_path / "forked").read_text())
        assert alive([forked]) == [forked]
        os.kill(forked, signal.SIGKILL)


async def test_a_killed_engine_takes_its_functions_along_and_the_next_one_goes_on(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with parent(tmp_path, "durable") as process:
        runtime = int(await until(lambda: pid.exists() and pid.read_text(), "the step to hang"))
        process.kill()
        await until(lambda: not alive([runtime]), "the runtime to be gone")
    async with serving(durable("hangs"), where=tmp_path / "test.db") as service:
        header = service.engine.store.find_named("hangs", "hanging")
        assert header is not None
        assert await service.ending(header.id) == ("SUCCEEDED", "[1, 2]")
        told = [event["EventType"] for event in service.history(header.id)]
        assert told.count("StepSucceeded") == 2, "what was acknowledged before the kill was not done again"


async def test_a_killed_guard_takes_the_runtime_with_it_and_the_host_goes_on(tmp_path: Path) -> None:
    async with hosting(plain("waits"), plain("echo")) as (host, _):
        began = tmp_path / "began"
        waiting = asyncio.create_task(host.call("waits", "$LATEST", json.dumps(str(began)).encode()))
        pid = int(await until(lambda: began.exists() and began.read_text(), "the function to begin"))
        os.kill(parent_of(pid), signal.SIGKILL)
        called = await waiting
        assert called.error is not None
        assert called.error.type == "Runtime.ExitError"
        await until(lambda: not alive([pid]), "the runtime to be gone")
        assert (await host.call("echo", "$LATEST", b"1")).payload == b"1"
