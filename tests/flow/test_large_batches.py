"""Ten thousand items: more than AWS allows in one execution, on no more threads than there are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from holdfast import AsyncDurableContext, DurableContext, StepContext, durable_execution
from tests.flow.harness import Harness

ITEMS = 10_000
THREADS = 4


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
