"""What a view reads of its operations, inside a transaction (`store.views.RowView`)."""

from __future__ import annotations

from holdfast.model.operations import Operation
from holdfast.store import rows
from holdfast.store.sqlite.transactions import Transactions
from holdfast.store.views import RowView


class SqliteOperationReads(Transactions):
    """The operations of one execution, as the transaction sees them."""

    def read_operation(self, view: RowView, operation_id: str) -> Operation | None:
        row = self._writer.execute(self._sql["operation"], (view.key, operation_id)).fetchone()
        return None if row is None else rows.operation_from(row, view.header.id, self.seal, self._codec)

    def read_newer(self, view: RowView, revision: int) -> list[Operation]:
        found = self._writer.execute(self._sql["newer_operations"], (view.key, revision))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_due(self, view: RowView, now: int) -> list[Operation]:
        found = self._writer.execute(self._sql["due_operations"], (view.key, now))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_next_due(self, view: RowView, after: int) -> int | None:
        (at,) = self._writer.execute(self._sql["next_due_operation"], (view.key, after)).fetchone()
        return None if at is None else int(at)

    def read_has_ready(self, view: RowView, since: int) -> bool:
        return self._writer.execute(self._sql["ready_operation"], (view.key, since)).fetchone() is not None
