"""The verbs: every durable transition as a write that decides purely and that a store commits.

`decide(view, now, seal)` returns the change and the answer, or raises what the caller gets instead. A store may call it again on
newer rows, so it must not keep anything. Here are the verbs of those who run executions; outside.py has everybody else's, chaining.py
those that one execution's write brings to another.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.model import codec, life, transitions
from holdfast.model.charging import Charge
from holdfast.model.draft import Draft
from holdfast.model.errors import (
    CodecFailed,
    ExecutionAlreadyStarted,
    InvalidParameter,
    InvalidToken,
    LeaseLost,
    Rejected,
    RowDamaged,
    StoreBroken,
    WriteFailed,
)
from holdfast.model.execution import (
    FAILED_STATUSES,
    Change,
    Execution,
    ExecutionStatus,
    Outcome,
    OutcomeStatus,
    Quarantine,
    State,
    View,
)
from holdfast.model.history import KIND, Event, EventType
from holdfast.model.ids import Arn, Position, Seal
from holdfast.model.life import Claimant
from holdfast.model.operations import SERVED, Action, Failure, Kind, Operation, Update
from holdfast.model.transitions import NO_CHILDREN, Children


class Started(msgspec.Struct, frozen=True, gc=False):
    """The answer to a start: the execution, and whether this start made it."""

    header: Execution
    created: bool


class Checkpointed(msgspec.Struct, frozen=True, gc=False):
    """The answer to a checkpoint: the next token (none when it closed the execution) and what changed since the last one."""

    token: Position | None
    operations: tuple[Operation, ...]
    revision: int


_UNREADABLE = (CodecFailed.__name__, StoreBroken.__name__, RowDamaged.__name__, WriteFailed.__name__)
"""What keeps an invocation from beginning that is no fault of its function: a person mends it, and the execution goes on."""

Answer = Started | Checkpointed | Execution
Decision = tuple[Change | None, Answer]


class Write(Protocol):
    """One write of one execution."""

    @property
    def execution(self) -> str: ...
    def decide(self, view: View, now: int, seal: Seal) -> Decision: ...


class Start(msgspec.Struct, frozen=True, gc=False):
    """Make an execution, or find the one that has its name and its input."""

    header: Execution
    input: str
    by: Claimant | None = None
    charges: tuple[Charge, ...] = ()
    same: str | None = None
    """What makes two starts of one name the same, where that is not the whole input."""
    kind: Kind = Kind.FUNCTION
    """What the execution is marked as. Code that makes a start of another kind has accepted an order for the execution first."""
    again: bool = False
    """Start the name again if the execution that has it failed. That one stays, superseded by the new one."""
    failed_as: str | None = None
    """With `again`: the id of an execution that went on as others, the last of which failed. It counts as failed itself."""

    @property
    def execution(self) -> str:
        """The id the new execution will have."""
        return self.header.id

    def create(self, now: int) -> tuple[Change, Started]:
        """The first change of a new execution."""
        header = self.header
        if type(header.status) is not ExecutionStatus or type(header.state) is not State or header.quarantine is not None:
            raise InvalidParameter(
                "An execution begins with a status and a state that there are, and not in quarantine."
            )  # else its row could not be read
        at = max(now, header.started_at)
        deadline = at + header.terms.timeout_seconds * 1000
        detail: dict[str, Any] = {"ExecutionTimeout": header.terms.timeout_seconds}
        if self.kind is not Kind.FUNCTION:
            detail[KIND] = self.kind.value
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
        )
        if self.by is not None:
            born = life.claimed(born, self.by, at)
        return Change(born, {}, [event], charges=self.charges), Started(born, True)

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """The name is taken: the same input and version find it, anything else is a conflict. Nothing is told of another tenant's."""
        found, wanted = view.header, self.header
        if found.tenant != wanted.tenant:
            raise ExecutionAlreadyStarted(f"An execution named {found.name} was started by another tenant.")
        if self.again and self._failed(found):
            # The new execution itself is made by the write that follows from this one (chaining.py).
            return Draft(view, now).done(superseded_by=wanted.id), self.create(now)[1]
        if found.input_hash != wanted.input_hash or found.version != wanted.version:
            arn = Arn(found.function, found.version, found.name, found.id)
            raise ExecutionAlreadyStarted(f"Execution already started: {arn}", differs=_difference(found, wanted))
        if found.state is State.IMPORTED:
            raise ExecutionAlreadyStarted(f"The name {found.name!r} belongs to an imported copy, which does not run. Use another name.")
        return None, Started(found, False)

    def _failed(self, found: Execution) -> bool:
        over = found.status is not ExecutionStatus.RUNNING
        return found.status in FAILED_STATUSES or (over and found.id == self.failed_as)


def _difference(found: Execution, wanted: Execution) -> str:
    """What a start asks for that the execution of its name does not have."""
    if found.input_hash == wanted.input_hash:
        return f"The version differs: it was started with {found.version}, and this start asks for {wanted.version}."
    other = "" if found.version == wanted.version else f", and so does the version ({found.version}, not {wanted.version})"
    return f"The input differs from the one that it was started with{other}. Use another name, or the same input."


class Claim(msgspec.Struct, frozen=True, gc=False):
    """Take a ready execution, or one whose runner is dead."""

    execution: str
    by: Claimant
    dead: frozenset[str] = frozenset()
    alone: bool = False
    """The runner has nothing else live, so a suspect may be taken: if it dies, it is known why."""

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """A takeover tells of the dead invocation in the same change that begins the new one."""
        header = view.header
        abandoned = header.runner in self.dead
        draft = Draft(view, now)
        if header.state is State.CLOSING and abandoned:
            change = life.finish_closing(draft, life.RUNNER_DIED)
            return change, change.header
        if header.state is State.RUNNING and abandoned:
            life.complete_invocation(draft, life.RUNNER_DIED)
            deaths = header.deaths + 1
        elif life.may_claim(header, now, alone=self.alone):
            deaths = header.deaths
        else:
            raise LeaseLost("Somebody else has this execution.")
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


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Apply a handler's updates, all or none."""

    at: Position
    updates: tuple[Update, ...]
    client_token: str | None = None
    children: Children = NO_CHILDREN
    charges: tuple[Charge, ...] = ()

    @property
    def execution(self) -> str:
        """The execution the token is for."""
        return self.at.execution

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """A repeated request gets the same next token; any other old token is refused."""
        header, at = view.header, self.at
        client = self.client_token and f"{at.epoch}.{at.sequence}.{codec.storable(self.client_token)}"
        if client and client == header.client:
            return None, self._again(view, seal)
        if header.epoch != at.epoch or header.state is not State.RUNNING:
            raise LeaseLost("Invalid checkpoint token: another invocation owns this execution now, or it is closed.")
        if header.sequence != at.sequence:
            raise InvalidToken
        draft = Draft(view, now)
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
            change = _close_by(draft, closing)
            change = msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, client=client))
            return change, Checkpointed(None, operations, change.header.revision)
        if draft.total > header.terms.max_operations or draft.stored > header.terms.max_bytes:
            life.complete_invocation(draft)
            change = life.close(draft, ExecutionStatus.FAILED, codec.failure_text(_too_much(draft)))
            return change, Checkpointed(None, operations, change.header.revision)
        token = Position(header.id, at.epoch, at.sequence + 1, draft.revision)
        change = self._accepted(draft, client)
        if self.charges:
            change = msgspec.structs.replace(change, charges=self.charges)
        return change, Checkpointed(token, operations, draft.revision)

    def _accepted(self, draft: Draft, client: str | None) -> Change:
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
            # Also after a takeover: the request was accepted, and the next one will learn that the token is dead.
            token = Position(header.id, at.epoch, at.sequence + 1, header.client_revision)
        return Checkpointed(token, tuple(sorted(view.newer(at.revision), key=_changed_at)), header.client_revision)


class Settle(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An invocation ended: close the execution, suspend it, or try again later."""

    execution: str
    epoch: int
    invocation: str
    seen: int
    outcome: Outcome
    jitter: float = 1.0
    by: Claimant | None = None
    successor: str | None = None
    """The id of the execution that goes on, where the outcome says that one does."""

    def decide(self, view: View, now: int, seal: Seal) -> Decision:
        """Suspending compares what the handler saw with what is there, so no wake-up is lost."""
        header = view.header
        draft = Draft(view, now)
        if header.state is State.CLOSING and header.invocation == self.invocation:
            crashed = self.outcome.status is OutcomeStatus.CRASHED
            change = life.finish_closing(draft, (self.outcome.error or Failure()) if crashed else None)
            return change, change.header
        if header.epoch != self.epoch or header.state is not State.RUNNING:
            raise LeaseLost
        outcome = self.outcome
        if outcome.status is OutcomeStatus.CRASHED:
            life.complete_invocation(draft, outcome.error or Failure(), outcome.place)
            change = self._try_again(draft, now)
        elif outcome.status is OutcomeStatus.MISMATCHED:
            life.complete_invocation(draft, outcome.error or Failure())
            change = life.quarantine(draft, Quarantine.REPLAY_MISMATCH, deaths=0)
        else:
            life.complete_invocation(draft)
            if outcome.status is OutcomeStatus.PENDING:
                try:
                    change = self._suspend(draft, view, now)
                except CodecFailed:
                    change = life.quarantine_unread(draft)
            elif outcome.status is OutcomeStatus.INTERRUPTED:
                change = draft.done(state=State.READY, ready_at=draft.at, runner=None, invocation=None, epoch=header.epoch + 1)
            elif outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.CONTINUED):
                change = self._succeed(draft)
            else:
                change = life.close(draft, ExecutionStatus.FAILED, codec.failure_text(outcome.error or Failure()))
        return life.claimed_now(change, self.by, now)

    def _succeed(self, draft: Draft) -> Change:
        """An ending that cannot be stored is the execution's failure."""
        result = self.outcome.result
        try:
            if self.outcome.status is OutcomeStatus.CONTINUED and self.successor is not None:
                return life.continue_as(draft, self.successor, result or "null")
            payload = None if result is None else codec.fitting(codec.storable(result), "Execution output")
            return life.close(draft, ExecutionStatus.SUCCEEDED, payload)
        except Rejected as refused:
            error = Failure(str(refused), "InvalidParameterValueException")
            return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(error))

    def _suspend(self, draft: Draft, view: View, now: int) -> Change:
        header = draft.header
        # Every write moves the header's revision, a heartbeat too; news for the handler is only what an operation shows.
        unseen = header.revision > self.seen and any(True for _ in view.newer(self.seen))
        if not header.pending and not unseen and not self._served(view):
            return life.close(draft, ExecutionStatus.FAILED, codec.failure_text(life.NOTHING_PENDING))
        if header.deadline <= now:
            return life.time_out(draft)
        fired = header.due_at is not None and header.due_at <= now and life.fire(draft, view, now)
        # A step that became ready during this invocation has no timer left: if the handler went without starting it, it must come back.
        again = not header.pending or unseen or fired or view.has_ready(header.seen)
        state = State.READY if again else State.SUSPENDED
        return draft.done(state=state, ready_at=draft.at, runner=None, invocation=None, seen=self.seen, failures=0, deaths=0)

    def _served(self, view: View) -> bool:
        """Whether the service closed something since the last invocation: then the handler may have decided to wait before it saw that.

        The official SDK does (its issue 213). One more invocation lets it go on, and `seen` moves, so that it is only one.
        """
        closed = (op for op in view.newer(view.header.seen) if op.ended_at is not None)
        return any(op.type in SERVED for op in closed)

    def _try_again(self, draft: Draft, now: int) -> Change:
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


def _too_much(draft: Draft) -> Failure:
    terms = draft.header.terms
    what = f"{draft.total} operations (at most {terms.max_operations})"
    if draft.stored > terms.max_bytes:
        what = f"{draft.stored} bytes of payload (at most {terms.max_bytes})"
    return Failure(
        f"The execution has {what}. Raise the guard where the function is declared, or continue as new.", "ExecutionGuardExceeded"
    )


def _close_by(draft: Draft, update: Update) -> Change:
    if update.action is Action.SUCCEED:
        return life.close_early(draft, ExecutionStatus.SUCCEEDED, update.payload)
    return life.close_early(draft, ExecutionStatus.FAILED, codec.failure_text(update.error or Failure()))
