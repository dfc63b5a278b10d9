"""Child contexts, and the plan's effects carrying branches side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, HoldfastError, StepContext, durable_execution
from holdfast.durable.config import CompletionConfig, MapConfig, NestingType, ParallelBranch, ParallelConfig, StepConfig
from holdfast.durable.exceptions import ChildContextError
from holdfast.durable.retries import RetryPresets, WithRetryConfig, with_retry
from tests.flow.harness import Harness, types
from tests.histories import wire


async def test_a_child_contexts_result_stands_for_all_that_happened_in_it(harness: Harness) -> None:
    runs: list[str] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> int:
        async def inside(child: AsyncDurableContext) -> int:
            runs.append("inside")

            async def one(step: StepContext) -> int:
                return 1

            return await child.step(one) + await child.step(one)

        two = await context.run_in_child_context(inside, name="both")
        await context.wait(Duration.from_seconds(9))
        return two

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == 2
        history = wire(await execution.history())
    assert runs == ["inside"]
    inner = [e for e in history if e["EventType"] == "StepSucceeded"]
    assert {e["ParentId"] for e in inner} == {next(e["Id"] for e in history if e["EventType"] == "ContextStarted")}
    assert inner[0]["Id"] == "974bfc6321e227b0ff101342eaf19b336f002dc6cc99c18f0941a7755cc20fc4"


async def test_a_failing_child_raises_the_same_error_on_the_first_run_and_on_replay(harness: Harness) -> None:
    seen: list[tuple[str, str]] = []

    @durable_execution
    def handler(event: Any, context: DurableContext) -> str:
        def inside(child: DurableContext) -> None:
            raise ValueError("inner")

        try:
            context.run_in_child_context(inside)
        except ChildContextError as error:
            seen.append((error.error_type, type(error.__cause__).__name__))
        context.wait(Duration.from_seconds(1))
        return "done"

    assert await harness.run(handler) == "done"
    assert seen == [("ValueError", "DurableOperationError")] * 2


async def test_a_result_too_large_to_keep_is_rebuilt_from_its_children(harness: Harness) -> None:
    runs: list[str] = []

    @durable_execution
    def handler(event: Any, context: DurableContext) -> int:
        def inside(child: DurableContext) -> str:
            def body(step: StepContext) -> str:
                runs.append("step")
                return "x" * 200_000

            return "".join([child.step(body), child.step(body)])

        large = context.run_in_child_context(inside)
        context.wait(Duration.from_seconds(1))
        return len(large)

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == 400_000
        history = wire(await execution.history())
    assert runs == ["step", "step"]
    closed = next(e for e in history if e["EventType"] == "ContextSucceeded")
    assert closed["ContextSucceededDetails"]["Result"]["Payload"] == ""
    assert types(history).count("ContextSucceeded") == 1


@pytest.mark.parametrize("threads", [1, 4])
async def test_branches_of_a_def_handler_run_even_on_a_pool_of_one_thread(harness: Harness, threads: int) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> list[list[int]]:
        def outer(number: int) -> Any:
            def branch(child: DurableContext) -> list[int]:
                inner = child.parallel([inner_branch(number, n) for n in range(3)])
                return inner.get_results()

            return branch

        def inner_branch(number: int, n: int) -> Any:
            return lambda child: child.step(lambda _: number * 10 + n)

        return context.parallel([outer(number) for number in range(3)]).get_results()

    async with harness.engine(handler, threads=threads) as engine:
        assert await (await engine.start(handler)).result() == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_branches_wait_side_by_side_and_the_execution_suspends_only_when_all_do(harness: Harness, colour: str) -> None:
    @durable_execution(name="handler")
    async def awaiting(event: Any, context: AsyncDurableContext) -> list[int]:
        async def slow(child: AsyncDurableContext) -> int:
            await child.wait(Duration.from_hours(2))
            return 2

        async def quick(child: AsyncDurableContext) -> int:
            await child.wait(Duration.from_hours(1))
            return 1

        branches: list[Any] = [slow, ParallelBranch(quick, name="quick")]
        return (await context.parallel(branches)).get_results()

    @durable_execution(name="handler")
    def blocking(event: Any, context: DurableContext) -> list[int]:
        def slow(child: DurableContext) -> int:
            child.wait(Duration.from_hours(2))
            return 2

        def quick(child: DurableContext) -> int:
            child.wait(Duration.from_hours(1))
            return 1

        branches: list[Any] = [slow, ParallelBranch(quick, name="quick")]
        return context.parallel(branches).get_results()

    handler = awaiting if colour == "async" else blocking
    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == [2, 1]
        history = wire(await execution.history())
    assert types(history).count("InvocationCompleted") == 3
    assert history[-1]["EventTimestamp"] - history[0]["EventTimestamp"] == pytest.approx(7200, abs=1)
    names = [e.get("Name") for e in history if e["EventType"] == "ContextStarted" and e["SubType"] == "ParallelBranch"]
    assert sorted(filter(None, names)) == ["parallel-branch-0", "quick"]


async def test_enough_successes_end_a_batch_without_the_rest(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[Any]:
        async def never(child: AsyncDurableContext) -> str:
            await child.wait(Duration.from_days(300))
            return "never"

        async def now(child: AsyncDurableContext) -> str:
            return "now"

        config = ParallelConfig(completion_config=CompletionConfig.first_successful())
        done = await context.parallel([never, now], config=config)
        return [done.get_results(), done.completion_reason.value, done.started_count]

    assert await harness.run(handler) == [["now"], "MIN_SUCCESSFUL_REACHED", 1]


async def test_a_failed_branch_does_not_fail_the_others(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[Any]:
        async def bad(child: AsyncDurableContext) -> None:
            raise ValueError("bad branch")

        async def good(child: AsyncDurableContext) -> str:
            await child.wait(Duration.from_seconds(1))
            return "good"

        config = ParallelConfig(completion_config=CompletionConfig.all_completed())
        done = await context.parallel([bad, good], config=config)
        return [done.success_count, done.failure_count, done.get_errors()[0].message]  # type: ignore[union-attr]

    assert await harness.run(handler) == [1, 1, "bad branch"]


@pytest.mark.parametrize("threads", [1, 4])
async def test_a_map_of_many_items_runs_on_a_bounded_pool(harness: Harness, threads: int) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> list[int]:
        def each(branch: DurableContext, item: int, index: int, items: Sequence[int]) -> int:
            return branch.step(lambda _: item * 2)

        batch = context.map(range(500), each)
        context.wait(Duration.from_seconds(1))
        return [batch.success_count, sum(batch.get_results())]

    async with harness.engine(handler, threads=threads) as engine:
        assert await (await engine.start(handler)).result() == [500, 500 * 499]


async def test_an_async_map_runs_no_more_items_at_once_than_it_may(harness: Harness) -> None:
    under_way: set[int] = set()
    most: list[int] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[int]:
        async def each(branch: AsyncDurableContext, item: int, index: int, items: Sequence[int]) -> int:
            under_way.add(item)
            most.append(len(under_way))
            await branch.wait(Duration.from_seconds(1))
            under_way.discard(item)
            return item

        return (await context.map(range(7), each, config=MapConfig(max_concurrency=3))).get_results()

    assert await harness.run(handler) == list(range(7))
    assert max(most) == 3


async def test_only_the_items_that_had_ended_are_made_again(harness: Harness) -> None:
    runs: list[int] = []

    @durable_execution
    def handler(event: Any, context: DurableContext) -> list[Any]:
        def each(branch: DurableContext, item: int, index: int, items: Sequence[int]) -> str:
            runs.append(index)
            if item == 0:
                branch.create_callback("never").result()
            branch.wait(Duration.from_seconds(1))
            return "x" * item

        enough = CompletionConfig(min_successful=1)
        config = MapConfig[int](max_concurrency=2, completion_config=enough, nesting_type=NestingType.FLAT)
        batch = context.map([0, 300_000, 1], each, config=config)
        runs.append(-1)
        context.wait(Duration.from_seconds(1))
        return [[len(text) for text in batch.get_results()], batch.started_count, batch.total_count]

    assert await harness.run(handler) == [[300_000], 1, 2]
    assert sorted(runs[: runs.index(-1)]) == [0, 0, 1, 1]
    assert runs[runs.index(-1) :] == [-1, 1, -1]


async def test_nested_branches_that_become_flat_are_noticed(harness: Harness) -> None:
    nesting = [NestingType.NESTED, NestingType.FLAT]

    @durable_execution
    def handler(event: Any, context: DurableContext) -> list[int]:
        def each(branch: DurableContext, item: int, index: int, items: Sequence[int]) -> int:
            branch.wait(Duration.from_seconds(1))
            return item

        return context.map([1], each, config=MapConfig(nesting_type=nesting.pop(0))).get_results()

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        with pytest.raises(HoldfastError, match="Recorded here: a child context"):
            await execution.result()


async def test_with_retry_runs_a_block_again_and_is_awaited_in_async_handlers(harness: Harness) -> None:
    attempts: list[int] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        async def block(child: AsyncDurableContext, attempt: int) -> str:
            attempts.append(attempt)

            async def body(step: StepContext) -> str:
                if attempt == 1:
                    raise ValueError("first")
                return f"done at {attempt}"

            return await child.step(body, config=StepConfig(retry_strategy=RetryPresets.none()))

        return await with_retry(context, block, WithRetryConfig(RetryPresets.fixed()), name="block")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == "done at 2"
        history = wire(await execution.history())
    assert sorted(set(attempts)) == [1, 2]
    assert [event["Name"] for event in history if event["EventType"] == "WaitStarted"] == ["block-backoff-1"]


async def test_branches_that_are_over_before_they_began_or_while_they_work_hold_nobody_up(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        async def each(branch: AsyncDurableContext, item: str, index: int, items: Sequence[str]) -> str:
            async def works(step: StepContext) -> None:
                await asyncio.Event().wait()

            if item == "works":
                await branch.step(works)
            elif item != "never begins":
                if item == "waits":
                    await branch.wait(Duration.from_seconds(1))
                raise ValueError("enough")
            return item

        tolerant = MapConfig[str](max_concurrency=2, completion_config=CompletionConfig(tolerated_failure_count=1))

        async def both(branch: AsyncDurableContext) -> str:
            await branch.map(["waits", "waits", "never begins"], each, config=tolerant)
            await branch.map(["works", "fails"], each)
            await branch.wait(Duration.from_seconds(1))
            return "over"

        return (await context.parallel([both])).get_results()[0]

    async with asyncio.timeout(20):
        assert await harness.run(handler) == "over"


async def test_a_cancelled_branch_takes_no_other_along(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[int]:
        async def step(step: StepContext) -> int:
            return 1

        async def racing(branch: AsyncDurableContext, item: int, index: int, items: Sequence[int]) -> int:
            for _ in range(item):
                await branch.step(step)
            return item

        async def first(branch: AsyncDurableContext) -> int:
            config = MapConfig[int](completion_config=CompletionConfig.first_successful())
            return (await branch.map(range(1, 9), racing, config=config)).success_count

        async def steady(branch: AsyncDurableContext) -> int:
            return sum([await branch.step(step) for _ in range(20)])

        return (await context.parallel([first, steady, first])).get_results()

    async with asyncio.timeout(20):
        assert await harness.run(handler) == [1, 20, 1]
