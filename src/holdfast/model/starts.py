"""Starts: the write that makes an execution, or finds the one that has its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model import codec, life
from holdfast.model.admission import REPLACED, placed
from holdfast.model.audit import Note
from holdfast.model.charges import Charge
from holdfast.model.draft import Draft
from holdfast.model.enqueues import Enqueue, Same
from holdfast.model.errors import ExecutionAlreadyStarted, InvalidParameter
from holdfast.model.execution import (
    FAILED_STATUSES,
    Change,
    Execution,
    ExecutionStatus,
    GraphText,
    State,
    View,
    checked_graph,
    checked_graph_id,
)
from holdfast.model.history import KIND, RESTART, SCHEDULE, Event, EventType
from holdfast.model.ids import Arn
from holdfast.model.life import Claimant
from holdfast.model.operations import Failure, Kind, Operation, is_pending
from holdfast.model.queues import QueueSettings
from holdfast.model.schedules import Occurrence, ScheduleState
from holdfast.model.seal import Seal
from holdfast.model.summary import begun

NO_SETTINGS: Final = QueueSettings()


class Started(msgspec.Struct, frozen=True, gc=False):
    """The answer to a start: the execution, and whether this start made it."""

    header: Execution
    created: bool


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """The part of another history with which an execution begins: events from number 2 on, and their operations."""

    events: tuple[Event, ...]
    operations: tuple[Operation, ...]


class Restart(msgspec.Struct, frozen=True, gc=False):
    """An execution that another one restarts."""

    of: str
    at: str | None = None
    """The operation before which the history was cut."""
    prefix: Prefix | None = None

    @property
    def mark(self) -> dict[str, Any]:
        """The mark in the first event."""
        return {"execution": self.of} if self.at is None else {"execution": self.of, "operation": self.at}


def restart_in(detail: Mapping[str, Any] | None) -> tuple[str, str | None] | None:
    """The execution that the first event says is restarted, and the operation before which its history was cut."""
    marked = (detail or {}).get(RESTART)
    of = marked.get("execution") if isinstance(marked, dict) else None
    if not isinstance(marked, dict) or not isinstance(of, str):
        return None
    at = marked.get("operation")
    return of, at if isinstance(at, str) else None


class Start(msgspec.Struct, frozen=True, gc=False):
    """Make an execution, or find the one that has its name and its input."""

    header: Execution
    input: str
    by: Claimant | None = None
    charges: tuple[Charge, ...] = ()
    same: str | None = None
    """Two starts of one name count as the same start if this text is equal; None: if the whole input is equal."""
    kind: Kind = Kind.FUNCTION
    """The kind that the execution is marked with. A start of another kind needs an accepted order."""
    again: bool = False
    """Whether the name is started again if the execution that has it failed. The failed execution stays, superseded by the new one."""
    failed_as: str | None = None
    """With `again`: the id of an execution that others continued, the last of which failed. It counts as failed as well."""
    graph: GraphText | None = None
    """The graph that the execution runs: the store adds it if it does not have it. A header may also name a graph that is there."""
    occurrence: Occurrence | None = None
    moved: ScheduleState | None = None
    """The occurrence that starts it, and its schedule as this write leaves it. Both are written, or neither (ScheduleStore)."""
    enqueue: Enqueue | None = None
    """The queue of the execution. If the queue has no room, the execution waits, and `by` does not take it."""
    restart: Restart | None = None
    """The execution that this one restarts. It gives up its name and stays in the store, superseded by this one."""
    notes: tuple[Note, ...] = ()
    """Who restarts it, for the audit log."""

    @property
    def execution(self) -> str:
        """The id the new execution will have."""
        return self.header.id

    def create(self, now: int, settings: QueueSettings = NO_SETTINGS, *, admits: bool = False) -> tuple[Change, Started]:
        """The first change of a new execution. `settings` and `admits` are for one that is enqueued: what its queue is like, and whether
        every lane above it has room.
        """
        header = self.header
        if type(header.status) is not ExecutionStatus or type(header.state) is not State or header.quarantine is not None:
            raise InvalidParameter(
                "An execution must begin with a known status and a known state, and not in quarantine."
            )  # else its row could not be read
        at = max(now, header.started_at)
        deadline = at + header.terms.timeout_seconds * 1000
        detail: dict[str, Any] = {"ExecutionTimeout": header.terms.timeout_seconds}
        if self.kind is not Kind.FUNCTION:
            detail[KIND] = self.kind.value
        if self.occurrence is not None:
            detail[SCHEDULE] = msgspec.to_builtins(self.occurrence)
        if self.restart is not None:
            detail[RESTART] = self.restart.mark
        event = Event(1, EventType.EXECUTION_STARTED, at, None, self.input, detail)
        born = msgspec.structs.replace(
            header,
            started_at=at,
            touched_at=at,
            ready_at=at,
            deadline=deadline,
            due_at=deadline,
            events=1,
            stored=len(self.input.encode()),
            revision=1,
            graph=self._graph_id(),
        )
        if self.kind is Kind.PIPELINE:
            born = msgspec.structs.replace(born, summary=begun(header.function))
        if self.enqueue is not None:
            born = placed(self.enqueue, born, at, settings, admits=admits)
        if self.by is not None and (self.enqueue is None or admits):
            born = life.claimed(born, self.by, at)
        if self.restart is not None and self.restart.prefix is not None:
            change = _continued(born, event, self.restart.prefix, self.charges)
            return change, Started(change.header, True)
        return Change(born, {}, [event], charges=self.charges), Started(born, True)

    def _graph_id(self) -> str | None:
        if self.graph is not None:
            return checked_graph(self.graph).id
        return None if self.header.graph is None else checked_graph_id(self.header.graph)

    def decide(self, view: View, now: int, seal: Seal) -> tuple[Change | None, Started]:
        """Decide about a start whose name is taken: with the same input and version it finds the execution, anything else is a conflict.
        The error reveals nothing about an execution of another tenant.
        """
        found, wanted = view.header, self.header
        if found.tenant != wanted.tenant:
            raise ExecutionAlreadyStarted(f"An execution named {found.name} was started by another tenant.")
        same = Same.EXISTING if self.enqueue is None else self.enqueue.same
        # The new execution itself is made by the write that follows from this one (follow_ups.py).
        if self.again and self._failed(found):
            change = Draft(view, now).done(superseded_by=wanted.id, parked=False)
            return msgspec.structs.replace(change, notes=self.notes), self.create(now)[1]
        if self.restart is not None:
            raise ExecutionAlreadyStarted(f"Execution {self.restart.of} was restarted meanwhile, as {found.id}.")
        if same is Same.REPLACE and found.state is not State.IMPORTED:
            return self._replaced(Draft(view, now)), self.create(now)[1]
        if same is Same.REFUSE:
            raise ExecutionAlreadyStarted(f"There is an execution named {found.name} already, and the enqueue asks to refuse a second one.")
        if found.input_hash != wanted.input_hash or found.version != wanted.version:
            arn = Arn(found.function, found.version, found.name, found.id)
            raise ExecutionAlreadyStarted(f"Execution already started: {arn}", differs=_difference(found, wanted))
        if found.state is State.IMPORTED:
            raise ExecutionAlreadyStarted(f"The name {found.name!r} belongs to an imported copy, which does not run. Use another name.")
        return None, Started(found, False)

    def _failed(self, found: Execution) -> bool:
        over = found.status is not ExecutionStatus.RUNNING
        if self.restart is not None:
            return over and found.id == self.restart.of
        return found.status in FAILED_STATUSES or found.parked or (over and found.id == self.failed_as)

    def _replaced(self, draft: Draft) -> Change:
        """The change of the execution that has the key: it gives up the key, and is stopped if it is open."""
        if draft.header.status is not ExecutionStatus.RUNNING:
            return draft.done(superseded_by=self.header.id, parked=False)
        if draft.header.state is State.RUNNING:
            life.complete_invocation(draft)
        error = Failure("The key was enqueued again, to replace this execution.", REPLACED)
        change = life.close(draft, ExecutionStatus.STOPPED, codec.failure_text(error))
        return msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, superseded_by=self.header.id))


def _continued(born: Execution, first: Event, prefix: Prefix, charges: tuple[Charge, ...]) -> Change:
    """The first change of an execution that begins with a part of another history. Operations that were open there are open here."""
    stored = born.stored + sum(len(event.payload.encode()) for event in prefix.events if event.payload is not None)
    header = msgspec.structs.replace(
        born,
        events=1 + len(prefix.events),
        operations=len(prefix.operations),
        pending=sum(map(is_pending, prefix.operations)),
        stored=stored,
    )
    return Change(header, {operation.id: operation for operation in prefix.operations}, [first, *prefix.events], charges=charges)


def _difference(found: Execution, wanted: Execution) -> str:
    """How a start differs from the execution that has its name."""
    if found.input_hash == wanted.input_hash:
        return f"The version differs: it was started with {found.version}, and this start asks for {wanted.version}."
    other = "" if found.version == wanted.version else f", and so does the version ({found.version}, not {wanted.version})"
    return f"The input differs from the one that it was started with{other}. Use another name, or the same input."
