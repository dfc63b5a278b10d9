"""What people get wrong around durable calls, and what they are told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed, ExecutionQuarantined
from tests.flow.harness import Harness, pending


async def failure(harness: Harness, function: DurableFunction) -> ExecutionFailed:
    async with harness.engine(function) as engine:
        with pytest.raises(ExecutionFailed) as caught:
            await (await engine.start(function)).result()
    return caught.value


async def test_code_that_no_longer_matches_its_history_says_what_changed_and_where(harness: Harness) -> None:
    def made(name: str) -> DurableFunction:
        @durable_execution(name="changing")
        async def handler(event: Any, context: AsyncDurableContext) -> None:
            await context.step(body, name=name)
            await context.wait(Duration.from_days(1))

        async def body(step: StepContext) -> None: ...

        function: DurableFunction = handler
        return function

    clock = VirtualClock(skipping=False)
    async with harness.engine(made("charge"), clock=clock) as engine:
        execution = await engine.start("changing")
        await pending(execution)
    async with harness.engine(made("refund")) as engine:
        with pytest.raises(ExecutionQuarantined) as caught:
            await (await engine.get(execution.arn)).result()
    message = str(caught.value)
    assert "Recorded here: Step 'charge'" in message
    assert "The code asks for: Step 'refund'" in message
    assert "test_misuse.py:" in message
    assert "new version" in message
    assert caught.value.reason == "replay_mismatch"


async def test_a_swallowed_suspension_is_found_out_and_explained(tmp_path: Any) -> None:
    @durable_execution
    def greedy(event: Any, context: DurableContext) -> str:
        try:
            context.wait(Duration.from_seconds(5))
        except BaseException:
            return "I caught everything"
        return "waited"

    @durable_execution
    async def greedy_too(event: Any, context: AsyncDurableContext) -> str:
        try:
            await context.wait(Duration.from_seconds(5))
        except BaseException:
            return "I caught everything"
        return "waited"

    for function in (greedy, greedy_too):
        error = await failure(Harness(tmp_path, resting=0), function)
        assert "A suspension was swallowed" in str(error)
        assert "catch `Exception`" in str(error)


async def test_a_durable_call_after_the_suspension_is_refused(tmp_path: Any) -> None:
    refused: list[str] = []

    @durable_execution
    def stubborn(event: Any, context: DurableContext) -> None:
        try:
            context.wait(Duration.from_seconds(5))
        finally:
            if not refused:
                try:
                    context.step(lambda _: 1)
                except BaseException as error:
                    refused.append(type(error).__name__)

    await Harness(tmp_path, resting=0).run(stubborn)
    assert refused == ["SuspendExecution"]


async def test_one_context_used_by_two_tasks_is_an_error_that_teaches(harness: Harness) -> None:
    @durable_execution
    async def twice(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            await asyncio.sleep(0)

        await asyncio.gather(context.step(body), context.step(body))

    error = await failure(harness, twice)
    assert "one call at a time" in str(error)
    assert "context.parallel" in str(error)


async def test_the_outer_context_inside_a_step_is_an_error_that_teaches(harness: Harness) -> None:
    @durable_execution
    def nested(event: Any, context: DurableContext) -> None:
        context.step(lambda _: context.step(lambda _: 1))

    assert "use the context that the function gets as its argument" in str(await failure(harness, nested))


async def test_a_timeout_around_a_durable_call_is_explained(harness: Harness) -> None:
    @durable_execution
    async def impatient(event: Any, context: AsyncDurableContext) -> str:
        async def slow(step: StepContext) -> None:
            await asyncio.Event().wait()

        try:
            async with asyncio.timeout(0.01):
                await context.step(slow)
        except TimeoutError:
            return "gave up"
        return "?"

    error = await failure(harness, impatient)
    assert "A durable call was cancelled by user code" in str(error)


async def test_a_suspension_inside_an_exception_group_still_suspends(harness: Harness) -> None:
    @durable_execution
    async def grouped(event: Any, context: AsyncDurableContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_in(context))
        return "came back"

    async def wait_in(context: AsyncDurableContext) -> None:
        await context.wait(Duration.from_seconds(3))

    assert await harness.run(grouped) == "came back"
