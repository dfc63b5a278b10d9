"""The verbs that come from outside an invocation: answers to callbacks, stops, timers that are due, a person's release."""

from __future__ import annotations

import msgspec

from holdfast.model import codec, life, transitions
from holdfast.model.auditing import Note
from holdfast.model.draft import Draft
from holdfast.model.errors import CallbackClosed, CallbackNotFound, CodecFailed, InvalidParameter
from holdfast.model.execution import Change, ExecutionStatus, State, View
from holdfast.model.ids import Seal
from holdfast.model.life import Claimant
from holdfast.model.operations import KEPT, Failure, Operation, Status, Type
from holdfast.model.verbs import Decision


class Answering(msgspec.Struct, frozen=True, gc=False):
    """Answer a callback, from anywhere; an answer may come before anybody waits for it."""

    execution: str
    operation_id: str
    result: str | None = None
    error: Failure | None = None
    by: Claimant | None = None
    kept: str | None = None
    """Set where the caller's authority was checked: the sub-type of the callback that this answers. Such a callback (`operations.KEPT`)
    takes no answer without this, and a callback of another sub-type does not take this answer."""
    notes: tuple[Note, ...] = ()
    """Who decided, for the audit log; here and below."""

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """The first answer wins; whether it is too late is decided in this same write."""
        draft, operation = _open_callback(view, self.operation_id, now)
        if self.kept != _kept(operation):
            raise CallbackNotFound
        result = None if self.result is None else codec.fitting(codec.storable(self.result), "CALLBACK output")
        error = None if self.error is None else codec.readable(self.error)
        status = Status.SUCCEEDED if error is None else Status.FAILED
        draft.put(life.answered(draft, operation, status, result, error), operation)
        change, header = life.claimed_now(life.woken(draft), self.by, now)
        return noted(change, self.notes), header


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Somebody still works on a callback: its heartbeat timer starts anew, its general timeout does not."""

    execution: str
    operation_id: str

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """No event is written: a heartbeat is not part of the story, and no news for a handler, so the operation keeps its revision."""
        draft, operation = _open_callback(view, self.operation_id, now)
        if _kept(operation) is not None:
            raise CallbackNotFound
        due_at = transitions.callback_due(now, operation.timeout_at, operation.heartbeat_ms)
        draft.put(msgspec.structs.replace(operation, due_at=due_at), operation)
        change = draft.done()
        return change, change.header


class Stop(msgspec.Struct, frozen=True, gc=False):
    """End an execution from outside. Stopping a closed one changes nothing."""

    execution: str
    error: Failure = Failure()
    cascade: bool = True
    """Stop what it invoked, too."""
    inherited: bool = False
    """It comes from the parent's stop, which a child may have been made to survive."""
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """A live invocation is told of as completed, then the terminal event, then nothing."""
        header = view.header
        if header.state is State.IMPORTED:
            if self.inherited:
                return None, header
            raise InvalidParameter(f"Execution {header.name!r} is an imported copy: there is nothing to stop.")
        if header.status is not ExecutionStatus.RUNNING or (self.inherited and not header.cascade):
            return None, header
        draft = Draft(view, now)
        if header.state is State.RUNNING:
            life.complete_invocation(draft)
        change = life.close(draft, ExecutionStatus.STOPPED, codec.failure_text(self.error))
        return noted(change, self.notes), change.header


class Fire(msgspec.Struct, frozen=True, gc=False):
    """Let the timers of an execution act that are due."""

    execution: str
    by: Claimant | None = None

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Firing too early only corrects the header's lower bound."""
        header = view.header
        if header.due_at is None or header.due_at > now:
            return None, header
        draft = Draft(view, now)
        if header.deadline <= now:
            if header.state is State.RUNNING:
                life.complete_invocation(draft)
            change = life.time_out(draft)
            return change, change.header
        try:
            fired = life.fire(draft, view, now)
        except CodecFailed:
            if header.state is State.RUNNING:
                life.complete_invocation(draft)
            change = life.quarantine_unread(draft)
            return change, change.header
        if not fired:
            change = draft.done()
            return change, change.header
        return life.claimed_now(life.woken(draft), self.by, now)


class Release(msgspec.Struct, frozen=True, gc=False):
    """A person lets a quarantined execution run again, or one that waits for its next try, which it then need not wait for."""

    execution: str
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Only what was put aside can be released."""
        header = view.header
        if header.state is not State.QUARANTINED and life.next_try(header) is None:
            raise InvalidParameter(f"Execution {header.name!r} is not quarantined; it is {header.state}.")
        change = Draft(view, now).done(state=State.READY, ready_at=now, deaths=0, quarantine=None, quarantine_event=None)
        return noted(change, self.notes), change.header


def noted(change: Change, notes: tuple[Note, ...]) -> Change:
    """A change with the lines of the audit log that tell who decided it."""
    return msgspec.structs.replace(change, notes=notes) if notes else change


def _kept(operation: Operation) -> str | None:
    return operation.sub_type if operation.sub_type in KEPT else None


def _open_callback(view: View, operation_id: str, now: int) -> tuple[Draft, Operation]:
    header = view.header
    operation = view.get(operation_id)
    if operation is None or operation.type is not Type.CALLBACK:
        raise CallbackNotFound
    late = header.deadline <= now or (operation.due_at is not None and operation.due_at <= now)
    if header.state is State.IMPORTED or header.status is not ExecutionStatus.RUNNING or operation.status is not Status.STARTED or late:
        raise CallbackClosed
    return Draft(view, now), operation
