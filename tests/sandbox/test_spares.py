"""Spares and attempts, as a runner uses them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.hosts.sandbox.jail import BodyEnd, Frame, SandboxUnavailable
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.model.clock import monotonic
from tests.sandbox.conftest import BODIES
from tests.sandbox.scene import alive, heard, jail_of

TICK = 0.001
LONGER = 0.5


@pytest.fixture
async def sandboxes() -> AsyncIterator[Any]:
    made: list[Sandbox] = []

    def sandbox(entry: str, **other: Any) -> Sandbox:
        made.append(Sandbox(jail_of(str(BODIES), entry, **other)))
        return made[-1]

    yield sandbox
    for opened in made:
        await opened.close()


async def test_no_process_serves_twice(sandboxes: Any) -> None:
    sandbox = sandboxes("talker:printing")
    attempts = [await sandbox.attempt(10) for _ in range(3)]
    assert len({attempt.pid for attempt in attempts}) == 3


async def test_processes_of_one_stub_do_not_throw_the_same_dice(sandboxes: Any) -> None:
    sandbox = sandboxes("honest:chance", preload=("random",))
    thrown = set()
    for _ in range(3):
        attempt = await sandbox.attempt(10)
        await attempt.send({"op": "run"})
        thrown.add(str((await heard(attempt))[0]))
    assert len(thrown) == 3


async def test_attempts_at_the_same_time_do_not_wait_for_each_other(sandboxes: Any) -> None:
    sandbox = sandboxes("talker:printing")
    attempts = await asyncio.gather(*(sandbox.attempt(20) for _ in range(6)))

    async def run(attempt: JailedBody) -> BodyEnd:
        await attempt.send({"op": "run"})
        return (await heard(attempt))[1]

    assert {(await end).code for end in [asyncio.ensure_future(run(attempt)) for attempt in attempts]} == {None}


async def test_a_spare_that_died_is_replaced(sandboxes: Any) -> None:
    sandbox = sandboxes("talker:printing")
    first = await sandbox.attempt(10)
    while sandbox._spare is None or sandbox._spare.pid is None:
        await asyncio.sleep(TICK)
    spare = sandbox._spare
    os.kill(spare.pid, signal.SIGKILL)
    await spare.settled()
    while not spare.over:
        await asyncio.sleep(TICK)
    second = await sandbox.attempt(10)
    await second.send({"op": "run"})
    assert (await heard(second))[1].code is None
    await first.close()


async def test_a_kill_returns_when_nothing_is_left(sandboxes: Any) -> None:
    attempt = await sandboxes("greedy:sleep_through_signals").attempt(10)
    await attempt.send({"op": "run"})
    end = await attempt.kill("cancelled", "asked for")
    assert (end.code, end.detail) == ("cancelled", "asked for")
    assert not alive(attempt.pid)
    assert await attempt.receive() == end
    await attempt.send({"op": "late"})  # sending to a dead body is allowed


async def test_who_does_not_read_is_waited_for_until_its_end(sandboxes: Any) -> None:
    attempt = await sandboxes("greedy:sleep").attempt(0.5)
    async with asyncio.timeout(30):
        for _ in range(20):
            await attempt.send({"op": "run", "data": "x" * 100_000})
    end = await attempt.receive()
    assert isinstance(end, BodyEnd)
    assert end.code == "timeout"


async def test_a_body_is_not_idle_while_the_runner_works_for_it(sandboxes: Any) -> None:
    attempt = await sandboxes("greedy:sleep").attempt(20, idle_timeout=0.2)
    await attempt.send({"op": "run"})
    with attempt.working():
        await asyncio.sleep(LONGER)
        assert not attempt.over
    end = await attempt.receive()
    assert isinstance(end, BodyEnd)
    assert end.code == "idle_timeout"


async def test_the_time_of_a_body_stands_still_while_it_rests(sandboxes: Any) -> None:
    sandbox = sandboxes("greedy:sleep")
    await sandbox.start()
    await sandbox._spare.settled()  # else the start of the sandbox, which takes long on a busy machine, would use up the body's time
    attempt = await sandbox.attempt(2)
    await attempt.send({"op": "run"})
    attempt.stop_time()
    await asyncio.sleep(2 + LONGER)
    assert not attempt.stopped, "neither the runner nor the keeper has ended it"
    left, went_on = attempt._time_left, monotonic()
    attempt.go_on()
    end = await attempt.receive()
    assert isinstance(end, BodyEnd)
    assert (end.code, end.detail) == ("timeout", "not done after 2 s")
    assert monotonic() - went_on >= left - TICK


async def test_frames_that_came_before_the_end_are_heard(sandboxes: Any) -> None:
    attempt = await sandboxes("talker:big_with_file").attempt(10)
    await attempt.send({"op": "run"})
    while (first := await attempt.receive()) is None:
        continue
    assert isinstance(first, Frame)
    rest, end = await heard(attempt)
    assert (len(rest), end.code) == (6, None)
    assert end.usage.cpu_seconds > 0
    assert end.usage.max_rss_mb > 1


async def test_what_was_never_received_is_closed(sandboxes: Any) -> None:
    attempt = await sandboxes("talker:hand", arguments=("file",)).attempt(10)
    await attempt.send({"op": "run"})
    while len(attempt._queue) < 3:
        await asyncio.sleep(TICK)
    before = len(os.listdir("/proc/self/fd"))
    await attempt.close()
    assert len(os.listdir("/proc/self/fd")) < before


async def test_a_closed_sandbox_leaves_nothing_and_serves_nobody(sandboxes: Any) -> None:
    before = os.listdir("/proc/self/fd")
    sandbox = sandboxes("greedy:sleep")
    attempt = await sandbox.attempt(10)
    await sandbox.close()
    assert attempt.over
    assert len(os.listdir("/proc/self/fd")) == len(before)
    with pytest.raises(SandboxUnavailable, match="closed"):
        await sandbox.attempt(10)


async def test_an_interpreter_that_does_not_start_is_said(sandboxes: Any) -> None:
    with pytest.raises(SandboxUnavailable, match="is this Python installation complete"):
        await sandboxes("talker:printing", python=Path("/bin/true")).attempt(10)
    with pytest.raises(SandboxUnavailable, match="no-such-python"):
        await sandboxes("talker:printing", python=Path("/no-such-python")).attempt(10)
