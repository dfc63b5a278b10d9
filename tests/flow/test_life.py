"""The life of executions: starting by name, stopping, timing out, versions, listing, several engines on one store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.exceptions import InvocationError
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import (
    BlockingCallRefused,
    DuplicateFunction,
    EngineClosed,
    ExecutionAlreadyStarted,
    ExecutionFailed,
    ExecutionStopped,
    ExecutionTimedOut,
    FunctionNotFound,
    InvalidParameter,
    StoreBroken,
)
from holdfast.model.execution import ExecutionStatus
from holdfast.service.engines import BlockingEngine, BlockingExecution, OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import Harness, eventually, pending, types
from tests.histories import wire


@durable_execution
async def sleeper(event: Any, context: AsyncDurableContext) -> Any:
    await context.wait(Duration.from_days(1), name="sleep")
    return event


@durable_execution
async def echo(event: Any, context: AsyncDurableContext) -> Any:
    return event


async def test_the_same_name_with_the_same_input_is_the_same_execution(harness: Harness) -> None:
    async with harness.engine(echo) as engine:
        first = await engine.start("echo", {"a": 1, "b": 2}, name="order-42")
        again = await engine.start("echo", {"b": 2, "a": 1}, name="order-42")
        assert again.id == first.id
        assert await again.result() == {"a": 1, "b": 2}
        assert types(wire(await again.history())).count("ExecutionStarted") == 1


async def test_the_same_name_with_another_input_is_a_conflict(harness: Harness) -> None:
    async with harness.engine(echo) as engine:
        first = await engine.start("echo", 1, name="order-42")
        with pytest.raises(ExecutionAlreadyStarted, match=first.arn.replace("$", r"\$") + ". The input differs"):
            await engine.start("echo", 2, name="order-42")


async def test_a_thousand_starts_of_one_name_make_one_execution(harness: Harness) -> None:
    async with harness.engine(echo) as engine:
        started = await asyncio.gather(*(engine.start("echo", 1, name="same") for _ in range(1000)))
        assert len({execution.id for execution in started}) == 1


async def test_a_stopped_execution_tells_why_and_does_nothing_more(harness: Harness) -> None:
    async with harness.engine(sleeper, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("sleeper", 1)
        await pending(execution, "sleep")
        first = await execution.stop("not wanted any more", "Cancelled")
        assert (first.header.status, first.stopped) == ("STOPPED", True)
        with pytest.raises(ExecutionStopped, match="not wanted any more") as caught:
            await execution.result()
        assert caught.value.error_type == "Cancelled"
        second = await execution.stop("a second time changes nothing")
        assert (second.header, second.stopped) == (first.header, False)
        assert types(wire(await execution.history()))[-1] == "ExecutionStopped"


async def test_a_stop_ends_a_live_invocation_in_good_order(harness: Harness) -> None:
    began = asyncio.Event()

    @durable_execution
    async def busy(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            began.set()
            await asyncio.Event().wait()

        await context.step(body)

    async with harness.engine(busy, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("busy")
        await began.wait()
        await execution.stop()
        with pytest.raises(ExecutionStopped):
            await execution.result()
        assert types(wire(await execution.history()))[-2:] == ["InvocationCompleted", "ExecutionStopped"]


async def test_an_execution_times_out_as_a_whole(harness: Harness) -> None:
    @durable_execution(execution_timeout=60)
    async def short(event: Any, context: AsyncDurableContext) -> None:
        await context.wait(Duration.from_hours(1))

    async with harness.engine(short) as engine:
        execution = await engine.start("short")
        with pytest.raises(ExecutionTimedOut, match=r"Execution timed out after 60 seconds\."):
            await execution.result()
        history = wire(await execution.history())
    assert types(history)[-1] == "ExecutionTimedOut"
    assert history[-1]["EventTimestamp"] - history[0]["EventTimestamp"] == pytest.approx(60)


async def test_an_invocation_that_crashes_is_tried_nine_times(harness: Harness) -> None:
    tries: list[int] = []

    @durable_execution
    async def broken(event: Any, context: AsyncDurableContext) -> None:
        tries.append(1)
        raise InvocationError("the network is down")

    async with harness.engine(broken) as engine:
        execution = await engine.start("broken")
        with pytest.raises(ExecutionFailed, match="the network is down"):
            await execution.result()
        history = wire(await execution.history())
    assert len(tries) == 9
    assert types(history).count("InvocationCompleted") == 9
    assert history[1]["InvocationCompletedDetails"]["Error"]["Payload"]["ErrorMessage"] == "the network is down"


async def test_versions_run_side_by_side_and_stay_with_their_executions(harness: Harness) -> None:
    @durable_execution(name="greet", version=1)
    async def old(event: Any, context: AsyncDurableContext) -> str:
        await context.wait(Duration.from_days(1))
        return "old"

    @durable_execution(name="greet", version=2)
    async def new(event: Any, context: AsyncDurableContext) -> str:
        return "new"

    async with harness.engine(old, clock=VirtualClock(skipping=False)) as engine:
        resting = await engine.start("greet", name="first")
        await pending(resting)
    async with harness.engine(old, new) as engine:
        assert await (await engine.start("greet", name="second")).result() == "new"
        assert await (await engine.get(resting.arn)).result() == "old"


async def test_a_version_nobody_hosts_is_shown_as_such(harness: Harness) -> None:
    @durable_execution(name="greet", version=1)
    async def old(event: Any, context: AsyncDurableContext) -> None:
        await context.wait(Duration.from_seconds(1))

    clock = VirtualClock(skipping=False)
    async with harness.engine(old, clock=clock) as engine:
        left = await engine.start("greet")
        await pending(left)
    clock.move_to(clock.now() + 5_000)
    async with harness.engine(echo, clock=clock) as engine:
        execution = await engine.get(left.arn)
        await eventually_state(execution, "ready")
        assert "no runner here has function 'greet' in version 1" in (await execution.describe()).why


async def eventually_state(execution: Any, state: str) -> None:
    async with asyncio.timeout(20):
        while (await execution.describe()).state != state:
            await asyncio.sleep(0)


async def test_an_execution_goes_on_in_the_next_engine(harness: Harness) -> None:
    runs: list[str] = []

    @durable_execution
    async def two_steps(event: Any, context: AsyncDurableContext) -> str:
        async def body(step: StepContext) -> str:
            runs.append("first")
            return "kept"

        kept = await context.step(body)
        await context.wait(Duration.from_days(1))
        return kept

    async with harness.engine(two_steps, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("two_steps")
        await pending(execution)
    async with harness.engine(two_steps) as engine:
        assert await (await engine.get(execution.id)).result() == "kept"
    assert runs == ["first"]


async def test_an_orderly_shutdown_in_mid_step_is_not_a_death(harness: Harness) -> None:
    began = asyncio.Event()
    runs: list[int] = []

    @durable_execution
    async def busy(event: Any, context: AsyncDurableContext) -> str:
        async def body(step: StepContext) -> str:
            runs.append(1)
            if len(runs) == 1:
                began.set()
                await asyncio.Event().wait()
            return "second run"

        return await context.step(body)

    async with harness.engine(busy) as engine:
        execution = await engine.start("busy")
        await began.wait()
    async with harness.engine(busy) as engine:
        again = await engine.get(execution.id)
        assert await again.result() == "second run"
        history = wire(await again.history())
    interrupted = next(e for e in history if e["EventType"] == "InvocationCompleted")
    assert "Error" not in interrupted["InvocationCompletedDetails"]


async def test_two_engines_on_one_file_share_the_work_and_see_each_others_results(harness: Harness) -> None:
    still = VirtualClock(skipping=False)  # an engine without work moves the clock that both share, while the other one still works
    async with harness.engine(echo, clock=still) as one, harness.engine(echo, clock=still) as two:
        started = await asyncio.gather(*((one, two)[n % 2].start("echo", n) for n in range(100)))
        assert await asyncio.gather(*(e.result() for e in started)) == list(range(100))
        seen_by_two = await (await two.get(started[0].arn)).result()
    assert seen_by_two == 0


async def test_a_virtual_clock_does_not_go_to_the_deadline_of_an_execution_that_has_ended(harness: Harness) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @durable_execution
    async def held(event: Any, context: AsyncDurableContext) -> Any:
        begun.set()
        await release.wait()

    async with harness.engine(held) as engine:
        before, scheduler = harness.clock.now(), engine._engine._scheduler
        execution = await engine.start(held)
        await begun.wait()
        scheduler._agenda.ring()
        await eventually(lambda: scheduler._agenda.timer_at)  # as when another process wrote meanwhile
        release.set()
        await execution.result()
        await eventually(lambda: scheduler.idle)
        assert not await scheduler._skipped()
        assert harness.clock.now() == before


async def test_a_list_is_filtered_and_comes_in_pages(harness: Harness) -> None:
    async with harness.engine(echo, sleeper, clock=VirtualClock(skipping=False)) as engine:
        done = [await engine.start("echo", n) for n in range(5)]
        for execution in done:
            await execution.result()
        open_one = await engine.start("sleeper")
        newest = [x async for x in engine.list(Filter(function="echo", limit=2))]
        assert [x.id for x in newest] == [done[4].id, done[3].id]
        rest = [x async for x in engine.list(Filter(function="echo", beyond=newest[-1].id))]
        assert [x.id for x in rest] == [done[2].id, done[1].id, done[0].id]
        running = [x async for x in engine.list(Filter(statuses=(ExecutionStatus.RUNNING,)))]
        assert [x.id for x in running] == [open_one.id]


async def test_an_unknown_function_names_those_that_are_known(harness: Harness) -> None:
    async with harness.engine(echo) as engine:
        with pytest.raises(FunctionNotFound, match="Known functions: echo"):
            await engine.start("ecko")
        with pytest.raises(FunctionNotFound, match="has no version 9"):
            await engine.start("echo", version=9)


async def test_bad_names_and_versions_are_refused_before_anything_is_written(harness: Harness) -> None:
    async with harness.engine(echo) as engine:
        with pytest.raises(InvalidParameter, match="Execution name"):
            await engine.start("echo", name="no spaces please")
        with pytest.raises(InvalidParameter, match="Version"):
            await engine.start("echo", version=-1)
        assert [x async for x in engine.list()] == []


async def test_two_functions_of_one_name_are_refused_at_open(harness: Harness) -> None:
    with pytest.raises(DuplicateFunction, match="echo"):
        async with harness.engine(echo, echo):
            pass


def test_a_plain_function_is_refused_at_open() -> None:
    def plain(event: Any, context: Any) -> None: ...

    with pytest.raises(InvalidParameter, match="@durable_execution"):
        _ = holdfast.open(":memory:", functions=[plain])  # type: ignore[list-item]


def test_the_same_verbs_work_without_asyncio() -> None:
    settings = Settings(clock=VirtualClock())
    with holdfast.open(":memory:", functions=[sleeper], settings=settings) as engine:
        execution = engine.start("sleeper", {"n": 1}, name="one")
        assert execution.result() == {"n": 1}
        assert types(wire(execution.history()))[-1] == "ExecutionSucceeded"


def test_a_blocking_call_on_a_handlers_thread_is_refused_instead_of_waiting_for_ever() -> None:
    @durable_execution
    def selfish(event: Any, context: DurableContext) -> str:
        try:
            engine.start("selfish").result()
        except BlockingCallRefused as refused:
            return refused.code
        return "it waited"

    with holdfast.open(":memory:", functions=[selfish]) as engine:
        assert engine.start("selfish").result() == "blocking_call_refused"


async def test_a_suspended_execution_says_why_it_waits(harness: Harness) -> None:
    async with harness.engine(sleeper, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("sleeper")
        waits = await pending(execution)
        description = await execution.describe()
    assert description.why == "It waits for Wait 'sleep'."
    assert waits.woken_by == "the clock"
    assert waits.due_at == description.started_at + 86_400_000


def test_the_blocking_surface_has_the_verbs_of_the_awaited_one() -> None:
    def verbs(cls: type) -> set[str]:
        return {name for name in dir(cls) if callable(getattr(cls, name)) and not name.startswith("_")}

    assert verbs(BlockingEngine) == verbs(OpenEngine) - {"create", "close"}
    assert verbs(BlockingExecution) == verbs(OpenExecution)


async def test_an_idle_engine_asks_the_store_one_question_per_look(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps idle CPU low: `make bench` measures it, this says why."""
    asked: list[str] = []
    looks = 0
    changed = SqliteStore.changed

    def counted(self: SqliteStore) -> bool:
        nonlocal looks
        if not looks:
            self._writer.set_trace_callback(asked.append)
            self._reader.set_trace_callback(asked.append)
        found = changed(self)
        looks += 1  # after its question: the loop counts questions as soon as it sees the number
        return found

    monkeypatch.setattr(SqliteStore, "changed", counted)
    async with Harness(tmp_path, resting=10).engine(sleeper, clock=VirtualClock(skipping=False)) as engine:
        await pending(await engine.start("sleeper"))
        looks = 0
        asked.clear()
        async with asyncio.timeout(20):
            while looks < 10:
                await asyncio.sleep(0)
        said = list(asked)
    assert said.count("PRAGMA data_version") == 10
    assert len(said) <= 10 + 8, "once a second it also looks for dead runners and the next timer"


def test_a_verb_of_a_blocking_engine_after_its_close_says_that_the_engine_is_closed() -> None:
    @durable_execution
    def answer(event: Any, context: DurableContext) -> int:
        return 42

    with holdfast.open(":memory:", functions=[answer]) as engine:
        execution = engine.start(answer)
        assert execution.result() == 42
    for verb in (execution.result, execution.describe, lambda: engine.start(answer), lambda: [*engine.list()]):
        with pytest.raises(EngineClosed, match="open it again"):
            verb()


async def test_an_execution_after_the_close_of_its_engine_says_that_the_store_was_closed() -> None:
    @durable_execution
    async def answer(event: Any, context: AsyncDurableContext) -> int:
        return 42

    async with holdfast.open(":memory:", functions=[answer]) as engine:
        execution = await engine.start(answer)
        assert await execution.result() == 42
    with pytest.raises(StoreBroken, match="was closed by this process"):
        await execution.describe()
