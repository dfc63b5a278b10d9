"""Jobs of the console: each acts on many runs, one after the other, in a thread of its own.

The jobs are in the memory of this process: when the process ends, its jobs end, and no other process continues them. At most twenty jobs
are kept: the oldest of those that have ended is removed first.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.console.sources.bulk import BulkRun, BulkSource, Verb
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, InvalidParameter

log = logging.getLogger("holdfast.console")

KEPT: Final = 20
MOST_AT_ONCE: Final = 3
"""At most this many jobs of one tenant run at the same time, so that other tenants can start jobs too. All callers without a tenant are
counted as one tenant."""
MOST_OF_ALL: Final = 12
MOST_FAILURES: Final = 100
"""A job keeps the reasons of its first failures, at most this many. It counts all failures."""
PACE_SECONDS: Final = 0.02
"""How long a job pauses after each run, so that the runners can do their own work."""
_END_SECONDS: Final = 5.0


class BulkFailure(msgspec.Struct, frozen=True):
    """A run for which the action failed, and why."""

    item: BulkRun
    reason: str


class BulkJob:
    """One action on many runs, with the counts of what is done. The thread of the job acts and counts. Pages read the counts, and can
    cancel the job."""

    def __init__(
        self, name: str, source: BulkSource, verb: Verb, items: Sequence[BulkRun], *, question: str, reason: str, now: int
    ) -> None:
        self.name, self.source, self.verb, self.items = name, source, verb, tuple(items)
        self.question, self.reason, self.began_at = question, reason, now
        self.ended_at: int | None = None
        self.done = 0
        self.failed = 0
        self.failures: list[BulkFailure] = []
        self.cancelled = threading.Event()

    @property
    def left(self) -> int:
        """How many runs the job has not acted on yet."""
        return len(self.items) - self.done - self.failed

    @property
    def state(self) -> str:
        """`running` while the job acts. `done` if it acted on all runs, also if it failed on some. `cancelled` if it ended before that: a
        person cancelled it, the console closed, or there was an unexpected error."""
        if self.ended_at is None:
            return "running"
        return "cancelled" if self.left else "done"

    def may_see(self, tenant: str | None) -> bool:
        """Whether a caller of this tenant may look at the job. None is a caller who may see all tenants."""
        return tenant is None or tenant == self.source.tenant

    def run(self, clock: Clock, pace: float, acted: Callable[[], None]) -> None:
        """Act on one run after the other, until the job has acted on all or is cancelled. Then write a line to the audit log. An unexpected
        error ends the job early, and only the program's log has it. The job pauses `pace` seconds after each run. `acted` is called after
        each run, and at the end."""
        try:
            for item in self.items:
                if self.cancelled.is_set():
                    break
                self._act(item)
                acted()
                self.cancelled.wait(pace)
            told = f"{self.done:,} done, {self.failed:,} failed, {self.left:,} left: {self.reason}"
            self.source.note(self.verb, self.question or "everything", told)
        except Exception:  # no caller sees the error of a thread, so the log must have it
            log.exception("the bulk job %s ended early", self.name)
        finally:
            self.ended_at = clock.now()
            acted()

    def _act(self, item: BulkRun) -> None:
        try:
            self.source.act(self.verb, item, self.reason)
            self.done += 1
        except HoldfastError as error:
            self.failed += 1
            if len(self.failures) < MOST_FAILURES:
                self.failures.append(BulkFailure(item, str(error)))


class BulkJobs:
    """The jobs of one console."""

    def __init__(
        self, clock: Clock, new_name: Callable[[int], str], *, pace: float = PACE_SECONDS, acted: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._new_name = new_name
        self._pace = pace
        self._acted = acted
        self._jobs: OrderedDict[str, tuple[BulkJob, threading.Thread]] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, source: BulkSource, verb: Verb, items: Sequence[BulkRun], *, question: str, reason: str) -> BulkJob:
        """Start a job in a thread of its own, and return without waiting for it. Raises InvalidParameter if too many jobs run already: of
        the tenant of `source`, or of all tenants together."""
        now = self._clock.now()
        job = BulkJob(self._new_name(now), source, verb, items, question=question, reason=reason, now=now)
        thread = threading.Thread(target=job.run, args=(self._clock, self._pace, self._acted), name="holdfast-bulk", daemon=True)
        with self._lock:
            going_on = [one.source.tenant for one, _ in self._jobs.values() if one.ended_at is None]
            if going_on.count(source.tenant) >= MOST_AT_ONCE or len(going_on) >= MOST_OF_ALL:
                raise InvalidParameter(
                    f"Too many actions on many runs are running already: at most {MOST_AT_ONCE} for one tenant, and {MOST_OF_ALL} in all. "
                    "Wait until one has ended, or cancel one."
                )
            self._jobs[job.name] = (job, thread)
            over = [name for name, (one, _) in self._jobs.items() if one.ended_at is not None]
            for name in over[: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[name]
        thread.start()
        return job

    def find(self, name: str, tenant: str | None) -> BulkJob | None:
        """The job with this name. None if there is none, or if a caller of this tenant may not see it."""
        with self._lock:
            found = self._jobs.get(name)
        return found[0] if found is not None and found[0].may_see(tenant) else None

    def all(self, tenant: str | None) -> list[BulkJob]:
        """The jobs that a caller of this tenant may see, newest first."""
        with self._lock:
            return [job for job, _ in reversed(self._jobs.values()) if job.may_see(tenant)]

    def close(self) -> None:
        """Cancel all jobs, and wait at most 5 seconds for each of their threads. Blocks."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job, _ in jobs:
            job.cancelled.set()
        for _, thread in jobs:
            thread.join(_END_SECONDS)
