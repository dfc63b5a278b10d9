"""Writes that do not come from an invocation: answers to callbacks, heartbeats, stops, due timers, releases by a person."""

from __future__ import annotations

import msgspec

from holdfast.model import codec, life, transitions
from holdfast.model.audit import Note
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import CallbackClosed, CallbackNotFound, CodecFailed, InvalidParameter
from holdfast.model.execution import Change, Execution, ExecutionStatus, State, View
from holdfast.model.life import Claimant
from holdfast.model.operations import CANCEL, CANCEL_ID, KEPT, Failure, Operation, Status, Type
from holdfast.model.seal import Seal
from holdfast.model.verbs import VerbDecision


class Answering(msgspec.Struct, frozen=True, gc=False):
    """Answer a callback, from any process. An answer may come before the handler waits for it."""

    execution: str
    operation_id: str
    result: str | None = None
    error: Failure | None = None
    """The error with which the callback fails; None if the callback succeeds."""
    by: Claimant | None = None
    """The runner that claims the execution in the same write, if the answer makes it ready; None: no runner."""
    kept: str | None = None
    """To answer a callback whose sub-type is in `operations.KEPT`, this must be that sub-type; for any other callback it must be None. Only
    code that has checked the caller's authority sets it."""
    notes: tuple[Note, ...] = ()
    """Lines for the audit log: who decided."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Close the callback with this answer. Raises CallbackNotFound if there is no such callback, or if `kept` is not what this callback
        needs: its sub-type for an approval or a cancel, else None. Raises CallbackClosed if it was answered before, its time is over, or
        its execution has ended or is an imported copy. Raises PayloadTooLarge or InvalidParameter if the result cannot be stored."""
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
    """A heartbeat of a caller that still works on a callback. The heartbeat timer starts again; the callback's timeout does not."""

    execution: str
    operation_id: str

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Move the callback's `due_at`. No event is written, and the operation keeps its revision, because a handler need not know about
        heartbeats. Raises CallbackNotFound if there is no such callback, or if it is an approval or a cancel of a run, which have no
        heartbeats. Raises CallbackClosed if it was answered before, its time is over, or its execution has ended or is an imported copy."""
        draft, operation = open_callback(view, self.operation_id, now)
        if _kept(operation) is not None:
            raise CallbackNotFound
        due_at = transitions.callback_due(now, operation.timeout_at, operation.heartbeat_ms)
        draft.put(msgspec.structs.replace(operation, due_at=due_at), operation)
        change = draft.done()
        return change, change.header


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Stop an execution. Stopping a closed one changes nothing."""

    execution: str
    error: Failure = Failure()
    """The error that the execution ends with."""
    cascade: bool = True
    """Whether executions that the stopped execution invoked are stopped as well (and so on below them)."""
    inherited: bool = False
    """Whether another event causes this stop: the parent was stopped or timed out, or a schedule replaces the execution. An inherited stop
    does nothing to an execution that was started without `cascade`. A run that listens for its cancel is not stopped by it but cancelled
    (unless the run is quarantined, or its deadline has passed): so it can record the outcome of a call that is under way, and undo what it
    did."""
    notes: tuple[Note, ...] = ()
    """Lines for the audit log: who stopped it."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Close the execution as stopped: add the end of its live invocation, if there is one, and then the terminal event. A closed
        execution does not change. An inherited stop does nothing to an execution without `cascade`, and usually only cancels a run (see
        `inherited`). Raises InvalidParameter for an imported copy that was not closed, unless the stop is inherited."""
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
        draft = WriteDraft(view, now)
        if header.state is State.RUNNING:
            life.complete_invocation(draft)
        change = life.close(draft, ExecutionStatus.STOPPED, codec.failure_text(self.error))
        return noted(change, self.notes), change.header


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """What a stop has done: the execution, and whether this call stopped it."""

    header: Execution
    stopped: bool
    """False if the execution had ended before."""


class Fire(msgspec.Struct, frozen=True, gc=False):
    """Fire the due timers of an execution."""

    execution: str
    by: Claimant | None = None
    """The runner that claims the execution in the same write, if a timer makes it ready; None: no runner."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Fire the due timers. Before the header's `due_at`, nothing changes. An execution whose deadline has passed times out, or expires
        if it was never admitted from its queue. A delayed execution enters its lane. An execution whose payloads cannot be read is
        quarantined. If no timer turns out to be due, only `due_at` is corrected."""
        header = view.header
        if header.due_at is None or header.due_at > now:
            return None, header
        draft = WriteDraft(view, now)
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
    """A person releases an execution that is quarantined, or that waits for another try after its runners died. It becomes ready at once;
    if it was enqueued and holds no slot, it waits in its lane for one."""

    execution: str
    notes: tuple[Note, ...] = ()
    """Lines for the audit log: who released it."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Make the execution ready (or queued). Raises InvalidParameter for an execution that is not quarantined and does not wait for
        another try after its runners died."""
        header = view.header
        if header.state is not State.QUARANTINED and life.next_try(header) is None:
            told = f"it is {header.state}, neither quarantined nor waiting for another try after its runners died"
            raise InvalidParameter(f"Execution {header.name!r} cannot be released: {told}.")
        change = WriteDraft(view, now).done(state=State.READY, ready_at=now, deaths=0, quarantine=None, quarantine_event=None)
        return noted(change, self.notes), change.header


def noted(change: Change, notes: tuple[Note, ...]) -> Change:
    """The change, with lines of the audit log that tell who decided it."""
    return msgspec.structs.replace(change, notes=notes) if notes else change


def _kept(operation: Operation) -> str | None:
    return operation.sub_type if operation.sub_type in KEPT else None


def open_callback(view: View, operation_id: str, now: int) -> tuple[WriteDraft, Operation]:
    """A new draft for a write to the callback's execution, and the callback. Raises CallbackNotFound if there is no such callback. Raises
    CallbackClosed if it was answered before, its time is over, or its execution has ended or is an imported copy."""
    header = view.header
    operation = view.get(operation_id)
    if operation is None or operation.type is not Type.CALLBACK:
        raise CallbackNotFound
    late = header.deadline <= now or (operation.due_at is not None and operation.due_at <= now)
    if header.state is State.IMPORTED or header.status is not ExecutionStatus.RUNNING or operation.status is not Status.STARTED or late:
        raise CallbackClosed
    return WriteDraft(view, now), operation
