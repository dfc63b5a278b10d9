"""Executions: the header that every write is fenced by, and the shape of a change.

`status` is what the world sees; `state` is who has it now. `epoch` says who may write; `revision` moves with every write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from holdfast.model import codec
from holdfast.model.auditing import Note
from holdfast.model.charging import Charge
from holdfast.model.errors import InvalidParameter
from holdfast.model.history import Event
from holdfast.model.ids import checked_name
from holdfast.model.operations import Failure, Kind, Operation, Word

DAY_SECONDS = 86_400
MAX_TIMEOUT_SECONDS = 366 * DAY_SECONDS
MAX_RETENTION_DAYS = 36_500
"""A hundred years; AWS keeps at most 90 days."""


class ExecutionStatus(Word):
    """The public status; once closed it never changes."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    STOPPED = "STOPPED"


class State(Word):
    """Who has the execution now."""

    READY = "ready"
    """Waits for a runner, from `ready_at` on."""
    RUNNING = "running"
    """An invocation of `runner` is live."""
    SUSPENDED = "suspended"
    """Nobody has it; a timer, an answer or a stop brings it back."""
    CLOSING = "closing"
    """The status is closed, the invocation that closed it has not returned yet."""
    CLOSED = "closed"
    QUARANTINED = "quarantined"
    """Put aside, for the reason in `quarantine`; a person must release it."""
    IMPORTED = "imported"
    """A copy of one that was not closed when it was exported: to be looked at. Nobody claims it, no timer fires, no write changes it."""


class Quarantine(Word):
    """Why an execution was put aside. Nothing of it is lost, and its timeout runs on."""

    RUNNER_DIED = "runner_died"
    """Its runner died too often without progress, also when it ran alone."""
    PAYLOAD_UNREADABLE = "payload_unreadable"
    """What is stored of it could not be read."""
    REPLAY_MISMATCH = "replay_mismatch"
    """The code does not match its history."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What an execution is granted; fixed when it starts."""

    timeout_seconds: int = MAX_TIMEOUT_SECONDS
    retention_days: int = 14
    max_operations: int = 1_000_000
    """A guard against a loop that never ends, not a limit of the engine."""
    max_bytes: int = 1 << 30
    """The same for the payloads it stores."""

    def checked(self) -> Terms:
        """These terms, if they can be granted."""
        limits = (
            ("execution_timeout", self.timeout_seconds, MAX_TIMEOUT_SECONDS),
            ("retention_days", self.retention_days, MAX_RETENTION_DAYS),
        )
        for what, value, most in (*limits, ("max_operations", self.max_operations, None), ("max_bytes", self.max_bytes, None)):
            if type(value) is not int or value < 1 or (most is not None and value > most):
                upto = "" if most is None else f" up to {most:,}"
                raise InvalidParameter(f"{what} is {value!r}; use a whole number from 1{upto}.")
        return self


class Execution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The header of an execution: everything but its operations, events and payloads."""

    id: str
    function: str
    version: str
    name: str
    input_hash: str
    terms: Terms
    started_at: int
    deadline: int
    status: ExecutionStatus = ExecutionStatus.RUNNING
    state: State = State.READY
    epoch: int = 0
    revision: int = 0
    sequence: int = 0
    events: int = 0
    """The number of events, which is the last EventId."""
    pending: int = 0
    """Operations the service will act on by itself."""
    runner: str | None = None
    invocation: str | None = None
    invoked_at: int | None = None
    seen: int = 0
    """The revision that the last invocation had seen when it ended."""
    ended_at: int | None = None
    result_event: int | None = None
    due_at: int | None = None
    """A lower bound of the next time the service must act; too early is harmless."""
    ready_at: int = 0
    touched_at: int = 0
    """The time of the latest event: times never go back within an execution."""
    failures: int = 0
    """Failed invocations in a row; any accepted update resets it."""
    deaths: int = 0
    """Runners that died under it in a row."""
    client: str | None = None
    """The last accepted (position, ClientToken), so that a repeated request is recognised."""
    client_revision: int = 0
    operations: int = 0
    stored: int = 0
    """Bytes of payload in its history."""
    parent: str | None = None
    """The execution that invoked this one, and the operation of it that waits."""
    parent_operation: str | None = None
    cascade: bool = True
    """It is stopped when its parent is."""
    tenant: str | None = None
    trace: str | None = None
    """The trace header it was started with; each of its invocations gets it, and what it invokes."""
    continued_as: str | None = None
    """The execution that goes on where this one ended."""
    expires_at: int | None = None
    """From then on it may be forgotten."""
    superseded_by: str | None = None
    """The execution that has its name now: it failed, and the name was started again."""
    quarantine: Quarantine | None = None
    """Why it was put aside, while its state is QUARANTINED."""
    quarantine_event: int | None = None
    """The number of the event that tells the error, if one does."""


FAILED_STATUSES = frozenset({ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT, ExecutionStatus.STOPPED})
"""The endings after which the name of an execution may be started again."""


def goes_on_as(header: Execution, heir: Execution | None) -> bool:
    """Whether an execution goes on as this one. An imported copy may name anybody; what is done to it must not be done to a stranger."""
    if heir is None or heir.id != header.continued_as:
        return False
    return (heir.function, heir.version, heir.parent, heir.started_at) == (header.function, header.version, header.parent, header.ended_at)


class Birth(msgspec.Struct, frozen=True, gc=False):
    """An execution that a change of another one starts."""

    header: Execution
    input: str
    kind: Kind = Kind.FUNCTION


def new_execution(
    identity: str,
    name: str | None,
    function: str,
    version: str,
    *,
    payload: str,
    now: int,
    terms: Terms,
    tenant: str | None = None,
    trace: str | None = None,
    same: str | None = None,
) -> Execution:
    """The header that a start asks for; without a name the execution is called like its id. `same` is as in `verbs.Start`."""
    codec.fitting(codec.storable(payload), "Execution input")
    texts: dict[str, object] = {"tenant": tenant, "trace header": trace}
    for what, text in texts.items():
        if text is not None and not (isinstance(text, str) and text.isprintable()):
            raise InvalidParameter(f"A {what} must have letters that can be printed, and only those: {text!r:.100}.")
    return Execution(
        id=identity,
        function=function,
        version=version,
        name=identity if name is None else checked_name(name),
        input_hash=codec.payload_hash(payload if same is None else same),
        terms=terms,
        started_at=now,
        deadline=0,
        tenant=tenant,
        trace=trace,
    )


class OutcomeStatus(Word):
    """How an invocation can end."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PENDING = "PENDING"
    CRASHED = "CRASHED"
    """It did not answer: an error escaped it or its process died. It is tried again, later."""
    INTERRUPTED = "INTERRUPTED"
    """Its runner shut down in good order; anybody may go on at once."""
    MISMATCHED = "MISMATCHED"
    """The code does not match the history; mended code can go on."""
    CONTINUED = "CONTINUED"
    """It is over, and another execution goes on with `result` as its input."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What an invocation came to."""

    status: OutcomeStatus
    result: str | None = None
    error: Failure | None = None
    again_seconds: int | None = None
    """When one that crashed is tried again, where its host has a rule of its own."""
    place: str | None = None
    """Where in the author's code one crashed, if its host knows; it is kept in the history, and never on the wire."""


class View(Protocol):
    """What a decision may ask about one execution; the store answers from memory or from rows."""

    @property
    def header(self) -> Execution: ...
    def get(self, operation_id: str) -> Operation | None: ...
    def newer(self, revision: int) -> Iterable[Operation]: ...
    def due(self, now: int) -> Iterable[Operation]:
        """Operations whose `due_at` is at or before `now`, earliest first."""
        ...

    def next_due(self, after: int) -> int | None: ...
    def has_ready(self, since: int) -> bool:
        """Whether a step became ready after a revision and was not started since."""
        ...


class Change(msgspec.Struct, frozen=True, gc=False):
    """What one accepted write does to an execution, whole or not at all."""

    header: Execution
    operations: dict[str, Operation]
    events: list[Event]
    slight: bool = False
    """Of the header only what an ordinary checkpoint moves has changed: revision, sequence, counts, due and touched time."""
    births: tuple[Birth, ...] = ()
    charges: tuple[Charge, ...] = ()
    notes: tuple[Note, ...] = ()
    """Lines of the audit log that are written with it."""
