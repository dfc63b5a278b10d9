"""Steps, waits and retries, in both colours."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, StepContext, durable_execution, durable_step
from holdfast.durable.config import JitterStrategy, StepSemantics
from holdfast.durable.exceptions import StepError
from holdfast.durable.retries import RetryPresets, RetryStrategyConfig, create_retry_strategy
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness, types
from tests.histories import wire

QUICK = StepConfig(
    retry_strategy=create_retry_strategy(
        RetryStrategyConfig(max_attempts=3, initial_delay=Duration.from_seconds(10), jitter_strategy=JitterStrategy.NONE)
    )
)


async def test_a_step_runs_once_and_its_result_survives_a_wait(harness: Harness) -> None:
    runs: list[str] = []

    @durable_execution
    async def handler(event: dict[str, Any], context: AsyncDurableContext) -> list[Any]:
        async def body(step: StepContext) -> tuple[int, str]:
            runs.append("body")
            return (event["n"], "x")

        first = await context.step(body, name="first")
        await context.wait(Duration.from_days(30))
        return [first, type(first).__name__]

    assert await harness.run(handler, {"n": 7}) == [[7, "x"], "tuple"]
    assert runs == ["body"]


async def test_a_def_handler_does_the_same_on_a_thread(harness: Harness) -> None:
    runs: list[str] = []

    @durable_execution
    def handler(event: dict[str, Any], context: DurableContext) -> list[Any]:
        def body(step: StepContext) -> tuple[int, str]:
            runs.append("body")
            return (event["n"], "x")

        first = context.step(body, name="first")
        context.wait(Duration.from_days(30))
        return [first, type(first).__name__]

    assert await harness.run(handler, {"n": 7}) == [[7, "x"], "tuple"]
    assert runs == ["body"]


async def test_a_months_wait_takes_no_time_but_is_in_the_history(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        await context.wait(Duration.from_days(30), name="month")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        await execution.result()
        history = wire(await execution.history())
    assert types(history) == [
        "ExecutionStarted",
        "WaitStarted",
        "InvocationCompleted",
        "WaitSucceeded",
        "InvocationCompleted",
        "ExecutionSucceeded",
    ]
    assert history[3]["EventTimestamp"] - history[1]["EventTimestamp"] == pytest.approx(30 * 86400)


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_failing_step_is_retried_after_its_delay_until_it_succeeds(harness: Harness, colour: str) -> None:
    attempts: list[int] = []

    @durable_step
    def flaky(step: StepContext) -> str:
        attempts.append(step.attempt)
        if step.attempt < 3:
            raise ValueError(f"attempt {step.attempt}")
        return "done"

    @durable_execution(name="handler")
    async def awaiting(event: Any, context: AsyncDurableContext) -> str:
        return await context.step(flaky(), config=QUICK)

    @durable_execution(name="handler")
    def blocking(event: Any, context: DurableContext) -> str:
        return context.step(flaky(), config=QUICK)

    handler = awaiting if colour == "async" else blocking
    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == "done"
        history = wire(await execution.history())
    assert attempts == [1, 2, 3]
    steps = [event for event in history if event["EventType"].startswith("Step")]
    assert types(history).count("StepStarted") == 3
    assert [e["StepFailedDetails"]["RetryDetails"] for e in steps if e["EventType"] == "StepFailed"] == [
        {"CurrentAttempt": 1, "NextAttemptDelaySeconds": 10},
        {"CurrentAttempt": 2, "NextAttemptDelaySeconds": 20},
    ]
    assert steps[-1]["StepSucceededDetails"]["RetryDetails"] == {"CurrentAttempt": 3}
    assert steps[-1]["EventTimestamp"] - steps[0]["EventTimestamp"] == pytest.approx(30, abs=1)


async def test_a_step_that_gives_up_raises_a_step_error_with_the_inner_type(harness: Harness) -> None:
    seen: list[tuple[str, str | None]] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        async def body(step: StepContext) -> None:
            raise KeyError("gone")

        try:
            await context.step(body, config=StepConfig(retry_strategy=RetryPresets.none()))
        except StepError as error:
            seen.append((error.error_type, error.message))
        await context.wait(Duration.from_seconds(1))
        return "went on"

    assert await harness.run(handler) == "went on"
    assert set(seen) == {("KeyError", "'gone'")}


async def test_an_error_that_escapes_the_handler_fails_the_execution(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        raise LookupError("no such order")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        with pytest.raises(ExecutionFailed, match="no such order") as caught:
            await execution.result()
    assert caught.value.error_type == "LookupError"


async def test_a_result_that_is_not_json_fails_the_execution_with_a_type_error(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> object:
        return object()

    async with harness.engine(handler) as engine:
        with pytest.raises(ExecutionFailed, match="not JSON serializable") as caught:
            await (await engine.start(handler)).result()
    assert caught.value.error_type == "TypeError"


async def test_an_at_most_once_step_has_its_start_on_disk_before_the_body_runs(harness: Harness) -> None:
    seen: list[list[str]] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            execution = await engine.get(context.execution_context.durable_execution_arn)
            seen.append(types(wire(await execution.history())))

        await context.step(body, config=StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY))

    async with harness.engine(handler) as engine:
        await (await engine.start(handler)).result()
    assert seen == [["ExecutionStarted", "StepStarted"]]


async def test_the_logger_is_silent_while_it_replays(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        context.logger.info("before")
        await context.step(said("in step"))
        context.logger.info("between")
        await context.wait(Duration.from_seconds(5))
        context.logger.info("after")

    @durable_step
    async def said(step: StepContext, words: str) -> None:
        step.logger.info(words)

    with caplog.at_level(logging.INFO):
        await harness.run(handler)
    said_lines = [record.message for record in caplog.records if "executionArn" in record.__dict__]
    assert said_lines == ["before", "in step", "between", "after"]


async def test_time_chance_and_ids_are_the_same_on_every_replay(harness: Harness) -> None:
    seen: list[tuple[datetime, str, float, datetime]] = []

    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        before = context.now()
        drawn = (str(context.uuid()), context.random())
        context.step(lambda _: 1)
        seen.append((before, *drawn, context.now()))
        context.wait(Duration.from_hours(1))
        context.wait(Duration.from_hours(1))

    await harness.run(handler)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert 0 <= seen[0][2] < 1


async def test_context_now_moves_with_the_operations_it_has_seen(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[float]:
        first = context.now()
        await context.wait(Duration.from_hours(2))
        return [first.timestamp(), context.now().timestamp(), context.remaining().total_seconds()]

    first, later, remaining = await harness.run(handler)
    assert later - first == pytest.approx(7200, abs=1)
    assert remaining == pytest.approx(366 * 86400 - 7200, abs=1)


async def test_numbers_of_any_size_come_back_as_they_went(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        return event["n"] + 1

    assert await harness.run(handler, {"n": 2**70}) == 2**70 + 1


async def test_a_result_that_json_cannot_say_fails_instead_of_breaking_its_readers(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> float:
        return float("nan")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        with pytest.raises(ExecutionFailed, match="not JSON compliant"):
            await execution.result()
