"""Jobs for the tests of queues: bodies that a test holds, and what an engine asks its store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Settings, StepContext, durable_execution, durable_step
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import enqueue_of
from holdfast.model.execution import Execution
from holdfast.model.life import Claimant
from holdfast.model.queues import checked_declaration
from holdfast.model.verbs import Write
from holdfast.store.backends import open_store
from holdfast.store.seam import Committed, Target
from tests.flow.harness import Harness
from tests.postgres import new_schema

STORES = [
    pytest.param(("sqlite", 10_000), id="resting"),
    pytest.param(("sqlite", 0), id="replayed"),
    pytest.param(("postgres", 0), id="postgres", marks=pytest.mark.long),
]
"""The stores of tests that run on both, and how many coroutines may rest there."""


def harness_on(store: tuple[str, int], folder: Path) -> Harness:
    """A harness whose store is a file or a database."""
    backend, resting = store
    made = Harness(folder, resting)
    if backend == "postgres":
        made.store = new_schema()
    return made


class Line:
    """Where jobs stand: which ones are inside now, and how many were inside at the same time at most."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.inside = 0
        self.most = 0
        self.open = asyncio.Event()

    async def pass_through(self, who: Any) -> Any:
        self.came.append(who)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return who


def held_in(line: Line, name: str = "job") -> DurableFunction:
    """A function whose only step waits until the test opens the line."""

    @durable_step
    async def body(step: StepContext, who: Any) -> Any:
        return await line.pass_through(who)

    @durable_execution(name=name)
    async def job(event: Any, context: AsyncDurableContext) -> Any:
        return await context.step(body(event))

    return job


@durable_execution
async def echo(event: Any, context: AsyncDurableContext) -> Any:
    """Answers with its input."""
    return event


def declare(harness: Harness, name: str = "emails", **settings: Any) -> None:
    """Declare a queue."""
    store = open_store(harness.store, "a-test")
    store.declare([checked_declaration(name, settings)])
    store.close()


@asynccontextmanager
async def engine_of(harness: Harness, *functions: DurableFunction, live: int = 10_000) -> Any:
    """The engine itself, below the public verbs."""
    settings = Settings(clock=harness.clock, resting=harness.resting, live=live)
    async with holdfast.open(harness.store, functions=functions, settings=settings) as engine:
        yield engine._engine


async def enqueued(engine: Engine, function: str, payload: str, *, queue: str, name: str | None = None, **asked: Any) -> Execution:
    """Enqueue a job without the public verbs."""
    return await engine.enqueue(function, payload, enqueue_of(queue, **asked), name=name)


class Asked:
    """What an engine asks its store to write. With `fails`, so many admissions are written and then said to have failed."""

    def __init__(self, engine: Engine, fails: Sequence[Exception] = ()) -> None:
        self.commits: list[list[str]] = []
        self.admits: list[int] = []
        self.looks = 0
        """How often the engine asked whether a lane is open. A store may ask itself when it admits."""
        store: Any = engine.store
        commit, admit, look, left = store.commit, store.admit, store.has_open_lane, list(fails)

        def committed(batch: Sequence[Write], now: int) -> Committed:
            self.commits.append([type(write).__name__ for write in batch])
            done: Committed = commit(batch, now)
            return done

        def admitted(targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
            before = self.looks
            done: Committed = admit(targets, by, now)
            self.looks = before
            self.admits.append(len(done.answers))
            if done.answers and left:
                raise left.pop()
            return done

        def looked(targets: Sequence[Target], now: int) -> bool:
            self.looks += 1
            return bool(look(targets, now))

        store.commit, store.admit, store.has_open_lane = committed, admitted, looked


def names(headers: Sequence[Execution]) -> list[str]:
    """Their names, in order."""
    return [header.name for header in headers]
