"""The ports: protocols by which two layers work together without importing each other.

`Port` joins a handler's SDK to the service that keeps its state; `Host` is where a handler's code runs. `durable` and `engine`
import these, never each other. An `Observer` sees what an engine writes; `signals` has some.
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
from holdfast.model.operations import Operation, Update
from holdfast.model.verbs import Checkpointed


class Port(Protocol):
    """The service, as a handler's SDK sees it. A checkpoint has two forms: one blocks, for threads; one calls back, for coroutines."""

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed: ...
    def checkpoint_soon(self, token: Position, updates: Sequence[Update], landed: Callable[[Checkpointed | HoldfastError], None]) -> None:
        """Checkpoint from the engine's loop. `landed` is called there when the checkpoint is on disk, or with the error."""
        ...

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """The operations that changed after a revision, in the order they began."""
        ...

    def input(self, token: Position) -> str | None:
        """The input of the execution."""
        ...


class ChargingPort(Port, Protocol):
    """A port whose writes may charge counters that executions share, and add to the ledger. Only Holdfast's engine has it."""

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        landed: Callable[[Checkpointed | HoldfastError], None],
        *,
        charges: tuple[Charge, ...] = (),
        ledger: tuple[LedgerEntry, ...] = (),
    ) -> None: ...


class Parent(Protocol):
    """A live invocation of an `async def` handler, which may wait for executions that it has invoked."""

    @property
    def execution(self) -> str: ...
    def waits_for(self, operation_id: str) -> bool:
        """Whether it rests until this operation changes."""
        ...

    def awaited(self) -> Collection[Operation]:
        """The operations that it rests for."""
        ...

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the invocation that another write has changed these operations and left this header. Without operations, it reads what
        changed itself."""
        ...

    def look(self) -> None:
        """Let the invocation check whether to rest: a child that it waited for is not live here any more, or its room is needed."""
        ...


class Parents(Protocol):
    """The engine, as seen by an invocation that may wait for executions that it has invoked in the same process."""

    def attach(self, parent: Parent) -> None:
        """Note that this invocation is live, so that it is told of changes."""
        ...

    def stays(self, parent: Parent) -> bool:
        """Whether an invocation that only waits stays live, because a child that it waits for is live here. If not, it rests."""
        ...


class Invocation(msgspec.Struct, frozen=True, gc=False):
    """One call of a handler: the content of a Lambda event, inside a process."""

    arn: str
    header: Execution
    token: Position
    fresh: bool
    """Whether this is the first invocation and the execution has no operations yet."""
    input: str | None = None
    """The input of the execution, if the engine has it in memory; else the handler asks the port."""
    updated: tuple[str, ...] | None = None
    """The operations that the service changed since the last invocation, if the service sent them; else revisions tell."""
    parents: Parents | None = None
    """The live parents of the engine that runs it in process; None for an invocation that runs elsewhere."""


class Host(Protocol):
    """Where code runs."""

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation. When it ends, the host calls `done` once, on the engine's loop, with the outcome and the last revision
        that the invocation saw."""
        ...

    def cancel(self, execution: str) -> None:
        """End an invocation that may not write any more, if it can be ended."""
        ...

    def nudge(self, execution: str) -> None:
        """Tell a live invocation that something changed for which it may be waiting."""
        ...

    def idle(self) -> bool:
        """Whether nothing runs here."""
        ...


class Sight(Protocol):
    """What an observer may ask its engine, from any thread."""

    def find(self, execution: str) -> Execution | None: ...
    def live(self) -> int:
        """Invocations that run here now."""
        ...

    def waiting(self, most: int) -> tuple[int, int]:
        """How many executions are ready for a runner here, and how many have a timer that is due; each is counted up to `most`."""
        ...


class Observer(Protocol):
    """Sees the executions of functions. The engine calls it on its loop, once for each change that is on disk; it must not block there."""

    def attach(self, sight: Sight) -> None:
        """An engine opens."""
        ...

    def started(self, header: Execution) -> None: ...
    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """An invocation is over; the header is the one it began with."""
        ...

    def operated(self, header: Execution, operation: Operation) -> None:
        """A step or a child context is over, or a step will be tried again (its status is PENDING or READY)."""
        ...

    def closed(self, header: Execution) -> None: ...
    def committed(self, writes: int) -> None:
        """The store committed a batch of this many writes."""
        ...


class QueueObserver(Observer, Protocol):
    """An observer that also sees queues, those of workers and pipelines too. An observer may have any of these methods, or none."""

    def admitted(self, header: Execution) -> None:
        """A queue gave an execution a slot here."""
        ...

    def refused(self, queue: str) -> None:
        """A full queue refused an execution."""
        ...

    def parked(self, header: Execution) -> None:
        """An execution of a queue failed, and is parked."""
        ...

    def tried_again(self, header: Execution) -> None:
        """An attempt of a worker's run failed, and there will be another one. The run may be of no queue."""
        ...


class ScheduleObserver(Observer, Protocol):
    """An observer that also sees schedules."""

    def occurred(self, schedule: str, outcome: str, count: int, late_ms: int | None) -> None:
        """This runner decided about `count` occurrences (`schedules.Handled.outcome`). A started occurrence began `late_ms` late."""
        ...
