"""Admission on a database that other processes write at the same time.

Most other writers lock executions first, then lanes. An admission locks lanes first. So it skips the lanes, rates and executions that
another process has locked, and waits for none of them. It waits for a lock in two places: for the lane of one queue, before it has locked
any lane or execution (`_await`), and for the row that numbers signals, which every writer locks last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg

from holdfast.model.errors import HoldfastError, LeaseLost
from holdfast.model.execution import Claimant, Execution, State
from holdfast.model.places import path
from holdfast.model.verbs import Admit, Answer
from holdfast.store.admission_order import LaneWalk
from holdfast.store.lane_rows import LaneRow
from holdfast.store.postgres.batch_statement import StatementResult
from holdfast.store.postgres.columns import texts
from holdfast.store.postgres.decisions import PostgresBatch
from holdfast.store.postgres.doubts import Doubts
from holdfast.store.postgres.errors import explained
from holdfast.store.postgres.reads import hosted
from holdfast.store.postgres.walk_reads import WalkReads
from holdfast.store.seam import Committed, Target

_NOTHING: Final = Committed(())


class AdmissionRequest(NamedTuple):
    """What an admission is asked for."""

    targets: Sequence[Target]
    by: Sequence[Claimant]
    now: int


class PostgresAdmissions(Doubts):
    """The part of a store that admits queued executions."""

    _foreign: bool
    _inputs: Mapping[str, str] = {}
    """By id: the inputs that the last admission read, as they are in the database. The engine asks for these inputs right after the
    admission."""

    @abstractmethod
    def _put(self, done: PostgresBatch, now: int, walked: Sequence[LaneRow] | None = None) -> StatementResult:
        """Write all rows of a batch. Returns whether the revisions agreed (if not, nothing was written), and whether signals were written.
        `walked` has the lanes that an admission has changed; None for a batch that is no admission."""

    @abstractmethod
    def _remember(self, done: PostgresBatch) -> None:
        """After a batch was written: of the executions that it changed, keep the views of those that this process runs, and drop the
        others."""

    @abstractmethod
    def _forget(self, done: PostgresBatch) -> None:
        """Drop the views in memory of the executions of a batch, because they may be out of date. The rows are then read again."""

    def admit(self, targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
        """Admit queued executions and claim them, in a transaction of their own. If no lane is open, nothing is written; `has_open_lane`
        finds that out without a transaction.

        If nothing was admitted, and another process had locked an open queue, the call waits a moment for that queue and tries once more.
        If a locked queue was passed over, the next call of `changed` returns True, so that the engine tries again.

        If the connection is lost and it cannot be found out whether executions were claimed, the error is raised; `held` finds it out
        later.
        """
        if not by or not targets:
            return _NOTHING
        with self._writer.lock:
            try:
                self._resolve()
                asked = AdmissionRequest(targets, by, now)
                done, passed = self._admit(asked, None)
                if passed is not None and not done.answers:
                    with suppress(psycopg.errors.LockNotAvailable):
                        done, passed = self._admit(asked, passed)
                self._foreign |= passed is not None
                return done
            except BaseException as error:
                self._views.clear()
                if isinstance(error, psycopg.Error):
                    raise explained(error, self._shown) from error
                raise

    def _admit(self, asked: AdmissionRequest, first: str | None) -> tuple[Committed, str | None]:
        """Admit once. If `first` is given, wait for the lock of this queue first. Returns the result, and the name of an open queue that
        another process had locked. The name is None if there is no such queue, or if every claimant has got an execution."""
        done, walk, taken, passed, signalled, now = PostgresBatch(locking=True), None, list[Execution](), None, False, asked.now
        try:
            with self._writer.transaction():
                if first is not None:
                    self._await(first)
                self._ask_ahead((), {}, now)
                reads = WalkReads(self._writer, self._sql, asked.targets, len(asked.by), lambda row: self._based(row, done).header)
                walk = LaneWalk(reads.begun(now), asked.targets, now, lambda write: self._admitted(write, now, done, reads.locked))
                taken = walk.take(asked.by)
                self._inputs = reads.inputs
                self._foreign |= reads.is_hindered
                if reads.may_pass and len(taken) < len(asked.by):
                    found = self._writer.run(self._sql["passed_queue"], {**hosted(asked.targets), "locked": texts(reads.locked)})
                    passed = found[0][0] if found else None
                walked = walk.changed()
                if done.changes or walked:
                    done.sent = True
                    signalled = self._put(done, now, walked).signalled
        except psycopg.Error:
            if not self._writer.is_lost:
                raise
            written = self._is_written((), done)
            self._forget(done)
            if not written:
                self._foreign = True  # nothing is lost: the engine tries again
                return _NOTHING, None
            signalled = True
        else:
            self._remember(done)
        if walk is None or not done.changes:
            return _NOTHING, passed
        return walk.committed(taken, done.changes, done.followed, signalled=signalled), passed

    def _admitted(self, write: Admit, now: int, done: PostgresBatch, locked: set[str]) -> Answer | HoldfastError:
        """Decide the admission of one execution. If the deadline of the execution has passed (often that of its wait in the queue), the
        execution ends instead, and its end may change other executions. If another process has locked one of those, nothing is decided
        here; the write that fires the execution's timers will end it."""
        mark = done.mark()
        answer = self._entry(write, now, done)
        if len(done.followed) > mark[2] and not self._are_free(done, [change.header for change in done.changes[mark[0] :]], locked):
            done.undo(mark)
            return LeaseLost("The execution ends, and another process is writing an execution that its end changes.")
        return answer

    def _are_free(self, done: PostgresBatch, changed: Sequence[Execution], locked: set[str]) -> bool:
        """Lock executions and their lanes, without waiting. Returns False if another process has locked or changed one of them."""
        revisions = {header.id: done.bases[header.id].header.revision for header in changed}
        if dict(self._writer.run(self._sql["free_headers"], (texts(revisions),))) != revisions:
            return False
        lanes = {key for header in changed if header.place is not None for key in path(header.place.lane)} - locked
        return not lanes or {key for (key,) in self._writer.run(self._sql["free_lanes"], (texts(lanes),))} == lanes

    def inputs(self, executions: Sequence[str]) -> Mapping[str, str]:
        """Inputs that the last admission read are taken from memory."""
        known, self._inputs = self._inputs, {}
        found = self._inputs_from([(execution, known[execution]) for execution in executions if execution in known])
        others = [execution for execution in executions if execution not in known]
        return {**found, **super().inputs(others)} if others else found

    def _await(self, queue: str) -> None:
        """Lock the lane of a queue, before the transaction locks anything else. Waits only a moment for the lock, and raises
        LockNotAvailable if another process still has it then."""
        self._writer.run(self._sql["short_patience"], prepare=False)
        self._writer.run(self._sql["locked_lanes"], (texts([queue]),))
        self._writer.run(self._sql["impatience"], prepare=False)


def is_news(headers: Iterable[Execution], walked: Iterable[LaneRow]) -> bool:
    """Whether other processes must learn what an admission did. They must if it ended executions or closed a lane. If it only admitted
    executions, they need not."""
    return any(header.state is not State.RUNNING for header in headers) or any(lane.closed_until for lane in walked)
