"""Batches in doubt: if a connection is lost while a batch is written, this module finds out whether the batch is in the database.

First the server must end the lost connection, or it might still write the batch. The store remembers a batch in doubt until it knows
whether the batch was written. If the batch was written, and its callers send its entries again, the store gives them the first answers and
decides nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import psycopg

from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.execution import Change, Execution
from holdfast.model.verbs import Answer, Write
from holdfast.store import rows
from holdfast.store.postgres.decisions import PostgresBatch, PostgresDecisions, last_headers
from holdfast.store.postgres.errors import explained


class Doubt(NamedTuple):
    """A batch whose connection was lost while it was written, so that it is unknown whether it is in the database."""

    batch: Sequence[Write]
    """The entries of the batch; empty for an admission, because its caller asks `held` which executions it has claimed."""
    done: PostgresBatch
    backend: tuple[int, str]


class Doubts(PostgresDecisions):
    """The part of a store that finds out whether a batch was written."""

    _doubt: Doubt | None = None
    _found_written: Sequence[Doubt] = ()
    """Batches that were in doubt and are in the database. The next commit gives their entries the first answers."""
    _backend: tuple[int, str]

    def _whoami(self) -> tuple[int, str]:
        ((pid, since),) = self._writer.run(self._sql["whoami"], prepare=False)
        return pid, since

    def _is_written(self, batch: Sequence[Write], done: PostgresBatch) -> bool:
        """Open a new connection in place of the lost one. Returns whether the batch that was sent last on the lost connection was written;
        False if none was sent."""
        if done.sent:
            self._doubt = Doubt(batch, done, self._backend)
        self._writer.reopen()
        self._backend = self._whoami()
        return self._doubt is not None and self._is_there(self._doubt)

    def _is_there(self, doubt: Doubt) -> bool:
        """Whether a batch in doubt is in the database. First this tells the server to end the lost connection, which might still write the
        batch. Raises DiskFailed if the server has not ended it after 5 seconds."""
        gone = self._writer.run(self._sql["outlive"], doubt.backend, prepare=False)
        if gone and not gone[0][0]:
            raise DiskFailed(f"{self._shown} still works on a lost connection, so it is not known yet whether a batch was written.")
        headers = last_headers(doubt.done.changes)
        found = self._writer.run(self._sql["headers"], (list(headers),), prepare=False)
        self._doubt = None
        return any(_is_ours(rows.execution_from(row), headers, doubt.done) for row in found)

    def _resolve(self) -> None:
        """If a batch is in doubt, find out whether it was written. If it was, keep its answers for the next commit."""
        doubt = self._doubt
        if doubt is None:
            return
        if self._writer.is_lost:
            self._writer.reopen()
            self._backend = self._whoami()
        if self._is_there(doubt):
            self._found_written = (*self._found_written, doubt)

    def _resolved(self) -> tuple[Mapping[int, Answer | HoldfastError], Sequence[Change]]:
        """Two things about batches that were written although the connection was lost. First, the answers of their entries, by the `id()`
        of the entry; the callers of these entries were told to try again. Second, the changes that the follow-ups of these entries made."""
        self._resolve()
        written, self._found_written = self._found_written, ()
        known = {id(write): answer for doubt in written for write, answer in zip(doubt.batch, doubt.done.answers, strict=True)}
        return known, [change for doubt in written for change in doubt.done.followed]

    def held(self, runner: str) -> frozenset[str]:
        """If a batch is in doubt, the store first finds out whether it was written, because it may have a claim. Raises DiskFailed if that
        is not possible now."""
        if self._doubt is not None:
            if not self._writer.lock.acquire(blocking=False):
                raise DiskFailed(f"{self._shown}: it is not known yet whether a claim was written.")
            try:
                self._resolve()
            except psycopg.Error as error:
                raise explained(error, self._shown) from error
            finally:
                self._writer.lock.release()
        return super().held(runner)


def _is_ours(found: Execution, headers: dict[str, Execution], done: PostgresBatch) -> bool:
    """Whether a row shows that the batch was written. It does in three cases: the row is as the batch leaves it, the batch made the row, or
    the row has an invocation that the batch began."""
    left = headers[found.id]
    claimed = left.invocation is not None and left.epoch != done.bases[found.id].header.epoch
    return found == left or found.id in done.born or (claimed and (found.epoch, found.invocation) == (left.epoch, left.invocation))
