"""Views: one execution as a decision sees it, from memory where it is known to be current, from rows elsewhere.

A `RowView` is a cache of committed rows; an `Overlay` shows what earlier writes of the same batch will leave. Memory changes only
after COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from holdfast.model.errors import CodecFailed
from holdfast.model.execution import Change, Execution, View
from holdfast.model.operations import Operation, Status

_FEW_MISSES: Final = 2


class Rows(Protocol):
    """How a view reads what it does not hold, inside the transaction that asks."""

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
        """The database's data version for which this memory is known to equal the rows."""
        self.complete = complete
        """Every operation is in memory, so an unknown id is an absent operation."""

    def get(self, operation_id: str) -> Operation | None:
        """An operation. Rows have no index by id, so a view that is asked again and again reads them all, once."""
        found = self.operations.get(operation_id)
        if found is not None or self.complete:
            return found
        self._misses += 1
        if self._misses > _FEW_MISSES:
            with suppress(CodecFailed):  # one that cannot be read must not hide the others, which go on singly
                self.operations = {op.id: op for op in self._rows.read_newer(self, 0)}
                self.complete = True
                return self.operations.get(operation_id)
        found = self._rows.read_operation(self, operation_id)
        if found is not None:
            self.operations[operation_id] = found
        return found

    def newer(self, revision: int) -> Iterable[Operation]:
        """Operations changed after a revision."""
        return self._rows.read_newer(self, revision)

    def due(self, now: int) -> Iterable[Operation]:
        """Operations whose timer is due; the index answers, however many operations there are."""
        return self._rows.read_due(self, now)

    def next_due(self, after: int) -> int | None:
        """The next timer after a time."""
        return self._rows.read_next_due(self, after)

    def has_ready(self, since: int) -> bool:
        """Whether a step became ready after a revision and was not started since."""
        return self._rows.read_has_ready(self, since)

    def keep(self, change: Change) -> None:
        """Take over what was committed."""
        self.header = change.header
        self.operations.update(change.operations)


class Overlay:
    """A view as an uncommitted change of the same batch leaves it."""

    __slots__ = ("_change", "below")

    def __init__(self, below: View, change: Change) -> None:
        self.below = below
        self._change = change

    @property
    def header(self) -> Execution:
        """The header the earlier write leaves."""
        return self._change.header

    def get(self, operation_id: str) -> Operation | None:
        """An operation as the earlier write leaves it."""
        return self._change.operations.get(operation_id) or self.below.get(operation_id)

    def newer(self, revision: int) -> Iterable[Operation]:
        """Operations changed after a revision, the earlier write's own last."""
        mine = self._change.operations
        return [*(op for op in self.below.newer(revision) if op.id not in mine), *(op for op in mine.values() if op.revision > revision)]

    def due(self, now: int) -> Iterable[Operation]:
        """Due operations; those the earlier write touched are judged as it left them."""
        mine = self._change.operations
        below = (op for op in self.below.due(now) if op.id not in mine)
        return [*below, *(op for op in mine.values() if op.due_at is not None and op.due_at <= now)]

    def next_due(self, after: int) -> int | None:
        """The next timer; too early is harmless, so operations the earlier write closed may still count."""
        times = [self.below.next_due(after), *(op.due_at for op in self._change.operations.values())]
        return min((at for at in times if at is not None and at > after), default=None)

    def has_ready(self, since: int) -> bool:
        """Whether a step is ready; one that the earlier write started may still count, which costs an invocation and no more."""
        mine = self._change.operations.values()
        return any(op.status is Status.READY and op.revision > since for op in mine) or self.below.has_ready(since)
