"""What a review broke once: each of these was a fault."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, InvokeConfig, StepConfig, StepContext, durable_execution
from holdfast.durable.retries import RetryPresets
from holdfast.durable.serdes import SerDes, SerDesContext
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed
from holdfast.store.seam import Filter
from holdfast.testing import CrashDiffers, crash_everywhere
from tests.flow.harness import Harness, eventually, pending


class Surrogate(SerDes[Any]):
    def serialize(self, value: Any, serdes_context: SerDesContext) -> str:
        return '"\ud800"'

    def deserialize(self, data: str, serdes_context: SerDesContext) -> Any:
        return data


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_payload_that_nobody_can_write_down_fails_its_own_execution_at_once(harness: Harness, colour: str) -> None:
    config: InvokeConfig[Any, Any] = InvokeConfig(serdes_payload=Surrogate())

    @durable_execution
    async def target(event: Any, context: AsyncDurableContext) -> Any:
        return event

    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("target", 1, config=config)

    @durable_execution
    def blocking_caller(event: Any, context: DurableContext) -> Any:
        return context.invoke("target", 1, config=config)

    @durable_execution
    async def continuing(event: Any, context: AsyncDurableContext) -> Any:
        context.continue_as_new("\ud800")

    async with harness.engine(target, caller, blocking_caller, continuing) as engine:
        for function in (caller if colour == "async" else blocking_caller, continuing):
            with pytest.raises(ExecutionFailed, match="not valid Unicode"):
                await (await engine.start(function)).result()


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_timer_may_be_cancelled_twice_and_after_its_time(harness: Harness, colour: str) -> None:
    clock = VirtualClock(skipping=False)

    @durable_execution
    async def timers(event: Any, context: AsyncDurableContext) -> Any:
        timer = await context.create_timer(Duration.from_seconds(60))
        await timer.cancel()
        await timer.cancel()
        late = await context.create_timer(Duration.from_seconds(1))
        clock.move_to(clock.now() + 5_000)
        await late.cancel()
        return "fine"

    @durable_execution
    def blocking_timers(event: Any, context: DurableContext) -> Any:
        timer = context.create_timer(Duration.from_seconds(60))
        timer.cancel()
        timer.cancel()
        late = context.create_timer(Duration.from_seconds(1))
        clock.move_to(clock.now() + 5_000)
        late.cancel()
        return "fine"

    function = timers if colour == "async" else blocking_timers
    async with harness.engine(function, clock=clock) as engine:
        assert await (await engine.start(function)).result() == "fine"


async def test_waiting_for_a_thread_is_not_part_of_a_steps_time(harness: Harness) -> None:
    config = StepConfig(timeout=Duration.from_seconds(1), retry_strategy=RetryPresets.none())

    @durable_execution
    async def crowded(event: Any, context: AsyncDurableContext) -> Any:
        async def each(context: AsyncDurableContext, item: int, index: int, items: Any) -> int:
            def body(_: StepContext) -> int:
                threading.Event().wait(0.4)
                return item

            return await context.step(body, config=config)

        return (await context.map(range(5), each)).get_results()

    async with harness.engine(crowded, threads=1) as engine:
        assert await (await engine.start(crowded)).result() == [0, 1, 2, 3, 4]


@pytest.mark.long
async def test_a_long_chain_is_waited_for_and_stopped_at_its_end(harness: Harness) -> None:
    links = 1_200

    @durable_execution
    async def chain(event: int, context: AsyncDurableContext) -> Any:
        if event < links:
            context.continue_as_new(event + 1)
        return await (await context.create_callback(name="end")).result()

    async with harness.engine(chain, clock=VirtualClock(skipping=False)) as engine:
        first = await engine.start(chain, 0)
        waiting = asyncio.create_task(first.result())
        last = await eventually(lambda: (found := engine._store.list(Filter(limit=1))) and found[0].state == "suspended" and found[0], 60)
        callback = (await pending(await engine.get(last.id), "end")).callback_id or ""
        again = asyncio.create_task(first.result())
        await asyncio.sleep(0)
        await engine.succeed_callback(callback, "done")
        assert (await waiting, await again) == ("done", "done")
        await first.stop()


@pytest.mark.parametrize("how", ["group", "swallowed"])
async def test_continuing_leaves_a_task_group_and_is_noticed_when_swallowed(harness: Harness, how: str) -> None:
    @durable_execution
    async def group(event: Any, context: AsyncDurableContext) -> Any:
        async with asyncio.TaskGroup():
            await context.step(lambda _: 1)
            if not event:
                context.continue_as_new(1)
        return "new"

    @durable_execution
    async def swallowed(event: Any, context: AsyncDurableContext) -> Any:
        try:
            context.continue_as_new(1)
        except BaseException:
            return "the old one went on"

    async with harness.engine(group, swallowed) as engine:
        if how == "group":
            assert await (await engine.start(group, 0)).result() == "new"
        else:
            with pytest.raises(ExecutionFailed, match="continue_as_new was swallowed"):
                await (await engine.start(swallowed, 0)).result()


def test_an_effect_after_the_last_checkpoint_is_found() -> None:
    sent: list[str] = []

    @durable_execution
    def trailing(event: Any, context: DurableContext) -> None:
        context.step(lambda _: 1)
        sent.append("mail")

    with pytest.raises(CrashDiffers, match="after the handler's end"):
        crash_everywhere(trailing, effects=lambda: list(sent), reset=sent.clear)


def test_crashes_answer_the_callback_that_the_script_knows() -> None:
    @durable_execution
    async def two(event: Any, context: AsyncDurableContext) -> int:
        silent, answered = await context.create_callback(name="silent"), await context.create_callback(name="answered")
        return await context.first_of([silent, answered])

    assert crash_everywhere(two, answers={"answered": "yes"}) > 4
