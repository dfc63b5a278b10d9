"""wait_for_condition beyond what the table of cases shows: colours mixed, logs, and what a crash leaves."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, ExecutionQuarantined, durable_execution
from holdfast.durable.config import JitterStrategy
from holdfast.durable.execution import DurableFunction
from holdfast.durable.serdes import PassThroughSerDes
from holdfast.durable.types import WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision, WaitStrategyConfig, create_wait_strategy
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import State
from tests.flow.families import state_of
from tests.flow.harness import Harness, eventually, types
from tests.histories import wire


@dataclass
class Order:
    """A state that a later version of the code wants."""

    id: str


def until(number: int) -> WaitForConditionConfig[int]:
    delay = Duration.from_seconds(3)
    strategy: WaitStrategyConfig[int] = WaitStrategyConfig(lambda state: state < number, 9, delay, jitter_strategy=JitterStrategy.NONE)
    return WaitForConditionConfig(create_wait_strategy(strategy), 0)


async def test_a_def_handler_may_look_with_an_async_check(harness: Harness) -> None:
    async def check(state: int, context: WaitForConditionCheckContext) -> int:
        return state + context.attempt

    @durable_execution
    def handler(event: Any, context: DurableContext) -> Any:
        return context.wait_for_condition(check, until(3))  # type: ignore[arg-type]

    assert await harness.run(handler) == 3


async def test_an_async_handler_may_look_with_a_def_check(harness: Harness) -> None:
    def check(state: int, context: WaitForConditionCheckContext) -> int:
        return state + context.attempt

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> int:
        return await context.wait_for_condition(check, until(6), name="six")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == 6
        history = wire(await execution.history())
    assert types(history).count("StepStarted") == 3
    assert {event.get("SubType") for event in history if event["EventType"] == "StepStarted"} == {"WaitForCondition"}


async def test_a_check_logs_its_attempt(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def check(state: int, context: WaitForConditionCheckContext) -> int:
        context.logger.info("looked")
        return state + 1

    @durable_execution
    def handler(event: Any, context: DurableContext) -> int:
        return context.wait_for_condition(check, until(2), name="two")

    assert await harness.run(handler) == 2
    told = [(vars(record)["attempt"], vars(record)["operationName"]) for record in caplog.records if record.message == "looked"]
    assert told == [(1, "two"), (2, "two")]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_look_that_was_cut_off_is_taken_again_from_the_state_before(harness: Harness, colour: str) -> None:
    looks: list[tuple[int, int]] = []

    def check(state: int, context: WaitForConditionCheckContext) -> int:
        looks.append((state, context.attempt))
        if len(looks) == 2:
            raise SystemExit(3)
        return state + 10

    @durable_execution(name="handler")
    async def awaiting(event: Any, context: AsyncDurableContext) -> int:
        return await context.wait_for_condition(check, until(30))

    @durable_execution(name="handler")
    def blocking(event: Any, context: DurableContext) -> int:
        return context.wait_for_condition(check, until(30))

    handler = awaiting if colour == "async" else blocking
    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == 30
        history = wire(await execution.history())
    assert looks == [(0, 1), (10, 2), (10, 2), (20, 3)]
    assert types(history).count("StepStarted") == 3


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_empty_text_is_a_state_like_any_other(harness: Harness, colour: str) -> None:
    states: list[str] = []

    def check(state: str, context: WaitForConditionCheckContext) -> str:
        states.append(state)
        return "" if len(states) == 1 else "done"

    delay = Duration.from_seconds(3)
    strategy: WaitStrategyConfig[str] = WaitStrategyConfig(lambda state: state != "done", 9, delay, jitter_strategy=JitterStrategy.NONE)
    config = WaitForConditionConfig(create_wait_strategy(strategy), "new", serdes=PassThroughSerDes())

    @durable_execution
    async def waits(event: Any, context: AsyncDurableContext) -> str:
        return await context.wait_for_condition(check, config)

    @durable_execution
    def blocks(event: Any, context: DurableContext) -> str:
        return context.wait_for_condition(check, config)

    assert await harness.run(waits if colour == "async" else blocks) == "done"
    assert states == ["new", ""]


async def test_a_recorded_state_that_does_not_fit_the_code_quarantines_the_execution(harness: Harness) -> None:
    def plain(state: Any, context: WaitForConditionCheckContext) -> Any:
        return {"left": 1}

    def typed(state: Order, context: WaitForConditionCheckContext) -> Order:
        return state

    def forever(state: Any, attempt: int) -> WaitForConditionDecision:
        return WaitForConditionDecision.continue_waiting(Duration.from_seconds(60))

    def version(check: Any) -> DurableFunction:
        @durable_execution(name="waits")
        async def waits(event: Any, context: AsyncDurableContext) -> Any:
            return await context.wait_for_condition(check, WaitForConditionConfig(forever, None))

        return waits

    clock = VirtualClock(skipping=False)
    before, after = version(plain), version(typed)
    async with harness.engine(before, clock=clock) as engine:
        execution = await engine.start(before)
        await eventually(lambda: state_of(engine, execution.id) is State.SUSPENDED)
    clock.move_to(clock.now() + 60_000)
    async with harness.engine(after, clock=clock) as engine:
        with pytest.raises(ExecutionQuarantined):
            await (await engine.get(execution.id)).result()
