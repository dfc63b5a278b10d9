"""Views: a view shows one execution to the code that decides a write. SQLite uses a view in memory only if it knows that the view is
current. Postgres may use one without knowing this; the statement that writes the batch checks it.

A `RowView` is a cache of committed rows. An `Overlay` shows an execution as earlier writes of the same batch leave it. A `RowView` learns
of a change only after the COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from holdfast.model.errors import CodecFailed
from holdfast.model.execution import Change, Execution, View
from holdfast.model.operations import Operation, Status

_FEW_MISSES: Final = 2
_FEW_OPERATIONS: Final = 16
"""A new overlay copies the changed operations of the overlay below it if these are fewer than this, so that a lookup passes fewer
overlays."""


class Rows(Protocol):
    """How a view reads rows that it does not hold, inside the transaction of the batch."""

    def read_operation(self, view: RowView, operation_id: str) -> Operation | None: ...
    def read_newer(self, view: RowView, revision: int) -> list[Operation]: ...
    def read_due(self, view: RowView, now: int) -> list[Operation]: ...
    def read_next_due(self, view: RowView, after: int) -> int | None: ...
    def read_has_ready(self, view: RowView, since: int) -> bool: ...


class RowView:
    """The committed rows of one execution, as far as they have been read."""

    __slots__ = ("_misses", "_rows", "complete", "header", "key", "operations", "version")

    def __init__(self, rows: Rows, key: int, header: Execution, version: int, *, complete: bool) -> None:
        self._rows = rows
        self._misses = 0
        self.key = key
        self.header = header
        self.operations: dict[str, Operation] = {}
        self.version = version
        """SQLite's data version at which this memory was known to equal the rows; always 0 for Postgres."""
        self.complete = complete
        """Whether all operations are in memory. Then an id that is not in memory is the id of no operation."""

    def get(self, operation_id: str) -> Operation | None:
        """The operation with this id; None if there is none. Rows have no index by operation id. So the first two lookups of operations
        that are not in memory read one operation each; the third reads all operations of the execution at once."""
        found = self.operations.get(operation_id)
        if found is not None or self.complete:
            return found
        self._misses += 1
        if self._misses > _FEW_MISSES:
            with suppress(CodecFailed):  # if one operation cannot be decoded, operations are read one by one, so the others can be used
                self.operations = {op.id: op for op in self._rows.read_newer(self, 0)}
                self.complete = True
                return self.operations.get(operation_id)
        found = self._rows.read_operation(self, operation_id)
        if found is not None:
            self.operations[operation_id] = found
        return found

    def newer(self, revision: int) -> Iterable[Operation]:
        return self._rows.read_newer(self, revision)

    def due(self, now: int) -> Iterable[Operation]:
        """The operations are found by an index, so many operations cost no more than few."""
        return self._rows.read_due(self, now)

    def next_due(self, after: int) -> int | None:
        return self._rows.read_next_due(self, after)

    def has_ready(self, since: int) -> bool:
        return self._rows.read_has_ready(self, since)

    def keep(self, change: Change) -> None:
        """Update this view with a change that was committed."""
        self.header = change.header
        self.operations.update(change.operations)


class Overlay:
    """A view of an execution as one uncommitted change leaves it. It lies over the view as it was before that change."""

    __slots__ = ("_change", "_known", "_under", "below")

    def __init__(self, below: View, change: Change) -> None:
        self.below = below
        self._change = change
        self._known, self._under = change.operations, below
        if isinstance(below, Overlay) and len(below._known) < _FEW_OPERATIONS:
            self._known, self._under = below._known | change.operations, below._under

    @property
    def header(self) -> Execution:
        """The header as the change of this overlay leaves it."""
        return self._change.header

    def get(self, operation_id: str) -> Operation | None:
        """The operation with this id, as the earlier writes leave it; None if there is none. An overlay may lie over hundreds of others,
        for example if many children of one parent end in one batch."""
        view: View = self
        while isinstance(view, Overlay):
            found = view._known.get(operation_id)
            if found is not None:
                return found
            view = view._under
        return view.get(operation_id)

    def newer(self, revision: int) -> Iterable[Operation]:
        """The operations that the change of this overlay has changed come last."""
        mine = self._change.operations
        return [*(op for op in self.below.newer(revision) if op.id not in mine), *(op for op in mine.values() if op.revision > revision)]

    def due(self, now: int) -> Iterable[Operation]:
        """An operation that the change of this overlay has changed is taken as that change leaves it."""
        mine = self._change.operations
        below = (op for op in self.below.due(now) if op.id not in mine)
        return [*below, *(op for op in mine.values() if op.due_at is not None and op.due_at <= now)]

    def next_due(self, after: int) -> int | None:
        """The result may be the timer of an operation that the change of this overlay has closed: a time that is too early does no harm."""
        times = [self.below.next_due(after), *(op.due_at for op in self._change.operations.values())]
        return min((at for at in times if at is not None and at > after), default=None)

    def has_ready(self, since: int) -> bool:
        """Also True if the change of this overlay has started that step meanwhile; this only costs one needless invocation."""
        mine = self._change.operations.values()
        return any(op.status is Status.READY and op.revision > since for op in mine) or self.below.has_ready(since)
