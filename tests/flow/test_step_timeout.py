"""A step's timeout: real for coroutines, honest about threads. It is real time, so each of these takes a second."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, StepContext, durable_execution
from holdfast.durable.exceptions import StepError, ValidationError
from holdfast.durable.retries import RetryDecision, RetryPresets
from tests.flow.harness import Harness, types
from tests.histories import wire

ONE = Duration.from_seconds(1)
ONCE = StepConfig(timeout=ONE, retry_strategy=RetryPresets.none())


@pytest.mark.parametrize("wrapped", [False, True], ids=["an async def", "a def that returns a coroutine"])
async def test_a_coroutine_that_takes_too_long_is_cancelled(harness: Harness, wrapped: bool) -> None:
    ended: list[str] = []

    @durable_execution
    async def slow(event: Any, context: AsyncDurableContext) -> Any:
        async def body(_: StepContext) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        try:
            await context.step((lambda step: body(step)) if wrapped else body, name="slow", config=ONCE)
        except StepError as error:
            return [error.error_type, error.message]

    assert await harness.run(slow) == ["TimeoutError", "The step did not end within 1 s: it was cancelled."]
    assert ended == ["cancelled"]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_thread_that_takes_too_long_is_left_behind(harness: Harness, colour: str) -> None:
    gate, done = threading.Event(), threading.Event()

    def body(_: StepContext) -> str:
        gate.wait()
        done.set()
        return "not wanted"

    @durable_execution
    async def slow(event: Any, context: AsyncDurableContext) -> Any:
        try:
            await context.step(body, config=ONCE)
        except StepError as error:
            gate.set()
            return error.message

    @durable_execution
    def blocking_slow(event: Any, context: DurableContext) -> Any:
        try:
            context.step(body, config=ONCE)
        except StepError as error:
            gate.set()
            return error.message

    message = await harness.run(slow if colour == "async" else blocking_slow)
    assert message == (
        "The step did not end within 1 s: a thread cannot be stopped, so its body may still be running; its result is dropped."
    )
    assert done.wait(30)


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_the_retry_strategy_judges_a_timeout(harness: Harness, colour: str) -> None:
    judged: list[str] = []
    attempts: list[int] = []

    def strategy(error: Exception, attempt: int) -> RetryDecision:
        judged.append(type(error).__name__)
        return RetryDecision(should_retry=True, delay=ONE)

    config = StepConfig(timeout=ONE, retry_strategy=strategy)

    async def body(context: StepContext) -> str:
        attempts.append(context.attempt)
        if context.attempt == 1:
            await asyncio.Event().wait()
        return "in time"

    @durable_execution
    async def retried(event: Any, context: AsyncDurableContext) -> Any:
        return await context.step(body, config=config)

    @durable_execution
    def blocking_retried(event: Any, context: DurableContext) -> Any:
        return context.step(body, config=config)

    function = retried if colour == "async" else blocking_retried
    async with harness.engine(function) as engine:
        execution = await engine.start(function)
        assert await execution.result() == "in time"
        assert types(wire(await execution.history())).count("StepFailed") == 1
    assert (judged, attempts) == (["TimeoutError"], [1, 2])


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_step_in_time_gives_its_result_and_its_own_errors(harness: Harness, colour: str) -> None:
    config = StepConfig(timeout=Duration.from_hours(1), retry_strategy=RetryPresets.none())

    def late(_: StepContext) -> None:
        raise TimeoutError("the body's own")

    @durable_execution
    async def quick(event: Any, context: AsyncDurableContext) -> Any:
        try:
            await context.step(late, config=config)
        except StepError as error:
            return [await context.step(lambda _: 1, config=config), error.message]

    @durable_execution
    def blocking_quick(event: Any, context: DurableContext) -> Any:
        try:
            context.step(late, config=config)
        except StepError as error:
            return [context.step(lambda _: 1, config=config), error.message]

    assert await harness.run(quick if colour == "async" else blocking_quick) == [1, "the body's own"]


@pytest.mark.parametrize("wrong", [5, 0.5, "5s", timedelta(seconds=5), True], ids=repr)
def test_a_timeout_that_is_no_duration_is_refused_with_what_to_write(wrong: Any) -> None:
    with pytest.raises(ValidationError, match=r"timeout is .*test_step_timeout\.py:\d+\. It must be a Duration: write `timeout=Duration\."):
        StepConfig(timeout=wrong)


def test_a_timeout_below_a_second_is_refused() -> None:
    with pytest.raises(ValidationError, match="timeout must be at least 1 second"):
        StepConfig(timeout=Duration.from_seconds(0))
