"""Executions: the header, which every write is checked against, and the shape of a change.

`status` is what callers see; `state` is what the engine uses. `epoch` says which invocation may write; `revision` grows with every write.
Times are in milliseconds since 1970-01-01 UTC.
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
    """The public status. A status other than RUNNING never changes any more."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    STOPPED = "STOPPED"


class State(Word):
    """What an execution waits for, or what runs it, as the engine sees it."""

    READY = "ready"
    """It waits for a runner to claim it. `life.may_claim` says which runner may claim it, and from when on."""
    QUEUED = "queued"
    """It waits in its lane until the store admits it (model.places). A runner cannot claim it before."""
    DELAYED = "delayed"
    """It was enqueued with a delay that is not over yet. It enters its lane at `ready_at`."""
    RUNNING = "running"
    """An invocation of it is live, on the runner in `runner`."""
    SUSPENDED = "suspended"
    """No runner has it. It waits for a timer, an answer or the end of an execution that it invoked."""
    CLOSING = "closing"
    """Its status is final, but the invocation that closed it has not returned yet."""
    CLOSED = "closed"
    """It has ended."""
    QUARANTINED = "quarantined"
    """It is in quarantine, for the reason in `quarantine`. A person must release it."""
    IMPORTED = "imported"
    """A copy, only to look at, of an execution that was not closed when it was exported. No runner claims it, and no timer fires."""


class Quarantine(Word):
    """Why an execution is in quarantine. No data is lost. The execution still times out at its deadline."""

    RUNNER_DIED = "runner_died"
    """Its runners died too often without progress of the execution; the last of them ran nothing else."""
    PAYLOAD_UNREADABLE = "payload_unreadable"
    """Its stored data could not be read, or its new data could not be written."""
    REPLAY_MISMATCH = "replay_mismatch"
    """The code of its function does not match its history."""


class Execution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The header of an execution: everything but its operations, events and payloads."""

    id: str
    function: str
    version: str
    name: str
    input_hash: str
    """The hash of `Start.same` if that was given, else of the input. If the store has a payload codec, the codec makes a fingerprint of the
    same text in place of the hash. By it (and the version) a second start of the same name is recognised as the same start."""
    terms: Terms
    started_at: int
    deadline: int
    """When it times out. For an enqueued execution that was never admitted: when it expires (`places.NEVER` if it has no time to live)."""
    status: ExecutionStatus = ExecutionStatus.RUNNING
    state: State = State.READY
    epoch: int = 0
    """It grows with each claim, and with some other writes, for example when the execution closes. A runner's write with an older epoch is
    refused."""
    revision: int = 0
    """It grows with each write."""
    sequence: int = 0
    """How many checkpoints the present invocation has written."""
    events: int = 0
    """How many events its history has. Events are numbered from 1, so this is also the number of the last one."""
    pending: int = 0
    """How many of its operations a handler may wait for (`draft.is_pending`)."""
    runner: str | None = None
    invocation: str | None = None
    invoked_at: int | None = None
    seen: int = 0
    """The last revision that an invocation had seen when it ended in order to wait; of several such invocations, the latest one counts."""
    ended_at: int | None = None
    result_event: int | None = None
    """The number of the event with its result or error; None while it runs."""
    due_at: int | None = None
    """The time of its next timer or of its deadline, whichever is earlier; None if there is neither. The stored time may be earlier than
    the real one, which does no harm."""
    ready_at: int = 0
    """If it is ready: the time from which a runner may claim it. If it is delayed: the time at which it enters its lane."""
    touched_at: int = 0
    """The time of the latest event. From one event of an execution to the next, the time never decreases."""
    failures: int = 0
    """How many of its latest invocations failed in a row. It is set to 0 by a checkpoint with an update, by an invocation that ends in
    order to wait, and by a quarantine."""
    deaths: int = 0
    """How many runners died in a row while they ran it, without progress of the execution."""
    client: str | None = None
    """The epoch, the sequence and the ClientToken of the last accepted checkpoint, by which a repeated request is recognised. None if that
    checkpoint had no ClientToken."""
    client_revision: int = 0
    """The execution's revision after the checkpoint that is recorded in `client`."""
    operations: int = 0
    """How many operations it has."""
    stored: int = 0
    """How many bytes of payload its history has."""
    parent: str | None = None
    """The id of the execution that invoked this one; None if none did."""
    parent_operation: str | None = None
    """The id of the parent's operation that waits for this execution; None if none waits."""
    cascade: bool = True
    """Whether the execution is stopped when its parent is stopped or times out. A run that has begun is then cancelled instead of
    stopped."""
    tenant: str | None = None
    trace: str | None = None
    """The trace header that it was started with; None if it had none. The header is passed to each of its invocations, and to each
    execution that it invokes."""
    continued_as: str | None = None
    """The id of the execution that continues this one; None if none does."""
    expires_at: int | None = None
    """From this time on retention may remove it; None while it is not closed. An imported copy has it from the import on."""
    superseded_by: str | None = None
    """The id of the execution that has its name now, because the name was started again; None if it still has its name."""
    quarantine: Quarantine | None = None
    """Why it is in quarantine; None if it is not."""
    quarantine_event: int | None = None
    """The number of the event with the error that led to the quarantine; None if no event has it."""
    graph: str | None = None
    """The id of the graph that it runs; None if it runs no graph. The text of the graph is in the store."""
    place: Place | None = None
    """Its place in a queue; None if it was not enqueued."""
    parked: bool = False
    """Whether it is parked: it came from a queue, it failed or timed out, and a person may start its name again (redrive)."""
    summary: Summary | None = None
    """The facts by which people find it. From the start on it has the pipeline, and after the close also how the execution ended. None if
    there are no such facts."""


FAILED_STATUSES = frozenset({ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT, ExecutionStatus.STOPPED})
"""The statuses of an execution that ended without success. A start with `again` may take over the name of such an execution."""


def goes_on_as(header: Execution, heir: Execution | None) -> bool:
    """Whether `heir` really continues the execution with this header. The id in `continued_as` is not enough, because an imported copy may
    have any id there. So function, version and parent must be equal too, and the heir must have started at exactly the time at which this
    execution ended."""
    if heir is None or heir.id != header.continued_as:
        return False
    return (heir.function, heir.version, heir.parent, heir.started_at) == (header.function, header.version, header.parent, header.ended_at)


class Claimant(msgspec.Struct, frozen=True, gc=False):
    """The runner that claims an execution, and the id that the new invocation will have."""

    runner: str
    invocation: str


def graph_text(text: str) -> GraphText:
    """A graph with its id, which is the SHA-256 of its text."""
    return GraphText(codec.payload_hash(text), text)


def checked_graph(graph: GraphText) -> GraphText:
    """The graph itself. Raises InvalidParameter if its id is not the SHA-256 of its text: executions with the same graph id share one
    stored text. Raises PayloadTooLarge if the text is too long to be stored."""
    if graph.id != codec.payload_hash(codec.fitting(codec.storable(graph.text), "Graph")):
        raise InvalidParameter("The id of a graph must be the sha256 of its text.")
    return graph


def checked_graph_id(graph: str) -> str:
    """The id of a graph, returned unchanged. Raises InvalidParameter if it does not have the form of a SHA-256 in hexadecimal."""
    if type(graph) is not str or not _GRAPH_ID.fullmatch(graph):
        raise InvalidParameter("A graph is named by the sha256 of its text, in hexadecimal.")
    return graph


class Birth(msgspec.Struct, frozen=True, gc=False):
    """An execution that a change of another execution starts."""

    header: Execution
    input: str
    kind: Kind = Kind.FUNCTION
    by: Claimant | None = None
    """The runner that claims it in the same write; None if no runner claims it yet."""
    charges: tuple[Charge, ...] = ()
    """What the birth adds to shared counters. If a counter would go beyond its limit, only the operation that asks for this execution
    fails; the rest of the write is committed."""
    graph: GraphText | None = None
    """The graph that it runs, with its text; None if it runs no graph, or if its header names a graph whose text is in the store."""
    enqueue: Enqueue | None = None
    """How it is enqueued; None if it has no queue."""


class OutcomeStatus(Word):
    """How an invocation can end."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PENDING = "PENDING"
    CRASHED = "CRASHED"
    """It gave no answer, because an error escaped it or its process died. The engine tries again later, at most a few times."""
    INTERRUPTED = "INTERRUPTED"
    """Its runner shut down in an orderly way. Any runner may continue the execution at once."""
    MISMATCHED = "MISMATCHED"
    """The code does not match the history. The execution is quarantined. With corrected code it can continue after a person has released
    it."""
    CONTINUED = "CONTINUED"
    """The execution has ended, and another one continues it, with `result` as its input."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How an invocation ended."""

    status: OutcomeStatus
    result: str | None = None
    error: Failure | None = None
    again_seconds: int | None = None
    """After how many seconds a crashed invocation is tried again; None: the engine decides."""
    place: str | None = None
    """The line of the author's code at which it crashed or failed; None if it is not known. It is kept in the history, and never sent on
    the wire."""
    parked: bool = False
    """Whether the response of the run says that the run failed, although the execution succeeded. If the execution came from a queue that
    parks failed ones, it is then parked."""
    used: int | None = None
    """How many tokens a run that has ended really used; None if the execution has not ended, or is not a run."""
    cool_until: int | None = None
    """The time before which the lane of the execution is to admit nothing, because a server that the execution called asked for a pause;
    None if no server asked."""
    summary: Summary | None = None
    """The facts about the end of a run by which people find it; None if the execution has not ended, or is not a run. The pipeline is not
    among them: the header has it from the start on."""


class View(Protocol):
    """One execution as a write reads it when it decides. The store answers from memory or from rows."""

    @property
    def header(self) -> Execution: ...
    def get(self, operation_id: str) -> Operation | None: ...
    def newer(self, revision: int) -> Iterable[Operation]:
        """The operations that changed after the revision `revision`."""
        ...

    def due(self, now: int) -> Iterable[Operation]:
        """Operations whose `due_at` is at or before `now`, earliest first."""
        ...

    def next_due(self, after: int) -> int | None:
        """Of all times `due_at` of the operations: the first one after the time `after`; None if there is none."""
        ...

    def has_ready(self, since: int) -> bool:
        """Whether there is a step that became ready for its next attempt after the revision `since`, and whose attempt has not been
        started."""
        ...


class Change(msgspec.Struct, frozen=True, gc=False):
    """What one accepted write does to an execution. A store writes all of it or nothing."""

    header: Execution
    operations: dict[str, Operation]
    events: list[Event]
    slight: bool = False
    """If True, no members of the header have changed other than those that every checkpoint may change: `revision`, `sequence`, `due_at`,
    `touched_at`, and the counts `events`, `pending`, `operations` and `stored`."""
    births: tuple[Birth, ...] = ()
    charges: tuple[Charge, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    """Entries of the ledger that are written in the same transaction."""
    notes: tuple[Note, ...] = ()
    """Lines of the audit log that are written in the same transaction."""
    settled: int = 0
    """How many tokens the execution used beyond its estimate; negative if it used fewer. They are charged to the lanes' rates of tokens."""
    cool_until: int | None = None
    """The time before which the lane of the execution is to admit nothing (`Outcome.cool_until`); None: no such time."""
