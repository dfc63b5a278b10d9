"""Queues beside the same work without a queue, on the same store: how fast a queue drains, how fast many executions are enqueued, how soon
a lone job begins, how long a small tenant waits beside a large one, and what a long backlog behind a paused queue costs the others.

By hand means `engine.start` and its result, 50 in flight. A queue that is drained admits 50 at once. Its executions are enqueued before the
clock starts.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final

import msgspec
import psycopg

import holdfast
from bench.chains import AT_ONCE, Where, by_hand, node, timed
from bench.terms import PAYLOAD, Sizes, memory
from holdfast import AsyncDurableContext, Settings, durable_execution
from holdfast.model import codec
from holdfast.model.clock import SystemClock
from holdfast.model.execution import Terms
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.model.ports import Sight
from holdfast.model.queues import Mode, QueueRow
from holdfast.model.starts import Start
from holdfast.service.engines import OpenEngine
from holdfast.store.postgres.address import parsed
from holdfast.store.rows import COLUMNS
from holdfast.store.seam import Store

QUEUE: Final = "jobs"
PAUSED: Final = "paused"
RAW_BATCH: Final = 1_000
POLL_SECONDS: Final = 0.005
FAIR: Final = "fair"
ALONE: Final = "alone"
TEN: Final = 10
JOB_SECONDS: Final = 0.05
begun: list[float] = []
"""When each lone job began."""


@durable_execution
async def lone(event: dict[str, Any], context: AsyncDurableContext) -> None:
    """Notes when it begins."""
    begun.append(perf_counter())


@durable_execution
async def job(event: dict[str, Any], context: AsyncDurableContext) -> None:
    """Takes 50 ms."""
    await asyncio.sleep(JOB_SECONDS)


class Ends:
    """An observer that counts the executions that are over, on disk. To ask the store again and again would cost what is measured."""

    def __init__(self) -> None:
        self._count = 0
        self._awaited = 0
        self._reached = asyncio.Event()

    def attach(self, sight: Sight) -> None:
        """An engine opens."""

    def started(self, *_: object) -> None:
        """Not counted."""

    invoked = operated = committed = started

    def closed(self, *_: object) -> None:
        """One more is over."""
        self._count += 1
        if self._count == self._awaited:
            self._reached.set()

    def more(self, count: int) -> Awaitable[object]:
        """Call this before the work begins: what it returns waits until so many more are over."""
        self._awaited = self._count + count
        self._reached.clear()
        return self._reached.wait()


@asynccontextmanager
async def engine(where: Where, *observers: Ends) -> AsyncIterator[OpenEngine]:
    """An engine on a new file in a folder, or on a store by its address."""
    with ExitStack() as ends:
        if isinstance(where, Path):
            where = f"{ends.enter_context(TemporaryDirectory(dir=where, prefix='bench-'))}/bench.db"
        async with holdfast.open(settings=Settings(store=where, observers=observers), functions=[node, lone, job]) as opened:
            yield opened


def set_mode(store: Store, queue: str, mode: Mode, **settings: Any) -> None:
    """What an operator would set."""
    row = store.queue(queue) or QueueRow(name=queue)
    assert store.set_queue(msgspec.structs.replace(row, mode=mode, operator={**row.operator, **settings}))


async def drained(store: Store) -> None:
    """Nothing waits in the queue, and nothing of it runs."""
    while (state := store.queue_state(QUEUE, 0)).waiting or state.held:
        await asyncio.sleep(POLL_SECONDS)


async def drain_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Runs per second of a queue that is drained, and of the same runs by hand."""
    count, ends = sizes.queue_jobs, Ends()
    async with engine(where, ends) as opened:
        store = opened._engine.store
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(sizes.map_rounds + 1):
            set_mode(store, QUEUE, Mode.PAUSED, limits={"at_once": AT_ONCE})
            await opened.enqueue_many("node", [{**PAYLOAD, "number": n} for n in range(count)], queue=QUEUE)
            all_over = ends.more(count)
            began = perf_counter()
            set_mode(store, QUEUE, Mode.OPEN)
            opened._engine.look_for_work()
            await all_over
            times[0].append(perf_counter() - began)
            await drained(store)
            began = perf_counter()
            await by_hand(opened, count, AT_ONCE)
            times[1].append(perf_counter() - began)
        return count / statistics.median(times[0][1:]), count / statistics.median(times[1][1:])


async def bulk_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Executions per second that are enqueued, and that are started raw, with as many in each commit."""
    count = sizes.queue_bulk
    async with engine(where) as opened:
        store = opened._engine.store
        set_mode(store, QUEUE, Mode.PAUSED)

        async def enqueued() -> None:
            assert len(await opened.enqueue_many("node", [{**PAYLOAD, "number": n} for n in range(count)], queue=QUEUE)) == count

        async def started() -> None:
            clock = SystemClock()
            for first in range(0, count, RAW_BATCH):
                now = clock.now()
                payloads = [codec.dumps({**PAYLOAD, "number": n}) for n in range(first, min(first + RAW_BATCH, count))]
                headers = [new_execution(id_at(now), None, "elsewhere", "1", payload=text, now=now, terms=Terms()) for text in payloads]
                store.commit([Start(header, text) for header, text in zip(headers, payloads, strict=True)], now)

        ours, raw = await timed(enqueued, started, sizes.map_rounds)
        return count / ours, count / raw


async def lone_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Seconds until a job on an idle queue begins, and until a plain start does: medians."""
    async with engine(where) as opened:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(sizes.w6_rounds):
            began = perf_counter()
            await (await opened.enqueue("lone", {}, queue=QUEUE)).result()
            times[0].append(begun[-1] - began)
            began = perf_counter()
            await (await opened.start("lone", {})).result()
            times[1].append(begun[-1] - began)
        return statistics.median(times[0]), statistics.median(times[1])


async def fair_pairs(where: Where, sizes: Sizes) -> list[tuple[float, float]]:
    """Seconds until ten jobs of a tenant are done in a queue in which one runs at once: beside many jobs of another tenant, and alone.

    One job is taken off the first: it may run already when the ten come.
    """
    found = []
    async with engine(where) as opened:
        for queue in (FAIR, ALONE):
            set_mode(opened._engine.store, queue, Mode.OPEN, limits={"at_once": 1})
        await opened.enqueue_many("job", [{}] * sizes.queue_other_tenant, queue=FAIR, tenant="large")
        for _ in range(sizes.few):
            beside, alone = [await ten(opened, queue) for queue in (FAIR, ALONE)]
            found.append((beside - JOB_SECONDS, alone))
        assert opened._engine.store.queue_state(FAIR, 0).waiting
    return found


async def ten(opened: OpenEngine, queue: str) -> float:
    """Seconds until ten jobs of the small tenant are enqueued and done."""
    began = perf_counter()
    jobs = await opened.enqueue_many("job", [{}] * TEN, queue=queue, tenant="small")
    await asyncio.gather(*(one.result() for one in jobs))
    return perf_counter() - began


async def start_to_result(opened: OpenEngine, rounds: int) -> float:
    """The median seconds from a start to its result."""
    taken = []
    for number in range(rounds):
        began = perf_counter()
        assert await (await opened.start("node", {**PAYLOAD, "number": number})).result() == number
        taken.append(perf_counter() - began)
    return statistics.median(taken)


async def idle_share(seconds: float) -> float:
    """The share of a core that this process uses while nothing happens."""
    began, used = perf_counter(), process_time()
    await asyncio.sleep(seconds)
    return (process_time() - used) / (perf_counter() - began)


async def other_queue(opened: OpenEngine, count: int) -> float:
    """Seconds until so many executions of a queue that is not paused are enqueued and done."""
    began = perf_counter()
    await opened.enqueue_many("node", [{**PAYLOAD, "number": n} for n in range(count)], queue=QUEUE)
    await drained(opened._engine.store)
    return perf_counter() - began


@asynccontextmanager
async def two_stores(where: Callable[[], Where]) -> AsyncIterator[tuple[str, str]]:
    """The addresses of two stores: new files in a folder, or what `where` gives."""
    with ExitStack() as ends:

        def address() -> str:
            place = where()
            if isinstance(place, Path):
                return f"{ends.enter_context(TemporaryDirectory(dir=place, prefix='bench-'))}/bench.db"
            return place

        yield address(), address()


async def backlog_pairs(where: Callable[[], Where], sizes: Sizes, fill: Callable[[str, int], None]) -> dict[str, list[tuple[float, float]]]:
    """Seconds from start to result, seconds for another queue, the share of a core that is used at rest, and bytes of memory: behind a
    backlog of a paused queue, and without one, in turn.
    """
    async with two_stores(where) as places:
        await _paused(places[0])
        fill(places[0], sizes.queue_backlog)
        found: dict[str, list[tuple[float, float]]] = {"start": [], "queue": []}
        others = sizes.queue_jobs
        at_rest = []
        for place in (places[1], *places):  # the first of them loads what the others need too
            before = memory()
            async with holdfast.open(place, functions=[node]) as opened:
                await start_to_result(opened, sizes.w6_rounds)
                await other_queue(opened, others)
                at_rest.append((await idle_share(sizes.idle_seconds), float(memory() - before)))
        for key, behind_it, without_it in zip(("idle", "memory"), at_rest[1], at_rest[2], strict=True):
            found[key] = [(behind_it, without_it)]
        async with holdfast.open(places[0], functions=[node]) as behind, holdfast.open(places[1], functions=[node]) as without:
            for turn in range(sizes.pairs):
                order = (behind, without) if turn % 2 else (without, behind)  # so that what the first one warms up favours neither
                for key, measure, size in (("start", start_to_result, sizes.w6_rounds), ("queue", other_queue, others)):
                    taken = {opened: await measure(opened, size) for opened in order}
                    found[key].append((taken[behind], taken[without]))
            assert behind._engine.store.queue_state(PAUSED, 0).waiting == sizes.queue_backlog
        return found


async def _paused(where: str) -> None:
    """A store in which one execution waits in a paused queue."""
    async with holdfast.open(where, functions=[node]) as opened:
        set_mode(opened._engine.store, PAUSED, Mode.PAUSED)
        await opened.enqueue("node", {**PAYLOAD, "number": 0}, queue=PAUSED)


_COPIED: Final = {"key": "(SELECT max(key) FROM executions) + n", "id": "id || '-' || n", "name": "name || '-' || n"}
_WAITS: Final = f"(SELECT * FROM executions WHERE state = 'queued' AND queue = '{PAUSED}' LIMIT 1) AS one"


def _copies(numbers: str) -> str:
    """The statement that copies the execution that waits, once for each number: enqueueing a million takes minutes."""
    columns = COLUMNS["execution"]
    values = ", ".join(_COPIED.get(column, column) for column in columns)
    return f"INSERT INTO executions ({', '.join(columns)}) SELECT {values} FROM {numbers}, {_WAITS}"


def _counted(count: int) -> str:
    return f"UPDATE lanes SET waiting = {count} WHERE queue = '{PAUSED}'"


def fill_file(where: str, count: int) -> None:
    """Let so many executions wait behind the paused queue of a file."""
    numbers = f"(WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count - 1}) SELECT n FROM numbers)"
    with closing(sqlite3.connect(where)) as connection:
        connection.execute(_copies(numbers))
        connection.execute(_counted(count))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_schema(where: str, count: int) -> None:
    """The same in a schema of Postgres."""
    fill_with(_copies, _counted)(where, count)


def fill_with(copies: Callable[[str], str], *more: Callable[[int], str]) -> Callable[[str, int], None]:
    """Fills a schema of Postgres with copies of an execution. Then come the vacuum and the checkpoint that Postgres would do by itself
    within minutes."""

    def fill(where: str, count: int) -> None:
        address = parsed(where)
        with psycopg.connect(**address.parameters, autocommit=True) as connection:  # type: ignore[arg-type]
            connection.execute(f"SET search_path TO {address.schema}".encode())
            with connection.transaction():
                connection.execute(copies(f"generate_series(1, {count - 1}) AS n").encode())
                for one in more:
                    connection.execute(one(count).encode())
                connection.execute(
                    "SELECT setval('execution_keys', (SELECT max(key) FROM executions))"
                )  # the copies took keys that it would give
            connection.execute("VACUUM (ANALYZE) executions")
            connection.execute("CHECKPOINT")

    return fill
