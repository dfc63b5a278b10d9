"""All bodies of a server server_limits: each keeps its own limits, and the sum keeps one, too."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.refusals import Overloaded
from holdfast.hosts.sandbox.jail import BodyEnd, EndCode, TighterLimits
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.server_limits import ServerLimits, machine_memory_mb
from holdfast.model.clock import monotonic
from tests.sandbox.scene import jail_of

Make = Callable[..., Sandbox]


@pytest.fixture
async def make(package: Path) -> AsyncIterator[Make]:
    made: list[Sandbox] = []

    def sandbox(server_limits: ServerLimits | None, entry: str = "greedy:holding", **jail: Any) -> Sandbox:
        made.append(Sandbox(jail_of(str(package), entry, **jail), server_limits))
        return made[-1]

    yield sandbox
    for one in made:
        await one.close()


async def held(sandbox: Sandbox, megabytes: int) -> JailedBody:
    """A body that has so much, and waits."""
    attempt = await sandbox.attempt(20)
    await attempt.send({"op": "run", "megabytes": megabytes})
    return attempt


async def said(attempt: JailedBody) -> Any:
    heard = await attempt.receive()
    return heard if isinstance(heard, BodyEnd) else heard.data["op"]


async def ended(attempt: JailedBody) -> BodyEnd:
    while not isinstance(heard := await attempt.receive(), BodyEnd):
        continue
    return heard


# --- with real bodies


@pytest.mark.alone
async def test_a_body_that_keeps_descriptors_on_their_way_keeps_no_other_from_its_work(make: Make) -> None:
    """The kernel counts them for a user, and all bodies are one user: beside this one, no body could hand over a file for a moment."""
    hostile = await make(None, "greedy:flying").attempt(20)
    await hostile.send({"op": "run"})
    heard: Any = await hostile.receive()
    assert heard.data["why"] == errno.ETOOMANYREFS
    honest = await make(None, "talker:hand", arguments=("file",)).attempt(20)
    await honest.send({"op": "run"})
    assert await said(honest) == "before"
    await hostile.kill()
    heard = await honest.receive()
    assert (heard.data, len(heard.fds)) == ({"op": "artifact"}, 1)
    os.close(heard.fds[0])
    assert await said(honest) == "after"


async def test_bodies_that_are_each_within_their_limit_may_not_take_more_together(make: Make) -> None:
    server_limits = ServerLimits(200)
    modest, greedy = make(server_limits, memory_mb=128), make(server_limits, memory_mb=128)
    neighbour = await held(modest, 40)
    assert await said(neighbour) == "holding"
    attempts = [await held(greedy, 70) for _ in range(3)]
    ends = [asyncio.create_task(ended(attempt)) for attempt in attempts]
    [first, *_], rest = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    assert (first.result().code, "all bodies of this server together" in first.result().detail) == ("memory_exceeded", True)
    for task in rest:
        task.cancel()
    assert not neighbour.over
    assert not neighbour.stopped


async def test_one_attempt_may_have_tighter_limits_than_its_jail_and_the_next_has_the_jails_again(make: Make) -> None:
    sandbox = make(None, memory_mb=256, cpu_seconds=5, allow_children=True)
    for tighter, megabytes, wanted in (
        (TighterLimits(memory_mb=48), 100, "memory_exceeded"),
        (TighterLimits(), 100, "holding"),
        (TighterLimits(memory_mb=4096), 100, "holding"),
        (TighterLimits(memory_mb=4096), 300, "memory_exceeded"),
    ):
        attempt = await sandbox.attempt(20, None, tighter)
        await attempt.send({"op": "run", "megabytes": megabytes})
        # The keeper looks every few milliseconds: a body above its limit may still say that it holds the memory before it is ended.
        told = await said(attempt) if wanted == "holding" else (await ended(attempt)).code
        assert told == wanted, tighter
        await attempt.close()


async def test_an_attempt_may_be_without_children_where_its_jail_allows_them(make: Make) -> None:
    sandbox = make(None, "greedy:spawn", allow_children=True)
    codes = []
    for tighter in (TighterLimits(no_children=True), TighterLimits()):
        attempt = await sandbox.attempt(20, None, tighter)
        await attempt.send({"op": "run"})
        codes.append((await attempt.kill() if attempt.over else await said(attempt)).code)
    assert codes == ["process_limit", None]


async def test_a_cpu_limit_may_be_tighter_for_one_attempt(make: Make) -> None:
    attempt = await make(None, "greedy:cpu", cpu_seconds=20).attempt(20, None, TighterLimits(cpu_seconds=0.2))
    await attempt.send({"op": "run"})
    end = await said(attempt)
    assert (end.code, end.usage.cpu_seconds < 2) == ("cpu_exceeded", True)


async def test_a_body_for_which_there_is_no_room_waits_and_then_is_overloaded(make: Make) -> None:
    server_limits = ServerLimits(60, processes=2)
    sandbox = make(server_limits)
    first, second = await held(sandbox, 1), await held(sandbox, 1)
    before = server_limits.shares.used("ann", monotonic())
    with pytest.raises(Overloaded, match="left no room"):
        await sandbox.attempt(0.2, tenant="ann")
    assert server_limits.shares.used("ann", monotonic()) == before == 0, "the tenant is not charged for a body that it did not get"
    waiting = asyncio.create_task(sandbox.attempt(20))
    await first.close()
    third = await waiting
    assert (second.stopped, third.stopped) == (False, False)


# --- the rule alone


class Body:
    """A body as far as the rule sees it."""

    def __init__(self) -> None:
        self.ended: EndCode | None = None

    def stop(self, code: EndCode, detail: str) -> None:
        self.ended = code


def test_spares_go_first_then_the_largest_of_the_worker_that_has_the_most() -> None:
    server_limits = ServerLimits(1000)
    big, small, other, spare = Body(), Body(), Body(), Body()
    for body, worker, megabytes in ((big, "many", 300), (small, "many", 250), (other, "one", 400)):
        server_limits.add_body(body, worker)
        server_limits.body_began(body)
        server_limits.body_uses(body, megabytes * 1024, 1)
    server_limits.add_body(spare, "idle")
    server_limits.body_uses(spare, 20 * 1024, 1)
    server_limits.body_uses(small, 290 * 1024, 1)
    assert [body.ended for body in (big, small, other, spare)] == [None, None, None, "cancelled"]
    server_limits.body_uses(small, 310 * 1024, 1)
    assert [body.ended for body in (big, small, other)] == [None, "memory_exceeded", None]


def test_processes_of_all_bodies_have_a_cap_of_their_own() -> None:
    server_limits = ServerLimits(1000, processes=10)
    forking, quiet = Body(), Body()
    for body in (forking, quiet):
        server_limits.add_body(body, body)
        server_limits.body_began(body)
    server_limits.body_uses(forking, 1024, 10)
    assert (forking.ended, quiet.ended) == ("process_limit", None)


def test_without_a_setting_all_bodies_may_have_half_of_the_machine() -> None:
    assert 0 < ServerLimits().memory_mb == machine_memory_mb() // 2


async def test_whoever_waited_longest_is_let_in_first_and_who_gave_up_is_passed_over() -> None:
    server_limits = ServerLimits(1000, processes=1)
    only = Body()
    server_limits.add_body(only, "w")
    server_limits.body_began(only)
    first, second, third = (asyncio.create_task(server_limits.room(20)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server_limits.remove_body(only)
    await second
    assert not third.done()
    admitted = Body()
    server_limits.add_body(admitted, "w", spare=False)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (admitted.ended, third.done()) == (None, False)
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
