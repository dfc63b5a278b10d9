"""Writes from outside an invocation: answers to callbacks, stops, due timers, a person's release."""

from __future__ import annotations

import msgspec

from holdfast.model import codec, life, transitions
from holdfast.model.audit import Note
from holdfast.model.draft import Draft
from holdfast.model.errors import CallbackClosed, CallbackNotFound, CodecFailed, InvalidParameter
from holdfast.model.execution import Change, ExecutionStatus, State, View
from holdfast.model.life import Claimant
from holdfast.model.operations import CANCEL, CANCEL_ID, KEPT, Failure, Operation, Status, Type
from holdfast.model.seal import Seal
from holdfast.model.verbs import Decision


class Answering(msgspec.Struct, frozen=True, gc=False):
    """Answer a callback, from any process. An answer may come before the handler waits for it."""

    execution: str
    operation_id: str
    result: str | None = None
    error: Failure | None = None
    by: Claimant | None = None
    kept: str | None = None
    """The sub-type of the callback that this answers. Only code that has checked the caller's authority sets it. Such a callback
    (`operations.KEPT`) takes no answer without this, and a callback of another sub-type does not take this answer."""
    notes: tuple[Note, ...] = ()
    """Who decided, for the audit log; here and below."""

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Close the callback with this answer. The first answer wins; this write also decides whether it comes too late."""
        draft, operation = open_callback(view, self.operation_id, now)
        if self.kept != _kept(operation):
            raise CallbackNotFound
        result = None if self.result is None else codec.fitting(codec.storable(self.result), "CALLBACK output")
        error = None if self.error is None else codec.readable(self.error)
        status = Status.SUCCEEDED if error is None else Status.FAILED
        draft.put(life.answered(draft, operation, status, result, error), operation)
        change, header = life.claimed_now(life.woken(draft), self.by, now)
        return noted(change, self.notes), header


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """A heartbeat of a caller that still works on a callback: the heartbeat timer starts again, the general timeout does not."""

    execution: str
    operation_id: str

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """No event is written, and the operation keeps its revision: a heartbeat changes nothing for a handler."""
        draft, operation = open_callback(view, self.operation_id, now)
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
    """Whether the executions that it invoked are stopped as well."""
    inherited: bool = False
    """Whether this stop follows from the parent's stop. A child that was started without `cascade` survives it. A run that listens for its
    cancel is
    cancelled instead: it may record the outcome of a call in flight, and undo what it did."""
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Write the end of the live invocation, if there is one, then the terminal event."""
        header = view.header
        if header.state is State.IMPORTED:
            if self.inherited:
                return None, header
            raise InvalidParameter(f"Execution {header.name!r} is an imported copy: there is nothing to stop.")
        if header.status is not ExecutionStatus.RUNNING or (self.inherited and not header.cascade):
            return None, header
        if self.inherited and (listens := view.get(CANCEL_ID)) is not None and header.state is not State.QUARANTINED:
            if listens.status is not Status.STARTED:
                return None, header  # the run was cancelled before, and ends by itself
            if header.deadline > now:
                return Answering(self.execution, CANCEL_ID, None, Failure("cancelled"), kept=CANCEL).decide(view, now, seal)
        draft = Draft(view, now)
        if header.state is State.RUNNING:
            life.complete_invocation(draft)
        change = life.close(draft, ExecutionStatus.STOPPED, codec.failure_text(self.error))
        return noted(change, self.notes), change.header


class Fire(msgspec.Struct, frozen=True, gc=False):
    """Let the due timers of an execution act."""

    execution: str
    by: Claimant | None = None

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Let the due timers act. If the call comes too early, it only corrects the time in the header."""
        header = view.header
        if header.due_at is None or header.due_at > now:
            return None, header
        draft = Draft(view, now)
        if header.deadline <= now:
            if header.state is State.RUNNING:
                life.complete_invocation(draft)
            change = life.time_out(draft)
            return change, change.header
        if header.state is State.DELAYED:
            change = life.entered(draft)
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
    """A person releases an execution: one that is quarantined, or one that waits for another try after its runners died. It runs at
    once."""

    execution: str
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Refuse an execution that is neither quarantined nor waits for another try after its runners died."""
        header = view.header
        if header.state is not State.QUARANTINED and life.next_try(header) is None:
            told = f"it is {header.state}, neither quarantined nor waiting for another try after its runners died"
            raise InvalidParameter(f"Execution {header.name!r} cannot be released: {told}.")
        change = Draft(view, now).done(state=State.READY, ready_at=now, deaths=0, quarantine=None, quarantine_event=None)
        return noted(change, self.notes), change.header


def noted(change: Change, notes: tuple[Note, ...]) -> Change:
    """A change with the lines of the audit log that tell who decided it."""
    return msgspec.structs.replace(change, notes=notes) if notes else change


def _kept(operation: Operation) -> str | None:
    return operation.sub_type if operation.sub_type in KEPT else None


def open_callback(view: View, operation_id: str, now: int) -> tuple[Draft, Operation]:
    """A callback that takes an answer now, and the draft of the write that answers it. Whether it is too late is decided in that write."""
    header = view.header
    operation = view.get(operation_id)
    if operation is None or operation.type is not Type.CALLBACK:
        raise CallbackNotFound
    late = header.deadline <= now or (operation.due_at is not None and operation.due_at <= now)
    if header.state is State.IMPORTED or header.status is not ExecutionStatus.RUNNING or operation.status is not Status.STARTED or late:
        raise CallbackClosed
    return Draft(view, now), operation
