"""W5: many executions wait at once, for a day to pass or for an answer.

Each scene is a process of its own, because memory is measured: start them all and wait until the last is suspended, and look at the
memory. The first scene also looks at the CPU while nothing happens, then lets the day pass at once and waits until the last has ended.

    python -m bench.waiting SCENE FOLDER SIZES      prints what it measured as JSON
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import holdfast
from bench.terms import DAY_SECONDS, PAYLOAD, Sizes, memory
from holdfast import AsyncDurableContext, DurableContext, Duration, Settings, durable_execution
from holdfast.model.clock import SystemClock
from holdfast.service.engines import OpenEngine
from holdfast.store.sqlite.store import SqliteStore

STARTERS: Final = 500
"""The number of coroutines that start executions. One per execution would use memory of the bench, which would be measured too."""
FEW_EXECUTIONS: Final = 1_000


class Scene(NamedTuple):
    """Which function waits, and how many of its coroutines may stay in memory."""

    function: str
    resting: int


SCENES: Final = {
    "wait": Scene("sleeps", 10_000),
    "callback": Scene("asks", 10_000),
    "evicted": Scene("sleeps", 0),
    "blocking": Scene("sleeps_blocking", 0),  # a `def` handler keeps nothing while it waits: only its start is of interest
}


class MovableClock(SystemClock):
    """The machine's time, which the bench can move forward, so that a wait of a day is over at once for all executions."""

    def __init__(self) -> None:
        self._ahead = 0

    def now(self) -> int:
        return super().now() + self._ahead

    def move(self, seconds: int) -> None:
        self._ahead += seconds * 1000


@durable_execution
async def sleeps(event: dict[str, Any], context: AsyncDurableContext) -> str:
    await context.wait(Duration.from_seconds(DAY_SECONDS))
    return "awake"


@durable_execution
def sleeps_blocking(event: dict[str, Any], context: DurableContext) -> str:
    context.wait(Duration.from_seconds(DAY_SECONDS))
    return "awake"


@durable_execution
async def asks(event: dict[str, Any], context: AsyncDurableContext) -> Any:
    return await (await context.create_callback()).result()


class Measured(NamedTuple):
    """The figures of one scene."""

    started_per_second: float
    bytes_each: float
    idle: float | None
    """The share of a core used while all of them wait."""
    due_seconds: float | None
    """From the moment all timers are due until the last execution has ended."""


async def scene(folder: Path, name: str, sizes: Sizes) -> Measured:
    """Play a scene in this process."""
    function, resting = SCENES[name]
    clock, count = MovableClock(), sizes.w5_blocking if name == "blocking" else sizes.w5_executions
    # Memory is what the second half of those that are kept adds: the first half uses up what the engine has free anyway.
    kept = min(count, resting or count)
    parts = (kept // 2, kept - kept // 2, count - kept)
    with TemporaryDirectory(dir=folder, prefix="bench-") as place:
        store = f"{place}/bench.db"
        settings = Settings(clock=clock, resting=resting)
        async with holdfast.open(store, functions=[sleeps, sleeps_blocking, asks], settings=settings) as opened:
            rows = Rows(opened, store)
            before = await _warm_up(opened, clock, rows, name, count)
            begun, seconds, held = 0, 0.0, []
            for part in parts:
                begun += part
                began = perf_counter()
                await _all(opened, function, part)
                await rows.become("suspended", begun)
                seconds += perf_counter() - began
                held.append(_held(opened))
            idle = await _idle(sizes.idle_seconds) if name == "wait" else None
            due = await _day(opened, clock, rows, before + count) if name == "wait" else None
    return Measured(count / seconds, max(held[1] - held[0], 0) / parts[1], idle, due)


async def _warm_up(opened: OpenEngine, clock: MovableClock, rows: Rows, name: str, count: int) -> int:
    """A few whole lives first. Where nothing is kept, as many as will be measured: else the engine's own growth would look like theirs.
    (Where coroutines are kept this would hide them: they would live in what the others left free.)"""
    warm = count if name == "evicted" else min(FEW_EXECUTIONS, count)
    await _all(opened, "sleeps_blocking" if name == "blocking" else "sleeps", warm)
    await rows.become("suspended", warm)
    await _day(opened, clock, rows, warm)
    return warm


def _held(opened: OpenEngine) -> int:
    """Memory without SQLite's page cache: that has a limit of its own, however many executions there are."""
    store = opened._store
    assert isinstance(store, SqliteStore)
    for connection in (store._writer, store._reader):
        connection.execute("PRAGMA shrink_memory")
    return memory()


async def _all(opened: OpenEngine, function: str, count: int) -> None:
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await opened.start(function, PAYLOAD)

    await asyncio.gather(*(some() for _ in range(min(STARTERS, count))))


async def _day(opened: OpenEngine, clock: MovableClock, rows: Rows, ended: int) -> float:
    """Seconds until everything has ended after a day passed at once."""
    began = perf_counter()
    clock.move(DAY_SECONDS)
    opened._engine.look_for_work()  # real timers wake it themselves; a clock that jumps does not
    await rows.become("closed", ended)
    return perf_counter() - began


async def _idle(seconds: float) -> float:
    await asyncio.sleep(min(0.5, seconds))
    began, used = perf_counter(), process_time()
    await asyncio.sleep(seconds)
    return (process_time() - used) / (perf_counter() - began)


class Rows:
    """The executions in the file, counted from outside when the engine has nothing to do."""

    def __init__(self, opened: OpenEngine, store: str) -> None:
        self._engine = opened._engine
        self._store = store

    async def become(self, state: str, count: int) -> None:
        while not self._engine.idle or self._count(state) < count:
            await asyncio.sleep(0.005)
        assert self._count(state) == count, f"{self._count(state)} of {count} executions are {state}"

    def _count(self, state: str) -> int:
        with closing(sqlite3.connect(self._store)) as db:
            (found,) = db.execute("SELECT count(*) FROM executions WHERE state = ?", (state,)).fetchone()
            return int(found)


def w5(folder: Path, name: str, sizes: Sizes) -> Measured:
    """Play a scene in a process of its own."""
    command = [sys.executable, "-m", "bench.waiting", name, str(folder.resolve()), sizes.to_json()]
    played = subprocess.run(command, cwd=Path(__file__).resolve().parent.parent, capture_output=True, check=False, text=True)
    if played.returncode:
        raise RuntimeError(f"the scene {name!r} failed: {played.stderr}")
    return Measured(**json.loads(played.stdout))


if __name__ == "__main__":
    name, place, sizes = sys.argv[1:]
    print(json.dumps(asyncio.run(scene(Path(place), name, Sizes.from_json(sizes)))._asdict()))
