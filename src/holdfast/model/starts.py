"""Starts: the write that makes an execution, or finds the one that has its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model import codec, life
from holdfast.model.admission import REPLACED, placed
from holdfast.model.audit import Note
from holdfast.model.charges import Charge
from holdfast.model.credentials import tenant_of
from holdfast.model.draft import WriteDraft, is_pending
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
from holdfast.model.operations import Failure, Kind, Operation
from holdfast.model.queues import QueueSettings
from holdfast.model.schedules import Occurrence, ScheduleState
from holdfast.model.seal import Seal
from holdfast.model.summary import begun

NO_SETTINGS: Final = QueueSettings()


class Started(msgspec.Struct, frozen=True, gc=False):
    """The answer to a start: the execution, and whether this start made it."""

    header: Execution
    created: bool
    """True if this start made the execution; False if it found an existing one."""


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """The part of an older execution's history that a restart copies: the operations that had ended before the cut, the contexts that were
    open at the cut, and the events of both. The copied events have new numbers, from 2 on."""

    events: tuple[Event, ...]
    operations: tuple[Operation, ...]


class Restart(msgspec.Struct, frozen=True, gc=False):
    """Which execution a start restarts, and which part of its history the new execution copies."""

    of: str
    """The id of the old execution."""
    at: str | None = None
    """The operation before which the old history was cut, by name or id; None if nothing of the history is copied."""
    prefix: Prefix | None = None
    """The copied part; None if the new execution begins with an empty history."""

    @property
    def mark(self) -> dict[str, Any]:
        """The detail `Restart` of the new execution's first event: which execution it restarts, and from which operation."""
        return {"execution": self.of} if self.at is None else {"execution": self.of, "operation": self.at}


def restart_in(detail: Mapping[str, Any] | None) -> tuple[str, str | None] | None:
    """Read the detail of an execution's first event. Returns the id of the old execution that this one restarts, and the operation before
    which the history of the old one was cut (None if nothing was copied). Returns None instead of the pair if the execution is not a
    restart."""
    marked = (detail or {}).get(RESTART)
    of = marked.get("execution") if isinstance(marked, dict) else None
    if not isinstance(marked, dict) or not isinstance(of, str):
        return None
    at = marked.get("operation")
    return of, at if isinstance(at, str) else None


class Start(msgspec.Struct, frozen=True, gc=False):
    """Make an execution; or, if an execution has the same name already, find that one, supersede it, or be refused (`decide`)."""

    header: Execution
    input: str
    by: Claimant | None = None
    """The runner that claims the new execution in the same write; None if no runner claims it yet."""
    charges: tuple[Charge, ...] = ()
    """What the start adds to shared counters."""
    same: str | None = None
    """The text by which a second start of the same name is recognised: if it is equal (and the version too), it is the same start, and no
    second execution is made. None: the whole input is compared instead."""
    kind: Kind = Kind.FUNCTION
    """What the execution runs. The first event records a kind other than FUNCTION."""
    again: bool = False
    """Whether a new execution may take over the name of an old one. Without `restart`, it may if the old one failed, timed out, was stopped
    or is parked. With `restart`, it may if the old one is the execution to restart, and has ended. The old execution stays in the store,
    superseded by the new one."""
    failed_as: str | None = None
    """With `again`: the id of an execution that was continued by another one (perhaps in a chain), and the last of the chain failed. Its
    name may be taken over too, although it did not fail itself. None: there is no such execution."""
    graph: GraphText | None = None
    """The graph that the execution runs, with its text; the store adds the text if it does not have it yet. None: the execution runs no
    graph, or the header has the id of a graph whose text is in the store."""
    occurrence: Occurrence | None = None
    """The occurrence of a schedule that starts the execution; None if no schedule starts it."""
    moved: ScheduleState | None = None
    """The schedule of `occurrence`, as it is after this write; None if no schedule changes. The store writes the execution and the schedule
    in one transaction."""
    enqueue: Enqueue | None = None
    """How the execution is enqueued; None if it has no queue. If it is not admitted at once, it waits in the queue, and `by` does not claim
    it."""
    restart: Restart | None = None
    """What this start restarts; None if it is not a restart. The old execution gives up its name and stays in the store, superseded."""
    notes: tuple[Note, ...] = ()
    """Lines for the audit log. They are written only if the start supersedes an older execution because of `again`."""
    keeps_hash: bool = False
    """Whether `input_hash` of the header comes from the execution that this start replaces. A store with a codec then keeps it, because it
    may be of a text that is not in the store (`same`)."""

    @property
    def execution(self) -> str:
        """The id that the new execution will have."""
        return self.header.id

    def create(self, now: int, settings: QueueSettings = NO_SETTINGS, *, admits: bool = False) -> tuple[Change, Started]:
        """The first change of a new execution, and the answer to the start. For an execution that is enqueued, `settings` are those of its
        queue, and `admits` says whether it is admitted at once. Raises InvalidParameter if the header cannot be that of a new execution, or
        if the id of the graph is wrong. Raises PayloadTooLarge if the text of the graph is too long."""
        header = self.header
        if type(header.status) is not ExecutionStatus or type(header.state) is not State or header.quarantine is not None:
            raise InvalidParameter(
                "An execution must begin with a known status and a known state, and not in quarantine."
            )  # otherwise the store could not read the row
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
        """Decide about a start if another execution, the one in `view`, has the name already. Returns the change of that execution (None if
        it does not change) and the answer.

        The start supersedes that execution (it stays in the store, and gives up its name) if `again` allows it, usually because that
        execution ended without success, or if the enqueue says `Same.REPLACE`; then an open one is also stopped. Otherwise, if input and
        version are the same, the start finds that execution. Raises ExecutionAlreadyStarted in all other cases: the input or the version
        differs, the enqueue says `Same.REFUSE`, this is a restart and `again` does not allow it (for example, because another execution has
        the name now), that execution is an imported copy that was not closed, or it belongs to another tenant. For another tenant's
        execution, the error tells only the name.
        """
        found, wanted = view.header, self.header
        if tenant_of(found.tenant) != tenant_of(wanted.tenant):
            raise ExecutionAlreadyStarted(f"An execution named {found.name} was started by another tenant.")
        same = Same.EXISTING if self.enqueue is None else self.enqueue.same
        # This change only supersedes the old execution. A follow-up write (follow_ups.py) makes the new one.
        if self.again and self._failed(found):
            change = WriteDraft(view, now).done(superseded_by=wanted.id, parked=False)
            return msgspec.structs.replace(change, notes=self.notes), self.create(now)[1]
        if self.restart is not None:
            raise ExecutionAlreadyStarted(f"Execution {self.restart.of} was restarted meanwhile, as {found.id}.")
        if same is Same.REPLACE and found.state is not State.IMPORTED:
            return self._replaced(WriteDraft(view, now)), self.create(now)[1]
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

    def _replaced(self, draft: WriteDraft) -> Change:
        """The change of the old execution with this name: it gives up the name, and is stopped if it is not closed."""
        if draft.header.status is not ExecutionStatus.RUNNING:
            return draft.done(superseded_by=self.header.id, parked=False)
        if draft.header.state is State.RUNNING:
            life.complete_invocation(draft)
        error = Failure("The key was enqueued again, to replace this execution.", REPLACED)
        change = life.close(draft, ExecutionStatus.STOPPED, codec.failure_text(error))
        return msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, superseded_by=self.header.id))


def _continued(born: Execution, first: Event, prefix: Prefix, charges: tuple[Charge, ...]) -> Change:
    """The first change of an execution that begins with a copied part of another history. `born` is its header before that part is added.
    `first` is its own first event; the events of `prefix` follow. An operation that is open in `prefix` is open in the new execution
    too."""
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
    """How a start differs from the execution that has its name, for the error message."""
    if found.input_hash == wanted.input_hash:
        return f"The version differs: it was started with {found.version}, and this start asks for {wanted.version}."
    other = "" if found.version == wanted.version else f", and so does the version ({found.version}, not {wanted.version})"
    return f"The input differs from the one that it was started with{other}. Use another name, or the same input."
