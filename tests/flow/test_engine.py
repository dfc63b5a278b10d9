"""The engine under its users: group commit, wake-ups, what replays leave alone, how much is kept in memory."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.model.clock import VirtualClock
from holdfast.model.verbs import Checkpoint
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import Harness, eventually, pending, types
from tests.histories import wire


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What was committed, one list of writes per transaction."""
    seen: list[list[Any]] = []
    commit = SqliteStore.commit

    def spied(self: SqliteStore, batch: Sequence[Any], now: int) -> Any:
        seen.append(list(batch))
        return commit(self, batch, now)

    monkeypatch.setattr(SqliteStore, "commit", spied)
    return seen


@durable_execution
async def three_steps(event: Any, context: AsyncDurableContext) -> list[int]:
    async def body(step: StepContext) -> int:
        return numbers.pop()

    numbers = [2, 1, 0]
    return [await context.step(body) for _ in range(3)]


@durable_execution
def three_blocking_steps(event: Any, context: DurableContext) -> list[int]:
    numbers = [2, 1, 0]
    return [context.step(lambda _: numbers.pop()) for _ in range(3)]


async def test_everything_that_waits_goes_into_one_transaction(harness: Harness, batches: list[list[Any]]) -> None:
    async with harness.engine(three_steps) as engine:
        started = await asyncio.gather(*(engine.start("three_steps", n) for n in range(100)))
        assert await asyncio.gather(*(e.result() for e in started)) == [[0, 1, 2]] * 100
    checkpoints = [write for batch in batches for write in batch if isinstance(write, Checkpoint)]
    assert len(checkpoints) == 300
    assert len(batches) < 30


async def test_the_order_of_one_executions_writes_is_kept(harness: Harness, batches: list[list[Any]]) -> None:
    async with harness.engine(three_steps, three_blocking_steps) as engine:
        functions = ("three_steps", "three_blocking_steps")
        started = await asyncio.gather(*(engine.start(functions[n % 2], n) for n in range(40)))
        await asyncio.gather(*(e.result() for e in started))
    for execution in started:
        sequences = [w.at.sequence for batch in batches for w in batch if isinstance(w, Checkpoint) and w.execution == execution.id]
        assert sequences == sorted(sequences)


async def test_a_lone_step_costs_one_transaction_with_its_start_riding_along(harness: Harness, batches: list[list[Any]]) -> None:
    async with harness.engine(three_steps) as engine:
        await (await engine.start("three_steps")).result()
    checkpoints = [write for batch in batches for write in batch if isinstance(write, Checkpoint)]
    assert [[update.action.value for update in write.updates] for write in checkpoints] == [["START", "SUCCEED"]] * 3


async def test_a_long_body_does_not_hide_that_it_began(harness: Harness) -> None:
    go_on = asyncio.Event()

    @durable_execution
    async def slow(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            await go_on.wait()

        await context.step(body)

    async with harness.engine(slow, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("slow")
        async with asyncio.timeout(20):
            while "StepStarted" not in types(wire(await execution.history())):
                await asyncio.sleep(0)
        go_on.set()
        await execution.result()
        assert types(wire(await execution.history())).count("StepStarted") == 1


async def test_now_uuid_and_random_leave_no_trace_and_take_no_id(harness: Harness) -> None:
    @durable_execution
    async def derived(event: Any, context: AsyncDurableContext) -> list[Any]:
        drawn = [context.now().timestamp(), str(context.uuid()), context.random(), str(context.uuid()), context.random()]

        async def body(step: StepContext) -> None: ...

        await context.step(body)
        return drawn

    async with harness.engine(derived) as engine:
        execution = await engine.start("derived")
        _, first, chance, second, other = await execution.result()
        history = wire(await execution.history())
    assert first != second
    assert chance != other
    assert types(history) == ["ExecutionStarted", "StepStarted", "StepSucceeded", "InvocationCompleted", "ExecutionSucceeded"]
    assert history[1]["Id"].startswith("1ced8f5b"), "the step is still the first operation of its context"


async def test_resting_and_replayed_executions_leave_the_same_history(tmp_path: Any) -> None:
    @durable_execution
    async def waits(event: Any, context: AsyncDurableContext) -> str:
        async def body(step: StepContext) -> str:
            return "kept"

        kept = await context.step(body)
        await context.wait(Duration.from_seconds(5))
        await context.step(body)
        await context.wait(Duration.from_seconds(5))
        return kept

    told = []
    for resting in (10, 0):
        folder = tmp_path / str(resting)
        folder.mkdir()
        async with Harness(folder, resting).engine(waits) as engine:
            execution = await engine.start("waits", name="same")
            await execution.result()
            told.append(types(wire(await execution.history())))
    assert told[0] == told[1]
    assert told[0].count("InvocationCompleted") == 3


async def test_more_waiting_coroutines_than_there_is_room_for_are_evicted_and_still_finish(tmp_path: Any) -> None:
    @durable_execution
    async def waits(event: Any, context: AsyncDurableContext) -> Any:
        await context.wait(Duration.from_hours(1))
        return event

    async with Harness(tmp_path, resting=3).engine(waits) as engine:
        started = await asyncio.gather(*(engine.start("waits", n) for n in range(20)))
        assert await asyncio.gather(*(e.result() for e in started)) == list(range(20))


async def test_a_branch_is_woken_while_another_still_computes(tmp_path: Any) -> None:
    woken = asyncio.Event()

    @durable_execution
    async def branches(event: Any, context: AsyncDurableContext) -> int:
        async def asks(child: AsyncDurableContext) -> None:
            callback = await child.create_callback(name="question")
            handed.set_result(callback.callback_id)
            await callback.result()
            woken.set()

        async def computes(child: AsyncDurableContext) -> None:
            async def body(step: StepContext) -> None:
                await engine.succeed_callback(await handed, "answer")
                await asyncio.wait_for(woken.wait(), 20)

            await child.step(body)

        done = await context.parallel([asks, computes])
        return done.success_count

    handed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with Harness(tmp_path, resting=10).engine(branches, clock=VirtualClock(skipping=False)) as engine:
        assert await (await engine.start("branches")).result() == 2


async def test_more_def_executions_than_threads_all_run(harness: Harness) -> None:
    async with harness.engine(three_blocking_steps, threads=2) as engine:
        started = await asyncio.gather(*(engine.start("three_blocking_steps", n) for n in range(50)))
        assert await asyncio.gather(*(e.result() for e in started)) == [[0, 1, 2]] * 50


async def test_an_event_never_lies_before_the_one_it_follows(harness: Harness) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(three_steps, clock=clock) as engine:
        clock.move_to(clock.now() + 5000)
        execution = await engine.start("three_steps")
        clock._now -= 60_000  # the machine's clock is set back
        await execution.result()
        times = [event["EventTimestamp"] for event in wire(await execution.history())]
    assert times == sorted(times)


async def test_waiting_for_an_execution_that_is_suspended_elsewhere_sees_its_end(harness: Harness) -> None:
    @durable_execution
    async def asks(event: Any, context: AsyncDurableContext) -> Any:
        return await (await context.create_callback()).result()

    @durable_execution
    async def other(event: Any, context: AsyncDurableContext) -> None: ...

    held = VirtualClock(skipping=False)
    async with harness.engine(asks, clock=held) as one, harness.engine(other, clock=held) as two:
        execution = await one.start("asks")
        waits = await pending(execution)
        watched = asyncio.create_task((await two.get(execution.arn)).result())
        assert waits.callback_id is not None
        await two.succeed_callback(waits.callback_id, "from the other engine")
        assert await execution.result() == await watched == "from the other engine"


async def test_a_resting_coroutine_is_not_resumed_where_another_process_went_on(harness: Harness) -> None:
    """It rests in a branch that the other process has ended meanwhile; going on from there it would end the branch a second time."""

    @durable_execution
    async def asks_twice(event: Any, context: AsyncDurableContext) -> Any:
        async def ask(child: AsyncDurableContext, name: str, index: int, names: Any) -> Any:
            return await (await child.create_callback(name=name)).result()

        return (await context.map(["first", "second"], ask)).get_results()

    held = VirtualClock(skipping=False)
    async with harness.engine(asks_twice, clock=held) as one, harness.engine(asks_twice, clock=held) as two:
        execution = await one.start("asks_twice")
        answers = {name: (await pending(execution, name)).callback_id or "" for name in ("first", "second")}
        await two.succeed_callback(answers["first"], "there")
        await eventually(lambda: one._store.operations(execution.id)[1].ended_at)
        await pending(execution, "second")
        await one.succeed_callback(answers["second"], "here")
        assert await execution.result() == ["there", "here"]
        assert types(wire(await execution.history())).count("ContextSucceeded") == 3


async def test_a_caller_that_gives_up_does_not_leave_its_execution_behind(harness: Harness) -> None:
    async with harness.engine(three_steps) as engine:
        asked = asyncio.create_task(engine.start("three_steps", name="impatient"))
        await asyncio.sleep(0)  # it has queued its write
        asked.cancel()
        found = await engine.start("three_steps", name="impatient")
        assert not asked.done() or asked.cancelled()
        assert await asyncio.wait_for(found.result(), 20) == [0, 1, 2]


TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


async def test_a_handler_does_not_see_the_context_variables_of_another(harness: Harness) -> None:
    seen = []

    @durable_execution
    async def sets(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            pass

        TENANT.set("another")
        for _ in range(10):
            await context.step(body)

    @durable_execution
    async def looks(event: Any, context: AsyncDurableContext) -> None:
        seen.append(TENANT.get())

    async with harness.engine(sets, looks) as engine:
        started = [await engine.start(function) for _ in range(5) for function in (sets, looks)]
        for execution in started:
            await execution.result()
    assert seen == ["none"] * 5
