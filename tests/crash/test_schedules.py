"""`kill -9` of runners whose schedules are due every second: an occurrence begins and its schedule moves together, or not at all; where the
policies leave nothing out, each second has one execution."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.schedules import CatchUp, occurrence_in
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter, Store
from tests.conftest import ROOT
from tests.crash.scene import until
from tests.postgres import new_schema


def runner(store: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.punctual", store]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.kill()
    process.wait()
    process.stdout.close()


def marks(store: Store) -> list[tuple[str, int, str]]:
    """Schedule, time and id of each execution that a schedule started."""
    found = []
    for header in store.list(Filter(limit=10_000)):
        occurrence = occurrence_in(store.history(header.id, 0, 1)[0].event.detail)
        assert occurrence is not None
        found.append((occurrence.schedule, occurrence.at, header.id))
    return found


def check(store: Store) -> None:
    before, started, after = store.schedules("", 10), marks(store), {state.name: state for state in store.schedules("", 10)}
    assert [pair for pair, count in Counter((name, at) for name, at, _ in started).items() if count > 1] == [], "once each"
    known = {(name, at): execution for name, at, execution in started}
    for state in before:
        times = sorted(at for name, at, _ in started if name == state.name)
        assert max(times, default=0) <= after[state.name].cursor, "no execution without the move of its schedule"
        if state.definition.catch_up is CatchUp.ALL:
            wanted = set(range(times[0], state.cursor + 1, 1000)) - {*state.waiting} if times else set()
            assert sorted(wanted - {*times}) == [], "none is left out"
        told = {line.at: line.execution for line in state.recent if line.outcome == "started"}
        assert {at: known.get((state.name, at)) for at in told} == told, "no move without its execution"


@pytest.mark.parametrize(
    "backend, rounds",
    [("sqlite", 2), pytest.param("sqlite", 12, marks=pytest.mark.long), pytest.param("postgres", 4, marks=pytest.mark.long)],
)
@pytest.mark.timeout(180)
def test_no_kill_separates_an_occurrence_from_the_move_of_its_schedule(tmp_path: Path, backend: str, rounds: int) -> None:
    path, chance = str(tmp_path / "s.db") if backend == "sqlite" else new_schema(), random.Random(16)
    count = 0
    for number in range(rounds):
        first, second = runner(path), runner(path)
        with closing(open_store(path, "a look from outside", None)) as store:
            before = len(marks(store))
            until(lambda: len(marks(store)) >= before + 4, "occurrences of both runners")  # noqa: B023
            time.sleep(chance.random())
            kill(first)
            check(store)
            if number % 2:
                until(lambda: len(marks(store)) >= before + 10, "the other runner goes on")  # noqa: B023
            kill(second)
            check(store)
            count = len(marks(store))
    assert count >= 4 * rounds
