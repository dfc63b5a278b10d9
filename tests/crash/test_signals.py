"""Who delivers signals is killed, or hangs: the other process goes on, without a gap, in the order of commits, each at least once."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.execution import ExecutionStatus
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from tests.conftest import ROOT
from tests.crash.listener import NAME, work
from tests.crash.scene import PATIENCE_SECONDS, until

KILLS = int(os.environ.get("HOLDFAST_CRASH_ROUNDS", "8")) // 2 + 1
PER_KILL = 30
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "2026"))


class Listeners:
    """A store, processes that listen to it, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store.db"
        self.log = folder / "signals.log"
        self.errors = folder / "errors.log"
        self.log.touch()
        self.client = Client.open(str(self.store), create=True)
        self.alive: dict[int, subprocess.Popen[str]] = {}
        self.dead: list[int] = []

    def add(self) -> int:
        """One more process, once it has joined."""
        command = [sys.executable, "-m", "tests.crash.listener", str(self.store), str(self.log)]
        with self.errors.open("ab") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.alive[process.pid] = process
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", self.errors.read_text()
        return process.pid

    def kill(self, pid: int) -> None:
        """`kill -9`."""
        process = self.alive.pop(pid)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        self.dead.append(pid)

    def close(self) -> None:
        for pid in list(self.alive):
            os.kill(pid, signal.SIGCONT)
            self.kill(pid)
        self.client.close()

    def start(self, *names: str) -> None:
        for name in names:
            self.client.start(work, name=name)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def all_closed(self) -> bool:
        return not list(self.client.list(Filter(statuses=(ExecutionStatus.RUNNING,), limit=1)))

    def delivery(self) -> tuple[str | None, int]:
        """The runner that delivers, and the last signal that was had, as the file says."""
        with closing(sqlite3.connect(self.store, timeout=10)) as rows:
            holder, cursor = rows.execute("SELECT holder, cursor FROM subscribers WHERE name = ?", (NAME,)).fetchone()
            return holder, int(cursor)

    def end_lease(self, runner: str) -> None:
        """Let a runner's lease be over, as if it had been silent for long."""
        with closing(sqlite3.connect(self.store, timeout=10, isolation_level=None)) as rows:
            rows.execute("UPDATE runners SET lease_until = 1 WHERE id = ?", (runner,))

    def told_of_all(self, names: list[str]) -> bool:
        ended = {line["name"] for line in self.lines() if line["status"] == "SUCCEEDED"}
        return ended >= set(names)


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[Listeners]:
    made = Listeners(tmp_path)
    try:
        yield made
    finally:
        made.close()


def check_order(lines: list[dict[str, Any]], names: list[str]) -> None:
    """Nothing before its turn, nothing left out, and for each execution its beginning before its end."""
    highest = 0
    for line in lines:
        assert line["number"] <= highest + 1, f"{highest + 1} was passed over: {line}"
        highest = max(highest, line["number"])
    first = {line["number"]: (line["name"], line["status"]) for line in lines}
    assert sorted(first) == list(range(1, 2 * len(names) + 1))
    told = [first[number] for number in sorted(first)]
    assert sorted(told) == sorted((name, status) for name in names for status in ("RUNNING", "SUCCEEDED"))
    for name in names:
        assert told.index((name, "RUNNING")) < told.index((name, "SUCCEEDED"))


@pytest.mark.timeout(PATIENCE_SECONDS + 10 * KILLS)
def test_a_killed_deliverer_leaves_no_gap(listeners: Listeners) -> None:
    chance = random.Random(SEED)
    names: list[str] = []
    for _ in range(2):
        listeners.add()
    for _ in range(KILLS):
        more = [f"n{n}" for n in range(len(names), len(names) + PER_KILL)]
        names += more
        before = len(listeners.lines())
        listeners.start(*more)
        wanted = before + chance.randint(1, PER_KILL)
        until(lambda: len(listeners.lines()) >= wanted, "signals of this round")  # noqa: B023
        listeners.kill(listeners.lines()[-1]["pid"])
        listeners.add()
    until(lambda: listeners.told_of_all(names), "every signal")
    assert listeners.all_closed()

    lines = listeners.lines()
    check_order(lines, names)
    pids = [line["pid"] for line in lines]
    delivered_last = [one for one, two in itertools.pairwise(pids) if one != two]
    assert delivered_last == listeners.dead, "each delivered until it was killed, and no other process delivered meanwhile"
    repeated = len(lines) - len({line["number"] for line in lines})
    print(f"{len(listeners.dead)} kills, {len(lines)} deliveries, {repeated} of them repeated")
    assert repeated <= 200 * KILLS, "what was delivered within a tenth of a second"


@pytest.mark.timeout(2 * PATIENCE_SECONDS)
def test_a_deliverer_that_hangs_past_its_lease_loses_the_delivery_and_may_get_it_back(listeners: Listeners) -> None:
    hung = listeners.add()
    listeners.start("a")
    until(lambda: listeners.told_of_all(["a"]), "the first signals")
    until(lambda: listeners.delivery()[1] == 2, "the cursor to be moved, so that it is not stopped while it writes")
    runner, _ = listeners.delivery()
    assert runner is not None
    os.kill(hung, signal.SIGSTOP)
    os.waitid(os.P_PID, hung, os.WSTOPPED)
    listeners.end_lease(runner)
    fresh = listeners.add()
    listeners.start("b")
    until(lambda: listeners.told_of_all(["a", "b"]), "the other one to deliver")

    os.kill(hung, signal.SIGCONT)
    listeners.start("c", "d")
    until(lambda: listeners.told_of_all(["a", "b", "c", "d"]), "the next signals")
    lines = listeners.lines()
    mine = [line for line in lines if line["pid"] == hung and line["name"] in "bcd"]
    assert mine == [], "the one that woke late has nothing to deliver"

    listeners.kill(fresh)
    listeners.start("e")
    until(lambda: listeners.told_of_all(["e"]), "the first one to deliver again")
    check_order(listeners.lines(), ["a", "b", "c", "d", "e"])
    assert listeners.lines()[-1]["pid"] == hung
