"""A stage for schedules: one store, one virtual clock, and as many runners as a test wants. Time passes only as far as a test says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import holdfast
from holdfast import Schedule
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import ExecutionStatus
from holdfast.model.places import Only
from holdfast.model.ports import Observer
from holdfast.model.schedules import Overlap, ScheduleState
from holdfast.schedules.store_schedules import Schedules
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter
from tests.flow.harness import in_real_time

HOUR = 3_600_000
DAY = 24 * HOUR


def at(text: str) -> int:
    """A time in UTC: `2026-03-29 01:00`."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def told(moment: int) -> str:
    """The same the other way round."""
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M}"


class Stage:
    """Runners on one store."""

    def __init__(self, where: str, now: str = "2026-01-01 00:00") -> None:
        self.where = where
        self.clock = VirtualClock(at(now), skipping=False)
        self.store = open_store(where, "a look from outside", None)
        self.engines: list[OpenEngine] = []
        self.verbs = Schedules(self.store, self.clock)

    @asynccontextmanager
    async def runners(
        self,
        *functions: DurableFunction,
        schedules: Sequence[Schedule] = (),
        count: int = 1,
        observers: Sequence[Observer] = (),
        only: Only | None = None,
    ) -> AsyncIterator[Stage]:
        """Open so many runners, which declare the schedules, and wait until they have nothing to do."""
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                settings = Settings(clock=self.clock, tune=False, observers=tuple(observers), only=only)
                opening = holdfast.open(self.where, functions=functions, schedules=schedules, settings=settings)
                self.engines.append(await stack.enter_async_context(opening))
            await self.settled()
            yield self
            await self.settled()
            self.engines.clear()

    @property
    def functions(self) -> list[str]:
        """What is hosted."""
        return sorted({name for engine in self.engines for name, _ in engine._functions})

    async def settled(self) -> None:
        """Wait until all that is due now is done."""
        for engine in self.engines:
            engine._engine.look_for_work()
        await in_real_time(self._is_settled, seconds=60)

    def _is_settled(self) -> bool:
        now, engines = self.clock.now(), [engine._engine for engine in self.engines]
        if not engines:
            return True
        timers = self.store.due(now, 1)
        ready = self.store.claimable(engines[0].registry.targets(), (), now, 1)
        due = self.store.due_schedules(self.functions, now, 1, engines[0].registry.only)
        may_go_on = any(self._may_go_on(name) for name in self.store.waiting_schedules(self.functions, 100))
        return not timers and not ready and not due and not may_go_on and all(engine.idle for engine in engines)

    def _may_go_on(self, name: str) -> bool:
        """Whether an occurrence waits for an execution that has ended, or is about to be stopped."""
        state = self.state(name)
        headers = [self.store.find(execution) for execution in state.open]
        is_held_up = any(header is not None and header.status is ExecutionStatus.RUNNING for header in headers)
        return not is_held_up or state.definition.overlap is Overlap.REPLACE

    async def until(self, moment: str | int) -> None:
        """Let time pass, and stop at each timer and each schedule on the way, as real time would."""
        end = at(moment) if isinstance(moment, str) else moment
        while True:
            targets = [target for engine in self.engines for target in engine._engine.registry.targets()]
            next_ones = (self.store.next_due(targets), self.store.next_schedule(self.functions))
            stop = min((time for time in next_ones if time is not None), default=end)
            self.clock.move_to(min(stop, end))
            await self.settled()
            if stop > end or self.clock.now() >= end:
                break
        self.clock.move_to(end)
        await self.settled()

    def state(self, name: str = "s") -> ScheduleState:
        """A schedule as it stands."""
        return self.verbs.get(name)

    def ran(self) -> list[str]:
        """The times of the occurrences that were started, in the order of their start."""
        return [told(mark["at"]) for mark in self.marks()]

    def marks(self) -> list[dict[str, Any]]:
        """The mark of each execution that a schedule started, the first started first."""
        found = []
        for header in self.store.list(Filter(oldest_first=True, limit=10_000)):
            mark = (self.store.history(header.id, limit=1)[0].event.detail or {}).get("Schedule")
            if mark is not None:
                began = {"began": header.started_at, "started_at": told(header.started_at)}
                found.append(mark | began | {"execution": header.id, "status": header.status.value})
        return found

    def outcomes(self, name: str = "s") -> list[tuple[str, str]]:
        """What became of the last occurrences, the oldest first."""
        return [(told(line.at), line.outcome) for line in reversed(self.state(name).recent)]
