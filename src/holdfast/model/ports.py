"""The ports: protocols by which two layers work together without importing each other.

Through a `Port`, a handler's SDK reaches the service that keeps its state; a `Host` runs a handler's code. `durable` and `engine` import
these, never each other. An engine tells its `Observer`s what it wrote; `signals` has some observers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome
from holdfast.model.ids import Position
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import Kind, Operation, Update
from holdfast.model.verbs import Checkpointed

OnAnswer = Callable[[Checkpointed | HoldfastError], None]
"""Called with the answer to a checkpoint, or with the error if the checkpoint failed."""


Stays = Callable[[str, Callable[[], Collection[Operation]]], bool]
"""Answers whether an invocation whose code only waits may stay live; if not, the invocation must end as PENDING. The invocation may stay
live if an execution that it has invoked and waits for is live in the same process, and if no other execution needs the room of the
invocation. The arguments are the id of the execution, and a function that returns the operations which the code waits for."""


class Port(Protocol):
    """The service, as a handler's SDK sees it. There are two ways to write a checkpoint: `checkpoint` blocks, for handlers in threads;
    `checkpoint_soon` calls back, for coroutines."""

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        """Write a checkpoint, block until it is on disk, and return the answer. Raises the error if the checkpoint is refused or fails.
        `client_token` is the ClientToken of the request, by which a repeated request is recognised; None: the request has none."""
        ...

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        """Write a checkpoint from the handler's event loop. When the checkpoint is on disk or has failed, `on_answer` is called on that
        loop with the answer or the error, perhaps before this method returns."""
        ...

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """The operations that changed after the revision `newer_than`, in the order in which they began; 0: all that a replay needs."""
        ...

    def input(self, token: Position) -> str | None:
        """The input of the execution; None if it has none."""
        ...


class ChargingPort(Port, Protocol):
    """A port whose checkpoints may charge counters that executions share, and add entries to the ledger. Only Holdfast's engine has it."""

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        on_answer: OnAnswer,
        *,
        charges: tuple[Charge, ...] = (),
        ledger: tuple[LedgerEntry, ...] = (),
    ) -> None: ...


class Invocation(msgspec.Struct, frozen=True, gc=False):
    """One call of a handler. It has what AWS Lambda puts into the event of such a call."""

    arn: str
    header: Execution
    token: Position
    fresh: bool
    """Whether the execution certainly has no operations yet, so that the SDK need not read its state."""
    input: str | None = None
    """The input of the execution, if the engine has it in memory; None: the handler's SDK must ask the port."""
    updated: tuple[str, ...] | None = None
    """The ids of the operations that the service changed since the invocation before this one. None if the service did not send these ids:
    then the SDK finds the operations by their revisions."""
    stays: Stays | None = None
    """The host calls this function when the handler's code only waits. None: the invocation then ends as PENDING."""
    kind: Kind | None = None
    """What the execution runs, if the engine has it in memory; None: the first event of the execution says it."""


class Host(Protocol):
    """Runs the code of invocations, in this process or elsewhere."""

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation, and do not wait for its end. When it ends, perhaps before this method returns, the host calls `done` once,
        on the engine's event loop, with the outcome and the last revision that the invocation saw. After `cancel` has ended the invocation,
        `done` is not called. Raises an error if the invocation cannot begin."""
        ...

    def cancel(self, execution: str) -> None:
        """End the live invocation of an execution, because the invocation may not write to the execution any more. A host that cannot end
        an invocation does nothing."""
        ...

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the live invocation of an execution that a write which it did not make has changed `operations`, and that `header` is the
        header now. If `operations` is empty, the invocation must read itself which operations changed. A host that cannot tell its
        invocations does nothing."""
        ...

    def recheck(self, execution: str) -> None:
        """Let the live invocation of an execution ask again whether it may stay live (`Invocation.stays`), if its code only waits. The
        engine calls this when the answer may have become no. A host whose invocations do not stay live does nothing."""
        ...

    def idle(self) -> bool:
        """Whether no invocation runs in this host."""
        ...


class Sight(Protocol):
    """What an observer may ask its engine, from any thread."""

    def find(self, execution: str) -> Execution | None: ...
    def live(self) -> int:
        """How many invocations run in this engine now."""
        ...

    def waiting(self, most: int) -> tuple[int, int]:
        """Two numbers, each at most `most`: how many ready executions this engine may claim (without those whose last runners died, see
        `life.SUSPECT_DEATHS`), and how many executions of the whole store may have a timer that is due."""
        ...


class Observer(Protocol):
    """Receives reports about the executions of functions. The engine calls these methods on its event loop, after the change that they
    report is on disk. They must not block."""

    def attach(self, sight: Sight) -> None:
        """An engine opens; `sight` answers questions about it."""
        ...

    def started(self, header: Execution) -> None: ...
    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """An invocation has ended. `header` is the execution's header at the beginning of the invocation, or after a later write during it.
        `ended_at` is the time of the write that ended the invocation."""
        ...

    def operated(self, header: Execution, operation: Operation) -> None:
        """A step or a child context has ended, or a step will be tried again (its status is PENDING or READY)."""
        ...

    def closed(self, header: Execution) -> None: ...
    def committed(self, writes: int) -> None:
        """The store committed a batch of this many writes. Writes that the store refused are counted too."""
        ...


class QueueObserver(Observer, Protocol):
    """An observer that is also told about queues: about executions of functions, workers and pipelines. An observer need not have all of
    these methods; the engine calls those that the observer has."""

    def admitted(self, header: Execution) -> None:
        """A queue gave an execution a slot, and this engine runs it."""
        ...

    def refused(self, queue: str) -> None:
        """A queue refused an execution, because it accepts no more executions now (`QueueFull` has the reasons)."""
        ...

    def parked(self, header: Execution) -> None:
        """An execution of a queue failed, and is parked."""
        ...

    def tried_again(self, header: Execution) -> None:
        """An attempt of a worker's run failed, and there will be another attempt. This is also reported for a run that was not enqueued."""
        ...


class ScheduleObserver(Observer, Protocol):
    """An observer that is also told about occurrences of schedules."""

    def occurred(self, schedule: str, outcome: str, count: int, late_ms: int | None) -> None:
        """This runner decided about `count` occurrences of a schedule (1,000 stands for 1,000 or more); `outcome` is started, found,
        skipped, replaced, missed or refused (`schedules.Handled`). `late_ms` says how many milliseconds late a started occurrence began;
        None for any other outcome."""
        ...
