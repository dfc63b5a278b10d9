"""What a running handler knows about its execution: the operations, its token, and the updates that are not written yet.

One write is under way at a time, because each write needs the token that the write before it returned. Updates that are recorded meanwhile
are written together by the next write. The two drivers differ only in how they wait.
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
    """One execution in one handler. Ten thousand of these may wait in memory, so they are kept small."""

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
        """Why nothing can be written any more; None if writing works. The updates of a failed write are lost, so every strand gets this
        error."""
        self.suspended = False
        """Whether a suspension was raised. Then nothing may be recorded any more."""
        self.misuse: str | None = None
        """The error message if user code cancelled a durable call, which a replay could not repeat; else None."""
        self.mismatch: NonDeterministicExecutionError | None = None
        """The error that says that the code does not match the history; None if there was no such error."""
        self.quarantines = False
        """Whether a mismatch quarantines the execution. If it does, the handler can make no more durable calls after a mismatch, even if it
        caught the error."""
        self.unwritten_since = 0.0
        self.stragglers = stragglers
        self.hooks: Hooks | None = None
        """The hooks that call plugins; None if there are no plugins."""
        if not invocation.fresh:
            for operation in port.state(invocation.token):
                self.operations[operation.id] = operation

    @property
    def has_history(self) -> bool:
        """Whether an earlier invocation recorded operations."""
        return bool(self.operations)

    @property
    def ends_ride(self) -> bool:
        """Whether the end of a context is written with the next write, so that the code continues without waiting for it."""
        return False

    def look(self, identity: Identity) -> Operation | None:
        """The recorded operation with this id; None if it is not recorded. Raises NonDeterministicExecutionError if it is another operation
        than the code asks for. Raises the error of `check_usable` if durable calls are no longer possible."""
        self.check_usable()
        found = self.operations.get(identity.operation_id)
        if found is not None:
            identity.check(found)
            if self.hooks is not None:
                self.hooks.looked(found)
        return found

    def check_usable(self) -> None:
        """Raise if durable calls are no longer possible: after a suspension, after a write that failed, or after a mismatch that
        quarantines."""
        if self.broken is not None:
            raise self.broken
        if self.mismatch is not None and self.quarantines:
            raise self.mismatch
        if self.suspended:
            raise SuspendExecution(_SUSPENDED)

    def raised(self, error: BaseException) -> None:
        """Note that a durable call raised this error. The first error that says that the code does not match the history is kept."""
        if self.mismatch is None and isinstance(error, NonDeterministicExecutionError):
            self.mismatch = error

    def learn(self, operations: Iterable[Operation]) -> None:
        """Store these operations in their present state."""
        for operation in operations:
            self.operations[operation.id] = operation

    def record(self, update: Update) -> None:
        """Add an update to the next write."""
        self.check_usable()
        self.unwritten.append(update)

    def record_later(self, update: Update) -> None:
        """Add a deferred update: it is written with the next write, or alone if no write follows within some milliseconds."""
        first = not self.unwritten
        self.record(update)
        if first:
            self.unwritten_since = monotonic()
            self.stragglers.add(self)

    def write_deferred(self) -> None:
        """Write the deferred updates, if they are not written yet. If the write fails, the strand that writes next gets the error."""
        raise AssertionError("a driver implements write_deferred")

    def applied(self, answer: Checkpointed) -> None:
        """Take over the new token and the changed operations of a write that is on disk. Raises BackgroundThreadError if the execution
        has ended."""
        self.revision = answer.revision
        if answer.token is None:
            raise BackgroundThreadError("The execution has ended.", LeaseLost())
        self.token = answer.token
        if self.hooks is None:
            self.learn(answer.operations)
        else:
            self.hooks.learning(answer.operations, self.learn)

    def failed(self, error: HoldfastError) -> BackgroundThreadError:
        """The error that ends this invocation after a write that failed. If the error is a Rejected, the handler made a mistake, and the
        error fails the execution, too."""
        source: Exception = error
        if isinstance(error, Rejected):
            source = CheckpointError(f"The checkpoint was refused: {error}", DurableApiErrorCategory.EXECUTION)
        return BackgroundThreadError(str(error), source)
