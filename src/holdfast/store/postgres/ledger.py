"""The ledger on a database that other processes write at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.execution import Change
from holdfast.model.ledger import LedgerEntry
from holdfast.store.ledger import LedgerReads, cut_off, day_rows, entries_of, entry_row, lost_calls
from holdfast.store.postgres.columns import arguments, texts
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session


class PostgresLedger(PostgresReads, LedgerReads):
    """The part of a store that keeps the ledger."""

    _writer: Session

    def _put_ledger(self, changes: Sequence[Change]) -> None:
        """Write the entries of a batch, and entries that end the open calls of executions which the batch ends without success. Add all to
        the daily sums.

        Called inside the batch's transaction, after all other writes: sums are locked in the order of their keys, and a batch that has
        locked a sum waits for no other row.
        """
        entries = entries_of(changes)
        self._put_entries(entries)
        found = self._lost_calls(changes)
        self._put_entries(found)
        entries += found
        if entries:
            self._writer.run(self._sql["put_ledger_days"], arguments("ledger_days", day_rows(entries)))

    def _put_entries(self, entries: Sequence[LedgerEntry]) -> None:
        if entries:
            self._writer.run(self._sql["put_ledger"], arguments("ledger", [entry_row(entry) for entry in entries]))

    def _lost_calls(self, changes: Sequence[Change]) -> list[LedgerEntry]:
        """The entries that end the open calls of executions which a batch ends without success."""
        ended = cut_off(changes)
        return lost_calls(self._writer.run(self._sql["open_calls"], (texts(ended),)), ended) if ended else []
