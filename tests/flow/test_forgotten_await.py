"""A durable call that was never awaited fails the execution, with the author's line and what mends it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, durable_execution, with_retry
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness

SECOND = Duration.from_seconds(1)
CONDITION: Any = WaitForConditionConfig(lambda state, n: WaitForConditionDecision.stop_polling(), 0)
WITHOUT_CHILD: WithRetryConfig[Any] = WithRetryConfig(wrap_with_run_in_child_context=False)


async def nothing(*_: Any) -> None: ...


CALLS: dict[str, tuple[str, Callable[[AsyncDurableContext], Any]]] = {
    "step": ("Step 'forgotten'", lambda context: context.step(nothing, name="forgotten")),
    "wait": ("Wait 'forgotten'", lambda context: context.wait(SECOND, name="forgotten")),
    "create_callback": ("Callback 'forgotten'", lambda context: context.create_callback(name="forgotten")),
    "wait_for_callback": ("WaitForCallback 'forgotten'", lambda context: context.wait_for_callback(nothing, name="forgotten")),
    "wait_for_condition": ("'forgotten'", lambda context: context.wait_for_condition(nothing, CONDITION, name="forgotten")),
    "run_in_child_context": ("'forgotten'", lambda context: context.run_in_child_context(nothing, name="forgotten")),
    "invoke": ("'forgotten'", lambda context: context.invoke("other", {}, name="forgotten")),
    "create_timer": ("'forgotten'", lambda context: context.create_timer(SECOND, name="forgotten")),
    "parallel": ("'forgotten'", lambda context: context.parallel([nothing], name="forgotten")),
    "map": ("'forgotten'", lambda context: context.map([1], nothing, name="forgotten")),
    "with_retry": ("'forgotten'", lambda context: with_retry(context, nothing, WithRetryConfig(), name="forgotten")),
    "with_retry without a child": ("with_retry", lambda context: with_retry(context, nothing, WITHOUT_CHILD)),
}


async def failure(harness: Harness, function: DurableFunction) -> str:
    gc.freeze()  # what was there before need not be looked through
    with pytest.raises(ExecutionFailed) as caught:
        await asyncio.wait_for(harness.run(function), 20)
    gc.collect()  # a coroutine that was never closed would warn here
    return str(caught.value)


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_that_was_never_awaited_fails_the_execution_and_names_the_line_and_the_cure(harness: Harness, call: str) -> None:
    what, forgotten = CALLS[call]

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        forgotten(context)
        return "done"

    told = await failure(harness, handler)
    assert told.startswith("A durable call was never awaited, so it did not run: ")
    assert f"{what} at {__file__}:{forgotten.__code__.co_firstlineno} in <lambda>" in told
    assert told.endswith("Write `await` in front of the call.")


async def test_it_is_the_same_after_a_replay(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        context.step(nothing, name="forgotten")  # type: ignore[unused-awaitable]
        await context.wait(SECOND)
        return "done"

    assert "Step 'forgotten'" in await failure(harness, handler)


async def test_the_answer_of_a_callback_and_the_end_of_a_timer_are_calls_too(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        timer = await context.create_timer(SECOND, name="timer")
        timer.cancel()  # type: ignore[unused-awaitable]
        await timer.result()
        callback = await context.create_callback(name="callback")
        callback.result()  # type: ignore[unused-awaitable]
        return "done"

    told = await failure(harness, handler)
    assert told.startswith("2 durable calls were never awaited, so they did not run: ")
    assert "Wait 'timer'" in told
    assert "Callback 'callback'" in told


@pytest.mark.parametrize("place", ["child", "branch", "retried"])
async def test_one_inside_a_context_fails_the_execution_before_that_context_is_recorded_as_done(harness: Harness, place: str) -> None:
    async def inside(context: AsyncDurableContext, *_: Any) -> str:
        context.step(nothing, name="forgotten")  # type: ignore[unused-awaitable]
        return "done"

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        if place == "child":
            await context.run_in_child_context(inside)
        elif place == "branch":
            await context.map([1, 2], inside)
        else:
            await with_retry(context, inside, WithRetryConfig())
        await context.wait(SECOND)

    told = await failure(harness, handler)
    assert told.startswith("A durable call was never awaited")
    assert told.endswith("Write `await` in front of the call.")


async def test_a_result_that_is_a_call_says_so(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        return context.step(nothing, name="forgotten")

    assert "Write `await`" in await failure(harness, handler)


async def test_many_are_counted_and_the_first_are_named(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        for number in range(5):
            context.step(nothing, name=f"step-{number}")  # type: ignore[unused-awaitable]

    told = await failure(harness, handler)
    assert told.startswith("5 durable calls were never awaited")
    assert "Step 'step-2'" in told
    assert "and 2 more" in told


async def test_a_call_that_is_awaited_later_or_by_a_task_is_no_mistake(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[int]:
        first, second = context.step(lambda _: 1), context.step(lambda _: 2)
        later = await second
        return [await first, later, await asyncio.create_task(context.step(lambda _: 3))]  # type: ignore[arg-type]

    assert await harness.run(handler) == [1, 2, 3]


async def test_a_task_that_was_left_behind_keeps_its_rule(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        left.append(asyncio.create_task(context.step(lambda _: 1)))  # type: ignore[arg-type]
        return "done"

    left: list[asyncio.Task[int]] = []
    assert await harness.run(handler) == "done"
    await asyncio.gather(*left, return_exceptions=True)


async def test_an_error_of_the_handler_is_told_and_not_what_it_had_no_time_to_await(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        later = context.step(nothing, name="later")
        if event is None:
            raise LookupError("no such order")
        await later

    assert await failure(harness, handler) == "no such order"


async def test_a_call_that_its_author_closed_is_no_mistake(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        call: Any = context.step(nothing)
        call.close()
        return "done"

    assert await harness.run(handler) == "done"
