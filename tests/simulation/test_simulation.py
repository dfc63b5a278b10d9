"""Simulations: the laws hold for every seed, a seed is one story, and mistakes that we make on purpose are found.

`make simulate SEEDS=5000 FROM=0` is the long form.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any
from zlib import crc32

import msgspec
import pytest

from holdfast.durable.operation import step
from holdfast.durable.plan import Record
from holdfast.engine import timetable
from holdfast.engine.unsure_claims import UnsureClaims
from holdfast.model import transitions
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import StoreBroken, StoreBusy
from holdfast.model.execution import Change, Execution, ExecutionStatus, State, View
from holdfast.model.operations import Action, Update
from holdfast.model.queues import UNLIMITED
from holdfast.model.verbs import Settle
from holdfast.store import rows
from holdfast.store.lane_book import LaneBook
from holdfast.store.seam import Committed
from holdfast.store.sqlite.store import SqliteStore
from tests.parts import one_of_each
from tests.simulation.simulation import Simulated, SimulationFailed, simulate

SEEDS = int(os.environ.get("HOLDFAST_SIMULATION_SEEDS", "400"))
FROM = int(os.environ.get("HOLDFAST_SIMULATION_FROM", "0"))
GROUPS = min(32, SEEDS)
ENOUGH = 40
"""Seeds within which a planted mistake must be found."""


@pytest.mark.parametrize("group", one_of_each(range(GROUPS), kind=lambda group: "seeds"))
def test_whatever_goes_wrong_everything_ends_and_the_laws_hold(group: int) -> None:
    broken = []
    for seed in range(FROM + group, FROM + SEEDS, GROUPS):
        try:
            simulate(seed)
        except SimulationFailed as failed:
            broken.append(failed)
    assert not broken, f"seeds {[failed.seed for failed in broken]}\n{broken[0]}"


def fingerprint(seed: int) -> tuple[int, int, int]:
    """Of everything that happened."""
    told: Simulated = simulate(seed)
    return crc32("\n".join(told.trace).encode()), told.picks, told.turns


@pytest.mark.parametrize("seed", [3, pytest.param(31, marks=pytest.mark.long)])
def test_a_seed_is_the_same_story_in_every_process(seed: int) -> None:
    code = f"from tests.simulation.test_simulation import fingerprint; print(fingerprint({seed}))"
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment)
    assert str(fingerprint(seed)) == other.stdout.strip()


def test_two_seeds_are_two_stories() -> None:
    assert simulate(1).trace != simulate(2).trace


# --- mistakes on purpose


def found(opened: type[SqliteStore] = SqliteStore, seeds: int = ENOUGH) -> SimulationFailed:
    """The first law that is seen to be broken."""
    for seed in range(seeds):
        try:
            simulate(seed, opened=opened)
        except SimulationFailed as failed:
            return failed
    raise AssertionError(f"nothing was found in {seeds} seeds")


class Hasty(SqliteStore):
    """Answers now and then before anything is on disk: it is in memory only, and dies with the process."""

    commits = 0

    def _put(self, done: Any, now: int, walked: Any = ()) -> bool:
        self.commits += 1
        return False if self.commits % 20 == 0 else super()._put(done, now, walked)


def test_an_acknowledgement_before_the_commit_is_found() -> None:
    failed = found(Hasty)
    assert f"make simulate FROM={failed.seed} SEEDS=1" in str(failed)


@pytest.mark.long
def test_a_lost_wake_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    suspend = Settle._suspend

    def blind(settle: Settle, draft: WriteDraft, view: View, now: int) -> Change:
        change = suspend(settle, draft, view, now)
        header = change.header
        if header.state is State.READY:  # it does not look whether anything happened meanwhile
            return msgspec.structs.replace(change, header=msgspec.structs.replace(header, state=State.SUSPENDED))
        return change

    monkeypatch.setattr(Settle, "_suspend", blind)
    assert "does not end" in str(found())


@pytest.mark.long
def test_an_at_most_once_start_that_is_not_on_disk_before_its_body_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def riding(update: Update, wait: bool = True) -> Record:
        return Record(update, wait=wait and update.action is not Action.START)

    monkeypatch.setattr(step, "Record", riding)
    assert "at most 1 are allowed" in str(found())


class Deaf(SqliteStore):
    """Says now and then that it failed when it did not."""

    commits = 0

    def _commit(self, batch: Any, now: int) -> Any:
        self.commits += 1
        done = super()._commit(batch, now)
        if self.commits % 9 == 0:
            self._views.clear()
            raise StoreBroken("written after all")
        return done


def test_what_was_claimed_by_a_write_that_seemed_to_fail_is_run_after_all() -> None:
    for seed in range(5):
        simulate(seed, opened=Deaf)


class DeafAndBusy(Deaf):
    """Is busy, too, when the engine looks whether a write that seemed to fail is there."""

    busy = 0

    def _commit(self, batch: Any, now: int) -> Any:
        try:
            return super()._commit(batch, now)
        except StoreBroken:
            self.busy = 2
            raise

    def find(self, execution: str) -> Execution | None:
        if self.busy:
            self.busy -= 1
            raise StoreBusy("busy")
        return super().find(execution)


def test_a_busy_store_does_not_keep_the_engine_from_what_a_write_that_seemed_to_fail_has_claimed() -> None:
    for seed in range(6):
        simulate(seed, opened=DeafAndBusy)


def test_an_engine_that_trusts_every_failure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnsureClaims, "let_go", lambda claims: None)
    assert "does not end" in str(found(Deaf))


# --- mistakes with queues


class DeafAdmission(SqliteStore):
    """Says now and then that an admission failed when it did not."""

    admits = 0

    def admit(self, targets: Any, by: Any, now: int) -> Committed:
        done = super().admit(targets, by, now)
        self.admits += bool(done.answers)
        if done.answers and self.admits % 3 == 0:
            raise StoreBroken("written after all")
        return done


def test_what_was_admitted_by_a_call_that_seemed_to_fail_is_run_after_all() -> None:
    for seed in range(5):
        simulate(seed, opened=DeafAdmission)


@pytest.mark.long
def test_an_engine_that_trusts_a_failed_admission_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnsureClaims, "let_go", lambda claims: None)
    assert "does not end" in str(found(DeafAdmission))


class Generous(SqliteStore):
    """Forgets how many a lane may admit, once the lane is open."""

    def _open_lanes(self, *asked: Any) -> Any:
        lanes = super()._open_lanes(*asked)
        for lane in lanes:
            lane.at_once = UNLIMITED
        return lanes


@pytest.mark.long
def test_an_admission_beyond_a_limit_is_found() -> None:
    assert "are allowed at once" in str(found(Generous, 4 * ENOUGH))  # few stories have two jobs that wait for one place


@pytest.mark.long
def test_a_slot_that_a_stop_does_not_give_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    move = LaneBook.move

    def forgetful(book: LaneBook, before: Execution | None, change: Change) -> None:
        if change.header.status is not ExecutionStatus.STOPPED:
            move(book, before, change)

    monkeypatch.setattr(LaneBook, "move", forgetful)
    assert "are held" in str(found())


@pytest.mark.long
def test_an_enqueue_that_is_made_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueued = transitions._enqueued

    def twice(draft: WriteDraft, update: Update, before: Any, child: Any) -> Any:
        done = enqueued(draft, update, before, child)
        if draft.births:
            again = draft.births[-1]
            identity = again.header.id[:-4] + "ffff"
            draft.births.append(msgspec.structs.replace(again, header=msgspec.structs.replace(again.header, id=identity, name=identity)))
        return done

    monkeypatch.setattr(transitions, "_enqueued", twice)
    assert "was enqueued by no execution" in str(found())


# --- mistakes with schedules


class Forgetful(SqliteStore):
    """Now and then starts an occurrence and does not move its schedule."""

    moves = 0

    def _move_schedules(self, schedules: Any) -> None:
        self.moves += 1
        if self.moves % 3:
            super()._move_schedules(schedules)


@pytest.mark.long
def test_an_occurrence_that_is_started_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = itertools.count()  # else the name of the execution would tell the engine that the occurrence was started before
    monkeypatch.setattr(timetable, "execution_name", lambda occurrence: f"{occurrence.schedule}-{next(names)}")
    assert "was started twice" in str(found(Forgetful))


class Backward(SqliteStore):
    """Writes once a cursor that lies before the one that is there."""

    moves = 0

    def move_schedule(self, schedule: Any) -> bool:
        self.moves += 1
        if self.moves != 2:
            return super().move_schedule(schedule)
        return super().put_schedule(msgspec.structs.replace(schedule, cursor=schedule.cursor - 60_000))


@pytest.mark.long
def test_a_cursor_that_goes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "guard", lambda schedule: (schedule.name, schedule.revision - 1, 1 << 62))
    assert "went back" in str(found(Backward))
