"""Errors that can never pass fail at once, with the author's line: no try is spent on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, durable_execution, durable_step, with_retry
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import WithRetryConfig
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness, types
from tests.histories import wire


@durable_step
def charge(step: Any, order: str) -> str:
    return order


def wrongly(call: Callable[[Any], Any]) -> list[DurableFunction]:
    """The same mistake in both colours."""

    @durable_execution
    def blocking(event: Any, context: DurableContext) -> Any:
        return call(context)

    @durable_execution
    async def awaiting(event: Any, context: AsyncDurableContext) -> Any:
        return await call(context)

    return [blocking, awaiting]


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "a name": lambda context: context.step(charge("1"), name=5),
    "a duration": lambda context: context.wait(5),
    "a payload's function": lambda context: context.invoke(5, {}),
    "a step's config": lambda context: context.step(charge("1"), config="fast"),
    "a wait that is too long": lambda context: context.wait(Duration.from_days(100_000)),
    "a name in with_retry": lambda context: with_retry(context, lambda inner, attempt: inner.step(charge("1"), name=5), WithRetryConfig()),
}
CASES = [pytest.param(function, id=f"{what}, {function.name}") for what, call in MISTAKES.items() for function in wrongly(call)]


@pytest.mark.parametrize("function", CASES)
async def test_a_wrong_durable_call_fails_the_execution_in_its_first_invocation_and_names_the_authors_line(
    harness: Harness, function: DurableFunction
) -> None:
    async with harness.engine(function) as engine:
        execution = await engine.start(function)
        with pytest.raises(ExecutionFailed) as caught:
            await execution.result()
        assert types(wire(await execution.history())).count("InvocationCompleted") == 1
    assert str(caught.value).count(f"at {__file__}:") == 1


UNCALLABLE: dict[str, Callable[[Any], Any]] = {
    "too few arguments": lambda context: context.step(charge(), name="charge"),  # type: ignore[call-arg]
    "no argument": lambda context: context.step(lambda: 1, name="charge"),
    "no function": lambda context: context.step(5, name="charge"),
}
BODIES = [pytest.param(function, id=f"{what}, {function.name}") for what, call in UNCALLABLE.items() for function in wrongly(call)]


@pytest.mark.parametrize("function", BODIES)
async def test_a_body_that_cannot_be_called_is_not_tried_again(harness: Harness, function: DurableFunction) -> None:
    async with harness.engine(function) as engine:
        execution = await engine.start(function)
        with pytest.raises(ExecutionFailed):
            await execution.result()
        assert types(wire(await execution.history())).count("InvocationCompleted") == 1


async def test_a_type_error_inside_a_body_is_tried_again_as_its_strategy_says(harness: Harness) -> None:
    tries: list[int] = []

    def body(step: Any) -> str:
        tries.append(step.attempt)
        return "done" if len(tries) > 1 else len(5)  # type: ignore[arg-type, return-value]

    @durable_execution
    def handler(event: Any, context: DurableContext) -> str:
        return context.step(body)

    assert await harness.run(handler) == "done"
    assert tries == [1, 2]


async def test_an_error_of_the_authors_own_keeps_its_message(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        raise TypeError("my own")

    with pytest.raises(ExecutionFailed) as caught:
        await harness.run(handler)
    assert str(caught.value) == "my own"


async def test_a_wrong_call_can_still_be_caught_on_its_line(harness: Harness) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> str:
        try:
            context.step(charge("1"), name=5)  # type: ignore[arg-type]
        except ValidationError as refused:
            return str(refused)
        return ""

    assert inspect.cleandoc(await harness.run(handler)) == "step: name is 5 (int); it must be a str."
