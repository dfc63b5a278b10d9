"""The ports: where the halves meet without knowing each other.

`Port` joins a handler's SDK to the service that keeps its state; `Host` is where a handler's code runs. `durable` and `engine`
import these, never each other. `Observer` looks on at what an engine writes; `signals` has some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.model.charging import Charge
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome
from holdfast.model.ids import Position
from holdfast.model.operations import Operation, Update
from holdfast.model.verbs import Checkpointed


class Port(Protocol):
    """The service, as a handler's SDK sees it. Two colours of one verb: blocking for threads, with a call back for coroutines."""

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed: ...
    def checkpoint_soon(self, token: Position, updates: Sequence[Update], landed: Callable[[Checkpointed | HoldfastError], None]) -> None:
        """From the engine's loop; `landed` is called there when it is on disk, or with why it is not."""
        ...

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """The operations that changed after a revision, in the order they began."""
        ...

    def input(self, token: Position) -> str | None:
        """What the execution was started with."""
        ...


class ChargingPort(Port, Protocol):
    """A port whose writes may move counters that executions share. Only our own engine has it: AWS knows no such thing."""

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        landed: Callable[[Checkpointed | HoldfastError], None],
        *,
        charges: tuple[Charge, ...] = (),
    ) -> None: ...


class Invocation(msgspec.Struct, frozen=True, gc=False):
    """One call of a handler: what a Lambda event says, in process."""

    arn: str
    header: Execution
    token: Position
    fresh: bool
    """The first invocation: no earlier one can have left operations behind."""
    input: str | None = None
    """What the execution was started with, if the engine has it at hand; else the port knows."""
    updated: tuple[str, ...] | None = None
    """What the service changed since the last invocation, if it said so; else the revisions tell."""


class Host(Protocol):
    """Where code runs."""

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation; `done` is called once, on the engine's loop, with what it came to and the revision it had seen."""
        ...

    def cancel(self, execution: str) -> None:
        """The invocation may not write any more: end it if it can be ended."""
        ...

    def nudge(self, execution: str) -> None:
        """Something changed that a live invocation may be waiting for."""
        ...

    def idle(self) -> bool:
        """Whether nothing runs here."""
        ...


class Sight(Protocol):
    """What an observer may ask of the engine that it looks at, from any thread."""

    def find(self, execution: str) -> Execution | None: ...
    def live(self) -> int:
        """Invocations that run here now."""
        ...

    def waiting(self, most: int) -> tuple[int, int]:
        """How many executions are ready for a runner here, and how many have a timer that is due; each is counted up to `most`."""
        ...


class Observer(Protocol):
    """Looks on at the executions of functions. It hears of what is on disk, once, on the engine's loop, and must not wait there."""

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
        """So many writes went to the store in one commit."""
        ...
