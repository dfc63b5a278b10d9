"""The evaluators of a process, and whose turn it is: each stranger has one check under way, the others wait behind their own.

A thread waits for each evaluator; it computes nothing. Threads and processes come with the work, and go when there is none for a while.
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future
from typing import Final, NamedTuple

from holdfast.hosts.evaluator.frames import Check, Checked
from holdfast.hosts.evaluator.process import Evaluator
from holdfast.model.clock import monotonic

PROCESSES: Final = 2
SECONDS: Final = 2.0
"""One check may take so long."""
MOST_WAITING: Final = 64
"""Checks of one stranger that wait for their turn."""
IDLE_SECONDS: Final = 60.0
_SHORT: Final = 0.25
_RESTS: Final = 3
"""A stranger whose check took long waits so many times as long before the next one."""


class Crowded(Exception):
    """Too many checks of this stranger wait already."""


class _Job(NamedTuple):
    who: str
    check: Check
    told: Future[Checked]


class Evaluators:
    """A bounded set of evaluators, shared fairly."""

    def __init__(self, processes: int = PROCESSES, seconds: float = SECONDS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most, self._seconds, self._idle_seconds = processes, seconds, idle_seconds
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._busy: set[str] = set()
        self._resting: dict[str, float] = {}
        self._threads = self._idle = 0
        self._closed = False
        self._live: set[Evaluator] = set()

    def submit(self, who: str, check: Check) -> Future[Checked]:
        """Have a check made for `who`; its future raises Late or Died."""
        told: Future[Checked] = Future()
        with self._changed:
            jobs = self._waiting.setdefault(who, deque())
            if len(jobs) >= MOST_WAITING or self._closed:
                raise Crowded
            jobs.append(_Job(who, check, told))
            if sum(map(self._may, self._waiting)) > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=f"holdfast-evaluator-{self._threads}", daemon=True).start()
            self._changed.notify()
        return told

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        with self._changed:
            return [pid for evaluator in self._live if (pid := evaluator.pid) is not None]

    def close(self) -> None:
        """End all of them; what is under way is not answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            live = list(self._live)
        for evaluator in live:
            evaluator.end()

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
        """The next check of the stranger who waits longest and has none under way; None when there was none for a while."""
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
        """Whether it is a stranger's turn."""
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
            self._waiting[who] = jobs  # behind all others
        return job

    def _done(self, job: _Job, evaluator: Evaluator) -> None:
        began = monotonic()
        try:
            if job.told.set_running_or_notify_cancel():
                job.told.set_result(evaluator.check(job.check))
        except BaseException as error:  # its waiter hears of it; the thread goes on
            job.told.set_exception(error)
        finally:
            with self._changed:
                took = monotonic() - began
                if took > _SHORT:
                    self._resting[job.who] = monotonic() + _RESTS * took
                self._busy.discard(job.who)
                self._changed.notify()


_shared: list[Evaluators] = []
_making = threading.Lock()


def shared() -> Evaluators:
    """Those of this process."""
    with _making:
        if not _shared:
            _shared.append(Evaluators())
            atexit.register(_shared[0].close)
        return _shared[0]
