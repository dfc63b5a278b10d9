"""The specification of a store. A backend implements `Store` and passes the store's suite (holdfast.testing.stores).

A store keeps executions, their operations and their events. Executions are changed by `commit`, and queued ones also by `admit`. `commit`
gets a batch of writes, lets each write decide on the rows as they are inside one transaction, and returns an answer for each write. When
`commit` returns, every write that was accepted is on disk. All methods block, and any thread may call them.

`Store` is the sum of small protocols, one for each kind of thing that a store keeps. A consumer asks for the smallest one it needs.
One that needs a few of them names their sum, as engine.unsure_claims.ClaimsStore does. What a method promises stands only here: a method
of a backend has a docstring only for what that backend does besides.
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
from holdfast.model.queues import LaneState, QueueRow, QueueState
from holdfast.model.rates import Rate
from holdfast.model.seal import Seal
from holdfast.model.signals import StatusSignal
from holdfast.model.verbs import Write
from holdfast.store.browse_seam import BrowseStore as BrowseStore
from holdfast.store.browse_seam import SessionStore as SessionStore
from holdfast.store.ledger_seam import LedgerStore as LedgerStore
from holdfast.store.schedule_seam import ScheduleStore as ScheduleStore
from holdfast.store.values import Committed as Committed
from holdfast.store.values import Filter as Filter
from holdfast.store.values import HistoryEntry as HistoryEntry
from holdfast.store.values import Hosted as Hosted
from holdfast.store.values import Snapshot as Snapshot
from holdfast.store.values import Target as Target


class SealedStore(Protocol):
    """A store that has a key of its own, with which it signs tokens and callback ids."""

    @property
    def seal(self) -> Seal:
        """Signs tokens and callback ids with this store's own key, so that no caller can make one."""
        ...


class CommitStore(Protocol):
    """Changes of executions."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Write a batch in one transaction, with its follow-up writes to other executions (model.follow_ups), and answer each entry.

        Entries of one execution are decided in order. An entry that is refused changes nothing, and the other entries are not affected. If
        an exception of any type is raised while one entry is decided, encoded or written as rows, only that entry gets an error as its
        answer (store.isolation). To find such an entry, a store may write the batch in parts, in order, each part in a transaction of its
        own.

        If the whole batch fails, the error is raised, and nothing of the batch is on disk (but a batch of Postgres whose connection was
        lost may be: postgres.doubts). If the store has already written the first parts of the batch, the error is not raised: it becomes
        the answer of all entries after those parts, which are not on disk.

        If there is a subscriber, each start, each change of a status and each quarantine adds a signal in the same transaction. An enqueued
        execution gets the signal of its start at its first admission.
        """
        ...

    def adopt(self, copy: Snapshot) -> bool:
        """Write the copy of an execution of another store. Returns False, and writes nothing, if this store has the same execution already.

        Raises ExecutionAlreadyStarted, and writes nothing, if another execution has the copy's id or name; for a superseded copy only the
        id counts. The copy does not keep its place in a queue. Writing it makes no signal.
        """
        ...


class ExecutionStore(SealedStore, Protocol):
    """Executions, their operations, their events and their graphs, as of the last commit."""

    @property
    def unmarked(self) -> str:
        """The id of the newest execution that was written before the store began to mark runs of workers in their first event
        (history.KIND). Empty in a store that has marked runs from its beginning."""
        ...

    def find(self, execution: str) -> Execution | None: ...
    def find_named(self, function: str, name: str) -> Execution | None:
        """The execution of this function that has the name now. If several executions had the name one after the other, it is the one that
        is not superseded. None if there is none."""
        ...

    def ended(self, executions: Sequence[str]) -> Sequence[str]:
        """Those of these executions that have ended or are quarantined."""
        ...

    def input(self, execution: str) -> str | None: ...
    def inputs(self, executions: Sequence[str]) -> Mapping[str, str]:
        """The inputs of many executions, by id; an empty text for an execution without an input. An execution that does not exist, or whose
        input cannot be read, is left out."""
        ...

    def result(self, execution: Execution) -> str | None:
        """The payload of the execution's terminal event: a result, or the JSON of an error. None if the execution has not ended, or ended
        without a payload."""
        ...

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        """The execution's operations in the order they began. Only those that changed after the revision `newer_than` and whose `place`
        (the number of their first event) is larger than `after`; at most `limit` of them, or all if `limit` is None."""
        ...

    def contexts(self, execution: str) -> Sequence[Operation]:
        """The execution's operations of type CONTEXT, in the order they began, without their results."""
        ...

    def outline(self, execution: str, newer_than: int = 0) -> Sequence[Operation]:
        """The execution's operations that changed after the revision `newer_than`, in the order they began, without their payloads."""
        ...

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[HistoryEntry]:
        """At most `limit` of the execution's events whose number is larger than `after`, in order. The terminal event of an execution that
        is still closing is not shown yet."""
        ...

    def attempts(self, execution: str, place: int) -> Sequence[HistoryEntry]:
        """At most 200 events of one operation, from its first event on, in order, with their payloads. `place` is the number of its first
        event."""
        ...

    def snapshot(self, execution: str) -> Snapshot | None:
        """All rows of an execution, read at one moment. None if there is no such execution."""
        ...

    def graph(self, graph: str) -> str | None:
        """The text of a pipeline's graph with this id. None if there is none. The write that starts an execution adds its graph
        (`Start.graph`)."""
        ...

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """The ids of at most `limit` executions that wait for a person's decision, oldest first: those whose id is larger than `beyond`. If
        `tenant` is given, only executions of this tenant."""
        ...

    def list(self, wanted: Filter) -> Sequence[Execution]: ...

    def changed(self) -> bool:
        """Whether another process has written something that this process may wait for, since the last call that returned True. It may also
        return True without such a write, for example after a lost connection. While another thread uses the connection, it returns False,
        and a later call reports the write. It is cheap enough for twenty calls a second."""
        ...


class QueueStore(Protocol):
    """Queues, their lanes, and admission (model.places, store.admission_order)."""

    def declare(self, queues: Sequence[QueueRow]) -> None:
        """Write what the code declares for these queues. An operator's settings stay as they are, and are used instead of declared ones."""
        ...

    def queue(self, name: str) -> QueueRow | None: ...
    def queues(self) -> Sequence[QueueRow]:
        """All queues, in the order of their names: those that code declares, that an operator has set, or into which an execution was
        enqueued."""
        ...

    def set_queue(self, row: QueueRow, notes: Sequence[Note] = ()) -> bool:
        """Write what an operator sets: `operator` and `mode` of the row, together with these notes. Returns False, and writes neither, if
        the row's revision is not the one in the store. Raises InvalidParameter if the settings are not valid. The lanes of the queue get
        their new limits in the same transaction."""
        ...

    def set_rate(self, function: str, rate: Rate | None) -> bool:
        """Set the rate of runs of a function; None removes it. All leaf lanes of the function with the same tenant and user share the rate.
        Units that were used up under the old rate stay used up. Returns False, and writes nothing, if the function has no leaf lane, if all
        of them had this rate before, or (Postgres) while older code may use the store."""
        ...

    def queue_state(self, queue: str, now: int, tenant: str | None = None) -> QueueState:
        """The counts of a queue. If nothing was ever enqueued, all are 0, and `oldest_at` is None. If `tenant` is given, the counts of this
        tenant in the queue. The store does not know three of them for one tenant: then `oldest_at` is None, `admitted` and `money` are
        0."""
        ...

    def waiting_in(self, queues: Sequence[str], tenant: str | None = None) -> Mapping[str, int]:
        """How many executions wait in each of these queues; if `tenant` is given, of this tenant. Queues in which none wait are left
        out."""
        ...

    def lanes(self, queue: str, beyond: str = "", limit: int = 100) -> Sequence[LaneState]:
        """At most `limit` lanes of a queue, in the order of their keys: those whose key is larger than `beyond`."""
        ...

    def ahead(self, header: Execution, most: int = 10_000) -> int:
        """How many executions wait before this one in its leaf lane, counted up to `most`. 0 if this execution was not enqueued."""
        ...

    def has_open_lane(self, targets: Sequence[Target], now: int) -> bool:
        """Whether `admit` may find an execution of these functions. If this returns False, `admit` would find none. It is cheaper than
        `admit`, because it needs no transaction."""
        ...

    def parked(self, queue: str | None, beyond: str = "", limit: int = 100, tenant: str | None = None) -> Sequence[Execution]:
        """At most `limit` parked executions, oldest first: those whose id is larger than `beyond`. `queue`: only those of this queue; None:
        of all queues. `tenant`: only those of this tenant; None: of all tenants."""
        ...

    def admit(self, targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
        """Admit queued executions of these functions, at most one for each claimant, and claim them in the same transaction.

        The answers are the headers of the executions that were claimed. If the call meets a queued execution whose deadline has passed
        (often that of its wait in the queue), it ends that execution and does not claim it; the header is then in `followed`. The cost
        grows with the number of executions that are admitted, not with the number that wait.
        """
        ...


class FunctionStore(Protocol):
    """The functions that processes host. A function stays published after its process has ended."""

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Write which functions this process hosts, and on which terms, so that all other processes can read it."""
        ...

    def hosted(self, function: str) -> Sequence[Hosted]:
        """Every version of a function that a process has ever published; empty if there is none."""
        ...


class RunnerStore(Protocol):
    """Runners, their leases, and the executions that a runner has something to do for."""

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner with a lease until this time. `runner` must be the name with which this process opened the store (`member`),
        because a SQLite store finds out by that name whether the process still runs."""
        ...

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend a runner's lease. Returns False, and writes nothing, if the runner is not registered any more, for example because another
        process declared it dead."""
        ...

    def leave(self, runner: str) -> None: ...

    def dead(self, now: int) -> frozenset[str]:
        """The runners that hold an execution and are dead: their lease is over at `now`, they have left, or (SQLite) their process has
        ended. This call removes the registrations of dead runners, so that they cannot renew their lease."""
        ...

    def held(self, runner: str) -> Collection[str]:
        """The ids of the executions whose state is RUNNING under this runner, whether its lease is over or not."""
        ...

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """The ids of at most `limit` executions that a runner may claim at the time `now`: executions of these functions that are ready, or
        that a runner in `dead` holds. A ready execution under which two or more runners in a row have died is left out: `suspect` returns
        it."""
        ...

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        """The id of a ready execution of these functions under which two or more runners in a row have died; None if there is none. A
        runner claims it apart from other executions (`Claim.alone`), because it may be the cause of the deaths.

        An execution that was put aside for a while (`life.next_try`) is returned only when that time is over.
        """
        ...

    def due(self, now: int, limit: int) -> Sequence[str]:
        """The ids of at most `limit` executions whose next timer may be due at `now` (`Execution.due_at`)."""
        ...

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """The earliest time at which one of these happens: a timer of any execution is due, an execution of these functions can be claimed
        (but not one under which two or more runners in a row have died), a closed lane in which executions wait opens. The time may be
        past. None if nothing of this is known."""
        ...


class CounterStore(Protocol):
    """Counters that many executions share (model.charges). Writes charge them."""

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        """Those counters of these keys that exist. A counter whose time `until` is over, and which therefore counts as 0, may be among
        them."""
        ...


class OutboxStore(Protocol):
    """Signals for subscribers, numbered in the order of their commits: a reader that has seen a number never finds a smaller one later."""

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, which gets every signal from now on. If it is registered already, nothing changes."""
        ...

    def unsubscribe(self, subscriber: str) -> None:
        """Remove a subscriber. Signals that were not delivered to it yet are not delivered to it any more. If a runner is delivering a
        signal to it just now, `delivered` returns False."""
        ...

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Make this runner the only one that delivers to a subscriber. Returns the number of the last signal that was delivered to the
        subscriber; None if another runner delivers to it, or if there is no such subscriber. The runner stays the one that delivers until
        it leaves or is declared dead (`dead`)."""
        ...

    def signals(self, subscriber: str, runner: str, after: int, limit: int) -> Sequence[StatusSignal] | None:
        """At most `limit` signals after the number `after`, in order. None if this runner is not the one that delivers to the
        subscriber."""
        ...

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """Note that every signal up to this number was delivered to the subscriber. Returns False, and changes nothing, if this runner is
        not the one that delivers to it."""
        ...

    def kept_signals(self, after: int, limit: int) -> Sequence[StatusSignal]:
        """At most `limit` signals after the number `after` that the store still has, in order. A signal may be removed when it was
        delivered to all subscribers, so a reader that is not a subscriber may miss some."""
        ...


class AuditStore(Protocol):
    """The audit log (model.audit). Notes can be added and read. A note is never changed; `RetentionStore.expire` removes notes whose time
    is over."""

    def note(self, notes: Sequence[Note]) -> None:
        """Add notes to the audit log, in order, all or none (Postgres: perhaps twice, if the connection is lost). A note that belongs to a
        write is written together with that write instead (`Change.notes`)."""
        ...

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        """The notes that match the filter, newest first; at most `wanted.limit`."""
        ...


class CredentialStore(SealedStore, Protocol):
    """Credentials of callers. Another process learns of a change when it reads the credentials the next time."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        """Write a credential, together with these notes. It replaces a credential with the same id."""
        ...

    def credentials(self) -> Sequence[Credential]:
        """All credentials that can be read, in the order of their ids. Raises RowDamaged if there are some and none can be read."""
        ...

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        """Replace the sealed secret `before` by `after`. Returns False, and changes nothing, if the credential does not have the secret
        `before` any more. A SQLite store also overwrites the old secret in its file."""
        ...

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        """Remove a credential, together with writing these notes. Returns False, and writes no note, if there is no credential with this
        id."""
        ...


class RetentionStore(Protocol):
    """Removes rows whose time is over."""

    def expire(self, now: int, limit: int) -> bool:
        """Remove some rows whose time is over, in one short transaction. Returns False if there was nothing to remove, or (Postgres) if
        other processes have locked all of it. If it returns True, call it again, because there may be more.

        The headers of closed executions and of imported copies whose retention is over are removed first; from then on, their names are
        free. Their operations and events follow, at most `limit` rows in each call, from any process, and then their graph, if no execution
        names it any more. It also removes signals that were delivered to every subscriber, and expired counters, notes, ledger entries,
        sessions and idle lanes.
        """
        ...


class Store(
    CommitStore,
    ExecutionStore,
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
    RetentionStore,
    Protocol,
):
    """Everything that a backend must offer."""

    def clock(self, machine: Clock) -> Clock:
        """The clock that every process of this store must use, because all processes must agree on the time. It is made from `machine`, the
        clock of this machine. Every `now` and every end of a lease must be a time of the returned clock. A virtual clock is returned
        unchanged."""
        ...

    def close(self) -> None: ...
