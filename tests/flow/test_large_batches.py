"""Ten thousand items: more than AWS allows in one execution, on no more threads than there are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, StepContext, durable_execution
from tests.flow.harness import Harness

ITEMS = 10_000
THREADS = 4


@pytest.mark.long
async def test_a_def_map_of_ten_thousand_items_runs_on_a_bounded_pool(tmp_path: Path) -> None:
    used: set[int] = set()

    @durable_execution
    def large(event: Any, context: DurableContext) -> Any:
        def each(context: DurableContext, item: int, index: int, items: Any) -> int:
            used.add(threading.get_ident())
            return context.step(lambda _: item)

        return sum(context.map(range(ITEMS), each).get_results())

    async with Harness(tmp_path, 0).engine(large, threads=THREADS) as engine:
        execution = await engine.start(large)
        assert await execution.result() == sum(range(ITEMS))
        header = engine._store.find(execution.id)
        assert header is not None
        assert header.operations == 2 * ITEMS + 1
    assert 1 <= len(used) <= THREADS


async def test_an_async_map_of_ten_thousand_items_is_one_execution(tmp_path: Path) -> None:
    @durable_execution
    async def large(event: Any, context: AsyncDurableContext) -> Any:
        async def each(context: AsyncDurableContext, item: int, index: int, items: Any) -> int:
            async def work(_: StepContext) -> int:
                return item

            return await context.step(work)

        return sum((await context.map(range(ITEMS), each)).get_results())

    assert await Harness(tmp_path, 0).run(large) == sum(range(ITEMS))


async def test_the_branches_of_a_def_handler_keep_all_threads_at_work_to_the_end(tmp_path: Path) -> None:
    meeting = threading.Barrier(THREADS)

    @durable_execution
    def many(event: Any, context: DurableContext) -> Any:
        def each(context: DurableContext, item: int, index: int, items: Any) -> int:
            meeting.wait(timeout=20)  # as many as there are threads must come here together, every time
            return context.step(lambda _: item)

        return len(context.map(range(10 * THREADS), each).get_results())

    async with Harness(tmp_path, 0).engine(many, threads=THREADS) as engine:
        assert await (await engine.start(many)).result() == 10 * THREADS


async def test_branches_give_their_threads_back_when_another_execution_waits_for_one(tmp_path: Path) -> None:
    waits, ran = threading.Event(), threading.Event()
    met: list[bool] = []

    @durable_execution
    def many(event: Any, context: DurableContext) -> Any:
        def each(context: DurableContext, item: int, index: int, items: Any) -> int:
            # The first ones hold every thread until the other execution waits for one; the later ones until it has had it.
            met.append((waits if item < THREADS else ran).wait(timeout=20))
            return context.step(lambda _: item)

        return len(context.map(range(5 * THREADS), each).get_results())

    @durable_execution
    def other(event: Any, context: DurableContext) -> None:
        ran.set()

    async with Harness(tmp_path, 0).engine(many, other, threads=THREADS) as engine:
        first = await engine.start(many)
        second = await engine.start(other)
        waits.set()
        await second.result()
        assert await first.result() == 5 * THREADS
    assert met == [True] * (5 * THREADS)
