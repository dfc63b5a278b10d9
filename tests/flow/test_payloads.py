"""Values that are no JSON, no text, or too large: who gave them is told, by a stable code, and nothing of them is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, StepConfig, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryDecision
from holdfast.model import codec
from holdfast.model.clock import VirtualClock
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.model.errors import ExecutionFailed, ExecutionStopped, HoldfastError, PayloadNotJson
from holdfast.model.schedules import checked_input
from holdfast.queues.pushes import read_line
from tests.flow.harness import Harness, pending, types
from tests.histories import wire

LARGE = "x" * MAX_PAYLOAD_BYTES
"""Its JSON has two bytes more than may be stored."""
NEVER = StepConfig(retry_strategy=lambda error, attempt: RetryDecision.no_retry())
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]


@durable_execution
async def asks(event: Any, context: AsyncDurableContext) -> Any:
    return await (await context.create_callback("answer")).result()


@pytest.mark.parametrize(
    "value, code",
    [
        (object(), "payload_not_json"),
        ({"a": {1, 2}}, "payload_not_json"),
        ({"a": [None, float("nan")]}, "payload_not_json"),
        (float("-inf"), "payload_not_json"),
        (deep, "payload_not_json"),
        ("\ud800", "invalid_parameter"),
        (LARGE, "payload_too_large"),
        ({"é" * (MAX_PAYLOAD_BYTES // 2): 1}, "payload_too_large"),
    ],
    ids=["object", "set", "nan", "infinity", "deep", "surrogate", "large", "large in bytes"],
)
async def test_an_input_that_cannot_be_stored_starts_nothing(harness: Harness, value: object, code: str) -> None:
    async with harness.engine(asks) as engine:
        with pytest.raises(HoldfastError) as refused:
            await engine.start(asks, value, name="a")
        assert refused.value.code == code
        assert [x async for x in engine.list()] == []


async def test_an_input_as_large_as_the_limit_is_stored_whole(harness: Harness) -> None:
    @durable_execution
    async def echoes(event: Any, context: AsyncDurableContext) -> Any:
        return event

    assert await harness.run(echoes, LARGE[2:]) == LARGE[2:]


@pytest.mark.parametrize(
    "answer, code",
    [
        (LARGE + "x", "payload_too_large"),
        (b"\xff", "invalid_parameter"),
        ("\ud800", "invalid_parameter"),
        (5, "invalid_parameter"),
        ({"a": 1}, "invalid_parameter"),
    ],
    ids=["large", "not UTF-8", "surrogate", "number", "dict"],
)
async def test_an_answer_that_cannot_be_stored_leaves_its_callback_open_and_spoils_nobody_elses_write(
    harness: Harness, answer: Any, code: str
) -> None:
    async with harness.engine(asks, clock=VirtualClock(skipping=False)) as engine:
        executions = [await engine.start(asks) for _ in range(3)]
        one, *others = [str((await pending(execution)).callback_id) for execution in executions]
        writes = [engine.succeed_callback(one, answer), *(engine.succeed_callback(other, "good") for other in others)]
        refused, *good = await asyncio.gather(*writes, return_exceptions=True)
        assert isinstance(refused, HoldfastError)
        assert (refused.code, [one for one in good if isinstance(one, BaseException)]) == (code, [])
        await engine.succeed_callback(one, "better")
        assert [await execution.result() for execution in executions] == ["better", "good", "good"]


@pytest.mark.parametrize("nonsense", [5, {"a": 1}, b"x", ["a"]], ids=str)
async def test_an_error_whose_texts_are_none_is_told_as_text_and_can_be_read_again(harness: Harness, nonsense: Any) -> None:
    async with harness.engine(asks, clock=VirtualClock(skipping=False)) as engine:
        failed, stopped = await engine.start(asks), await engine.start(asks)
        callback_id = str((await pending(failed)).callback_id)
        await engine.fail_callback(callback_id, nonsense, nonsense)
        await stopped.stop(nonsense, nonsense)
        with pytest.raises(ExecutionFailed) as told:
            await asyncio.wait_for(failed.result(), 20)
        assert str(nonsense) in str(told.value)
        with pytest.raises(ExecutionStopped, match=r".+"):
            await stopped.result()
        for execution in (failed, stopped):
            assert len(types(wire(await execution.history()))) >= 4


def returning(value: Any) -> dict[str, DurableFunction]:
    @durable_execution(name="returns")
    async def awaiting(event: Any, context: AsyncDurableContext) -> Any:
        return value

    @durable_execution(name="returns")
    def blocking(event: Any, context: DurableContext) -> Any:
        return value

    return {"async": awaiting, "def": blocking}


def stepping(value: Any) -> dict[str, DurableFunction]:
    @durable_execution(name="returns")
    async def awaiting(event: Any, context: AsyncDurableContext) -> None:
        await context.step(lambda _: value, config=NEVER)

    @durable_execution(name="returns")
    def blocking(event: Any, context: DurableContext) -> None:
        context.step(lambda _: value, config=NEVER)

    return {"async": awaiting, "def": blocking}


def continuing(value: Any) -> dict[str, DurableFunction]:
    @durable_execution(name="returns")
    async def awaiting(event: Any, context: AsyncDurableContext) -> None:
        context.continue_as_new(value)

    @durable_execution(name="returns")
    def blocking(event: Any, context: DurableContext) -> None:
        context.continue_as_new(value)

    return {"async": awaiting, "def": blocking}


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize(
    "functions, value, told",
    [
        (returning, object(), "Object of type object is not JSON serializable"),
        (returning, float("nan"), "Out of range float values are not JSON compliant"),
        (returning, LARGE, "Execution output payload size must be less than or equal to 6291456 bytes."),
        (stepping, object(), "Unsupported type: <class 'object'>"),
        (stepping, LARGE, "STEP output payload size must be less than or equal to 6291456 bytes."),
        (continuing, LARGE, "Execution input payload size must be less than or equal to 6291456 bytes."),
        (continuing, object(), "The value cannot be written as JSON"),
    ],
    ids=["output object", "output nan", "output large", "step object", "step large", "continued large", "continued object"],
)
async def test_a_value_of_the_functions_own_that_cannot_be_stored_fails_the_execution(
    harness: Harness, colour: str, functions: Callable[[Any], dict[str, DurableFunction]], value: Any, told: str
) -> None:
    async with harness.engine(functions(value)[colour]) as engine:
        execution = await engine.start("returns")
        with pytest.raises(ExecutionFailed) as failed:
            await asyncio.wait_for(execution.result(), 20)
        assert told in str(failed.value)
        assert types(wire(await execution.history()))[-1] == "ExecutionFailed"
        assert len([x async for x in engine.list()]) == 1


@pytest.mark.parametrize("text", ["NaN", "[1, -Infinity]", '{"a": Infinity}', "{", "1 2", "[" * 200_000], ids=lambda text: text[:20])
def test_a_text_that_is_no_json_is_refused_and_a_stored_result_with_nan_is_read(text: str) -> None:
    for refuses in (codec.parsed, codec.check, checked_input, lambda text: read_line(text.encode())):
        with pytest.raises(PayloadNotJson):
            refuses(text)
    if text in ("NaN", "[1, -Infinity]"):  # AWS's SDK writes such results
        assert repr(codec.loads(text)) in ("nan", "[1, -inf]")
        codec.check(text, stored=True)
