"""Executions that go on for ever: continuing as new, and the guard that ends those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed, ExecutionStopped, InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.store.seam import Filter
from tests.flow.harness import Harness, eventually, pending, types
from tests.histories import wire


@durable_execution
async def counter(event: int, context: AsyncDurableContext) -> Any:
    async def work(_: StepContext) -> int:
        return event + 1

    done = await context.step(work)
    await context.wait(Duration.from_hours(1), name="an hour")
    if done < 3:
        context.continue_as_new(done)
    return "three"


@durable_execution
def blocking_counter(event: int, context: DurableContext) -> Any:
    done = context.step(lambda _: event + 1)
    if done < 3:
        context.continue_as_new(done)
    return "three"


@pytest.mark.parametrize("function", [counter, blocking_counter], ids=["async", "def"])
async def test_whoever_waits_for_the_first_gets_the_lasts_result(harness: Harness, function: Any) -> None:
    async with harness.engine(function) as engine:
        first = await engine.start(function, 0, name="loop")
        assert await first.result() == "three"
        chain = [x async for x in engine.list(Filter(oldest_first=True))]
        assert [x.status for x in chain] == [ExecutionStatus.SUCCEEDED] * 3
        assert [x.continued_as for x in chain] == [chain[1].id, chain[2].id, None]
        told = wire(await first.history())[-1]
        assert told["ExecutionSucceededDetails"]["Result"]["Payload"] == (
            f'{{"ContinuedAs":"arn:aws:lambda:local:000000000000:function:{function.name}:$LATEST/durable-execution/{chain[1].id}/{chain[1].id}"}}'
        )
        again = await engine.start(function, 0, name="loop")
        assert again.id == first.id
        assert await again.result() == "three"


async def test_an_invoke_ends_with_the_last_of_its_children(harness: Harness) -> None:
    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("counter", 0)

    async with harness.engine(caller, counter) as engine:
        assert await (await engine.start(caller)).result() == "three"


@durable_execution
async def once(event: int, context: AsyncDurableContext) -> Any:
    if event == 0:
        context.continue_as_new(1)
    return await (await context.create_callback(name="for ever")).result()


@durable_execution
async def caller(event: Any, context: AsyncDurableContext) -> Any:
    return await context.invoke("once", 0)


@pytest.mark.parametrize("function", [once, caller], ids=["itself", "its parent"])
async def test_a_stop_reaches_the_one_that_goes_on(harness: Harness, function: Any) -> None:
    async with harness.engine(once, caller, clock=VirtualClock(skipping=False)) as engine:
        first = await engine.start(function, 0)
        heir = await eventually(lambda: engine._store.list(Filter(function="once"))[1:])
        assert heir[0].continued_as is not None
        goes_on = await engine.get(heir[0].continued_as)
        await pending(goes_on, "for ever")
        await first.stop("enough")
        for stopped in (first, goes_on):
            with pytest.raises(ExecutionStopped, match="enough"):
                await stopped.result()


async def test_only_the_handler_itself_continues_as_new(harness: Harness) -> None:
    @durable_execution
    async def wrong(event: Any, context: AsyncDurableContext) -> Any:
        async def inside(context: AsyncDurableContext) -> None:
            context.continue_as_new(1)

        await context.run_in_child_context(inside)

    async with harness.engine(wrong) as engine:
        with pytest.raises(ExecutionFailed, match="only the handler itself can continue as new"):
            await (await engine.start(wrong)).result()


async def test_more_operations_than_the_guard_allows_end_the_execution(harness: Harness) -> None:
    ran: list[int] = []

    @durable_execution(max_operations=5)
    async def endless(event: Any, context: AsyncDurableContext) -> Any:
        async def work(_: StepContext) -> int:
            ran.append(1)
            return 1

        while True:
            await context.step(work)

    @durable_execution(max_operations=5)
    def blocking_endless(event: Any, context: DurableContext) -> Any:
        while True:
            context.step(lambda _: 1)

    async with harness.engine(endless, blocking_endless) as engine:
        for function in (endless, blocking_endless):
            execution = await engine.start(function)
            with pytest.raises(ExecutionFailed, match=r"has 6 operations \(at most 5\). Raise the guard .* or continue as new"):
                await execution.result()
            assert types(wire(await execution.history()))[-2:] == ["InvocationCompleted", "ExecutionFailed"]
    assert len(ran) == 6


async def test_more_bytes_than_the_guard_allows_end_the_execution(harness: Harness) -> None:
    @durable_execution(max_bytes=10_000)
    async def large(event: Any, context: AsyncDurableContext) -> Any:
        for _ in range(9):
            await context.step(lambda _: "ä" * 1_000)

    async with harness.engine(large) as engine:
        with pytest.raises(ExecutionFailed, match=r"bytes of payload \(at most 10000\)"):
            await (await engine.start(large)).result()


@pytest.mark.parametrize("terms", [{"max_operations": 0}, {"max_bytes": -1}, {"execution_timeout": 40_000_000}, {"retention_days": "7"}])
def test_terms_that_cannot_be_granted_are_refused_where_they_are_written(terms: dict[str, Any]) -> None:
    (name,) = terms
    with pytest.raises(InvalidParameter, match=f"{name} is .*; use a whole number from 1"):
        durable_execution(**terms)
