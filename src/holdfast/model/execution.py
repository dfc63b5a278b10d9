"""Executions: the header that every write is fenced by, and the shape of a change.

`status` is what callers see; `state` says who has the execution now. `epoch` says which invocation may write; `revision` grows with every
write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from holdfast.model import codec
from holdfast.model.audit import Note
from holdfast.model.charges import Charge
from holdfast.model.enqueues import Enqueue
from holdfast.model.errors import InvalidParameter
from holdfast.model.graphs import GraphText as GraphText
from holdfast.model.history import Event
from holdfast.model.ids import checked_name
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import Failure, Kind, Operation, Word
from holdfast.model.places import Place as Place
from holdfast.model.summary import Summary as Summary
from holdfast.model.terms import DAY_SECONDS as DAY_SECONDS
from holdfast.model.terms import MAX_RETENTION_DAYS as MAX_RETENTION_DAYS
from holdfast.model.terms import MAX_TIMEOUT_SECONDS as MAX_TIMEOUT_SECONDS
from holdfast.model.terms import Terms as Terms

_GRAPH_ID: Final = re.compile(r"[0-9a-f]{64}")


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
    QUEUED = "queued"
    """Waits in its lane until the store admits it (model.places). No runner finds it as ready work."""
    DELAYED = "delayed"
    """Enqueued with a delay: it enters its lane at `ready_at`."""
    RUNNING = "running"
    """An invocation of `runner` is live."""
    SUSPENDED = "suspended"
    """No runner has it; it waits for a timer, an answer or a stop."""
    CLOSING = "closing"
    """The status is closed, the invocation that closed it has not returned yet."""
    CLOSED = "closed"
    QUARANTINED = "quarantined"
    """Put aside, for the reason in `quarantine`; a person must release it."""
    IMPORTED = "imported"
    """A copy, only to look at, of an execution that was not closed when it was exported. No runner claims it, and no timer fires."""


class Quarantine(Word):
    """Why an execution was put aside. No data is lost, and the execution's timeout still counts."""

    RUNNER_DIED = "runner_died"
    """Its runner died too often without progress, also when it ran alone."""
    PAYLOAD_UNREADABLE = "payload_unreadable"
    """Its stored payloads could not be read."""
    REPLAY_MISMATCH = "replay_mismatch"
    """The code does not match its history."""


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
    """How many operations the service will act on by itself."""
    runner: str | None = None
    invocation: str | None = None
    invoked_at: int | None = None
    seen: int = 0
    """The revision that the last invocation had seen when it ended."""
    ended_at: int | None = None
    result_event: int | None = None
    due_at: int | None = None
    """The service need not act before this time. It may be earlier than necessary, which does no harm."""
    ready_at: int = 0
    touched_at: int = 0
    """The time of the latest event: times never go back within an execution."""
    failures: int = 0
    """How many invocations failed in a row. Any accepted update sets it to 0."""
    deaths: int = 0
    """How many runners died in a row while they ran it."""
    client: str | None = None
    """The last accepted (position, ClientToken), so that a repeated request is recognised."""
    client_revision: int = 0
    operations: int = 0
    stored: int = 0
    """How many bytes of payload its history has."""
    parent: str | None = None
    """The execution that invoked this one, and the operation of it that waits."""
    parent_operation: str | None = None
    cascade: bool = True
    """Whether the execution is stopped when its parent is stopped."""
    tenant: str | None = None
    trace: str | None = None
    """The trace header it was started with. Each of its invocations gets it, and each execution that it invokes."""
    continued_as: str | None = None
    """The execution that continues this one."""
    expires_at: int | None = None
    """From this time on retention may remove it."""
    superseded_by: str | None = None
    """The execution that has its name now: this one failed, and the name was started again."""
    quarantine: Quarantine | None = None
    """Why it was put aside, while its state is QUARANTINED."""
    quarantine_event: int | None = None
    """The number of the event that has the error, if one has."""
    graph: str | None = None
    """The id of the graph that the execution runs, if it is one of a pipeline. The store has its text."""
    place: Place | None = None
    """Where it stands in a queue, if it was enqueued."""
    parked: bool = False
    """Whether it came from a queue and failed. A person may then start it again under the same key (redrive)."""
    summary: Summary | None = None
    """The facts by which people find it: its pipeline, from the start on, and how it ended, after it is closed."""


FAILED_STATUSES = frozenset({ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT, ExecutionStatus.STOPPED})
"""The endings after which the name of an execution may be started again."""


def goes_on_as(header: Execution, heir: Execution | None) -> bool:
    """Whether `heir` really continues this execution. An imported copy may name any id, and a change to the copy must not reach an
    execution that has nothing to do with it.
    """
    if heir is None or heir.id != header.continued_as:
        return False
    return (heir.function, heir.version, heir.parent, heir.started_at) == (header.function, header.version, header.parent, header.ended_at)


class Claimant(msgspec.Struct, frozen=True, gc=False):
    """The runner that takes an execution, and the id that the new invocation will have."""

    runner: str
    invocation: str


def graph_text(text: str) -> GraphText:
    """A graph, with the id that its text has."""
    return GraphText(codec.payload_hash(text), text)


def checked_graph(graph: GraphText) -> GraphText:
    """The graph, if it can be stored. Executions that name one id share one text, so the id must be that of the text."""
    if graph.id != codec.payload_hash(codec.fitting(codec.storable(graph.text), "Graph")):
        raise InvalidParameter("The id of a graph must be the sha256 of its text.")
    return graph


def checked_graph_id(graph: str) -> str:
    """The id of a graph, if it is one."""
    if type(graph) is not str or not _GRAPH_ID.fullmatch(graph):
        raise InvalidParameter("A graph is named by the sha256 of its text, in hexadecimal.")
    return graph


class Birth(msgspec.Struct, frozen=True, gc=False):
    """An execution that a change of another one starts."""

    header: Execution
    input: str
    kind: Kind = Kind.FUNCTION
    by: Claimant | None = None
    """The runner that takes it in the same write, if that runner has room for it."""
    charges: tuple[Charge, ...] = ()
    """What the birth adds to shared counters. If a limit is reached, only the operation that invokes fails; the rest of the write goes on.
    """
    graph: GraphText | None = None
    """As in `verbs.Start`."""
    enqueue: Enqueue | None = None
    """As in `verbs.Start`."""


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
            raise InvalidParameter(f"A {what} must be a text of printable characters only: {text!r:.100}.")
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
    """It gave no answer: an error escaped it or its process died. The engine tries again later."""
    INTERRUPTED = "INTERRUPTED"
    """Its runner shut down in good order; any runner may continue at once."""
    MISMATCHED = "MISMATCHED"
    """The code does not match the history; mended code can go on."""
    CONTINUED = "CONTINUED"
    """It is over, and another execution continues with `result` as its input."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How an invocation ended."""

    status: OutcomeStatus
    result: str | None = None
    error: Failure | None = None
    again_seconds: int | None = None
    """When an invocation that crashed is tried again, if its host has a rule of its own."""
    place: str | None = None
    """The line of the author's code at which it crashed or failed, if its host knows. It is kept in the history, and never on the wire."""
    parked: bool = False
    """Whether the execution succeeded, but its response says that the run failed. If it came from a queue, it is parked like a failed one.
    """
    used: int | None = None
    """How many tokens the execution really used, if it is over and its lane has a rate of tokens."""
    cool_until: int | None = None
    """A server asked the execution to come back later: its lane admits nothing before this time."""
    summary: Summary | None = None
    """The facts by which people find it, if it is over; without the pipeline, which is known from the start."""


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
    """What one accepted write does to an execution. A store writes all of it or nothing."""

    header: Execution
    operations: dict[str, Operation]
    events: list[Event]
    slight: bool = False
    """Whether only those members of the header have changed that an ordinary checkpoint changes: revision, sequence, counts, due time and
    touched time."""
    births: tuple[Birth, ...] = ()
    charges: tuple[Charge, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    """Entries of the ledger that are written with it."""
    notes: tuple[Note, ...] = ()
    """Lines of the audit log that are written with it."""
    settled: int = 0
    """The units of a rate of tokens that the execution used beyond its estimate; negative if it used less."""
    cool_until: int | None = None
    """As in `Outcome`."""
