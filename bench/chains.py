"""Chains and maps of functions that one execution invokes, beside the same runs started by hand, on the same store.

By hand means `engine.start` and its result: one after the other for a chain, 50 in flight for a map.
What is invoked is named in one place (`NODE`): a worker without a sandbox takes its place when `context.run` is measured the same way.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import holdfast
from bench.terms import PAYLOAD, Sizes
from holdfast import AsyncDurableContext, MapConfig, Settings, durable_execution
from holdfast.model.ports import Sight
from holdfast.service.engines import OpenEngine

AT_ONCE: Final = 50
NODE: Final = "node"
"""What the parents invoke, and what is started by hand."""
Where = Path | str


class Commits:
    """An observer that counts the commits of an engine."""

    def __init__(self) -> None:
        self.count = 0

    def attach(self, sight: Sight) -> None:
        """An engine opens."""

    def started(self, *_: object) -> None:
        """Not counted."""

    invoked = operated = closed = started

    def committed(self, writes: int) -> None:
        """One batch is on disk."""
        self.count += 1


@durable_execution
async def node(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """What is invoked: it does nothing, and gives its number back."""
    return int(event["number"])


@durable_execution
async def chain(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """Invokes one node after the other; each gets the number that the one before gave, plus one."""
    given = -1
    for _ in range(event["nodes"]):
        given = await context.invoke(NODE, {**PAYLOAD, "number": given + 1})
    return given + 1


@durable_execution
async def items(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """A map whose items are invoked, some at once."""

    async def item(inner: AsyncDurableContext, number: int, index: int, numbers: Any) -> Any:
        return await inner.invoke(NODE, {**PAYLOAD, "number": number})

    done = await context.map(range(event["items"]), item, config=MapConfig(max_concurrency=AT_ONCE))
    assert done.get_results() == list(range(event["items"]))
    return int(event["items"])


@asynccontextmanager
async def engine(where: Where, *observers: Commits) -> AsyncIterator[OpenEngine]:
    """An engine on a new file in a folder, or on a store by its address."""
    with ExitStack() as ends:
        if isinstance(where, Path):
            where = f"{ends.enter_context(TemporaryDirectory(dir=where, prefix='bench-'))}/bench.db"
        settings = Settings(observers=observers)
        async with holdfast.open(where, functions=[node, chain, items], settings=settings) as opened:
            yield opened


async def by_hand(opened: OpenEngine, count: int, at_once: int = 1) -> None:
    """Run a node so many times; `at_once` of them are in flight."""
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            assert await (await opened.start(NODE, {**PAYLOAD, "number": number})).result() == number

    await asyncio.gather(*(lane() for _ in range(at_once)))


async def invoked(opened: OpenEngine, function: str, **event: int) -> None:
    """Run a parent to its end."""
    (count,) = event.values()
    assert await (await opened.start(function, event)).result() == count


async def timed(ours: Callable[[], Awaitable[None]], hand: Callable[[], Awaitable[None]], rounds: int) -> tuple[float, float]:
    """Seconds for one of each, measured in turn, after one of each that is not counted: the medians of the rounds."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):
        for work, taken in zip((ours, hand), times, strict=True):
            began = perf_counter()
            await work()
            taken.append(perf_counter() - began)
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


async def chain_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Seconds of a chain, and of the same runs by hand, on one store."""
    nodes = sizes.chain_nodes
    async with engine(where) as opened:
        return await timed(lambda: invoked(opened, "chain", nodes=nodes), lambda: by_hand(opened, nodes), sizes.chain_rounds)


async def map_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Items per second of a map, and of the same runs by hand, on one store."""
    count = sizes.chain_items
    async with engine(where) as opened:
        ours, hand = await timed(lambda: invoked(opened, "items", items=count), lambda: by_hand(opened, count, AT_ONCE), sizes.map_rounds)
        return count / ours, count / hand


async def commits(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Commits per node of a chain, without the two that start and end the parent itself; and of a run by hand."""
    counted, nodes = Commits(), sizes.chain_nodes
    async with engine(where, counted) as opened:

        async def count(work: Callable[[], Awaitable[None]]) -> int:
            await work()
            await asyncio.sleep(0)  # an observer is told a tick later
            counted.count = 0
            await work()
            await asyncio.sleep(0)
            return counted.count

        ours = await count(lambda: invoked(opened, "chain", nodes=nodes)) - 2
        return ours / nodes, await count(lambda: by_hand(opened, nodes)) / nodes
