"""What a durable call is given is checked at the call: a wrong type fails on the author's own line, and nothing of it is recorded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, durable_execution
from holdfast.durable.config import CallbackConfig, ChildConfig, InvokeConfig, MapConfig, ParallelBranch, WaitForCallbackConfig
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryDecision, WithRetryConfig, with_retry
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.errors import ExecutionFailed, FunctionNotFound, InvalidParameter
from tests.flow.harness import Harness, types
from tests.histories import wire

Call = Callable[[Any, Any], Any]
SECOND = Duration.from_seconds(1)
CONDITION: Any = WaitForConditionConfig(lambda state, n: WaitForConditionDecision.stop_polling(), 0)


def nothing(*_: Any) -> None:
    return None


class Late:
    """A duration of another library."""

    def __init__(self, seconds: Any) -> None:
        self.to_seconds = lambda: seconds


NAMED: dict[str, Call] = {
    "step": lambda context, name: context.step(nothing, name=name),
    "wait": lambda context, name: context.wait(SECOND, name=name),
    "create_callback": lambda context, name: context.create_callback(name=name),
    "wait_for_callback": lambda context, name: context.wait_for_callback(nothing, name=name),
    "wait_for_condition": lambda context, name: context.wait_for_condition(nothing, CONDITION, name=name),
    "run_in_child_context": lambda context, name: context.run_in_child_context(nothing, name=name),
    "invoke": lambda context, name: context.invoke("other", {}, name=name),
    "create_timer": lambda context, name: context.create_timer(SECOND, name=name),
    "parallel": lambda context, name: context.parallel([nothing], name=name),
    "map": lambda context, name: context.map([1], nothing, name=name),
    "with_retry": lambda context, name: with_retry(context, nothing, WithRetryConfig(), name=name),
    "parallel's branch": lambda context, name: context.parallel([ParallelBranch(nothing, name)]),
    "invoke's function_name": lambda context, name: context.invoke(name, {}),
    "invoke's tenant_id": lambda context, name: context.invoke("other", {}, config=InvokeConfig(tenant_id=name)),
}
TIMED: dict[str, Call] = {
    "wait": lambda context, time: context.wait(time),
    "create_timer": lambda context, time: context.create_timer(time),
    "create_callback": lambda context, time: context.create_callback(config=CallbackConfig(timeout=time)),
    "create_callback's heartbeat": lambda context, time: context.create_callback(config=CallbackConfig(heartbeat_timeout=time)),
    "wait_for_callback": lambda context, time: context.wait_for_callback(nothing, config=WaitForCallbackConfig(timeout=time)),
}
OTHER: dict[str, Call] = {
    "first_of": lambda context, wrong: context.first_of([wrong]),
    "step's sub_type": lambda context, wrong: context.step(nothing, config=StepConfig(sub_type=wrong)),
    "child's sub_type": lambda context, wrong: context.run_in_child_context(nothing, config=ChildConfig(sub_type=wrong)),
}
NAMES = [5, 0, True, 1.5, b"name", ["name"], object(), "a\0b", "\ud800", "x" * 257]
TIMES = [None, 5, "5", 2.5, Late("5"), Late(True), Late(float("nan")), Late(None)]
CASES: list[tuple[str, Call, Any]] = [
    *((what, call, name) for what, call in NAMED.items() for name in NAMES if "invoke's" not in what or name != "x" * 257),
    *((what, call, time) for what, call in TIMED.items() for time in TIMES),
    *((what, call, wrong) for what, call in OTHER.items() for wrong in (5, b"x", object())),
]


@durable_execution(name="mistaken")
def blocking(event: Any, context: DurableContext) -> list[str]:
    found = []
    for what, call, wrong in CASES:
        try:
            call(context, wrong)
        except ValidationError as refused:
            if what.partition("'")[0] not in str(refused) and "sub_type" not in str(refused):
                found.append(f"{what} is not named by: {refused}")
        else:
            found.append(f"{what} took {wrong!r:.50}")
    context.step(lambda _: 1, name="after")
    return found


@durable_execution(name="mistaken")
async def awaiting(event: Any, context: AsyncDurableContext) -> list[str]:
    found = []
    for what, call, wrong in CASES:
        try:
            waiting = call(context, wrong)  # refused here, before anything is awaited
        except ValidationError:
            continue
        found.append(f"{what} took {wrong!r:.50}")
        if inspect.iscoroutine(waiting):
            waiting.close()
    await context.step(lambda _: 1, name="after")
    return found


@pytest.mark.parametrize("function", [blocking, awaiting], ids=["def", "async"])
async def test_no_durable_call_takes_what_it_cannot_record_and_a_refused_one_leaves_nothing(
    harness: Harness, function: DurableFunction
) -> None:
    async with harness.engine(function) as engine:
        execution = await engine.start(function)
        assert await asyncio.wait_for(execution.result(), 20) == []
        history = wire(await execution.history())
    assert types(history) == ["ExecutionStarted", "StepStarted", "StepSucceeded", "InvocationCompleted", "ExecutionSucceeded"]


async def test_a_mistake_is_told_with_what_was_given_what_is_wanted_and_a_stable_code(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        context.step(nothing, name=5)  # type: ignore[arg-type]

    with pytest.raises(ExecutionFailed) as caught:
        await harness.run(handler)
    assert str(caught.value).startswith(f"step: name is 5 (int); it must be a str. (at {__file__}:")
    assert caught.value.error_type == "aws_durable_execution_sdk_python.exceptions.ValidationError"
    assert ValidationError.code == "validation_error"


class Word(StrEnum):
    A = "plain"


Old = Enum("Old", {"B": "old"}, type=str)
"""The older way to write a StrEnum, whose str() is not its text."""


class Number(IntEnum):
    TWO = 2


async def test_texts_and_numbers_of_other_classes_are_taken_as_what_they_are(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> list[Any]:
        context.step(nothing, name=Word.A)
        context.step(nothing, name=Old.B)  # type: ignore[arg-type]
        context.wait(Duration(Number.TWO))
        context.wait(Duration(2.9))  # type: ignore[arg-type]
        context.wait(Late(3))  # type: ignore[arg-type]
        return [Duration(Number.TWO).seconds, type(Duration(Number.TWO).seconds).__name__]

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        assert await asyncio.wait_for(execution.result(), 20) == [2, "int"]
        history = wire(await execution.history())
    assert [e["Name"] for e in history if e["EventType"] == "StepStarted"] == ["plain", "old"]
    assert [e["WaitStartedDetails"]["Duration"] for e in history if e["EventType"] == "WaitStarted"] == [2, 2, 3]


@pytest.mark.parametrize("wrong", [True, "5", None, float("nan"), float("inf"), b"5"], ids=str)
def test_a_duration_is_a_finite_number(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="Duration"):
        Duration(wrong)
    if wrong is not True and wrong not in ("5", b"5"):
        with pytest.raises(ValidationError, match="Duration"):
            Duration.from_minutes(wrong)


STRATEGIES: dict[str, Callable[[Any], StepConfig]] = {
    "delay is a text": lambda delay: StepConfig(retry_strategy=lambda error, attempt: RetryDecision(True, delay("5"))),
    "delay is not a number": lambda delay: StepConfig(retry_strategy=lambda error, attempt: RetryDecision(True, delay(float("nan")))),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_retry_strategy_whose_delay_is_none_fails_its_own_execution(harness: Harness, strategy: str) -> None:
    class Delay:
        def __init__(self, seconds: Any) -> None:
            self.seconds = seconds

    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        context.step(lambda _: 1 / 0, config=STRATEGIES[strategy](Delay))

    with pytest.raises(ExecutionFailed, match="retry strategy"):
        await harness.run(handler)


async def test_names_that_an_item_namer_makes_are_checked_too(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        context.map([1], lambda *_: 1, config=MapConfig(item_namer=lambda item, index: index))  # type: ignore[arg-type, return-value]

    with pytest.raises(ExecutionFailed, match="item_namer's name of item 0 is 0"):
        await harness.run(handler)


class Bytes:
    """A serdes that writes what no store takes."""

    def serialize(self, value: Any, context: Any) -> Any:
        return b"bytes"

    def deserialize(self, data: Any, context: Any) -> Any:
        return data


async def test_a_serdes_that_writes_no_text_fails_its_own_step(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        context.step(nothing, config=StepConfig(serdes=Bytes()))  # type: ignore[arg-type]

    with pytest.raises(ExecutionFailed, match=r"Bytes\.serialize returned bytes .* it must return str"):
        await harness.run(handler)


class Silent(Bytes):
    """A serdes whose author forgot to return the text."""

    def serialize(self, value: Any, context: Any) -> Any:
        return None


async def test_a_serdes_that_returns_nothing_fails_its_own_step_but_for_a_result_that_is_none(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> Any:
        return context.step(lambda _: event, config=StepConfig(serdes=Silent()))  # type: ignore[arg-type]

    with pytest.raises(ExecutionFailed, match=r"Silent\.serialize returned NoneType .* it must return str"):
        await harness.run(handler, 5)
    assert await harness.run(handler, None) is None


async def test_the_engines_verbs_say_what_they_were_given(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> None: ...

    async with harness.engine(handler) as engine:
        for wrong in (5, b"name", ["name"], "a\0b", "\ud800", "x" * 65, ""):
            with pytest.raises(InvalidParameter, match="Execution name"):
                await engine.start(handler, name=wrong)  # type: ignore[arg-type]
        for unknown in (5, b"handler", "a\0b", "\ud800"):
            with pytest.raises(FunctionNotFound):
                await engine.start(unknown)  # type: ignore[arg-type]
        for wrong in (5, b"id", ["id"]):
            with pytest.raises(InvalidParameter):
                await engine.get(wrong)  # type: ignore[arg-type]
        execution = await engine.start(handler)
        await execution.result()
        await execution.stop(5, object())  # type: ignore[arg-type]
        assert [x async for x in engine.list()] != []


@pytest.mark.parametrize("given", ["5", True, None, [5], float("nan"), float("inf")])
def test_a_length_of_time_is_a_finite_number(given: Any) -> None:
    for made in (Duration.from_seconds, Duration.from_minutes, Duration.from_hours, Duration.from_days):
        with pytest.raises(ValidationError, match="is not a length of time"):
            made(given)
