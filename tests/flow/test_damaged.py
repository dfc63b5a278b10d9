"""One damaged row, one end that cannot be written: the rest of the engine's work goes on, and the log says what was left alone."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, StepContext, durable_execution
from holdfast.engine.scheduler import Scheduler
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionStopped, StoreBroken, StoreBusy
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.verbs import Settle
from holdfast.service.client import Client
from tests.flow.harness import Harness, eventually, pending
from tests.histories import wire

OTHERS = 4


@durable_execution
async def patient(event: Any, context: AsyncDurableContext) -> Any:
    await context.wait(Duration.from_hours(1), name="rest")
    return event


@durable_execution
async def quick(event: Any, context: AsyncDurableContext) -> Any:
    async def body(step: StepContext) -> Any:
        return event

    return await context.step(body, name="body")


def change(harness: Harness, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(harness.store)) as rows:
        assert rows.execute(statement, values).rowcount == 1
        rows.commit()


_OF = "WHERE execution = (SELECT key FROM executions WHERE id = ?)"
DAMAGE = {
    "its status is none": "UPDATE executions SET status = 'NONSENSE' WHERE id = ?",
    "its revision is no number": "UPDATE executions SET revision = 'x' WHERE id = ?",
    "an operation of it is none": f"UPDATE operations SET status = 'NONSENSE' {_OF}",
    "a name of it is no text": f"UPDATE operations SET name = CAST(x'ff' AS TEXT) {_OF}",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_execution_whose_timer_is_due_keeps_no_other_timer_from_firing(
    harness: Harness, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness.engine(patient, clock=VirtualClock(skipping=False)) as engine:
        executions = [await engine.start(patient, number) for number in range(OTHERS + 1)]
        for execution in executions:
            await pending(execution)
    damaged = executions.pop(1)
    change(harness, DAMAGE[damage], damaged.id)
    async with harness.engine(patient) as engine:
        others = [await engine.get(execution.arn) for execution in executions]
        found = [await asyncio.wait_for(execution.result(), 20) for execution in others]
        assert found == [0, 2, 3, 4]
        async with asyncio.timeout(20):
            while damaged.id not in caplog.text:  # it is told which one was left alone, maybe after the others' results
                await asyncio.sleep(0)


@pytest.mark.parametrize("damage", ["its status is none", "its revision is no number"])
async def test_a_damaged_execution_that_is_ready_keeps_no_other_from_being_claimed(harness: Harness, damage: str) -> None:
    async with harness.engine(quick, threads=1) as engine:
        engine._engine.registry.shut()
        executions = [await engine.start(quick, number) for number in range(OTHERS + 1)]
    damaged = executions.pop(0)
    change(harness, DAMAGE[damage], damaged.id)
    async with harness.engine(quick) as engine:
        others = [await engine.get(execution.arn) for execution in executions]
        assert [await asyncio.wait_for(execution.result(), 20) for execution in others] == [1, 2, 3, 4]
        late = await engine.start(quick, "later")
        assert await asyncio.wait_for(late.result(), 20) == "later"
        if "status" in damage:
            assert {found.id for found in [x async for x in engine.list()]} == {x.id for x in (*executions, late)}, (
                "it is left out of lists"
            )


async def test_a_caller_hears_of_an_end_that_another_process_wrote_although_an_awaited_neighbour_cannot_be_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite reads pages. If one is damaged, a query that needs it fails as a whole."""
    async with harness.engine(patient, clock=VirtualClock(skipping=False)) as engine:
        damaged, other = await engine.start(patient, "damaged"), await engine.start(patient, "other")
        await pending(other)  # else its own next write would find the end
        waiters = [asyncio.ensure_future(execution.result()) for execution in (damaged, other)]
        await eventually(lambda: len(engine._engine.endings.awaited) == 2)
        store = engine._engine.store
        find, ended = store.find, store.ended

        def readable(*executions: str) -> None:
            if damaged.id in executions:
                raise StoreBroken("damaged")

        def find_readable(execution: str) -> Execution | None:
            readable(execution)
            return find(execution)

        def ended_readable(executions: Sequence[str]) -> Sequence[str]:
            readable(*executions)
            return ended(executions)

        monkeypatch.setattr(store, "find", find_readable)
        monkeypatch.setattr(store, "ended", ended_readable)
        with Client.open(harness.store) as client:
            client.stop(other.id)
        with pytest.raises(ExecutionStopped):
            await asyncio.wait_for(waiters[1], 20)
        monkeypatch.undo()
        await damaged.stop()
        with pytest.raises(ExecutionStopped):
            await waiters[0]


async def test_a_caller_hears_of_an_end_although_the_store_was_busy_when_it_was_first_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.engine(patient, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(patient)
        await pending(execution)  # else its own next write would find the end
        waiter = asyncio.ensure_future(execution.result())
        await eventually(lambda: engine._engine.endings.awaited)
        store, asked = engine._engine.store, list[bool]()
        ended = store.ended

        def busy_once(executions: Sequence[str]) -> Sequence[str]:
            asked.append(True)
            if len(asked) == 1:
                raise StoreBusy("busy")
            return ended(executions)

        monkeypatch.setattr(store, "ended", busy_once)
        with Client.open(harness.store) as client:
            client.stop(execution.id)
        with pytest.raises(ExecutionStopped):
            await asyncio.wait_for(waiter, 20)
        assert len(asked) > 1


async def test_timers_go_on_although_what_another_process_wrote_cannot_be_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    go, clock = asyncio.Event(), VirtualClock(skipping=False)

    @durable_execution
    async def live(event: Any, context: AsyncDurableContext) -> Any:
        await go.wait()

    async with harness.engine(patient, live, clock=clock) as engine:
        await engine.start(live)
        timed, other = await engine.start(patient, "timed"), await engine.start(patient, "other")
        await pending(timed)
        await pending(other)
        asked: list[str] = []

        def held(runner: str) -> None:
            asked.append(runner)
            raise StoreBroken("damaged")

        monkeypatch.setattr(engine._engine.store, "held", held)
        with Client.open(harness.store) as client:
            client.stop(other.id)
        await eventually(lambda: asked)
        clock.move_to(clock.now() + 3_600_000)
        engine._engine.look_for_work()
        assert await asyncio.wait_for(timed.result(), 20) == "timed"
        monkeypatch.undo()
        go.set()


async def test_what_is_in_trouble_is_left_alone_for_a_while_instead_of_being_asked_again_and_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.engine(patient, clock=VirtualClock(skipping=False)) as engine:
        damaged = await engine.start(patient)
        await pending(damaged)
    change(harness, DAMAGE["its status is none"], damaged.id)
    rounds, tend = [0], Scheduler._round

    async def counted(self: Scheduler) -> None:
        rounds[0] += 1
        await tend(self)

    monkeypatch.setattr(Scheduler, "_round", counted)
    clock = VirtualClock(skipping=False)
    clock.move_to(clock.now() + 7_200_000)
    async with harness.engine(patient, quick, clock=clock) as engine:
        assert await asyncio.wait_for((await engine.start(quick, 1)).result(), 20) == 1
        before = rounds[0]
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert rounds[0] - before < 20


async def test_an_end_that_cannot_be_written_is_told_instead_and_no_neighbour_waits(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed = Settle._succeed

    def bad(self: Settle, draft: Any) -> Any:
        if draft.header.name == "bad":
            raise ZeroDivisionError
        return succeed(self, draft)

    monkeypatch.setattr(Settle, "_succeed", bad)
    async with harness.engine(quick) as engine:
        executions = [await engine.start(quick, n, name="bad" if n == 2 else None) for n in range(5)]
        wrong = executions.pop(2)
        assert [await asyncio.wait_for(execution.result(), 20) for execution in executions] == [0, 1, 3, 4]
        store = engine._engine.store

        def quarantined() -> bool:
            header = store.find(wrong.id)
            return header is not None and header.state is State.QUARANTINED

        await eventually(quarantined)
        assert await wrong.status() is ExecutionStatus.RUNNING, "a person mends it, and it goes on"
        told = [e for e in wire(await wrong.history()) if e["EventType"] == "InvocationCompleted"]
        assert told[-1]["InvocationCompletedDetails"]["Error"]["Payload"]["ErrorType"] == "WriteFailed"
        monkeypatch.undo()
        await wrong.release()
        assert await asyncio.wait_for(wrong.result(), 20) == 2
