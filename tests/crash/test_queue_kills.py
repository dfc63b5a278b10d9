"""Queued jobs are drained by two runners while one of them is killed again and again. Laws are checked on a log outside of the store."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.model import codec
from holdfast.model.admission import Enqueue
from holdfast.model.clock import SystemClock
from holdfast.model.execution import Execution, ExecutionStatus, Terms
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.model.queues import checked_declaration
from holdfast.model.starts import Start, Started
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter, Store
from tests.conftest import ROOT
from tests.crash.scene import PATIENCE_SECONDS, until
from tests.postgres import new_schema

JOBS = int(os.environ.get("HOLDFAST_QUEUE_JOBS", "1200"))
EVERY_SECONDS = float(os.environ.get("HOLDFAST_QUEUE_KILL_SECONDS", "0.7"))
AT_ONCE, PER_TENANT = 12, 5
RATE, BURST, METERED = 100, 10, max(150, JOBS // 20)
"""The other queue admits so many in a second, and so many at once; so many jobs go through it."""
POISONED = 50
"""Every so many jobs one is poisoned."""


class Runners:
    """Two processes that run jobs, and the log that they write. Where runners behave as users have them, the second one is a `holdfast
    runner`."""

    def __init__(self, store: str, log: Path, how: str) -> None:
        program = [sys.executable, "-m", "tests.crash.queue_jobs", store, how]
        runner = [sys.executable, "-m", "holdfast.cli", "runner", "tests/crash/queue_jobs.py", "--store", store]
        self._commands = [program, runner if how == "new" else program]
        self.log = log
        self.struck_at: dict[int, int] = {}
        self.killed_at: dict[int, int] = {}
        """By process: when it still lived, and when it surely did not any more."""
        self._living = [self._born(0), self._born(1)]
        for process in self._living:
            assert process.stdout is not None
            assert process.stdout.readline().startswith((b"ready", b"running what waits"))

    def _born(self, index: int) -> subprocess.Popen[bytes]:
        known = {**os.environ, "JOB_LOG": str(self.log), "PYTHONPATH": str(ROOT)}  # the file of jobs imports from `tests`
        return subprocess.Popen(self._commands[index], cwd=ROOT, env=known, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def kill(self, index: int) -> None:
        """`kill -9` of one of them; another takes its place."""
        self._end(self._living[index])
        self._living[index] = self._born(index)

    def close(self) -> None:
        """End both."""
        for process in self._living:
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self.struck_at[process.pid] = time.monotonic_ns()
        process.kill()
        process.wait()
        self.killed_at[process.pid] = time.monotonic_ns()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def runners(store: str, log: Path, how: str) -> Iterator[Runners]:
    log.touch()
    made = Runners(store, log, how)
    try:
        yield made
    finally:
        made.close()


def enqueue(store: Store, count: int, queue: str) -> dict[str, str]:
    """Enqueue jobs, many in each commit. Answers with their ids by name."""
    clock = SystemClock()
    made: dict[str, str] = {}
    for first in range(0, count, 1000):
        writes = []
        for n in range(first, min(first + 1000, count)):
            name, now = f"{queue}-{n}", clock.now()
            payload = codec.dumps({"job": name, **({"poison": True} if n % POISONED == 1 and queue == "jobs" else {})})
            header = new_execution(id_at(now), name, "job", "$LATEST", payload=payload, now=now, terms=Terms(), tenant=f"t{n % 4}")
            writes.append(Start(header, payload, enqueue=Enqueue(queue=queue)))
        for answer in store.commit(writes, clock.now()).answers:
            assert isinstance(answer, Started), answer
            made[answer.header.name] = answer.header.id
    return made


class Run(NamedTuple):
    """One run of a job, by the log outside."""

    began: int
    ended: int
    pid: int
    cut_off: bool


def runs_in(log: str, killed_at: dict[int, int]) -> dict[str, list[Run]]:
    """The runs of each job, the first one first. One that a kill cut off ran until its process was dead."""
    inside: dict[tuple[str, str], int] = {}
    runs: dict[str, list[Run]] = defaultdict(list)
    for line in log.splitlines():
        at, pid, name, what = line.split()
        if what == "begins":
            inside[pid, name] = int(at)
        else:
            runs[name].append(Run(inside.pop((pid, name)), int(at), int(pid), cut_off=False))
    for (pid, name), began in inside.items():
        runs[name].append(Run(began, killed_at[int(pid)], int(pid), cut_off=True))
    return {name: sorted(found) for name, found in runs.items()}


def check_twice(runs: dict[str, list[Run]], jobs: Iterable[str], struck_at: dict[int, int]) -> None:
    """Each job has run to its end. It began again only after the process in which it ran before was struck."""
    assert {name for name in jobs if all(run.cut_off for run in runs.get(name, ()))} == set(), "never ran to the end"
    for name, found in runs.items():
        for run, again in itertools.pairwise(found):
            assert struck_at[run.pid] <= again.began, f"{name} began again although its runner lived"


def check_limits(runs: dict[str, list[Run]], jobs: Iterable[str]) -> int:
    """Never more at once than the limits. Answers with the most at once."""
    events = [event for name in jobs for run in runs[name] for event in ((run.began, 1, name), (run.ended, -1, name))]
    most, now = 0, 0
    by_tenant: dict[int, int] = defaultdict(int)
    for _, step, name in sorted(events):
        now += step
        tenant = int(name.rpartition("-")[2]) % 4
        by_tenant[tenant] += step
        assert now <= AT_ONCE, f"{now} jobs at once"
        assert by_tenant[tenant] <= PER_TENANT, f"{by_tenant[tenant]} jobs of tenant {tenant} at once"
        most = max(most, now)
    return most


def check_rate(headers: list[Execution]) -> None:
    """In any span W at most BURST + RATE · W admissions."""
    times = sorted(
        header.place.admitted_at / 1000 for header in headers if header.place is not None and header.place.admitted_at is not None
    )
    assert len(times) == len(headers)
    least = float("inf")
    for n, at in enumerate(times):
        least = min(least, n - RATE * at)
        assert n - RATE * at - least <= BURST - 1 + RATE * 0.001, f"admission {n} came too early"  # times are whole milliseconds


def check_rate_outside(runs: dict[str, list[Run]], jobs: Iterable[str], since: int) -> None:
    """By the log: no job begins before the rate could have admitted so many since the first one was enqueued."""
    for n, began in enumerate(sorted(runs[name][0].began for name in jobs)):
        assert n + 1 <= BURST + RATE * (began - since) / 1e9 + 1e-6, f"job {n} began too early"


def all_of(store: Store, queue: str) -> list[Execution]:
    found: list[Execution] = []
    while page := store.list(Filter(queue=queue, oldest_first=True, beyond=found[-1].id if found else None, limit=1000)):
        found += page
    return found


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(300 + JOBS // 50)
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_queued_jobs_survive_kills_within_their_limits(backend: str, tmp_path: Path) -> None:
    where, how = (str(tmp_path / "store.db"), "new") if backend == "sqlite" else (new_schema(), "brisk")
    pause = EVERY_SECONDS if backend == "sqlite" else 1.5 * EVERY_SECONDS  # on a fleet a death is noticed when the lease is over
    store = open_store(where, "the test")
    store.declare(
        [
            checked_declaration("jobs", {"limits": {"at_once": AT_ONCE}, "per_tenant": {"at_once": PER_TENANT}}),
            checked_declaration("metered", {"limits": {"rates": [f"{RATE}/s burst {BURST}"]}}),
        ]
    )
    jobs = enqueue(store, JOBS, "jobs")
    since = time.monotonic_ns()
    metered = enqueue(store, METERED, "metered")
    chance, kills, began = random.Random(2026), 0, time.monotonic()
    with runners(where, tmp_path / "outside.log", how) as both:
        deadline = time.monotonic() + PATIENCE_SECONDS + JOBS / 50
        while any(store.queue_state(queue, 0).waiting for queue in ("jobs", "metered")):
            assert time.monotonic() < deadline, store.queue_state("jobs", 0)
            time.sleep(pause * (0.5 + chance.random()))
            both.kill(kills % 2)  # the one that has lived longer: the other one may still be starting, and have no job
            kills += 1
        until(lambda: not any(store.queue_state(queue, 0).held for queue in ("jobs", "metered")), "the last jobs to end")
        drained = time.monotonic() - began
    runs = runs_in(both.log.read_text(), both.killed_at)
    check_twice(runs, [*jobs, *metered], both.struck_at)
    most, cut_off = check_limits(runs, jobs), sum(run.cut_off for found in runs.values() for run in found)
    headers = {header.name: header for header in all_of(store, "jobs")}
    assert headers.keys() == jobs.keys()
    failed = {name for name, header in headers.items() if header.status is not ExecutionStatus.SUCCEEDED}
    poisoned = {f"jobs-{n}" for n in range(JOBS) if n % POISONED == 1}
    assert failed == poisoned
    assert {header.name for header in parked(store)} == poisoned
    assert all(header.id == jobs[name] for name, header in headers.items())
    check_rate(all_of(store, "metered"))
    check_rate_outside(runs, metered, since)
    assert most > AT_ONCE // 2
    assert cut_off, "no kill hit a job"
    print(f"{backend}: {len(jobs) + len(metered)} jobs in {drained:.1f} s, {kills} kills cut {cut_off} runs off, {most} at once")
    store.close()


def parked(store: Store) -> list[Any]:
    found: list[Any] = []
    while page := store.parked("jobs", beyond=found[-1].id if found else "", limit=1000):
        found += page
    return found


def test_a_job_that_runs_twice_although_its_runner_lives_is_found() -> None:
    """And so is one that never ran to its end: the checks of the test above can fail."""
    runs = runs_in("1 7 jobs-0 begins\n2 7 jobs-0 ends\n3 8 jobs-0 begins\n4 8 jobs-0 ends\n5 8 jobs-1 begins\n", {8: 9})
    check_twice(runs, ["jobs-0"], {7: 3})
    with pytest.raises(AssertionError, match="its runner lived"):
        check_twice(runs, ["jobs-0"], {7: 4})
    with pytest.raises(AssertionError, match="never ran to the end"):
        check_twice(runs, ["jobs-0", "jobs-1"], {7: 3})
    with pytest.raises(AssertionError, match="never ran to the end"):
        check_twice(runs, ["jobs-2"], {7: 3})
