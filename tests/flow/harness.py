"""An engine for tests: virtual time, a store of its own, and both ways of waiting (resting in memory, or replayed)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.descriptions.executions import Pending
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import Clock, VirtualClock
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.service.settings import Settings

_REST_SECONDS = 0.001


class Harness:
    """Opens engines over one store."""

    def __init__(self, folder: Path, resting: int) -> None:
        self.store = str(folder / "test.db")
        self.resting = resting
        self.clock = VirtualClock()

    @asynccontextmanager
    async def engine(self, *functions: DurableFunction, clock: Clock | None = None, threads: int = 4) -> AsyncIterator[OpenEngine]:
        settings = Settings(clock=clock or self.clock, resting=self.resting, threads=threads)
        async with holdfast.open(self.store, functions=functions, settings=settings) as engine:
            yield engine

    async def run(self, function: DurableFunction, input: object = None) -> Any:
        """Start a function and wait for its result."""
        async with self.engine(function) as engine:
            return await (await engine.start(function, input)).result()


async def eventually(fact: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until something is true, and return it. The loop never rests, so a virtual clock does not skip what the test wants to see."""
    async with asyncio.timeout(seconds):
        while not (found := fact()):
            await asyncio.sleep(0)
        return found


async def in_real_time(fact: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait for something that real time brings, or a thread: a loop that never rests would hold that thread up."""
    never = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(seconds):
        while not (found := fact()):
            await asyncio.wait([never], timeout=_REST_SECONDS)
        return found


async def pending(execution: OpenExecution, name: str | None = None, seconds: float = 20) -> Pending:
    """Wait until an execution is suspended on an operation, and return it."""
    async with asyncio.timeout(seconds):
        while True:
            description = await execution.describe()
            for found in description.waits_for:
                if description.state == "suspended" and name in (None, found.name):
                    return found
            await asyncio.sleep(0)


def types(history: Sequence[dict[str, Any]]) -> list[str]:
    """The event types of a history, after a check that its numbers have no gap."""
    assert [event["EventId"] for event in history] == list(range(1, len(history) + 1))
    return [event["EventType"] for event in history]
