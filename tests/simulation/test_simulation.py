"""Simulations: the laws hold for every seed, a seed is one story, and mistakes that we make on purpose are found.

`make simulate SEEDS=5000 FROM=0` is the long form.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any
from zlib import crc32

import msgspec
import pytest

from holdfast.durable.operation import step
from holdfast.durable.plan import Record
from holdfast.engine.engine import Engine
from holdfast.model.draft import Draft
from holdfast.model.errors import StoreBroken
from holdfast.model.execution import Change, State, View
from holdfast.model.operations import Action, Update
from holdfast.model.verbs import Settle
from holdfast.store.sqlite.store import SqliteStore
from tests.parts import one_of_each
from tests.simulation.simulation import Simulated, SimulationFailed, simulate

SEEDS = int(os.environ.get("HOLDFAST_SIMULATION_SEEDS", "400"))
FROM = int(os.environ.get("HOLDFAST_SIMULATION_FROM", "0"))
GROUPS = min(16, SEEDS)
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


def found(opened: type[SqliteStore] = SqliteStore) -> SimulationFailed:
    """The first law that is seen to be broken."""
    for seed in range(ENOUGH):
        try:
            simulate(seed, opened=opened)
        except SimulationFailed as failed:
            return failed
    raise AssertionError(f"nothing was found in {ENOUGH} seeds")


class Hasty(SqliteStore):
    """Answers now and then before anything is on disk: it is in memory only, and dies with the process."""

    commits = 0

    def _put(self, done: Any) -> bool:
        self.commits += 1
        return False if self.commits % 20 == 0 else super()._put(done)


def test_an_acknowledgement_before_the_commit_is_found() -> None:
    failed = found(Hasty)
    assert f"make simulate FROM={failed.seed} SEEDS=1" in str(failed)


@pytest.mark.long
def test_a_lost_wake_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    suspend = Settle._suspend

    def blind(settle: Settle, draft: Draft, view: View, now: int) -> Change:
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


def test_an_engine_that_trusts_every_failure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_let_go", lambda engine: None)
    assert "does not end" in str(found(Deaf))
