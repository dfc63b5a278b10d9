"""What a view reads of its operations, inside a transaction (`store.views.RowView`)."""

from __future__ import annotations

from holdfast.model.operations import Operation
from holdfast.store import rows
from holdfast.store.sqlite.transactions import Transactions
from holdfast.store.views import RowView


class SqliteOperationReads(Transactions):
    """The operations of one execution, as the transaction sees them."""

    def read_operation(self, view: RowView, operation_id: str) -> Operation | None:
        """One operation of an execution, with its payload; None if there is none with this id."""
        row = self._writer.execute(self._sql["operation"], (view.key, operation_id)).fetchone()
        return None if row is None else rows.operation_from(row, view.header.id, self.seal, self._codec)

    def read_newer(self, view: RowView, revision: int) -> list[Operation]:
        """Those operations of an execution that changed after a revision."""
        found = self._writer.execute(self._sql["newer_operations"], (view.key, revision))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_due(self, view: RowView, now: int) -> list[Operation]:
        """Those operations of an execution that have a timer which is due at `now`."""
        found = self._writer.execute(self._sql["due_operations"], (view.key, now))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_next_due(self, view: RowView, after: int) -> int | None:
        """The time of the execution's next timer after the time `after`; None if there is none."""
        (at,) = self._writer.execute(self._sql["next_due_operation"], (view.key, after)).fetchone()
        return None if at is None else int(at)

    def read_has_ready(self, view: RowView, since: int) -> bool:
        """Whether a step became ready after the revision `since` and was not started since then."""
        return self._writer.execute(self._sql["ready_operation"], (view.key, since)).fetchone() is not None
