"""A draft collects the operations and events of one write, and then becomes a `Change`. It does not decide what the write does. It numbers
events, increases the revision, and takes care that times never decrease.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.admission import settled
from holdfast.model.execution import Birth, Change, Execution, View
from holdfast.model.history import Event, EventType
from holdfast.model.operations import Operation, Status, Type


class WriteDraft:
    """One write that is being put together. It changes nothing in the store: if it is thrown away, nothing has happened."""

    __slots__ = ("_header", "at", "before", "births", "due_at", "events", "operations", "pending", "revision", "stored", "total")

    def __init__(self, view: View, now: int) -> None:
        header = view.header
        self.before = view.get
        """Returns an operation as it was before this draft; None if there was no such operation."""
        self._header = header
        self.at = now if now > header.touched_at else header.touched_at
        self.revision = header.revision + 1
        self.operations: dict[str, Operation] = {}
        self.events: list[Event] = []
        self.pending = header.pending
        self.due_at = header.due_at
        self.total = header.operations
        self.stored = header.stored
        self.births: list[Birth] = []

    @property
    def header(self) -> Execution:
        """The header before this write."""
        return self._header

    def get(self, operation_id: str) -> Operation | None:
        """An operation as it will be after this draft; None if there is no such operation."""
        return self.operations.get(operation_id) or self.before(operation_id)

    @property
    def next_event(self) -> int:
        """The number that the next event will have."""
        return self._header.events + len(self.events) + 1

    def log(
        self, kind: EventType, operation_id: str | None = None, payload: str | None = None, detail: dict[str, Any] | None = None
    ) -> int:
        """Add an event and return its number. `operation_id` is the operation that it belongs to; None: the execution or an invocation.
        `payload` is its text; None if it has none. `detail` has further members of the event."""
        number = self._header.events + len(self.events) + 1
        self.events.append(Event(number, kind, self.at, operation_id, payload, detail))
        if payload is not None:
            self.stored += len(payload) if payload.isascii() else len(payload.encode())
        return number

    def put(self, operation: Operation, before: Operation | None) -> None:
        """Set the new value of an operation. `before` is its old value; None for a new operation."""
        self.operations[operation.id] = operation
        if before is None:
            self.total += 1
            self.pending += is_pending(operation)
        else:
            self.pending += is_pending(operation) - is_pending(before)
        if operation.due_at is not None and (self.due_at is None or operation.due_at < self.due_at):
            self.due_at = operation.due_at

    def touched(self, sequence: int) -> Change:
        """The finished change of a checkpoint that changes only those members of the header that every checkpoint may change
        (`Change.slight` names them); for any other write, call `done`. `sequence` is how many checkpoints the invocation has written, with
        this one."""
        header = self._header
        moved = msgspec.structs.replace(
            header,
            revision=self.revision,
            sequence=sequence,
            events=header.events + len(self.events),
            pending=self.pending,
            due_at=self.due_at,
            touched_at=self.at if self.events else header.touched_at,
            operations=self.total,
            stored=self.stored,
        )
        return Change(moved, self.operations, self.events, True, tuple(self.births))

    def done(self, **header: Any) -> Change:
        """The finished change. `header` has the new values of members of the header. An enqueued execution that would become ready, but
        held no slot before this write, is queued instead."""
        change = self.touched(self._header.sequence)
        moved = msgspec.structs.replace(change.header, **header) if header else change.header
        if moved.place is not None:
            moved = settled(self._header, moved)
        return Change(moved, self.operations, self.events, False, change.births)


def is_pending(operation: Operation) -> bool:
    """Whether a handler may wait for this operation: a timer, an answer or the end of a child will change it, or it is a step whose next
    attempt is ready."""
    status = operation.status
    kind = operation.type
    if status is Status.STARTED:
        return kind is Type.WAIT or kind is Type.CALLBACK or kind is Type.CHAINED_INVOKE
    return status is Status.PENDING or status is Status.READY
