"""The verbs: each change of an execution is an object with a method `decide`, and a store commits what it decides.

`decide(view, now, seal)` returns the change (None if nothing changes) and the answer to the caller, or raises the caller's error. A store
may call it again on newer rows, so it must have no other effect. Here are the writes of runners and handlers; starts.py has the write that
makes an execution, outside.py the writes of all other callers, and follow_ups.py the writes that follow from a write to another execution.
"""

from __future__ import annotations

from typing import Protocol, assert_never

import msgspec

from holdfast.model import admission, codec, life, summary, transitions
from holdfast.model.charges import Charge
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import (
    CodecFailed,
    InvalidToken,
    LeaseLost,
    Rejected,
    RowDamaged,
    StoreBroken,
    WriteFailed,
)
from holdfast.model.execution import (
    Change,
    Execution,
    ExecutionStatus,
    Outcome,
    OutcomeStatus,
    Quarantine,
    State,
    View,
)
from holdfast.model.ids import Position
from holdfast.model.ledger import LedgerEntry
from holdfast.model.life import Claimant
from holdfast.model.operations import SERVED, Action, Failure, Operation, Update
from holdfast.model.seal import Seal
from holdfast.model.starts import Start as Start
from holdfast.model.starts import Started as Started
from holdfast.model.transitions import NO_CHILDREN, Children


class Checkpointed(msgspec.Struct, frozen=True, gc=False):
    """The answer to a checkpoint."""

    token: Position | None
    """The token of the next checkpoint. None if no other checkpoint is possible: the execution is closed, or a remote service withdrew the
    token."""
    operations: tuple[Operation, ...]
    """The operations that this checkpoint changed, and those that changed after the revision up to which the sender had read."""
    revision: int
    """The execution's revision after the checkpoint."""


_UNREADABLE = (CodecFailed.__name__, StoreBroken.__name__, RowDamaged.__name__, WriteFailed.__name__)
"""The types of errors that the function of an invocation did not cause. After MAX_FAILURES failed invocations in a row, the execution
fails. But if the error of the last of these invocations is in this list, the execution is quarantined instead: it continues after a person
has removed the cause and released it."""

Answer = Started | Checkpointed | Execution
VerbDecision = tuple[Change | None, Answer]


class Write(Protocol):
    """One write to one execution."""

    @property
    def execution(self) -> str: ...
    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision: ...


class Claim(msgspec.Struct, frozen=True, gc=False):
    """Claim a ready execution, or take over one whose runner is dead."""

    execution: str
    by: Claimant
    dead: frozenset[str] = frozenset()
    """The ids of the runners that are known to be dead. If one of them has the execution, this claim takes the execution over."""
    alone: bool = False
    """Whether the claiming runner claims nothing else beside the execution for a while. Only such a claim gets an execution that
    `life.SUSPECT_DEATHS` or more runners died with: if this runner dies too, the execution is held to be the cause."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Begin a new invocation. If the execution is taken over from a dead runner, the same change adds the end of that runner's
        invocation. Raises LeaseLost if the execution's runner is not dead and this runner may not claim the execution (`life.may_claim`).

        In four cases the execution is changed, but not claimed: it was closing, its deadline has passed, its payloads cannot be read, or so
        many runners died with it that it must wait, be quarantined, or be claimed apart from others (`alone`). In every case the answer is
        the header after the change.
        """
        header = view.header
        abandoned = header.runner in self.dead
        draft = WriteDraft(view, now)
        if header.state is State.CLOSING and abandoned:
            change = life.finish_closing(draft, life.RUNNER_DIED)
            return change, change.header
        if header.state is State.RUNNING and abandoned:
            life.complete_invocation(draft, life.RUNNER_DIED)
            deaths = header.deaths + 1
        elif life.may_claim(header, now, alone=self.alone):
            deaths = header.deaths
        else:
            raise LeaseLost(
                "This runner may not claim the execution now: the execution is not ready for this runner, or another runner has it."
            )
        if header.deadline <= now:
            change = life.time_out(draft)
            return change, change.header
        try:
            life.fire(draft, view, now)
        except CodecFailed:
            change = life.quarantine_unread(draft)
            return change, change.header
        if deaths >= life.MAX_DEATHS and deaths > header.deaths:
            change = life.put_aside(draft, deaths)
            return change, change.header
        if deaths >= life.SUSPECT_DEATHS and not self.alone:
            free = {"state": State.READY, "ready_at": draft.at, "runner": None, "invocation": None}
            change = draft.done(**free, deaths=deaths, epoch=header.epoch + 1)
            return change, change.header
        change = draft.done(deaths=deaths)
        change = msgspec.structs.replace(change, header=life.claimed(change.header, self.by, now))
        return change, change.header


class Admit(msgspec.Struct, frozen=True, gc=False):
    """Give a queued execution a slot, and let the runner `by` claim it in the same write. Only a store makes this write, because only a
    store has the lanes."""

    execution: str
    by: Claimant

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Admit the execution. If its deadline has passed, it is closed instead; if its payloads cannot be read, it is quarantined. Raises
        LeaseLost if it is not queued any more."""
        header = view.header
        if header.state is not State.QUEUED:
            raise LeaseLost("The execution is not queued any more.")
        draft = WriteDraft(view, now)
        if header.deadline <= now:
            change = life.time_out(draft)
            return change, change.header
        if header.due_at is not None and header.due_at <= now:
            try:
                life.fire(draft, view, now)
            except CodecFailed:
                change = life.quarantine_unread(draft)
                return change, change.header
        change = draft.done()
        taken = life.claimed(admission.admitted(change.header, draft.at), self.by, now)
        return msgspec.structs.replace(change, header=taken), taken


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Apply a handler's updates, all or none."""

    at: Position
    """The content of the checkpoint token."""
    updates: tuple[Update, ...]
    client_token: str | None = None
    """The ClientToken of the request, by which a repeated request is recognised; None if it has none."""
    children: Children = NO_CHILDREN
    """The executions that the invokes and enqueues among the updates start, by operation id."""
    charges: tuple[Charge, ...] = ()
    """What the checkpoint adds to shared counters."""
    ledger: tuple[LedgerEntry, ...] = ()
    """Entries of the ledger that are written in the same transaction as the checkpoint."""

    @property
    def execution(self) -> str:
        """The id of the execution that the token is for."""
        return self.at.execution

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Apply the updates. If this request repeats the last accepted one (same token, same ClientToken), nothing is applied, and the
        answer has the same next token as before (None if the execution has ended since).

        If the deadline of the execution has passed, the execution times out, and no update is applied, no charge and no entry of the ledger
        either. If the execution gets more operations or bytes than its terms allow, it fails. Raises LeaseLost if the invocation of the
        token does not own the execution any more, for example because the execution is closed. Raises InvalidToken if the token was used
        before. Raises InvalidParameter or PayloadTooLarge if an update is not allowed.
        """
        header, at = view.header, self.at
        client = self.client_token and f"{at.epoch}.{at.sequence}.{codec.storable(self.client_token)}"
        if client and client == header.client:
            return None, self._again(view, seal)
        if header.epoch != at.epoch or header.state is not State.RUNNING:
            raise LeaseLost("Invalid checkpoint token: another invocation owns this execution now, or it is closed.")
        if header.sequence != at.sequence:
            raise InvalidToken
        draft = WriteDraft(view, now)
        if header.due_at is not None and header.due_at <= now:
            if header.deadline <= now:
                life.complete_invocation(draft)
                change = life.time_out(draft)
                return change, Checkpointed(None, (), change.header.revision)
            life.fire(draft, view, now)
        closing = transitions.apply(draft, self.updates, seal, self.children)
        operations = tuple(draft.operations.values())
        if at.revision != header.revision:
            missed = (op for op in view.newer(at.revision) if op.id not in draft.operations)
            operations = (*sorted(missed, key=_changed_at), *operations)
        if closing is not None:
            change = self._charged(_close_by(draft, closing))
            change = msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, client=client))
            return change, Checkpointed(None, operations, change.header.revision)
        if draft.total > header.terms.max_operations or draft.stored > header.terms.max_bytes:
            life.complete_invocation(draft)
            change = self._charged(life.close(draft, ExecutionStatus.FAILED, codec.failure_text(_too_much(draft))))
            return change, Checkpointed(None, operations, change.header.revision)
        token = Position(header.id, at.epoch, at.sequence + 1, draft.revision)
        return self._charged(self._accepted(draft, client)), Checkpointed(token, operations, draft.revision)

    def _charged(self, change: Change) -> Change:
        """The change, with the charges and the entries of the ledger of this checkpoint. Every write that applies the updates also has
        these."""
        return msgspec.structs.replace(change, charges=self.charges, ledger=self.ledger) if self.charges or self.ledger else change

    def _accepted(self, draft: WriteDraft, client: str | None) -> Change:
        header = draft.header
        sequence = header.sequence + 1
        if not (client or header.client or header.failures or header.deaths):
            return draft.touched(sequence)
        counts = {"failures": 0, "deaths": 0} if self.updates else {}
        return draft.done(sequence=sequence, client=client, client_revision=draft.revision, **counts)

    def _again(self, view: View, seal: Seal) -> Checkpointed:
        header, at = view.header, self.at
        token = None
        if header.status is ExecutionStatus.RUNNING:
            # Also after a takeover: this request was accepted. The next request with this token will be refused.
            token = Position(header.id, at.epoch, at.sequence + 1, header.client_revision)
        return Checkpointed(token, tuple(sorted(view.newer(at.revision), key=_changed_at)), header.client_revision)


class Settle(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An invocation has ended. By its outcome, the execution is closed, suspended, made ready for another invocation, or quarantined."""

    execution: str
    epoch: int
    invocation: str
    seen: int
    """The last revision that the invocation saw."""
    outcome: Outcome
    jitter: float = 1.0
    """A random number between 0 and 1. It varies the delay before the next invocation, if this one crashed."""
    by: Claimant | None = None
    """The runner that claims the execution again in the same write, if the execution is ready at once; None: no runner claims it."""
    successor: str | None = None
    """The id for the execution that continues this one, if the outcome is CONTINUED; else None."""

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Add the end of the invocation, and do with the execution what the outcome says. Raises LeaseLost if this invocation does not own
        the execution any more, for example because the execution is closed.

        If an invocation ended in order to wait, but had not seen all changes of the operations, the execution is not suspended: it is ready
        at once. If there is nothing that it could wait for, the execution fails.
        """
        header = view.header
        draft = WriteDraft(view, now)
        if header.state is State.CLOSING and header.invocation == self.invocation:
            crashed = self.outcome.status is OutcomeStatus.CRASHED
            change = self._told(draft, life.finish_closing(draft, (self.outcome.error or Failure()) if crashed else None))
            return change, change.header
        if header.epoch != self.epoch or header.state is not State.RUNNING:
            raise LeaseLost
        return life.claimed_now(self._told(draft, self._ended(draft, view, now)), self.by, now)

    def _told(self, draft: WriteDraft, change: Change) -> Change:
        """The change, with what the outcome adds to it: the summary for people, the mark `parked`, and, for the lanes of the execution, the
        tokens used and the cool-down."""
        place, outcome = draft.header.place, self.outcome
        if outcome.summary is not None and change.header.status is ExecutionStatus.SUCCEEDED:
            told = summary.ended(change.header.summary, outcome.summary)
            change = msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, summary=told))
        if place is None:
            return change
        over = change.header.status is not ExecutionStatus.RUNNING
        if outcome.parked and over:
            parked = life.parks(change.header, change.header.status, failed=True)
            change = msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, parked=parked))
        used = outcome.used - place.units if over and outcome.used is not None else 0
        if used or outcome.cool_until is not None:
            change = msgspec.structs.replace(change, settled=used, cool_until=outcome.cool_until)
        return change

    def _ended(self, draft: WriteDraft, view: View, now: int) -> Change:
        outcome = self.outcome
        match outcome.status:
            case OutcomeStatus.SUCCEEDED | OutcomeStatus.CONTINUED:
                life.complete_invocation(draft)
                return self._succeed(draft)
            case OutcomeStatus.PENDING:
                life.complete_invocation(draft)
                try:
                    return self._suspend(draft, view, now)
                except CodecFailed:
                    return life.quarantine_unread(draft)
            case OutcomeStatus.FAILED:
                life.complete_invocation(draft, place=outcome.place)
                return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(outcome.error or Failure()))
            case OutcomeStatus.CRASHED:
                life.complete_invocation(draft, outcome.error or Failure(), outcome.place)
                return self._try_again(draft, now)
            case OutcomeStatus.MISMATCHED:
                life.complete_invocation(draft, outcome.error or Failure())
                return life.quarantine(draft, Quarantine.REPLAY_MISMATCH, deaths=0)
            case OutcomeStatus.INTERRUPTED:
                life.complete_invocation(draft)
                epoch = draft.header.epoch + 1
                return draft.done(state=State.READY, ready_at=draft.at, runner=None, invocation=None, epoch=epoch)
            case _:
                assert_never(outcome.status)

    def _succeed(self, draft: WriteDraft) -> Change:
        """Close the execution as succeeded; if the outcome is CONTINUED, also start its successor. If the result, or the successor's input,
        cannot be stored, the execution fails."""
        result = self.outcome.result
        try:
            if self.outcome.status is OutcomeStatus.CONTINUED and self.successor is not None:
                return life.continue_as(draft, self.successor, result or "null", settled=self.outcome.used is not None)
            payload = None if result is None else codec.fitting(codec.storable(result), "Execution output")
            return life.close(draft, ExecutionStatus.SUCCEEDED, payload)
        except Rejected as refused:
            error = Failure(str(refused), "InvalidParameterValueException")
            return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(error))

    def _suspend(self, draft: WriteDraft, view: View, now: int) -> Change:
        header = draft.header
        # Every write increases the header's revision, even a heartbeat. Only changed operations matter to the handler.
        unseen = header.revision > self.seen and any(True for _ in view.newer(self.seen))
        if not header.pending and not unseen and not self._served(view):
            return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(life.NOTHING_PENDING))
        if header.deadline <= now:
            return life.time_out(draft)
        fired = header.due_at is not None and header.due_at <= now and life.fire(draft, view, now)
        # A step that became ready during this invocation has no timer left to wake the execution. If the handler ended without starting the
        # step, it is invoked again.
        again = not header.pending or unseen or fired or view.has_ready(header.seen)
        state = State.READY if again else State.SUSPENDED
        return draft.done(state=state, ready_at=draft.at, runner=None, invocation=None, seen=self.seen, failures=0, deaths=0)

    def _served(self, view: View) -> bool:
        """Whether the engine closed an operation after the revision `seen` of the header, which the invocation before this one had seen. If
        so, an execution that waits for nothing is invoked once more; if not, it fails.

        A handler of AWS's SDK may decide to wait before it sees the end of that operation (issue 213 of that SDK). The additional
        invocation lets the handler continue. Because `seen` is then set to a newer revision, there is only one for the same operation.
        """
        closed = (op for op in view.newer(view.header.seen) if op.ended_at is not None)
        return any(op.type in SERVED for op in closed)

    def _try_again(self, draft: WriteDraft, now: int) -> Change:
        failures = draft.header.failures + 1
        error = self.outcome.error
        if failures >= life.MAX_FAILURES and error is not None and (error.type or "").endswith(_UNREADABLE):
            return life.quarantine_unread(draft)
        if failures >= life.MAX_FAILURES:
            return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(self.outcome.error or Failure()))
        again = self.outcome.again_seconds
        ready_at = now + (life.backoff_ms(failures, self.jitter) if again is None else again * 1000)
        return draft.done(state=State.READY, ready_at=ready_at, runner=None, invocation=None, failures=failures, deaths=0)


def _changed_at(operation: Operation) -> int:
    return operation.revision


def _too_much(draft: WriteDraft) -> Failure:
    terms = draft.header.terms
    what = f"{draft.total} operations (at most {terms.max_operations})"
    if draft.stored > terms.max_bytes:
        what = f"{draft.stored} bytes of payload (at most {terms.max_bytes})"
    return Failure(
        f"The execution has {what}. Raise the guard where the function is declared, or continue as new.", "ExecutionGuardExceeded"
    )


def _close_by(draft: WriteDraft, update: Update) -> Change:
    if update.action is Action.SUCCEED:
        return life.close_early(draft, ExecutionStatus.SUCCEEDED, update.payload)
    return life.close_early(draft, ExecutionStatus.FAILED, codec.failure_text(update.error or Failure()))
