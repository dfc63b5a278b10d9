"""What a handler's SDK knows of its execution: the operations it has been told of, its token, and what it has yet to write.

One write is under way at a time, because each uses up the token of the one before. Everything recorded meanwhile goes out together
with the next. The two drivers differ only in how they wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.durable.exceptions import (
    BackgroundThreadError,
    CheckpointError,
    DurableApiErrorCategory,
    NonDeterministicExecutionError,
    SuspendExecution,
)
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.identifier import Identity
from holdfast.durable.stragglers import Stragglers
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import HoldfastError, LeaseLost, Rejected
from holdfast.model.execution import Execution
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import Invocation, Port
from holdfast.model.verbs import Checkpointed

_SUSPENDED = "This execution is suspended: durable calls are refused until it is invoked again. Do not make them in a `finally`."


class ExecutionState:
    """One execution, as one handler sees it. Ten thousand of them may wait in memory, so they are kept small."""

    __slots__ = (
        "broken",
        "clock",
        "durable_execution_arn",
        "header",
        "hooks",
        "mismatch",
        "misuse",
        "operations",
        "port",
        "quarantines",
        "revision",
        "stragglers",
        "suspended",
        "token",
        "unwritten",
        "unwritten_since",
    )

    def __init__(self, invocation: Invocation, port: Port, clock: Clock, stragglers: Stragglers) -> None:
        self.durable_execution_arn = invocation.arn
        self.header: Execution = invocation.header
        self.port = port
        self.clock = clock
        self.operations: dict[str, Operation] = {}
        self.token = invocation.token
        self.revision: int = invocation.header.revision
        self.unwritten: list[Update] = []
        self.broken: BaseException | None = None
        """Why nothing can be written any more. What rode with a failed write is lost with it, so every strand is told."""
        self.suspended = False
        """A suspension was raised; nothing may be recorded any more."""
        self.misuse: str | None = None
        """A durable call was cut short by user code, which a replay could not repeat."""
        self.mismatch: NonDeterministicExecutionError | None = None
        """The code was found not to match the history."""
        self.quarantines = False
        """A mismatch is for mended code to go on from: the handler makes no more durable calls, whether it caught the error or not."""
        self.unwritten_since = 0.0
        self.stragglers = stragglers
        self.hooks: Hooks | None = None
        """Where plugins are told what happens; None without any, and asked for before every call."""
        if not invocation.fresh:
            for operation in port.state(invocation.token):
                self.operations[operation.id] = operation

    @property
    def has_history(self) -> bool:
        """Whether an earlier invocation has left operations."""
        return bool(self.operations)

    def look(self, identity: Identity) -> Operation | None:
        """The recorded operation at this place, which must be the one the code asks for."""
        self.check_usable()
        found = self.operations.get(identity.operation_id)
        if found is not None:
            identity.check(found)
            if self.hooks is not None:
                self.hooks.looked(found)
        return found

    def check_usable(self) -> None:
        """Refuse durable calls after a suspension, after a write that failed, and after a mismatch that quarantines."""
        if self.broken is not None:
            raise self.broken
        if self.mismatch is not None and self.quarantines:
            raise self.mismatch
        if self.suspended:
            raise SuspendExecution(_SUSPENDED)

    def raised(self, error: BaseException) -> None:
        """A durable call ended with an error: remember the first that says that the code does not match."""
        if self.mismatch is None and isinstance(error, NonDeterministicExecutionError):
            self.mismatch = error

    def learn(self, operations: Iterable[Operation]) -> None:
        """Learn of operations as they are now."""
        for operation in operations:
            self.operations[operation.id] = operation

    def record(self, update: Update) -> None:
        """Take an update for the next write."""
        self.check_usable()
        self.unwritten.append(update)

    def record_later(self, update: Update) -> None:
        """Take an update that rides with the next write; it is written by itself if none comes soon."""
        first = not self.unwritten
        self.record(update)
        if first:
            self.unwritten_since = monotonic()
            self.stragglers.add(self)

    def write_riders(self) -> None:
        """Write what rides, if it still does; a failure is told to the strand that writes next."""
        raise AssertionError("each driver has its own way to write")

    def landed(self, answer: Checkpointed) -> None:
        """A write is on disk."""
        self.revision = answer.revision
        if answer.token is None:
            raise BackgroundThreadError("The execution is over.", LeaseLost())
        self.token = answer.token
        if self.hooks is None:
            self.learn(answer.operations)
        else:
            self.hooks.learning(answer.operations, self.learn)

    def failed(self, error: HoldfastError) -> BackgroundThreadError:
        """A write was refused: this invocation cannot go on. Only a mistake of the handler's own fails the execution."""
        source: Exception = error
        if isinstance(error, Rejected):
            source = CheckpointError(f"The checkpoint was refused: {error}", DurableApiErrorCategory.EXECUTION)
        return BackgroundThreadError(str(error), source)
