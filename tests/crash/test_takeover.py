"""One process dies, hangs or is told something by another: who goes on, when, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine import runner_leases
from holdfast.model.clock import SystemClock, monotonic
from holdfast.model.errors import LeaseLost
from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.ids import Position, id_at
from holdfast.model.life import Claimant, next_try
from holdfast.model.operations import Action, Type, Update
from holdfast.model.verbs import Checkpoint, Checkpointed, Claim, Start, Started
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from tests.crash import worker as hosted
from tests.crash.laws import check_history, died
from tests.crash.scene import PATIENCE_SECONDS, POLL_SECONDS, Scene, until
from tests.histories import wire


def until_suspended(scene: Scene, execution: str) -> None:
    until(lambda: scene.client.get(execution).state is State.SUSPENDED, "the execution to wait")


def until_told(scene: Scene, step: str, times: int) -> None:
    until(lambda: len(scene.told("x", step)) >= times, f"{step} to run {times} times")


@pytest.mark.parametrize("once", [False, True], ids=["at least once", "at most once"])
def test_a_restart_takes_over_before_the_lease_is_over(scene: Scene, once: bool) -> None:
    scene.hold.touch()
    first = scene.worker().wait_until_ready()
    execution = scene.start(hosted.holding, "x", once=once)
    until(lambda: scene.told("x", "held"), "the step to be at work")
    until(lambda: scene.client.operations(execution), "its start to be on disk")
    runner = scene.client.get(execution).runner
    assert runner is not None
    scene.kill(first)
    lease_until = scene.leases()[runner]
    scene.hold.unlink()

    second = scene.worker().wait_until_ready()
    header = scene.closed(execution)

    assert header.ended_at is not None
    assert header.ended_at < lease_until
    assert scene.result(execution)[0] == second.pid
    history = wire(scene.client.history(execution))
    check_history(history)
    assert died(history) == 1
    held = [(body["pid"], body["attempt"]) for body in scene.told("x", "held")]
    assert held == [(first.pid, 1), (second.pid, 2 if once else 1)]


def test_another_live_process_takes_over_before_the_lease_is_over(scene: Scene) -> None:
    scene.hold.touch()
    first = scene.worker().wait_until_ready()
    execution = scene.start(hosted.holding, "x")
    until(lambda: scene.told("x", "held"), "the step to be at work")
    second = scene.worker().wait_until_ready()
    runner = scene.client.get(execution).runner
    assert runner is not None
    scene.kill(first)
    lease_until = scene.leases()[runner]
    scene.hold.unlink()

    header = scene.closed(execution)

    assert header.ended_at is not None
    assert header.ended_at < lease_until
    assert scene.result(execution)[0] == second.pid


def test_a_process_that_dies_again_and_again_without_progress_is_not_tried_for_ever(scene: Scene) -> None:
    scene.hold.touch()
    execution = scene.start(hosted.holding, "x")
    for deaths in (1, 2, 3):
        worker = scene.worker().wait_until_ready()
        until_told(scene, "held", deaths)
        until(lambda: scene.client.operations(execution), "its start to be on disk: it is progress, and would end the count")
        assert scene.client.get(execution).deaths == deaths - 1
        scene.kill(worker)
    scene.hold.unlink()
    scene.worker().wait_until_ready()
    until(lambda: next_try(scene.client.get(execution)), "the execution to be put aside for a while")
    assert len(scene.told("x", "held")) == 3
    scene.client.release(execution)
    scene.closed(execution)
    assert scene.result(execution)
    check_history(wire(scene.client.history(execution)))


def test_only_what_kills_its_process_is_put_aside_and_not_what_runs_beside_it(scene: Scene) -> None:
    scene.hold.touch()
    beside = [scene.start(hosted.holding, f"x{n}", seconds=1) for n in range(2)]
    killer = scene.start(hosted.deadly, "x")
    for _ in range(3):
        worker = scene.worker()
        worker.wait_until_dead()
        scene.kill(worker)
    scene.worker().wait_until_ready()
    until(lambda: next_try(scene.client.get(killer)), "the killer to be put aside for a while")
    until(lambda: all(scene.client.get(execution).state is State.CLOSED for execution in beside), "the others to end")
    for execution in beside:
        assert scene.result(execution)
        assert died(wire(scene.client.history(execution))) == 2, "it was hit as often as it may be"
    assert len(scene.told("x", "deadly")) == 3
    assert died(wire(scene.client.history(killer))) == 3


@pytest.mark.parametrize("once", [False, True], ids=["at least once", "at most once"])
def test_a_paused_process_that_wakes_late_can_write_nothing(scene: Scene, once: bool) -> None:
    scene.hold.touch()
    paused = scene.worker().wait_until_ready()
    execution = scene.start(hosted.holding, "x", once=once)
    until(lambda: scene.told("x", "held"), "the step to be at work")
    until(lambda: scene.client.operations(execution), "its start to be on disk")
    stale = scene.client.get(execution).runner
    assert stale is not None
    paused.pause()
    scene.hold.unlink()
    scene.end_lease(stale)

    fresh = scene.worker(awake=True).wait_until_ready()
    scene.closed(execution)
    before = wire(scene.client.history(execution))
    paused.go_on()
    until(lambda: [body for body in scene.told("x", "let go") if body["pid"] == paused.pid], "the late body to come back")
    # It writes next. It is well when it runs something new: by then it has been told that the old one is not its own any more.
    scene.kill(fresh)
    scene.closed(scene.start(hosted.holding, "y"))

    assert scene.result("y")[0] == paused.pid
    assert scene.result("x")[0] == fresh.pid
    assert wire(scene.client.history(execution)) == before
    check_history(before)
    assert died(before) == 1
    held = [(body["pid"], body["attempt"]) for body in scene.told("x", "held")]
    assert held == [(paused.pid, 1), (fresh.pid, 2 if once else 1)]
    assert [body["pid"] for body in scene.told("x", "after")] == [fresh.pid]


async def fact(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(POLL_SECONDS)


class SleepingClock(SystemClock):
    """The machine's time, on a machine that sleeps."""

    slept = 0

    def now(self) -> int:
        return super().now() + self.slept


async def test_who_slept_with_the_machine_is_not_taken_for_dead(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runners wake with all leases long over. The one that looks first must wait until the other could say that it lives."""
    for name, seconds in {"RENEWAL_SECONDS": 0.5, "LOOK_SECONDS": 0.1, "AWAKE_SECONDS": 0.6}.items():
        monkeypatch.setattr(runner_leases, name, seconds)
    clock = SleepingClock()
    settings = Settings(clock=clock)
    go = asyncio.Event()

    async def body(_: Any) -> str:
        await go.wait()
        return "done"

    @holdfast.durable_execution
    async def held(event: Any, context: Any) -> Any:
        return await context.step(body)

    async with holdfast.open(scene.store, functions=[held], settings=settings) as one:
        execution = await one.start(held)
        runner = one._engine.runner
        async with holdfast.open(scene.store, functions=[held], settings=settings) as two:
            leases = two._engine._scheduler._leases
            await fact(lambda: monotonic() - leases._awake_at > 1)  # it would call a silent runner dead
            lease = scene.leases()[runner]
            await fact(lambda: scene.leases()[runner] != lease)  # there is time until the next one
            clock.slept = 3_600_000
            woken_at = clock.now()
            await fact(lambda: leases._looked_at > woken_at and scene.leases()[runner] > woken_at)
            assert scene.leases().keys() == {runner, two._engine.runner}
            looked_at = leases._looked_at
            await fact(lambda: leases._looked_at > looked_at + 1000)
            go.set()
            assert await execution.result() == "done"
    assert died(wire(scene.client.history(execution.id))) == 0


def test_a_stale_writer_in_a_batch_spoils_nobody_elses_write(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store.db"), "r1")
    try:
        store.join("r1", 10)
        started = store.commit([Start(execution(name), "null", Claimant("r1", name)) for name in ("lost", "kept")], 1).answers
        lost, kept = (answer.header for answer in started if isinstance(answer, Started))
        store.commit([Claim(lost.id, Claimant("r2", "i2"), frozenset({"r1"}))], 2)
        step = Update(id="1", type=Type.STEP, action=Action.START)

        refused, accepted = store.commit([Checkpoint(Position(x.id, x.epoch, 0, 1), (step,)) for x in (lost, kept)], 3).answers

        assert isinstance(refused, LeaseLost)
        assert isinstance(accepted, Checkpointed)
        assert [store.operations(x.id) != [] for x in (lost, kept)] == [False, True]
    finally:
        store.close()


def execution(name: str) -> Execution:
    return Execution(
        id=id_at(0),
        function="f",
        version="1",
        name=name,
        input_hash="",
        terms=Terms(60, 1),
        started_at=0,
        deadline=0,
    )


@pytest.mark.alone
def test_an_answer_from_another_process_wakes_an_execution_within_100_ms(scene: Scene) -> None:
    scene.worker().wait_until_ready()
    late = []
    for n in range(5):
        execution = scene.start(hosted.asking, f"x{n}")
        until_suspended(scene, execution)
        (callback,) = scene.client.operations(execution)
        assert callback.callback_id is not None
        scene.answer(callback.callback_id, "here")
        scene.closed(execution)
        assert scene.result(execution) == "here"
        times = {event["EventType"]: event["EventTimestamp"] for event in wire(scene.client.history(execution))}
        late.append(times["StepStarted"] - times["CallbackSucceeded"])
    assert sorted(late)[len(late) // 2] <= 0.1, late


def test_a_stop_from_another_process_ends_a_running_execution(scene: Scene) -> None:
    worker = scene.worker().wait_until_ready()
    execution = scene.start(hosted.endless, "x")
    until(lambda: scene.told("x", "endless"), "the step to be at work")
    until(lambda: scene.client.operations(execution), "its start to be on disk")

    scene.client.stop(execution, "enough")

    until(lambda: scene.told("x", "cancelled"), "the step to be cancelled")
    header = scene.closed(execution)
    assert header.status is ExecutionStatus.STOPPED
    history = wire(scene.client.history(execution))
    check_history(history)
    assert [event["EventType"] for event in history[-2:]] == ["InvocationCompleted", "ExecutionStopped"]
    scene.closed(scene.start(hosted.holding, "y"))
    assert scene.result("y")[0] == worker.pid
    assert wire(scene.client.history(execution)) == history


def test_a_stop_from_another_process_ends_a_waiting_execution(scene: Scene) -> None:
    scene.worker().wait_until_ready()
    execution = scene.start(hosted.asking, "x")
    until_suspended(scene, execution)
    scene.client.stop(execution)
    scene.closed(scene.start(hosted.holding, "y"))
    assert scene.client.get(execution).status is ExecutionStatus.STOPPED
    check_history(wire(scene.client.history(execution)))
