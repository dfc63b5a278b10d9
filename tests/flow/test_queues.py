"""Queues in an engine: what is enqueued begins when its queue lets it, everywhere at once, and costs an idle runner nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, Only, durable_execution
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import Item, enqueue_of
from holdfast.model import codec
from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError, InvalidParameter, StoreBroken
from holdfast.model.execution import ExecutionStatus, State
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import Mode, QueueRow
from holdfast.model.verbs import Started
from holdfast.service.settings import Settings
from holdfast.store.encryption import AesGcm
from tests.flow.harness import Harness, eventually
from tests.flow.queue_jobs import STORES, Asked, Line, declare, echo, engine_of, enqueued, harness_on, held_in

S = ExecutionStatus


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """On both stores, and on a file in both ways of waiting."""
    return harness_on(request.param, tmp_path)


async def ends(engine: Engine, *executions: str) -> list[Any]:
    """What each of them ended with."""
    return [codec.loads((await engine.ending(execution)).payload or "null") for execution in executions]


def set_mode(engine: Engine, mode: Mode, queue: str = "emails") -> None:
    row = engine.store.queue(queue) or QueueRow(name=queue)
    assert engine.store.set_queue(msgspec.structs.replace(row, mode=mode))
    engine.look_for_work()


# --- admission


async def test_a_lone_job_on_an_idle_queue_begins_in_its_own_write(harness: Harness) -> None:
    line = Line()
    async with engine_of(harness, held_in(line)) as engine:
        asked = Asked(engine)
        header = await enqueued(engine, "job", "1", queue="emails")
        assert (header.state, asked.commits, asked.admits) == (State.RUNNING, [["Start"]], [])
        line.open.set()
        assert await ends(engine, header.id) == [1]


async def test_no_more_run_at_once_than_the_queue_allows_and_each_that_ends_lets_the_next_in(harness: Harness) -> None:
    line = Line()
    declare(harness, limits={"at_once": 3})
    async with engine_of(harness, held_in(line)) as engine:
        jobs = [await enqueued(engine, "job", str(n), queue="emails") for n in range(10)]
        await eventually(lambda: len(line.came) == 3)
        assert [header.state for header in jobs] == [State.RUNNING] * 3 + [State.QUEUED] * 7
        line.open.set()
        assert await ends(engine, *(header.id for header in jobs)) == list(range(10))
        assert (line.most, line.came) == (3, list(range(10)))
        assert engine.registry.is_unused()


async def test_a_runner_that_has_just_admitted_something_admits_more_without_asking_first(harness: Harness) -> None:
    declare(harness, limits={"at_once": 1})
    async with engine_of(harness, echo) as engine:
        asked = Asked(engine)
        done = await engine.enqueue_many("echo", [Item(input=str(n)) for n in range(50)], enqueue_of("emails"))
        assert await ends(engine, *(one.header.id for one in done)) == list(range(50))
        assert sum(asked.admits) == 50
        assert asked.looks < 5


async def test_a_batch_of_slots_that_come_free_is_filled_by_one_admission(harness: Harness) -> None:
    line = Line()
    declare(harness, limits={"at_once": 20})
    async with engine_of(harness, held_in(line)) as engine:
        done = await engine.enqueue_many("job", [Item(input=str(n)) for n in range(100)], enqueue_of("emails"))
        await eventually(lambda: len(line.came) == 20)
        asked = Asked(engine)
        line.open.set()
        await ends(engine, *(one.header.id for one in done))
        assert sum(asked.admits) == 80
        assert len([count for count in asked.admits if count]) <= 2 * len([batch for batch in asked.commits if "Settle" in batch])


async def test_a_runner_without_room_asks_for_nothing_and_room_that_comes_free_is_filled(harness: Harness) -> None:
    line = Line()
    async with engine_of(harness, held_in(line), live=1) as engine:
        jobs = [await enqueued(engine, "job", str(n), queue="emails") for n in range(3)]
        await eventually(lambda: len(line.came) == 1)
        assert [header.state for header in jobs] == [State.RUNNING, State.QUEUED, State.QUEUED]
        line.open.set()
        assert await ends(engine, *(header.id for header in jobs)) == [0, 1, 2]
        assert line.most == 1
        assert engine.registry.is_unused()


async def test_an_idle_runner_does_not_ask_for_admissions(harness: Harness) -> None:
    async with engine_of(harness, echo) as engine:
        asked = Asked(engine)
        await ends(engine, (await enqueued(engine, "echo", "1", queue="emails")).id)
        for n in range(5):
            await ends(engine, (await engine.start("echo", str(n))).id)
            engine._agenda.ring()
        assert asked.admits == []


async def test_what_one_engine_enqueues_another_runs(harness: Harness) -> None:
    harness.clock.skipping = False  # an idle engine would move the clock beyond the deadline of what the other runs
    declare(harness, limits={"at_once": 2})
    async with engine_of(harness, echo) as here, engine_of(harness, echo) as there:
        here._reservations.reserve = lambda *_: None  # no room here
        for capacity in here.registry.claimable():
            capacity.free = 0
        jobs = [await enqueued(here, "echo", str(n), queue="emails") for n in range(5)]
        assert await ends(there, *(header.id for header in jobs)) == list(range(5))
        assert await ends(here, *(header.id for header in jobs)) == list(range(5))


async def test_an_admission_that_seems_to_fail_and_is_on_disk_runs_after_all(harness: Harness) -> None:
    line = Line()
    declare(harness, limits={"at_once": 1})
    async with engine_of(harness, held_in(line)) as engine:
        asked = Asked(engine, [StoreBroken("it was written after all")])
        jobs = [await enqueued(engine, "job", str(n), queue="emails") for n in range(3)]
        line.open.set()
        assert await ends(engine, *(header.id for header in jobs)) == [0, 1, 2]
        assert asked.admits.count(1) == 2
        assert engine.registry.is_unused()


# --- time


async def test_a_delayed_job_begins_when_its_delay_is_over(harness: Harness) -> None:
    async with engine_of(harness, echo) as engine:
        header = await enqueued(engine, "echo", "1", queue="emails", delay=0.25)
        later = await enqueued(engine, "echo", "2", queue="emails", delay=90)
        assert (header.state, later.state) == (State.DELAYED, State.DELAYED)
        assert await ends(engine, header.id, later.id) == [1, 2]
        for job, delay in ((header, 250), (later, 90_000)):
            place = engine.store.find(job.id).place
            assert 0 <= place.admitted_at - job.started_at - delay < 10


async def test_a_job_that_waits_longer_than_its_ttl_expires_and_its_caller_hears_of_it(harness: Harness) -> None:
    declare(harness, ttl_seconds=60)
    async with engine_of(harness, echo) as engine:
        set_mode(engine, Mode.PAUSED)
        jobs = [await enqueued(engine, "echo", "1", queue="emails"), await enqueued(engine, "echo", "1", queue="emails", ttl=5)]
        for job, seconds in ((jobs[1], 5), (jobs[0], 60)):
            header, payload = await engine.ending(job.id)
            assert header.status is S.STOPPED
            assert "expired" in payload
            assert header.ended_at - header.started_at == seconds * 1000


async def test_a_queue_that_is_resumed_admits_at_once(harness: Harness) -> None:
    async with engine_of(harness, echo) as engine:
        set_mode(engine, Mode.PAUSED)
        job = await enqueued(engine, "echo", "1", queue="emails")
        assert job.state is State.QUEUED
        set_mode(engine, Mode.OPEN)
        assert await ends(engine, job.id) == [1]
        assert engine.store.find(job.id).place.admitted_at - job.started_at < 1000


async def test_a_rate_spreads_admissions_and_each_comes_when_its_lane_opens(harness: Harness) -> None:
    declare(harness, limits={"rates": ["2/10s burst 2"]})
    async with engine_of(harness, echo) as engine:
        jobs = [await enqueued(engine, "echo", str(n), queue="emails") for n in range(6)]
        assert await ends(engine, *(job.id for job in jobs)) == list(range(6))
        began = [engine.store.find(job.id).place.admitted_at - jobs[0].started_at for job in jobs]
        assert [round(ms / 1000) for ms in began] == [0, 0, 5, 10, 15, 20]


async def test_a_rate_that_opens_while_there_is_no_room_here_does_not_make_the_runner_spin(harness: Harness) -> None:
    line = Line()
    declare(harness, limits={"rates": ["1/10s burst 1"]})
    async with engine_of(harness, held_in(line), live=1) as engine:
        jobs = [await enqueued(engine, "job", str(n), queue="emails") for n in range(2)]
        await eventually(lambda: line.came)
        harness.clock.skip_to(harness.clock.now() + 20_000)
        engine.look_for_work()
        await eventually(lambda: (engine._agenda.timer_at or 0) > harness.clock.now())
        line.open.set()
        assert await ends(engine, *(job.id for job in jobs)) == [0, 1]


async def test_a_job_that_waits_gives_its_slot_free_if_the_queue_says_so(harness: Harness) -> None:
    declare(harness, limits={"at_once": 1}, waiting="free")
    came: list[str] = []

    @durable_execution
    async def sleeper(event: str, context: AsyncDurableContext) -> str:
        came.append(f"{event} begins")
        await context.wait(Duration.from_seconds(10))
        came.append(f"{event} ends")
        return event

    async with engine_of(harness, sleeper) as engine:
        jobs = [await enqueued(engine, "sleeper", f'"{name}"', queue="emails") for name in "ab"]
        assert await ends(engine, *(job.id for job in jobs)) == ["a", "b"]
        assert engine.store.find(jobs[1].id).place.admitted_at - jobs[0].started_at < 1000, "b did not wait for a"
        assert engine.store.queue_state("emails", harness.clock.now()).held == 0
    assert set(came) >= {"a begins", "b begins", "a ends", "b ends"}


# --- names, and a queue that is full


async def test_an_enqueue_of_the_same_name_finds_the_job_or_replaces_it_or_is_refused(harness: Harness) -> None:
    line = Line()
    async with engine_of(harness, held_in(line)) as engine:
        first = await enqueued(engine, "job", "1", queue="emails", name="a")
        assert (await enqueued(engine, "job", "1", queue="emails", name="a")).id == first.id
        with pytest.raises(ExecutionAlreadyStarted):
            await enqueued(engine, "job", "1", queue="emails", name="a", same="refuse")
        with pytest.raises(InvalidParameter, match="`same` is 'other'"):
            await enqueued(engine, "job", "1", queue="emails", name="a", same="other")
        waiter = asyncio.ensure_future(engine.ending(first.id))
        await eventually(lambda: line.inside == 1)
        second = await enqueued(engine, "job", "2", queue="emails", name="a", same="replace")
        ended, payload = await waiter
        assert (ended.status, ended.superseded_by) == (S.STOPPED, second.id)
        assert "replaced" in (payload or "")
        line.open.set()
        assert await ends(engine, second.id) == [2]
        assert engine.registry.is_unused()


async def test_a_full_queue_refuses_and_says_when_to_come_back(harness: Harness) -> None:
    line = Line()
    declare(harness, limits={"at_once": 1}, most_waiting=2)
    async with engine_of(harness, held_in(line)) as engine:
        jobs = [await enqueued(engine, "job", str(n), queue="emails") for n in range(3)]
        with pytest.raises(QueueFull) as full:
            await enqueued(engine, "job", "3", queue="emails")
        assert full.value.retry_after_seconds > 0
        line.open.set()
        assert await ends(engine, *(job.id for job in jobs)) == [0, 1, 2]
        assert engine.registry.is_unused()


@pytest.mark.parametrize("key", ["k", "ä/" * 100], ids=["short", "longer than a lane names it"])
async def test_a_parked_job_is_redriven_under_its_name_in_its_lane(harness: Harness, key: str) -> None:
    tries: list[str] = []

    @durable_execution
    async def poor(event: str, context: AsyncDurableContext) -> str:
        tries.append(event)
        if len(tries) == 1:
            raise ValueError("not today")
        return event

    async with engine_of(harness, poor) as engine:
        first = await enqueued(engine, "poor", '"a"', queue="emails", key=key, name="letter")
        assert (await engine.ending(first.id)).header.parked
        assert [header.id for header in engine.store.parked("emails")] == [first.id]
        again = await engine.redrive(first.id)
        assert first.place
        assert again.place
        assert (again.name, again.place.lane) == ("letter", first.place.lane)
        assert await ends(engine, again.id) == ["a"]
        assert engine.store.parked("emails") == []
        with pytest.raises(InvalidParameter, match="not parked"):
            await engine.redrive(first.id)
        assert engine.store.find_named("poor", "letter").id == again.id


@pytest.mark.parametrize("sealed", [None, AesGcm({"k": bytes(32)}, "k")], ids=["plain", "with a codec"])
async def test_a_job_with_an_identity_is_found_by_it_also_after_a_redrive(harness: Harness, sealed: AesGcm | None) -> None:
    @durable_execution
    async def poor(event: str, context: AsyncDurableContext) -> str:
        if event == "a":
            raise ValueError("not today")
        return event

    settings = Settings(clock=harness.clock, resting=harness.resting, codec=sealed)
    async with holdfast.open(harness.store, functions=[poor], settings=settings) as opened:
        engine = opened._engine
        asked: dict[str, Any] = {"name": "letter", "identity": "who asks"}
        first = await engine.enqueue("poor", '"a"', enqueue_of("emails"), **asked)
        assert (await engine.ending(first.id)).header.parked
        again = await engine.redrive(first.id)
        found = await engine.enqueue("poor", '"another"', enqueue_of("emails"), **asked)
        assert found.id == again.id
        with pytest.raises(ExecutionAlreadyStarted):
            await engine.enqueue("poor", '"a"', enqueue_of("emails"), name="letter", identity="another asks")
        await engine.ending(again.id)


# --- many


async def test_many_are_enqueued_in_few_commits(harness: Harness) -> None:
    async with engine_of(harness, echo) as engine:
        asked = Asked(engine)
        done = await engine.enqueue_many("echo", [Item(input=str(n)) for n in range(2500)], enqueue_of("emails"))
        assert [len(batch) for batch in asked.commits if "Start" in batch] == [1000, 1000, 500]
        assert all(isinstance(one, Started) and one.header.state is State.QUEUED for one in done)
        assert await ends(engine, *(one.header.id for one in done)) == list(range(2500))


async def test_many_stop_at_the_commit_in_which_the_queue_is_full_and_tell_which_are_in(harness: Harness) -> None:
    declare(harness, most_waiting=3)
    async with engine_of(harness, echo) as engine:
        set_mode(engine, Mode.PAUSED)
        done = await engine.enqueue_many("echo", [Item(input=str(n)) for n in range(2000)], enqueue_of("emails"))
        assert [isinstance(one, HoldfastError) for one in done] == [False] * 3 + [True] * 997


async def test_a_runner_of_one_queue_runs_nothing_else_also_if_it_starts_or_answers_it_itself(tmp_path: Path) -> None:
    began: list[str] = []

    @durable_execution
    async def job(event: str, context: AsyncDurableContext) -> str:
        began.append(event)
        answer = await context.create_callback("ask")
        return str(await answer.result())

    async def asked(execution: Any) -> str:
        found = await eventually(lambda: [op.callback_id for op in engine._store.operations(execution.id) if op.callback_id])
        return str(found[0])

    store = tmp_path / "store.db"
    async with holdfast.open(store, functions=[job]) as engine:
        waits = await engine.enqueue(job, "waits", queue="others")
        callback = await asked(waits)
    emails = Settings(only=Only(queues=frozenset({"emails"})))
    async with holdfast.open(store, functions=[job], settings=emails) as engine:
        others = [await engine.start(job, "plain"), await engine.enqueue(job, "other", queue="others")]
        await engine.succeed_callback(callback, "yes")
        ours = await engine.enqueue(job, "ours", queue="emails")
        await engine.succeed_callback(await asked(ours), "done")
        assert await ours.result() == "done"
        assert began == ["waits", "ours"]
        headers = [engine._store.find(one.id) for one in (*others, waits)]
        assert [None if one is None else one.runner for one in headers] == [None, None, None]
    async with holdfast.open(store, functions=[job]) as engine:
        assert await (await engine.get(waits.id)).result() == "yes"
        for one in others:
            await engine.succeed_callback(await asked(one), "late")
            assert await (await engine.get(one.id)).result() == "late"
