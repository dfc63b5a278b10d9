"""Who gets the CPU when all want it: the runner before its bodies, a fresh body before a busy one, other tenants before a greedy one."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from heapq import heappop, heappush
from pathlib import Path

import pytest

from holdfast.contract.refusals import Overloaded
from holdfast.hosts.cpu_shares import CpuShares
from holdfast.hosts.processes import give_way
from holdfast.hosts.sandbox.inside.jail_plan import NICE, NICE_OF_BUSY
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.model.clock import monotonic
from tests.measured_time import measured_by
from tests.sandbox.scene import jail_of


@pytest.fixture
def together() -> ServerLimits:
    return ServerLimits()


@pytest.fixture
async def sandbox(package: Path, together: ServerLimits) -> AsyncIterator[Sandbox]:
    made = Sandbox(jail_of(str(package), "greedy:spinning"), together)
    yield made
    await made.close()


def nice(body: JailedBody) -> int:
    assert body.pid is not None
    return os.getpriority(os.PRIO_PROCESS, body.pid)


async def test_a_body_stands_behind_the_runner_and_further_behind_once_it_was_busy(sandbox: Sandbox) -> None:
    body = await sandbox.attempt(20)
    assert nice(body) == max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    await body.send({"op": "run"})
    while nice(body) != NICE_OF_BUSY:  # the test's own timeout ends it where that never happens
        await asyncio.sleep(0)
    await body.close()


async def test_the_cpu_of_a_body_counts_for_the_tenant_of_its_run_while_the_body_still_runs(
    sandbox: Sandbox, together: ServerLimits
) -> None:
    body = await sandbox.attempt(20, tenant="acme")
    await body.send({"op": "run"})
    while together.shares.used("acme", monotonic()) < 0.06:  # the charge at its start is less, so the keeper has reported this
        await asyncio.sleep(0)
    assert (body.over, together.shares.used("", monotonic())) == (False, 0.0)
    await body.close()


def test_a_tenant_that_used_far_more_than_the_others_stands_behind_them_until_it_rests() -> None:
    shares = CpuShares(cores=2)
    for second in range(5):
        shares.add("greedy", 1.5, second)
        shares.add("modest", 0.1, second)
    assert [tenant for tenant in ("greedy", "modest", "new") if shares.greedy(tenant, 5.0)] == ["greedy"]
    assert not shares.greedy("greedy", 15.0)


def test_a_tenant_that_is_alone_or_on_an_idle_machine_stands_behind_no_other() -> None:
    alone, idle = CpuShares(cores=2), CpuShares(cores=64)
    for second in range(5):
        alone.add("only", 3.0, second)
        idle.add("greedy", 1.5, second)
        idle.add("modest", 0.1, second)
    assert (alone.greedy("only", 5.0), alone.rest("only", 5.0)) == (False, 0.0)
    assert (idle.greedy("greedy", 5.0), idle.rest("greedy", 5.0)) == (False, 0.0)


def test_equal_tenants_are_equal() -> None:
    shares = CpuShares(cores=1)
    for tenant in ("one", "two", "three"):
        shares.add(tenant, 1.0, 0.0)
    assert not any(shares.greedy(tenant, 0.0) for tenant in ("one", "two", "three"))
    assert len({shares.rest(tenant, 0.0) for tenant in ("one", "two", "three")}) == 1


class Bodies:
    """Bodies on a machine of two cores in virtual time: each ends after as many seconds as it computes."""

    def __init__(self) -> None:
        self.shares = CpuShares(cores=2)
        self.used: dict[str, float] = {}
        self.started: Counter[str] = Counter()
        self._number = itertools.count()
        self._running: list[tuple[float, int, Callable[[float], None]]] = []

    def pass_second(self, second: int, wanted: Mapping[str, tuple[object, float]]) -> None:
        """One second: each tenant starts a body of its worker whenever it may, in steps of 10 ms."""
        for now in (second + step / 100 for step in range(100)):
            while self._running and self._running[0][0] <= now:
                heappop(self._running)[2](now)
            for tenant, (worker, cost) in wanted.items():
                if self.shares.rest(tenant, now) <= 0:
                    self._start(tenant, worker, cost, now)

    def _start(self, tenant: str, worker: object, cost: float, now: float) -> None:
        charged = self.shares.begin(tenant, worker, now)
        self.used[tenant] = self.used.get(tenant, 0.0) + cost
        self.started[tenant] += 1
        heappush(self._running, (now + cost, next(self._number), lambda then: self.shares.end(tenant, worker, charged, cost, then)))


class Worker:
    """A worker, for which the shares learn what its bodies use."""


def test_bodies_of_tenants_above_their_share_start_in_turns_weighted_by_what_they_cost() -> None:
    bodies, wanted = Bodies(), {"dear": (Worker(), 0.8), "cheap": (Worker(), 0.2)}
    for second in range(80):
        if second == 20:  # the shares have learned what such bodies cost
            bodies.used, bodies.started = {}, Counter()
        bodies.pass_second(second, wanted)
    assert 0.9 < bodies.used["dear"] / bodies.used["cheap"] < 1.1
    assert 3.6 < bodies.started["cheap"] / bodies.started["dear"] < 4.4
    assert sum(bodies.used.values()) == pytest.approx(2 * 60, rel=0.1)  # and the machine is not left idle


def test_a_tenant_above_its_share_leaves_the_rest_of_the_machine_to_a_modest_one_that_never_waits() -> None:
    bodies, greedy = Bodies(), (Worker(), 0.3)
    for second in range(80):
        if second == 20:
            bodies.used = {}
        bodies.pass_second(second, {"greedy": greedy})
        for step in range(10):
            bodies.shares.add("modest", 0.02, second + 1 + step / 1000)
        assert bodies.shares.rest("modest", second + 1) == 0.0
    assert 1.1 < bodies.used["greedy"] / 60 < 1.3  # cores: seven tenths of two, less what the modest one uses


def spent(together: ServerLimits) -> None:
    """Let one tenant use far more than its share, beside another one."""
    together.shares.add("greedy", 100.0, monotonic())
    together.shares.add("modest", 0.1, monotonic())


async def test_an_attempt_of_a_tenant_above_its_share_waits_for_its_turn_and_others_pass(together: ServerLimits) -> None:
    spent(together)
    with pytest.raises(Overloaded, match="more than its share"):
        await together.turn("greedy", 0.01)
    with pytest.raises(StopIteration):
        together.turn("modest", 0.01).send(None)  # it does not wait for anything


async def test_attempts_of_one_tenant_get_their_turns_in_order_and_each_is_charged_before_the_next(together: ServerLimits) -> None:
    spent(together)
    told: list[int] = []

    async def attempt(number: int) -> None:
        await together.turn("greedy", 60)
        together.shares.add("greedy", 100.0, monotonic())
        told.append(number)

    waiting = [asyncio.create_task(attempt(number)) for number in range(2)]
    await asyncio.sleep(0)
    assert told == []
    later = monotonic() + 200
    with measured_by(lambda: later):  # the debt is paid
        together.shares.add("modest", 0.1, later)
        await waiting[0]
        await asyncio.sleep(0)
        assert (told, waiting[1].done()) == ([0], False)
        waiting[1].cancel()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel does not group processes by session")
def test_a_higher_nice_value_stays_and_the_group_of_the_process_gets_the_same() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        try:
            found = []
            os.setpriority(os.PRIO_PROCESS, sleeper.pid, 15)
            for wanted in (5, 10):
                give_way(sleeper.pid, wanted)
                group = Path(f"/proc/{sleeper.pid}/autogroup").read_text().split()[-1]
                found.append((os.getpriority(os.PRIO_PROCESS, sleeper.pid), int(group)))
        finally:
            sleeper.kill()
    assert found == [(15, 15), (15, 15)]
