"""The specification of a store. A backend's job is defined: obey this, and pass the store's suite (holdfast.testing.stores).

A store keeps executions, their operations and their events. Every change goes through `commit`: it takes a batch of writes,
lets each decide on the rows as they are inside one transaction, and answers each on its own. When `commit` returns, everything
it answered is on disk. All verbs block and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.model.auditing import Note, Noted, NoteFilter
from holdfast.model.charging import Counter
from holdfast.model.clock import Clock
from holdfast.model.credentials import Credential
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, Terms
from holdfast.model.history import Event
from holdfast.model.ids import Seal
from holdfast.model.operations import Kind, Operation
from holdfast.model.signals import StatusSignal
from holdfast.model.verbs import Answer, Write


class Target(msgspec.Struct, frozen=True):
    """A function and version that a runner hosts."""

    function: str
    version: str


class Hosted(msgspec.Struct, frozen=True):
    """A function as any process of the store may know it: what its executions are granted."""

    function: str
    version: str
    terms: Terms
    kind: Kind = Kind.FUNCTION
    """What it is: only a plain function can be invoked by its name."""


class Committed(NamedTuple):
    """What a batch came to: an answer for each entry, or why it alone was refused; and every execution that changed because of them."""

    answers: Sequence[Answer | HoldfastError]
    followed: Sequence[Execution] = ()
    signalled: bool = False
    """There are new signals for subscribers."""


class Line(msgspec.Struct, frozen=True):
    """One event with the operation it tells of."""

    event: Event
    operation: Operation | None


class Snapshot(msgspec.Struct, frozen=True):
    """All of one execution at one moment."""

    header: Execution
    operations: tuple[Operation, ...]
    """In the order they began."""
    events: tuple[Event, ...]
    """In order, with the terminal one that a closing execution does not show yet."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions to list, newest first unless `oldest_first`."""

    function: str | None = None
    version: str | None = None
    name: str | None = None
    """Those that have this name, and those that had it before they were superseded."""
    parent: str | None = None
    """The id of the execution that invoked them."""
    tenant: str | None = None
    statuses: tuple[ExecutionStatus, ...] = ()
    started_after: int | None = None
    started_before: int | None = None
    oldest_first: bool = False
    beyond: str | None = None
    """The id of the last execution already seen. Pages neither repeat nor skip what was there when the first one was read."""
    limit: int = 100


class Store(Protocol):
    """Everything durable, behind verbs."""

    @property
    def seal(self) -> Seal:
        """Seals tokens and callback ids with this store's own key."""
        ...

    @property
    def unmarked(self) -> str:
        """The id of the last execution from before runs were marked (history.KIND); empty in a store that was made with marks."""
        ...

    def clock(self, machine: Clock) -> Clock:
        """The time that counts here, read through the machine's own clock: all who share a store must agree on it. Every `now` and
        every lease comes from this clock. A virtual one stays what it is.
        """
        ...

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Write a batch in one transaction, with what it brings to other executions (model.chaining), and answer each entry.

        Entries of one execution are decided in order. A refused entry changes nothing and spoils no other. No exception of whatever
        type in the decision, the encoding or a row of one entry touches another: that entry alone is answered with an error
        (store.isolating). To find such an entry a store may write the batch in parts, in order, each in a transaction of its own.

        An error of the whole batch is raised, and then nothing of it is on disk. If parts of it are, such an error is the answer of
        the entries that are not: these are the end of the batch.

        Each change of a status is a signal, written in the same transaction if there is a subscriber; and so is each quarantine.
        """
        ...

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """Executions a runner may claim: ready ones of its functions, and those that a dead runner left behind."""
        ...

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        """A ready execution that only a runner with nothing else to do may claim, because too many have died under it.

        One that was put aside for a while (`life.next_try`) is found only from that time on.
        """
        ...

    def due(self, now: int, limit: int) -> Sequence[str]:
        """Executions that may have a timer due."""
        ...

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """When the next timer or delayed retry comes, if any."""
        ...

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell all processes what is hosted here, and on what terms."""
        ...

    def hosted(self, function: str) -> Sequence[Hosted]:
        """The versions of a function that some process has ever published."""
        ...

    def find(self, execution: str) -> Execution | None: ...
    def find_named(self, function: str, name: str) -> Execution | None:
        """The execution that has the name: of several that had it one after the other, the one that is not superseded."""
        ...

    def input(self, execution: str) -> str | None: ...
    def result(self, execution: Execution) -> str | None:
        """The payload of its terminal event: a result, or the JSON of an error."""
        ...

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        """Its operations changed after a revision, in the order they began; those after a place, and at most so many."""
        ...

    def contexts(self, execution: str) -> Sequence[Operation]:
        """Its contexts in the order they began, without what they came to."""
        ...

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[Line]:
        """Its events after a number, in order."""
        ...

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        """Those of these counters that there are; one whose time is over may still be among them."""
        ...

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """The ids of executions (of a tenant) that wait for a person's decision, oldest first, after one of them."""
        ...

    def list(self, wanted: Filter) -> Sequence[Execution]: ...

    def snapshot(self, execution: str) -> Snapshot | None:
        """All of an execution, read at one moment."""
        ...

    def adopt(self, copy: Snapshot) -> bool:
        """Write the copy of an execution of another store, as it is; False when it is there already.

        Another execution of its id or name is an error, and nothing is written; a copy that is superseded needs no name. Nobody is told of
        a copy: it is no change of a status.
        """
        ...

    def expire(self, now: int, limit: int) -> bool:
        """Forget a little of what is over, in one short transaction; True when something was removed, so that there may be more.

        Closed executions whose retention is over are gone at once, and their names free; what they leave behind follows, at most
        `limit` rows at a time and by whoever asks next. Signals that every subscriber has had go the same way.
        """
        ...

    # The outbox. Signals are numbered in the order of their commits: who has seen a number never finds a smaller one later.

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, who gets every signal from now on. One that is known stays where it was."""
        ...

    def unsubscribe(self, subscriber: str) -> None:
        """Forget a subscriber and what it has not had; a delivery that is under way is lost."""
        ...

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Become the one that delivers to a subscriber, or stay it. Answers the number of the last signal it has had.

        None while another runner has the delivery, and for an unknown subscriber. A runner has it until it leaves or is declared dead
        (`dead`).
        """
        ...

    def signals(self, subscriber: str, runner: str, after: int, limit: int) -> Sequence[StatusSignal] | None:
        """The next signals, in order; None when the delivery is not this runner's any more."""
        ...

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """The subscriber has had every signal up to this one; False, and nothing changed, when the delivery is not this runner's."""
        ...

    def kept_signals(self, after: int, limit: int) -> Sequence[StatusSignal]:
        """Signals that are still kept, in order, whoever has had them: for those who only look, and may come too late for some."""
        ...

    # The audit log (model.auditing): notes are added, read, and forgotten by `expire` when their time is over. Nothing changes one.

    def note(self, notes: Sequence[Note]) -> None:
        """Add notes to the audit log, in order, all or none. A note that belongs to a write travels with it instead (`Change.notes`)."""
        ...

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        """Notes, newest first."""
        ...

    # Credentials. A change may take until the next question to be seen by other processes.

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        """Keep a credential, in place of one of the same id, and with it these notes."""
        ...

    def credentials(self) -> Sequence[Credential]:
        """All of them, in the order of their ids."""
        ...

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        """Put another sealed secret in the place of this one, of which nothing is left; False when it is not there any more."""
        ...

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        """Forget a credential, and with that keep these notes; False, and no note, when there is none of this id."""
        ...

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner, with a sign of life that ends with this process. It is named like the member that opened the store."""
        ...

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend a runner's lease; False when somebody declared it dead."""
        ...

    def leave(self, runner: str) -> None: ...

    def dead(self, now: int) -> frozenset[str]:
        """Runners that hold something but are gone, or silent past their lease; asking declares them dead, so they cannot renew."""
        ...

    def held(self, runner: str) -> Collection[str]:
        """The executions whose live invocation is this runner's."""
        ...

    def changed(self) -> bool:
        """Whether another process wrote since the last call; cheap enough to ask twenty times a second."""
        ...

    def close(self) -> None: ...
