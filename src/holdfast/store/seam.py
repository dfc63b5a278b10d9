"""The specification of a store. A backend implements `Store` and passes the store's suite (holdfast.testing.stores).

A store keeps executions, their operations and their events. Every change of an execution goes through `commit`: it takes a batch of
writes, lets each write decide on the rows as they are inside one transaction, and answers each write on its own. When `commit` returns,
everything it answered is on disk. All methods block, and any thread may call them.

`Store` is the sum of small protocols, one for each kind of thing that a store keeps. A consumer asks for the smallest one it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from holdfast.model.audit import Note, Noted, NoteFilter
from holdfast.model.charges import Counter
from holdfast.model.clock import Clock
from holdfast.model.credentials import Credential
from holdfast.model.execution import Claimant, Execution
from holdfast.model.operations import Operation
from holdfast.model.queues import LaneStanding, QueueRow, QueueStanding
from holdfast.model.rates import Rate
from holdfast.model.seal import Seal
from holdfast.model.signals import StatusSignal
from holdfast.model.verbs import Write
from holdfast.store.browse_seam import BrowseStore as BrowseStore
from holdfast.store.browse_seam import SessionStore as SessionStore
from holdfast.store.browse_seam import ViewStore as ViewStore
from holdfast.store.ledger_seam import LedgerStore as LedgerStore
from holdfast.store.schedule_seam import ScheduleStore as ScheduleStore
from holdfast.store.values import Committed as Committed
from holdfast.store.values import Filter as Filter
from holdfast.store.values import HistoryEntry as HistoryEntry
from holdfast.store.values import Hosted as Hosted
from holdfast.store.values import Snapshot as Snapshot
from holdfast.store.values import Target as Target


class SealedStore(Protocol):
    """The key of a store."""

    @property
    def seal(self) -> Seal:
        """Seals tokens and callback ids with this store's own key."""
        ...


class CommitStore(Protocol):
    """Changes of executions."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Write a batch in one transaction, with its follow-up writes to other executions (model.chaining), and answer each entry.

        Entries of one execution are decided in order. A refused entry changes nothing and spoils no other entry. An exception of any type
        in the decision, the encoding or a row of one entry touches no other entry: that entry alone is answered with an error
        (store.isolation). To find such an entry, a store may write the batch in parts, in order, each in a transaction of its own.

        An error of the whole batch is raised, and then nothing of the batch is on disk. If a store has already written parts of the batch,
        the error is instead the answer of the entries that are not on disk: these are the end of the batch.

        Each change of a status and each quarantine is a signal, written in the same transaction if there is a subscriber.
        """
        ...


class ExecutionStore(SealedStore, Protocol):
    """Executions, their operations and their events, as of the last commit."""

    @property
    def unmarked(self) -> str:
        """The id of the last execution that was written before the store marked runs (history.KIND); empty in a store that has marked runs
        from its beginning."""
        ...

    def find(self, execution: str) -> Execution | None: ...
    def find_named(self, function: str, name: str) -> Execution | None:
        """The execution that has the name. Of several that had it one after the other, that is the one that is not superseded."""
        ...

    def input(self, execution: str) -> str | None: ...
    def inputs(self, executions: Sequence[str]) -> Mapping[str, str]:
        """The inputs of many executions, by id. One that cannot be read is left out."""
        ...

    def result(self, execution: Execution) -> str | None:
        """The payload of its terminal event: a result, or the JSON of an error."""
        ...

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        """Its operations that changed after a revision, in the order they began: those after a place, and at most `limit`."""
        ...

    def contexts(self, execution: str) -> Sequence[Operation]:
        """Its contexts in the order they began, without their results."""
        ...

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[HistoryEntry]:
        """Its events after a number, in order."""
        ...

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """The ids of executions (of a tenant) that wait for a person's decision, oldest first, after the id `beyond`."""
        ...

    def list(self, wanted: Filter) -> Sequence[Execution]: ...


class CopyStore(Protocol):
    """Copies of whole executions, from one store to another."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """All of an execution, read at one moment."""
        ...

    def adopt(self, copy: Snapshot) -> bool:
        """Write the copy of an execution of another store, as it is; False when it is there already.

        Another execution of its id or name is an error, and nothing is written; a copy that is superseded needs no name. A copy is no
        change of a status, so it makes no signal.
        """
        ...


class GraphStore(Protocol):
    """Graphs of pipelines. A start adds its graph in its own write (`Start.graph`); `expire` removes a graph with the last execution that
    names it.
    """

    def graph(self, graph: str) -> str | None:
        """The text of a graph, by its id."""
        ...


class DueStore(Protocol):
    """Executions that a runner has something to do for."""

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """Executions a runner may claim: ready ones of its functions, and those that a dead runner left behind."""
        ...

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        """A ready execution that only a runner with nothing else to do may claim, because too many runners have died under it.

        One that was put aside for a while (`life.next_try`) is found only from that time on.
        """
        ...

    def due(self, now: int, limit: int) -> Sequence[str]:
        """Executions that may have a timer due."""
        ...

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """The time of the next timer or delayed retry, or at which a lane opens in which executions wait, if there is one."""
        ...


class QueueStore(Protocol):
    """Queues, their lanes, and admission (model.places, store.lanes)."""

    def declare(self, queues: Sequence[QueueRow]) -> None:
        """Write what the code declares for these queues. Settings of an operator stay, and win over these."""
        ...

    def queue(self, name: str) -> QueueRow | None: ...
    def queues(self) -> Sequence[QueueRow]:
        """All queues, in the order of their names: declared, set by an operator, or used."""
        ...

    def set_queue(self, row: QueueRow, notes: Sequence[Note] = ()) -> bool:
        """Write what an operator sets: `operator` and `mode` of the row. Returns False, and writes nothing, if the row's revision is not
        the one in the store. Every lane of the queue gets its new limits in the same commit.
        """
        ...

    def set_rate(self, function: str, rate: Rate | None) -> bool:
        """Set the rate of runs on every leaf lane of a function, or remove it. What is used of a rate stays used. Returns False if all
        lanes had this rate before."""
        ...

    def standing(self, queue: str, now: int, tenant: str | None = None) -> QueueStanding:
        """The counts of a queue, or of a tenant in it. Those of a tenant do not say which is the oldest, nor how many were admitted."""
        ...

    def lanes(self, queue: str, beyond: str = "", limit: int = 100) -> Sequence[LaneStanding]:
        """The lanes of a queue, in the order of their keys, after the key `beyond`."""
        ...

    def ahead(self, header: Execution, most: int = 10_000) -> int:
        """How many executions stand before this one in its lane, at most `most`."""
        ...

    def has_open_lane(self, targets: Sequence[Target], now: int) -> bool:
        """Whether a lane may admit executions of these functions: only then is `admit` worth a transaction."""
        ...

    def parked(self, queue: str | None, beyond: str = "", limit: int = 100, tenant: str | None = None) -> Sequence[Execution]:
        """Parked executions (of a queue, of a tenant), oldest first, after the id `beyond`."""
        ...

    def admit(self, targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
        """Admit queued executions of these functions, one for each claimant, and claim them in the same commit.

        The answers are the headers of the executions that were claimed. Executions that turned out to be over are in `followed`. The cost
        grows with the executions that are admitted, never with those that wait.
        """
        ...


class FunctionStore(Protocol):
    """Functions that processes host."""

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell all processes which functions this process hosts, and on which terms."""
        ...

    def hosted(self, function: str) -> Sequence[Hosted]:
        """The versions of a function that a process has ever published."""
        ...


class RunnerStore(Protocol):
    """Runners and their leases."""

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner, with a sign of life that ends with this process. The runner has the name of the member that opened the
        store."""
        ...

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend a runner's lease; False when another process declared the runner dead."""
        ...

    def leave(self, runner: str) -> None: ...

    def dead(self, now: int) -> frozenset[str]:
        """Runners that hold an execution but are gone, or silent past their lease. This call declares them dead: they cannot renew."""
        ...

    def held(self, runner: str) -> Collection[str]:
        """The executions whose live invocation is this runner's."""
        ...

    def changed(self) -> bool:
        """Whether another process wrote since the last call; cheap enough to ask twenty times a second."""
        ...


class CounterStore(Protocol):
    """Counters that many executions share (model.charges). Writes charge them."""

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        """The existing counters of these keys. A counter whose time is over may still be among them."""
        ...


class OutboxStore(Protocol):
    """Signals for subscribers, numbered in the order of their commits: a reader that has seen a number never finds a smaller one later."""

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, which gets every signal from now on. A known subscriber keeps its place."""
        ...

    def unsubscribe(self, subscriber: str) -> None:
        """Forget a subscriber and the signals that it has not had; a delivery that is under way is lost."""
        ...

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Make this runner the one that delivers to a subscriber. Returns the number of the last signal that the subscriber has had; None
        while another runner has the delivery, and for an unknown subscriber. A runner has it until it leaves or is declared dead
        (`dead`).
        """
        ...

    def signals(self, subscriber: str, runner: str, after: int, limit: int) -> Sequence[StatusSignal] | None:
        """The next signals, in order; None when this runner does not have the delivery any more."""
        ...

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """Note that the subscriber has had every signal up to this one. Returns False, and changes nothing, if this runner does not have
        the delivery."""
        ...

    def kept_signals(self, after: int, limit: int) -> Sequence[StatusSignal]:
        """Signals that the store still keeps, in order, delivered or not. A reader that is no subscriber may come too late for some."""
        ...


class AuditStore(Protocol):
    """The audit log (model.audit): notes are added, read, and removed by `expire` when their time is over. Nothing changes a note."""

    def note(self, notes: Sequence[Note]) -> None:
        """Add notes to the audit log, in order, all or none. A note that belongs to a write travels with it instead (`Change.notes`)."""
        ...

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        """Notes, newest first."""
        ...


class CredentialStore(SealedStore, Protocol):
    """Credentials of callers. Other processes may see a change only when they ask the next time."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        """Write a credential, replacing one of the same id, together with these notes."""
        ...

    def credentials(self) -> Sequence[Credential]:
        """All credentials, in the order of their ids."""
        ...

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        """Replace the sealed secret `before` by `after`, so that nothing is left of `before`; False when `before` is not there any more."""
        ...

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        """Remove a credential, and write these notes together with that. Returns False, and writes no note, if there is no credential of
        this id."""
        ...


class RetentionStore(Protocol):
    """What a store forgets by itself."""

    def expire(self, now: int, limit: int) -> bool:
        """Remove a little of what is over, in one short transaction; True when something was removed, so that there may be more.

        Closed executions whose retention is over are gone at once, and their names free. Their operations and events follow, at most
        `limit` rows in each call, from any process, and then their graph, if no execution names it any more. Signals that every subscriber
        has had go the same way.
        """
        ...


class Store(
    CommitStore,
    ExecutionStore,
    CopyStore,
    GraphStore,
    DueStore,
    QueueStore,
    FunctionStore,
    RunnerStore,
    CounterStore,
    LedgerStore,
    OutboxStore,
    AuditStore,
    CredentialStore,
    ScheduleStore,
    BrowseStore,
    SessionStore,
    ViewStore,
    RetentionStore,
    Protocol,
):
    """Everything that a backend keeps."""

    def clock(self, machine: Clock) -> Clock:
        """The clock that every process of this store must use, made from the machine's own clock, because all processes must agree on the
        time. Every `now`
        and every lease comes from this clock. A virtual clock is returned as it is.
        """
        ...

    def close(self) -> None: ...
