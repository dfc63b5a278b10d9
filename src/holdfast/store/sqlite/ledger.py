"""The ledger in one file. Triggers of the schema refuse every change of an entry, and refuse to remove an entry before its time is over."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import codec
from holdfast.model.execution import Change
from holdfast.store.ledger import LedgerReads, cut_off, day_rows, entries_of, entry_row, lost_calls
from holdfast.store.sqlite.transactions import Transactions


class SqliteLedger(Transactions, LedgerReads):
    """The part of a store that keeps the ledger."""

    def _put_ledger(self, changes: Sequence[Change]) -> None:
        """Write the entries of a batch, and entries that end the open calls of executions which the batch ends without success. Add all to
        the daily sums. Called inside the batch's transaction."""
        entries, ended = entries_of(changes), cut_off(changes)
        self._put_rows("put_ledger", [entry_row(entry) for entry in entries])
        if ended:
            found = lost_calls(self._writer.execute(self._sql["open_calls"], (codec.dumps(list(ended)),)), ended)
            self._put_rows("put_ledger", [entry_row(entry) for entry in found])
            entries += found
        if entries:
            self._writer.executemany(self._sql["put_ledger_days"], day_rows(entries))
