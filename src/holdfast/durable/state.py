"""What a running handler knows about its execution: the operations, the token for the next write, and the updates that are not written yet.

Only one write is under way at a time, because each write needs the token that the write before it returned. Updates that are recorded
meanwhile are written together by the next write. The state has a subclass for `def` handlers (blocking_driver.py) and one for `async def`
handlers (async_state.py), because threads and coroutines wait for a write in different ways.
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
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, LeaseLost, Rejected
from holdfast.model.execution import Execution
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import Invocation, Port
from holdfast.model.verbs import Checkpointed

_SUSPENDED = "This execution is suspended: durable calls are refused until it is invoked again. Do not make them in a `finally`."


class ExecutionState:
    """What the running handler of one execution knows about the execution. Ten thousand of these objects may wait in memory, so they are
    kept small."""

    __slots__ = (
        "broken",
        "clock",
        "durable_execution_arn",
        "header",
        "hooks",
        "kind",
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
        self.kind = invocation.kind
        self.port = port
        self.clock = clock
        self.operations: dict[str, Operation] = {}
        self.token = invocation.token
        self.revision: int = invocation.header.revision
        self.unwritten: list[Update] = []
        self.broken: BaseException | None = None
        """Why nothing can be written any more: a write failed, or a request to accept a run had no answer. None if writing works. The
        updates of a failed write are lost, so every strand that waits for a write or makes a durable call gets this error."""
        self.suspended = False
        """Whether durable calls are refused, because the strands were suspended or the invocation has ended. A `def` handler inside the
        runner does not use it."""
        self.misuse: str | None = None
        """The message of the error with which the execution fails, because user code cancelled a durable call: a replay could not cancel
        the call at the same point. None if that did not happen."""
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
        """Whether this state has recorded operations. If it has some when the handler begins, the handler replays them."""
        return bool(self.operations)

    @property
    def ends_ride(self) -> bool:
        """Whether the end of a context may be written together with the next write, so that the code need not wait for that write. If
        `has_service_clock` is False, this holds only for a branch of a `map` or `parallel`."""
        return False

    @property
    def has_service_clock(self) -> bool:
        """Whether `clock` is the clock by which the service dates operations, so that an update may say when its operation ended. It is
        asked only if `ends_ride` is True."""
        return False

    def lookup(self, identity: Identity) -> Operation | None:
        """The recorded operation with the id of `identity`; None if there is none. Raises NonDeterministicExecutionError if the recorded
        operation is not the one that the code asks for. Raises what `check_usable` raises, if durable calls are no longer possible."""
        self.check_usable()
        found = self.operations.get(identity.operation_id)
        if found is not None:
            identity.check(found)
            if self.hooks is not None:
                self.hooks.looked(found)
        return found

    def check_usable(self) -> None:
        """Raise an exception if durable calls are no longer possible: because `broken` or `suspended` is set, or because the code did not
        match the history and the host quarantines such executions."""
        if self.broken is not None:
            raise self.broken
        if self.mismatch is not None and self.quarantines:
            raise self.mismatch
        if self.suspended:
            raise SuspendExecution(_SUSPENDED)

    def raised(self, error: BaseException) -> None:
        """Note that a durable call raised this error. The first error that says that the code does not match the history is kept as
        `mismatch`."""
        if self.mismatch is None and isinstance(error, NonDeterministicExecutionError):
            self.mismatch = error

    def learn(self, operations: Iterable[Operation]) -> None:
        """Keep these operations. Each replaces the older state of the same operation, if there is one."""
        for operation in operations:
            self.operations[operation.id] = operation

    def record(self, update: Update) -> None:
        """Add an update to the next write. Raises what `check_usable` raises, if durable calls are no longer possible."""
        self.check_usable()
        self.unwritten.append(update)

    def record_later(self, update: Update) -> None:
        """Add a deferred update: it is written together with the next write, or alone if no write follows within some milliseconds. Returns
        at once."""
        raise AssertionError("a subclass of ExecutionState must implement record_later")

    def write_deferred(self) -> None:
        """Write the deferred updates, if they are not written yet. If the write fails, this raises no error; the strand that makes the next
        durable call gets the error."""
        raise AssertionError("a subclass of ExecutionState must implement write_deferred")

    def applied(self, answer: Checkpointed) -> None:
        """Take the revision and the new token from the answer to a write that is on disk; the caller takes the operations. Raises
        BackgroundThreadError if the answer has no new token: the execution has ended, or the service withdrew the token."""
        self.revision = answer.revision
        if answer.token is None:
            raise BackgroundThreadError("The execution has ended, or the service withdrew the checkpoint token.", LeaseLost())
        self.token = answer.token

    def failed(self, error: HoldfastError) -> BackgroundThreadError:
        """The exception that ends this invocation, after a write failed with `error`. If `error` is a Rejected, the execution fails, too,
        because a refused write is not tried again."""
        source: Exception = error
        if isinstance(error, Rejected):
            source = CheckpointError(f"The checkpoint was refused: {error}", DurableApiErrorCategory.EXECUTION)
        return BackgroundThreadError(str(error), source)
