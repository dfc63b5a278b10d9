"""The evaluators of a process, shared fairly: each party has at most one check running; its other checks wait in its own queue.

One thread waits for each evaluator and computes nothing. Threads and processes start when there is work, and end when there is no work for
a while. A party is the worker of a tenant for which a check is made. So the many checks of a hostile party wait for each other, and do not
fill the queue of other parties. The CPU of a check is charged to the party's tenant (`cpu_shares.py`).
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from typing import Final, NamedTuple

from holdfast.hosts import cpu_shares
from holdfast.hosts.cpu_shares import CpuShares
from holdfast.hosts.evaluator.check_frames import Check, CheckResult
from holdfast.hosts.evaluator.evaluator_process import Evaluator, EvaluatorDied
from holdfast.model.clock import monotonic

PROCESSES: Final = 2
SECONDS: Final = 2.0
"""The time limit of one check."""
MOST_WAITING: Final = 64
"""At most this many checks of one party may wait."""
IDLE_SECONDS: Final = 60.0
_SHORT: Final = 0.25
_RESTS: Final = 3
"""After a check that took longer than `_SHORT` seconds, no check of its party starts for a pause. The pause is this many times as long
as the check took."""


def party_of(tenant: str, worker_id: str) -> str:
    """The name of a party: the worker of a tenant for which a check is made."""
    return f"{tenant}/{worker_id}"


def _tenant_of(who: str) -> str | None:
    """The tenant in a party's name: the part before the last `/`. None if the name has no `/`, for example because the party is the
    person who asked for a run."""
    return who.rpartition("/")[0] or None


class TooManyChecks(Exception):
    """Raised if too many checks of this party wait already, or if the evaluators are closed."""


class _Job(NamedTuple):
    who: str
    check: Check
    told: Future[CheckResult]


class Evaluators:
    """A limited number of evaluators, which all parties share fairly."""

    def __init__(
        self, processes: int = PROCESSES, seconds: float = SECONDS, idle_seconds: float = IDLE_SECONDS, shares: CpuShares | None = None
    ) -> None:
        self._shares = shares or CpuShares()
        self._most, self._seconds, self._idle_seconds = processes, seconds, idle_seconds
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._busy: set[str] = set()
        self._resting: dict[str, float] = {}
        self._threads = self._idle = 0
        self._closed = False
        self._live: set[Evaluator] = set()

    def submit(self, who: str, check: Check) -> Future[CheckResult]:
        """Queue a check for the party `who`. Raises TooManyChecks if too many checks of this party wait already, or after `close`.

        The future raises EvaluatorLate if the check takes too long. It raises EvaluatorDied if the process of the check cannot be started,
        or ends without an answer, also because of `close`.
        """
        told: Future[CheckResult] = Future()
        with self._changed:
            jobs = self._waiting.setdefault(who, deque())
            if len(jobs) >= MOST_WAITING or self._closed:
                raise TooManyChecks
            jobs.append(_Job(who, check, told))
            if sum(map(self._may, self._waiting)) > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=f"holdfast-evaluator-{self._threads}", daemon=True).start()
            self._changed.notify()
        return told

    @property
    def pids(self) -> list[int]:
        """The pids of the evaluators' processes."""
        with self._changed:
            return [pid for evaluator in self._live if (pid := evaluator.pid) is not None]

    def close(self) -> None:
        """End all evaluators. The futures of checks that run or wait raise EvaluatorDied."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            live = list(self._live)
            waiting = [job for jobs in self._waiting.values() for job in jobs]
            self._waiting.clear()
        for evaluator in live:
            evaluator.end()
        for job in waiting:
            if job.told.set_running_or_notify_cancel():
                job.told.set_exception(EvaluatorDied("the evaluators were closed"))

    def _work(self) -> None:
        evaluator = Evaluator(self._seconds)
        with self._changed:
            self._live.add(evaluator)
        try:
            while (job := self._next()) is not None:
                self._done(job, evaluator)
        finally:
            evaluator.end()
            with self._changed:
                self._live.discard(evaluator)

    def _next(self) -> _Job | None:
        """The next check to make. Parties take turns: after one check of a party, the party goes to the end of the queue.
        Parties of which no check may start now (`_may`) are passed over. Blocks until a check may start. Returns None after a while
        without work, or after `close`."""
        with self._changed:
            while not self._closed:
                who = next(filter(self._may, self._waiting), None)
                if who is not None:
                    return self._taken(who)
                until = min((self._resting[who] for who in self._waiting if who in self._resting), default=None)
                self._idle += 1
                woken = self._changed.wait(self._idle_seconds if until is None else max(0.001, until - monotonic()))
                self._idle -= 1
                if not woken and until is None:
                    break
            self._threads -= 1
            return None

    def _may(self, who: str) -> bool:
        """Whether a check of this party may start now: no other check of it runs, and the pause after its last slow check (`_RESTS`) is
        over."""
        if who in self._busy:
            return False
        if self._resting.get(who, 0.0) > monotonic():
            return False
        self._resting.pop(who, None)
        return True

    def _taken(self, who: str) -> _Job:
        self._busy.add(who)
        jobs = self._waiting.pop(who)
        job = jobs.popleft()
        if jobs:
            self._waiting[who] = jobs  # to the end of the queue
        return job

    def _done(self, job: _Job, evaluator: Evaluator) -> None:
        began = monotonic()
        try:
            if job.told.set_running_or_notify_cancel():
                checked = evaluator.check(job.check)
                self._charge(job.who, checked.cpu_seconds)
                job.told.set_result(checked)
        except BaseException as error:  # the waiting caller gets the error; the thread continues
            self._charge(job.who, monotonic() - began)
            job.told.set_exception(error)
        finally:
            with self._changed:
                took = monotonic() - began
                if took > _SHORT:
                    self._resting[job.who] = monotonic() + _RESTS * took
                self._busy.discard(job.who)
                self._changed.notify()

    def _charge(self, who: str, cpu_seconds: float) -> None:
        tenant = _tenant_of(who)
        if tenant is not None:
            self._shares.add(tenant, cpu_seconds, monotonic())


_shared: list[Evaluators] = []
_making = threading.Lock()


def shared() -> Evaluators:
    """The evaluators that all callers in this process share."""
    with _making:
        if not _shared:
            _shared.append(Evaluators(shares=cpu_shares.shared()))
            atexit.register(_shared[0].close)
        return _shared[0]
