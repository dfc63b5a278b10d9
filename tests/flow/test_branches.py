"""Child contexts, and the plan's effects carrying branches side by side."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.config import CompletionConfig, ParallelBranch, ParallelConfig
from holdfast.durable.exceptions import ChildContextError
from tests.flow.harness import Harness, types


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
        history = await execution.history()
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
        history = await execution.history()
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
        history = await execution.history()
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
