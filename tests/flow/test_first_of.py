"""Waiting for the first of several: callbacks and timers that run side by side in one context."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, durable_execution
from holdfast.durable.exceptions import CallbackExternalError
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness, pending, types
from tests.histories import wire


@durable_execution
async def decision(event: Any, context: AsyncDurableContext) -> Any:
    manager = await context.create_callback(name="manager")
    deputy = await context.create_callback(name="deputy")
    deadline = await context.create_timer(Duration.from_days(2), name="deadline")
    first = await context.first_of([manager, deputy, deadline], name="who")
    if first == 2:
        return "nobody"
    await deadline.cancel()
    try:
        answer = await (manager, deputy)[first].result()
    except CallbackExternalError as refused:
        answer = f"refused: {refused.message}"
    if event == "stay":
        await context.wait(Duration.from_seconds(1), name="stay")
    return [first, answer]


@durable_execution
def blocking_decision(event: Any, context: DurableContext) -> Any:
    manager = context.create_callback(name="manager")
    deputy = context.create_callback(name="deputy")
    deadline = context.create_timer(Duration.from_days(2), name="deadline")
    first = context.first_of([manager, deputy, deadline], name="who")
    if first == 2:
        return "nobody"
    deadline.cancel()
    try:
        answer = (manager, deputy)[first].result()
    except CallbackExternalError as refused:
        answer = f"refused: {refused.message}"
    if event == "stay":
        context.wait(Duration.from_seconds(1), name="stay")
    return [first, answer]


both_colours = pytest.mark.parametrize("function", [decision, blocking_decision], ids=["async", "def"])


@both_colours
async def test_the_first_answer_decides_and_a_later_one_changes_nothing(harness: Harness, function: Any) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(function, clock=clock) as engine:
        execution = await engine.start(function, "stay")
        manager = (await pending(execution, "manager")).callback_id or ""
        deputy = (await pending(execution, "deputy")).callback_id or ""
        await engine.succeed_callback(deputy, "yes")
        await pending(execution, "stay")
        await engine.succeed_callback(manager, "too late")
        clock.move_to(clock.now() + 1_000)
        engine._engine.look_for_work()
        assert await execution.result() == [1, "yes"]
        told = types(wire(await execution.history()))
        assert told.count("WaitCancelled") == 1
        assert (await execution.describe()).waits_for == ()


@both_colours
async def test_a_timer_can_be_the_first(harness: Harness, function: Any) -> None:
    async with harness.engine(function) as engine:
        assert await (await engine.start(function)).result() == "nobody"


@both_colours
async def test_a_failed_callback_is_over_too(harness: Harness, function: Any) -> None:
    async with harness.engine(function, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(function)
        await engine.fail_callback((await pending(execution, "manager")).callback_id or "", "no")
        assert await execution.result() == [0, "refused: no"]


async def test_the_first_stays_the_first_on_every_replay(harness: Harness) -> None:
    """Both are over when the code runs again: the record decides, not what is over by now."""
    chosen: list[int] = []

    @durable_execution
    async def racing(event: Any, context: AsyncDurableContext) -> Any:
        slow = await context.create_timer(Duration.from_seconds(5), name="slow")
        quick = await context.create_timer(Duration.from_seconds(2), name="quick")
        first = await context.first_of([slow, quick])
        chosen.append(first)
        await slow.result()
        await context.wait(Duration.from_seconds(1))
        return first

    async with harness.engine(racing) as engine:
        assert await (await engine.start(racing)).result() == 1
    assert set(chosen) == {1}


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_of_two_that_are_over_the_one_that_ended_first_is_the_first(harness: Harness, colour: str) -> None:
    @durable_execution
    async def late(event: Any, context: AsyncDurableContext) -> int:
        one, two = await context.create_callback(name="one"), await context.create_callback(name="two")
        await context.wait(Duration.from_seconds(5), name="pause")
        return await context.first_of([one, two])

    @durable_execution
    def blocking_late(event: Any, context: DurableContext) -> int:
        one, two = context.create_callback(name="one"), context.create_callback(name="two")
        context.wait(Duration.from_seconds(5), name="pause")
        return context.first_of([one, two])

    function, clock = late if colour == "async" else blocking_late, VirtualClock(skipping=False)
    async with harness.engine(function, clock=clock) as engine:
        execution = await engine.start(function)
        ids = [(await pending(execution, name)).callback_id or "" for name in ("two", "one")]
        for callback in ids:
            await engine.succeed_callback(callback, "yes")
            clock.move_to(clock.now() + 1_000)
        clock.move_to(clock.now() + 5_000)
        engine._engine.look_for_work()
        assert await execution.result() == 1


async def test_nothing_to_wait_for_is_an_error(harness: Harness) -> None:
    @durable_execution
    async def nothing(event: Any, context: AsyncDurableContext) -> Any:
        await context.first_of([])

    async with harness.engine(nothing) as engine:
        with pytest.raises(ExecutionFailed, match="first_of needs at least one callback or timer"):
            await (await engine.start(nothing)).result()
