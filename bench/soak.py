"""Soak: executions of every kind under load for a long time, in two processes on one file, with a slow reader beside.

    python -m bench.soak [FOLDER] [--seconds 600]

Both processes run executions, and both stand still now and then: a step calls into C and keeps the interpreter, heartbeat and all, for
two seconds. The second one reads histories slowly, and also keeps one view of the file for a second at a time, as a backup or a shell does.
Nothing may grow that must not: the WAL stays below 64 MB, memory is flat after the first third, no lease is lost, nothing is logged,
and every execution has the right result. It prints a line every 10 s; if a law is broken it prints which, and the exit code is 1. The
figures of a whole run (ten minutes) are copied into docs/proof.md.

    python -m bench.soak beside STORE          the second process
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import holdfast
from bench.page import PAGE, with_soak
from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution, durable_step
from holdfast.durable.config import StepConfig
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy
from holdfast.service.client import Client
from holdfast.service.engines import OpenEngine
from holdfast.store.seam import Filter

IN_FLIGHT = 100
NUMBERS = 2_000_000
LINE_SECONDS = 10.0
LOOK_SECONDS = 0.25
READ_SECONDS = 0.02
HOLD_SECONDS, HOLD_EVERY = 1.0, 5.0
STALL_SECONDS, STALL_EVERY = 2.0, 10.0
WHOLE_SECONDS = 600.0
MAX_WAL_MB = 64.0
MAX_GROWTH = 0.15
CACHES_MB = 32.0
"""The allowed growth of memory, for caches that were not full yet."""
DEATHS = "SELECT count(*) FROM events WHERE type = 'InvocationCompleted' AND payload LIKE '%Runtime.ExitError%'"
TEXT = "x" * 200
SECOND = Duration.from_seconds(1)
SOON = StepConfig(retry_strategy=create_retry_strategy(RetryStrategyConfig(initial_delay=SECOND, max_delay=SECOND)))


@durable_step
def part(step: StepContext, number: int) -> dict[str, Any]:
    return {"number": number, "text": TEXT}


@durable_execution
async def steps(event: dict[str, Any], context: AsyncDurableContext) -> int:
    total = 0
    for number in range(5):
        total += (await context.step(part(number)))["number"]
    return total


@durable_execution
def blocking_steps(event: dict[str, Any], context: DurableContext) -> int:
    return sum(context.step(part(number))["number"] for number in range(5))


@durable_execution
async def branches(event: dict[str, Any], context: AsyncDurableContext) -> int:
    async def branch(child: AsyncDurableContext, number: int, index: int, numbers: Any) -> int:
        return await child.step(lambda _: number)

    return sum((await context.map(range(5), branch)).get_results())


@durable_execution
async def waits(event: dict[str, Any], context: AsyncDurableContext) -> int:
    await context.wait(SECOND)
    return await context.step(lambda _: 10)


@durable_execution
async def retries(event: dict[str, Any], context: AsyncDurableContext) -> int:
    def body(step: Any) -> int:
        if step.attempt == 1:
            raise ConnectionError("the first time it never works")
        return 10

    return await context.step(body, config=SOON)


@durable_execution
async def invokes(event: dict[str, Any], context: AsyncDurableContext) -> int:
    return int(await context.invoke("blocking_steps", event))


@durable_execution
async def asks(event: dict[str, Any], context: AsyncDurableContext) -> int:
    callback = await context.create_callback()
    await context.step(lambda _: answers.append(callback.callback_id))
    return int(await callback.result() or 0)


@durable_execution
async def stalls(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """One call into C: until it returns, no thread of this process runs."""
    await context.step(lambda _: sum(range(event["numbers"])))
    return RESULT


KINDS = [steps, blocking_steps, branches, waits, retries, invokes, asks]
FUNCTIONS = [*KINDS, stalls]
RESULT = 10
"""The result of every execution, of any kind."""
answers: list[str] = []
"""The callbacks that wait for an answer from this process."""


class Look(NamedTuple):
    """How large everything is, in MB."""

    memory: float
    wal: float
    file: float


class Soak:
    """The load, and what it does to this process and to the file."""

    def __init__(self, store: Path, seconds: float) -> None:
        self._store = store
        self._began = monotonic()
        self._seconds = seconds
        self.done = 0
        self.stood_still = 0.0
        """The longest time in seconds in which this process ran no code."""
        self.wrong: list[str] = []
        self.looks: list[Look] = []

    async def run(self, engine: OpenEngine) -> None:
        """Keep this many executions running until the time is over, and wait for the last ones."""
        beside = [asyncio.create_task(task) for task in (self._watch(), answering(engine), stalling(engine))]
        kinds = itertools.cycle(KINDS)
        await asyncio.gather(*(self._load(engine, kinds) for _ in range(IN_FLIGHT)))
        for task in beside:
            task.cancel()
        for ended in await asyncio.gather(*beside, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _load(self, engine: OpenEngine, kinds: Iterator[DurableFunction]) -> None:
        while monotonic() < self._began + self._seconds:
            kind = next(kinds)
            result = await (await engine.start(kind, {"text": TEXT})).result()
            if result != RESULT:
                self.wrong.append(f"the result of {kind.name} is {result}")
            self.done += 1

    async def _watch(self) -> None:
        lines = itertools.count(1)
        line = next(lines)
        while True:
            look = Look(memory_mb(), size_mb(Path(f"{self._store}-wal")), size_mb(self._store))
            self.looks.append(look)
            passed = monotonic() - self._began
            if passed >= line * LINE_SECONDS:
                line = next(lines)
                sizes = f"memory {look.memory:5.0f} MB   WAL {look.wal:5.1f} MB   file {look.file:6.0f} MB"
                print(f"{passed:5.0f} s   {self.done:8,} executions   {sizes}", flush=True)
            looked = monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            self.stood_still = max(self.stood_still, monotonic() - looked - LOOK_SECONDS)

    def broken(self) -> list[str]:
        """The laws that do not hold."""
        wal = max(look.wal for look in self.looks)
        before, after = self.memory()
        broken = self.wrong[:3]
        if wal >= MAX_WAL_MB:
            broken.append(f"the WAL grew to {wal:.1f} MB")
        if after - before > max(MAX_GROWTH * before, CACHES_MB):
            broken.append(f"memory grew from {before:.0f} to {after:.0f} MB")
        return broken

    def told(self) -> str:
        """The whole of it in one line."""
        before, after = self.memory()
        wal = max(look.wal for look in self.looks)
        return (
            f"{self.done:,} executions in {self._seconds:.0f} s: memory {before:.0f} to {after:.0f} MB, WAL at most {wal:.1f} MB, "
            f"nothing ran for up to {self.stood_still:.1f} s"
        )

    def memory(self) -> tuple[float, float]:
        """The memory of this process after the first third, and at the end."""
        count = len(self.looks)
        warm, last = self.looks[count // 3 : count // 2 + 1], self.looks[-(count // 6) - 1 :]
        return max(look.memory for look in warm), max(look.memory for look in last)


async def answering(engine: OpenEngine) -> None:
    """Answer the callbacks of this process."""
    while True:
        while answers:
            await engine.succeed_callback(answers.pop(), str(RESULT))
        await asyncio.sleep(LOOK_SECONDS)


async def stalling(engine: OpenEngine) -> None:
    """Let this process stand still every few seconds."""
    numbers = int(STALL_SECONDS * max(_summed_per_second() for _ in range(5)))
    while True:
        await (await engine.start(stalls, {"numbers": numbers})).result()
        await asyncio.sleep(STALL_EVERY)


def _summed_per_second() -> float:
    began = perf_counter()
    sum(range(NUMBERS))
    return NUMBERS / (perf_counter() - began)


def memory_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def size_mb(path: Path) -> float:
    return path.stat().st_size / 1e6 if path.exists() else 0.0


# --- the process beside ------------------------------------------------------------------------------------------------------


async def beside(store: str) -> None:
    """Run executions as well, and read histories slowly, a few events at a time, until the input ends."""
    async with holdfast.open(store, functions=FUNCTIONS) as engine:
        print("ready", flush=True)
        too = [asyncio.create_task(task) for task in (answering(engine), stalling(engine))]
        reading = asyncio.gather(asyncio.to_thread(_read_slowly, store), asyncio.to_thread(_hold, store))
        await asyncio.to_thread(sys.stdin.buffer.read)
        enough.set()
        await reading
        for task in too:
            task.cancel()


def _read_slowly(store: str) -> None:
    with Client.open(store) as client:
        while not enough.wait(READ_SECONDS):
            for header in client.list(Filter(oldest_first=True, limit=1_000)):
                client.history(header.id)
                if enough.wait(READ_SECONDS):
                    return


def _hold(store: str) -> None:
    """Keep one view of the file for a while, again and again: what is written meanwhile cannot leave the WAL."""
    with closing(sqlite3.connect(store, isolation_level=None)) as rows:
        while not enough.wait(HOLD_EVERY - HOLD_SECONDS):
            rows.execute("BEGIN")
            rows.execute("SELECT count(*) FROM executions").fetchone()
            enough.wait(HOLD_SECONDS)
            rows.execute("COMMIT")


enough = threading.Event()


@contextmanager
def company(store: Path) -> Iterator[list[str]]:
    """Start the second process. After the `with` block the list has its log lines."""
    said: list[str] = []
    command = [sys.executable, "-m", "bench.soak", "beside", str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(process.communicate()[1])
        yield said
    finally:
        _, errors = process.communicate(timeout=60)  # which ends its input: it leaves
        said += errors.splitlines()


# --- all of it ---------------------------------------------------------------------------------------------------------------


class Complaints(logging.Handler):
    """Collects the warnings of the engine."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


async def soaked(store: Path, seconds: float) -> tuple[Soak, list[str]]:
    """Soak, and say which laws are broken."""
    complaints = Complaints()
    logging.getLogger("holdfast").addHandler(complaints)
    async with holdfast.open(store, functions=FUNCTIONS) as engine:
        with company(store) as said:
            soak = Soak(store, seconds)
            await soak.run(engine)
    logging.getLogger("holdfast").removeHandler(complaints)
    lost = leases_lost(store)
    broken = soak.broken() + ([f"{lost} invocations were taken over: a lease was lost"] if lost else [])
    return soak, broken + complaints.said[:3] + said[:3]


def leases_lost(store: Path) -> int:
    """How many invocations were taken from a process that was thought dead. In a soak none is."""
    with closing(sqlite3.connect(store)) as rows:
        ((taken,),) = rows.execute(DEATHS)
        return int(taken)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--seconds", type=float, default=WHOLE_SECONDS)
    wanted = parser.parse_args()
    with TemporaryDirectory(dir=wanted.folder, prefix=".bench-") as place:
        soak, broken = asyncio.run(soaked(Path(place) / "soak.db", wanted.seconds))
    told = soak.told()
    print(told)
    if broken:
        sys.exit("\n".join(broken))
    print("nothing grew, no lease was lost, every result is right")
    if wanted.seconds >= WHOLE_SECONDS:
        PAGE.write_text(with_soak(PAGE.read_text(encoding="utf-8"), told), encoding="utf-8")


if __name__ == "__main__":
    logging.getLogger("holdfast.engine.loop").setLevel(logging.ERROR)  # a soak blocks its loop itself, and measures how long nothing ran
    if sys.argv[1:2] == ["beside"]:
        asyncio.run(beside(sys.argv[2]))
    else:
        main()
