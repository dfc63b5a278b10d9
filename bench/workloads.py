"""The workloads of Holdfast: payloads of about 100 bytes, trivial bodies, every step on disk before the next begins."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import perf_counter, process_time
from typing import Any

import holdfast
from bench.terms import PAYLOAD, Sizes
from holdfast import AsyncDurableContext, DurableContext, StepContext, durable_execution, durable_step
from holdfast.service.client import Client
from holdfast.service.engines import OpenEngine

enough = Event()
"""Ends the step that computes; a thread cannot be ended from outside."""


@durable_step
async def body(step: StepContext, number: int) -> dict[str, Any]:
    return {**PAYLOAD, "number": number}


@durable_step
def blocking_body(step: StepContext, number: int) -> dict[str, Any]:
    return {**PAYLOAD, "number": number}


@durable_execution
async def in_sequence(event: dict[str, Any], context: AsyncDurableContext) -> int:
    for number in range(event["steps"]):
        await context.step(body(number))
    return int(event["steps"])


@durable_execution
def in_sequence_blocking(event: dict[str, Any], context: DurableContext) -> int:
    for number in range(event["steps"]):
        context.step(blocking_body(number))
    return int(event["steps"])


@durable_execution
async def side_by_side(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """Branches of one step each, as `parallel` or as `map`."""

    async def branch(child: AsyncDurableContext, number: int, index: int, numbers: Any) -> dict[str, Any]:
        return await child.step(body(number))

    def of(number: int) -> Callable[[AsyncDurableContext], Awaitable[dict[str, Any]]]:
        return lambda child: branch(child, number, number, None)

    numbers = range(event["steps"])
    done = await (context.map(numbers, branch) if event["mapped"] else context.parallel([of(number) for number in numbers]))
    return _gathered(done.get_results())


@durable_execution
def side_by_side_blocking(event: dict[str, Any], context: DurableContext) -> int:
    def branch(child: DurableContext, number: int, index: int, numbers: Any) -> dict[str, Any]:
        return child.step(blocking_body(number))

    def of(number: int) -> Callable[[DurableContext], dict[str, Any]]:
        return lambda child: branch(child, number, number, None)

    numbers = range(event["steps"])
    done = context.map(numbers, branch) if event["mapped"] else context.parallel([of(number) for number in numbers])
    return _gathered(done.get_results())


def _gathered(results: Sequence[dict[str, Any]]) -> int:
    """How many there are, once it is sure that each is in its place."""
    assert [result["number"] for result in results] == list(range(len(results)))
    return len(results)


@durable_execution
async def computes(event: dict[str, Any], context: AsyncDurableContext) -> int:
    """One step that keeps a thread busy for a while, as a parser or a tokenizer would."""

    def spin(step: StepContext) -> int:
        total = 0
        while not enough.is_set():
            total += sum(range(500))
        return total % 7

    return await context.step(spin)


@asynccontextmanager
async def engine(where: Path | str) -> AsyncIterator[OpenEngine]:
    """An engine on a new file in a folder, or on a store by its address."""
    functions = [in_sequence, in_sequence_blocking, side_by_side, side_by_side_blocking, computes]
    with ExitStack() as ends:
        if isinstance(where, Path):
            where = f"{ends.enter_context(TemporaryDirectory(dir=where, prefix='bench-'))}/bench.db"
        async with holdfast.open(where, functions=functions) as opened:
            yield opened


async def w1(where: Path | str, function: str, sizes: Sizes) -> float:
    """Seconds per step of one execution."""
    async with engine(where) as opened:
        await run(opened, function, 20)
        began = perf_counter()
        await run(opened, function, sizes.w1_steps)
        return (perf_counter() - began) / sizes.w1_steps


async def w2(where: Path | str, function: str, sizes: Sizes, *, computing: bool = False) -> float:
    """Steps per second of many executions started together; `computing` runs one CPU-bound thread beside them."""
    async with engine(where) as opened:
        await many(opened, function, min(100, sizes.w2_executions), sizes.w2_steps)
        enough.clear()
        beside = await opened.start("computes") if computing else None
        began = perf_counter()
        await many(opened, function, sizes.w2_executions, sizes.w2_steps)
        taken = perf_counter() - began
        if beside is not None:
            enough.set()
            await beside.result()
        return sizes.w2_executions * sizes.w2_steps / taken


async def w3(folder: Path, function: str, sizes: Sizes, *, mapped: bool) -> float:
    """Seconds from start to result of one execution with many branches."""
    async with engine(folder) as opened:
        await run(opened, function, 20, mapped=mapped)
        began = perf_counter()
        await run(opened, function, sizes.w3_items if mapped else sizes.w3_branches, mapped=mapped)
        return perf_counter() - began


async def w6(folder: Path, function: str, sizes: Sizes) -> tuple[float, float]:
    """Seconds from start to result of a one-step function on an idle engine: median and 99th percentile."""
    async with engine(folder) as opened:
        for _ in range(10):
            await run(opened, function, 1)
        times = []
        for _ in range(sizes.w6_rounds):
            began = perf_counter()
            await run(opened, function, 1)
            times.append(perf_counter() - began)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


@durable_execution
async def asks(event: dict[str, Any], context: AsyncDurableContext) -> Any:
    """Waits for an answer from outside."""
    return await (await context.create_callback()).result()


async def wakes(folder: Path, sizes: Sizes) -> float:
    """Seconds from the moment another process's answer is on disk until the execution it wakes is over: the median."""
    times = []
    with TemporaryDirectory(dir=folder, prefix="bench-") as place:
        async with holdfast.open(f"{place}/bench.db", functions=[asks]) as opened:
            # A store of its own sees the file as another process does: through the file alone.
            with Client.open(f"{place}/bench.db") as elsewhere:
                for _ in range(sizes.wakes):
                    execution = await opened.start("asks")
                    while (asked := await execution.describe()).state != "suspended":
                        await asyncio.sleep(0.01)
                    elsewhere.succeed_callback(str(asked.waits_for[0].callback_id), "now")
                    began = perf_counter()
                    await execution.result()
                    times.append(perf_counter() - began)
    return statistics.median(times)


async def idle(folder: Path, sizes: Sizes) -> float:
    """The share of one core that an engine uses while an execution waits for its callback."""
    with TemporaryDirectory(dir=folder, prefix="bench-") as place:
        async with holdfast.open(f"{place}/bench.db", functions=[asks]) as opened:
            await opened.start("asks")
            await asyncio.sleep(0.2)
            began, used = perf_counter(), process_time()
            await asyncio.sleep(sizes.idle_seconds)
            return (process_time() - used) / (perf_counter() - began)


async def run(opened: OpenEngine, function: str, steps: int, **more: Any) -> None:
    execution = await opened.start(function, {"steps": steps, **more, **PAYLOAD})
    assert await execution.result() == steps


async def many(opened: OpenEngine, function: str, count: int, steps: int) -> None:
    await asyncio.gather(*(run(opened, function, steps) for _ in range(count)))
