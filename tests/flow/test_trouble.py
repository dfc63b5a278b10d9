"""When the store has a bad moment, when branches are cut off, when closing comes at the wrong time: nothing hangs, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, StepContext, durable_execution
from holdfast.durable.config import CompletionConfig, ParallelConfig, StepSemantics
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed, StoreBusy
from holdfast.model.operations import Action, Type
from holdfast.model.verbs import Checkpoint
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import Harness, pending, types
from tests.histories import wire

ONCE = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)


def fails_once(monkeypatch: pytest.MonkeyPatch, at: Callable[[Any], bool]) -> list[str]:
    """The store is busy the first time a batch holds a write like this."""
    commit = SqliteStore.commit
    failed: list[str] = []

    def bad(self: SqliteStore, batch: Sequence[Any], now: int) -> Any:
        if not failed and any(at(write) for write in batch):
            failed.append("busy")
            raise StoreBusy
        return commit(self, batch, now)

    monkeypatch.setattr(SqliteStore, "commit", bad)
    return failed


def begins(kind: Type) -> Callable[[Any], bool]:
    return lambda write: isinstance(write, Checkpoint) and any(u.type is kind and u.action is Action.START for u in write.updates)


@durable_execution(name="branches")
async def branches(event: Any, context: AsyncDurableContext) -> int:
    async def branch(child: AsyncDurableContext) -> int:
        async def body(step: StepContext) -> int:
            return 1

        return await child.step(body) + await child.step(body)

    return sum((await context.parallel([branch] * 4)).get_results())


@durable_execution(name="branches")
def blocking_branches(event: Any, context: DurableContext) -> int:
    def branch(child: DurableContext) -> int:
        return child.step(lambda _: 1) + child.step(lambda _: 1)

    return sum(context.parallel([branch] * 4).get_results())


@pytest.mark.parametrize("function", [branches, blocking_branches], ids=["async", "def"])
@pytest.mark.parametrize("kind", [Type.STEP, Type.CONTEXT])
async def test_a_busy_moment_of_the_store_costs_an_invocation_and_not_the_execution(
    harness: Harness, function: DurableFunction, kind: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fails_once(monkeypatch, begins(kind))
    async with harness.engine(function) as engine:
        execution = await engine.start("branches")
        assert await asyncio.wait_for(execution.result(), 20) == 8
        completed = [e for e in wire(await execution.history()) if e["EventType"] == "InvocationCompleted"]
    assert failed
    assert "Error" in completed[0]["InvocationCompletedDetails"]


async def test_an_at_most_once_body_never_runs_before_its_start_is_on_disk_however_many_branches_write(harness: Harness) -> None:
    early: list[str] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def branch(child: AsyncDurableContext) -> None:
            for number in range(4):

                async def body(step: StepContext, number: int = number) -> None:
                    execution = await engine.get(context.execution_context.durable_execution_arn)
                    told = [e["Id"] for e in wire(await execution.history()) if e["EventType"] == "StepStarted"]
                    if len(told) != len(set(told)) or not told:
                        early.append("no start")
                    begun.append(number)
                    if len(told) < len(begun):
                        early.append("not on disk")

                await child.step(body, config=ONCE)

        begun: list[int] = []
        await context.parallel([branch] * 5)

    async with harness.engine(handler) as engine:
        await asyncio.gather(*[(await engine.start(handler, n)).result() for n in range(4)])
    assert early == []


async def test_a_batch_that_ends_without_its_branches_leaves_an_execution_that_can_still_suspend(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        async def quick(child: AsyncDurableContext) -> str:
            return "quick"

        async def running(child: AsyncDurableContext) -> str:
            async def body(step: StepContext) -> str:
                await asyncio.Event().wait()
                return "never"

            return await child.step(body)

        async def resting(child: AsyncDurableContext) -> str:
            await child.wait(Duration.from_seconds(5))
            return "late"

        config = ParallelConfig(completion_config=CompletionConfig.first_successful())
        done = await context.parallel([running, resting, quick], config=config)
        await context.wait(Duration.from_minutes(1))
        return done.get_results()[0]

    async with harness.engine(handler) as engine:
        assert await asyncio.wait_for((await engine.start(handler)).result(), 20) == "quick"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even a text")


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize("ending", ["unspeakable", "too deep"])
async def test_an_ending_that_cannot_be_written_still_ends_the_execution(harness: Harness, colour: str, ending: str) -> None:
    def end() -> Any:
        if ending == "unspeakable":
            raise Unspeakable
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        return deep

    @durable_execution(name="ends")
    async def awaiting(event: Any, context: AsyncDurableContext) -> Any:
        return end()

    @durable_execution(name="ends")
    def blocking(event: Any, context: DurableContext) -> Any:
        return end()

    async with harness.engine(awaiting if colour == "async" else blocking) as engine:
        with pytest.raises(ExecutionFailed):
            await asyncio.wait_for((await engine.start("ends")).result(), 20)


async def test_a_start_that_lands_while_the_engine_closes_goes_on_in_the_next_one(harness: Harness) -> None:
    ran: list[int] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        async def body(step: StepContext) -> str:
            ran.append(1)
            return "ran"

        return await context.step(body)

    async with harness.engine(handler) as engine:
        asked = asyncio.create_task(engine.start(handler, name="late"))
        await asyncio.sleep(0)
    await asyncio.gather(asked, return_exceptions=True)
    async with harness.engine(handler) as engine:
        execution = await engine.start(handler, name="late")
        assert await asyncio.wait_for(execution.result(), 20) == "ran"
        history = wire(await execution.history())
    assert ran == [1]
    assert "Runtime.ExitError" not in str(history)


async def test_trouble_while_tending_does_not_end_the_tending(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    due = SqliteStore.due
    troubled: list[int] = []

    def once(self: SqliteStore, now: int, limit: int) -> Any:
        if not troubled:
            troubled.append(1)
            raise OSError("too many open files")
        return due(self, now, limit)

    monkeypatch.setattr(SqliteStore, "due", once)

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> str:
        await context.wait(Duration.from_seconds(1))
        return "woken"

    assert await asyncio.wait_for(harness.run(handler), 20) == "woken"
    assert troubled


async def test_whoever_stops_waiting_for_a_result_leaves_nothing_behind(harness: Harness) -> None:
    @durable_execution
    async def asks(event: Any, context: AsyncDurableContext) -> Any:
        return await (await context.create_callback()).result()

    async with harness.engine(asks, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(asks)
        waits = await pending(execution)
        for _ in range(5):
            asked = asyncio.create_task(execution.result())
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert engine._engine.endings.awaited == []
        assert waits.callback_id is not None
        await engine.succeed_callback(waits.callback_id, "still fine")
        assert await execution.result() == "still fine"
        assert types(wire(await execution.history()))[-1] == "ExecutionSucceeded"
