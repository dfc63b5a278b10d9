"""Plugins: code that observes executions and does not change them, for traces, metrics and audit logs.

    class Counting(DurableInstrumentationPlugin):
        def on_operation_end(self, info: OperationEndInfo) -> None:
            count(info.name, info.status)

    class CountingFactory:
        def create_plugin(self, info: InvocationStartInfo) -> Counting:
            return Counting()

    @durable_execution(plugins=[CountingFactory()])

A factory is used as long as the function is loaded. It makes a new plugin for each invocation. hooks/moments.py calls the plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Protocol

from holdfast.durable.lambda_service import ErrorObject, InvocationStatus, OperationStatus, OperationType
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.operations import Failure, Operation

__all__ = [
    "DurableInstrumentationPlugin",
    "DurableInstrumentationPluginFactory",
    "InvocationEndInfo",
    "InvocationInfo",
    "InvocationStartInfo",
    "InvocationStatus",
    "OperationChangeInfo",
    "OperationEndInfo",
    "OperationInfo",
    "OperationStartInfo",
    "OperationType",
    "PropagationInput",
    "PropagationMetadata",
    "UserFunctionEndInfo",
    "UserFunctionOutcome",
    "UserFunctionStartInfo",
]

_WALL_CLOCK = SystemClock()
_TOLD_AS = {
    OutcomeStatus.SUCCEEDED: InvocationStatus.SUCCEEDED,
    OutcomeStatus.CONTINUED: InvocationStatus.SUCCEEDED,
    OutcomeStatus.FAILED: InvocationStatus.FAILED,
    OutcomeStatus.PENDING: InvocationStatus.PENDING,
    OutcomeStatus.MISMATCHED: InvocationStatus.RETRY,
    OutcomeStatus.CRASHED: InvocationStatus.RETRY,
    OutcomeStatus.INTERRUPTED: InvocationStatus.RETRY,
}


def _instant(at: int | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


# --- operations --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OperationInfo:
    """An operation, as it is at the moment of a report. `result` is the stored text; None if there is none. `sub_type` is a plain str, not
    an enum member."""

    operation_id: str
    operation_type: OperationType
    sub_type: str | None
    name: str | None
    parent_id: str | None
    start_time: datetime | None
    is_replayed: bool
    """In `on_operation_start`: whether the operation was recorded before. In `on_operation_end`: whether this is a recorded context that
    ran again, because its result was too large to store. Else False."""
    status: OperationStatus
    end_time: datetime | None = field(default=None, kw_only=True)
    result: str | None = field(default=None, kw_only=True)
    error: ErrorObject | None = field(default=None, kw_only=True)
    attempt: int | None = field(default=None, kw_only=True)
    """For a step in `on_operation_end` and in `operations`: how many of its attempts have ended. In `on_user_function_start` and
    `on_user_function_end`: the number of the attempt that runs, from 1; for a context 1, or None if the context runs again. None in all
    other reports, also in `on_operation_start`."""

    @staticmethod
    def from_operation(operation: Operation, *, is_replayed: bool = False) -> OperationInfo:
        """The info of a stored operation, with this value of `is_replayed`. The error is a copy, so a plugin cannot change the handler's
        error."""
        return OperationInfo(
            operation_id=operation.id,
            operation_type=operation.type,
            sub_type=operation.sub_type,
            name=operation.name or None,
            parent_id=operation.parent_id,
            start_time=_instant(operation.started_at),
            is_replayed=is_replayed,
            status=operation.status,
            end_time=_instant(operation.ended_at),
            result=operation.result,
            error=ErrorObject.from_failure(operation.error) if operation.error and operation.error != Failure() else None,
            attempt=operation.attempt if operation.type is OperationType.STEP else None,
        )


@dataclass(frozen=True)
class OperationStartInfo(OperationInfo):
    """The report that an operation begins, that a step begins its next attempt, or that a replay reaches an operation that has not ended.
    `start_time` is None, unless a replay reached the operation."""


@dataclass(frozen=True)
class OperationEndInfo(OperationInfo):
    """The report that an operation has ended."""


@dataclass(frozen=True)
class OperationChangeInfo:
    """The report that operations have changed. `updated_operations` has the operations that got a new status; `operations` has all
    operations that plugins can see. The keys of both are operation ids."""

    execution_arn: str | None
    updated_operations: dict[str, OperationInfo]
    operations: dict[str, OperationInfo]


# --- functions inside operations ---------------------------------------------------------------------------------------------


class UserFunctionOutcome(Enum):
    """How a user's function ended. INCOMPLETE: a suspension, a cancellation (for example because the time of its step was over) or an exit
    such as SystemExit interrupted it, or it was still under way when the invocation ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    INCOMPLETE = "INCOMPLETE"

    @classmethod
    def from_error(cls, error: ErrorObject | None) -> UserFunctionOutcome:
        """FAILED if there is an error, else SUCCEEDED."""
        return cls.SUCCEEDED if error is None else cls.FAILED


@dataclass(frozen=True)
class UserFunctionStartInfo(OperationInfo):
    """The report that a user's function begins: the body of a step or of a context, or the check of a `wait_for_condition`."""

    is_replay_children: bool = False
    """Whether the function runs again only because its result was too large to be stored."""


@dataclass(frozen=True)
class UserFunctionEndInfo(OperationInfo):
    """The report that a user's function returned, raised or was interrupted."""

    is_replay_children: bool
    outcome: UserFunctionOutcome

    @classmethod
    def from_start_info(
        cls,
        start_info: UserFunctionStartInfo,
        error: ErrorObject | None,
        *,
        outcome: UserFunctionOutcome | None = None,
        clock: Clock = _WALL_CLOCK,
    ) -> UserFunctionEndInfo:
        """The report for the end of the function that began with `start_info`. `error` is the error that the function raised; None if it
        raised none. `outcome` None means FAILED if there is an error, else SUCCEEDED."""
        return cls(
            operation_id=start_info.operation_id,
            operation_type=start_info.operation_type,
            sub_type=start_info.sub_type,
            name=start_info.name,
            parent_id=start_info.parent_id,
            start_time=start_info.start_time,
            is_replayed=start_info.is_replayed,
            status=start_info.status,
            is_replay_children=start_info.is_replay_children,
            outcome=UserFunctionOutcome.from_error(error) if outcome is None else outcome,
            end_time=_instant(clock.now()),
            error=error,
            attempt=start_info.attempt,
        )


# --- invocations: fields with payloads are left out of `repr`, because plugins log these objects, and out of comparisons -------


@dataclass(frozen=True)
class InvocationInfo:
    """One invocation of an execution. `operations` has all operations that a replay needs, and one that stands for the execution itself;
    the keys are operation ids."""

    request_id: str | None
    execution_arn: str | None
    is_first_invocation: bool
    """Whether the history is empty: no earlier invocation recorded an operation."""
    execution_start_time: datetime | None = None
    execution_input: Any = field(default=None, kw_only=True, repr=False, compare=False, hash=False)
    """A copy of the event, as plain JSON values: a plugin that changes it does not change the handler's event. None if the input is not
    JSON."""
    operations: dict[str, OperationInfo] = field(default_factory=dict, kw_only=True, repr=False, compare=False, hash=False)


@dataclass(frozen=True)
class InvocationStartInfo(InvocationInfo):
    """The report that an invocation begins."""

    updated_operations: dict[str, OperationInfo] = field(default_factory=dict, kw_only=True, repr=False, compare=False, hash=False)
    """The operations that the service changed between the invocation before this one and now, by id: waits and invokes that ended,
    callbacks that were answered or timed out, steps whose next attempt is due."""


@dataclass(frozen=True)
class InvocationEndInfo(InvocationInfo):
    """The report that an invocation has ended. `operations` shows the operations as they are at the end. `status` is RETRY if the
    invocation failed and the handler is invoked again, or if the execution is quarantined."""

    status: InvocationStatus = field(kw_only=True)
    error: ErrorObject | None = None
    execution_result: str | None = field(default=None, kw_only=True, repr=False, compare=False, hash=False)
    """The handler's result as JSON text; None if the invocation did not end with a result."""

    @classmethod
    def from_durable_execution_invocation_output(
        cls,
        invocation_start_info: InvocationStartInfo,
        output: Outcome,
        operations: dict[str, OperationInfo] | None = None,
    ) -> InvocationEndInfo:
        """The report for the end, with the outcome `output`, of the invocation that began with `invocation_start_info`. `operations` None
        means the operations of that start."""
        start = invocation_start_info
        return cls(
            request_id=start.request_id,
            execution_arn=start.execution_arn,
            is_first_invocation=start.is_first_invocation,
            execution_start_time=start.execution_start_time,
            execution_input=start.execution_input,
            operations=start.operations if operations is None else operations,
            status=_TOLD_AS[output.status],
            error=None if output.error is None else ErrorObject.from_failure(output.error),
            execution_result=output.result if output.status is OutcomeStatus.SUCCEEDED else None,
        )


# --- chained invokes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PropagationInput:
    """A chained invoke (`context.invoke`) that is about to be made."""

    execution_arn: str
    operation_id: str
    target_function_name: str
    parent_operation_id: str | None = None


@dataclass(frozen=True)
class PropagationMetadata:
    """What a plugin adds to a chained invoke: a trace id."""

    x_amzn_trace_id: str | None = None


# --- what an author writes ---------------------------------------------------------------------------------------------------


class DurableInstrumentationPlugin:
    """The base of plugins: override the hooks that you need. One instance serves one invocation, so it can keep its state in attributes.

    Hooks are plain functions (`def`). A hook is called on the thread, or in the asyncio task, of the operation that it reports, and the
    operation waits until the hook returns. (Hooks that are called when an invocation begins or ends may run on another thread or in another
    task.) In an `async def` handler a slow hook blocks the engine's event loop: do slow work on a thread of the plugin's own, and finish it
    in `on_invocation_end`. The branches of a `def` handler run on several threads, so hooks need a lock for the data that they share. A
    hook must not make durable calls.

    The reports of one operation: its start, the start and the end of its function, then its end, before the durable call returns. The end
    of a child is reported before the end of its parent. The end of an operation is reported once, in the invocation that first sees it
    closed; if no code reads its result, at the end of that invocation. A context whose result is not stored runs again in each replay, and
    its end is reported each time.

    An error that a hook raises is logged, and the execution continues. But KeyboardInterrupt, SystemExit and GeneratorExit end the
    invocation, which is then tried again; in `on_operation_change` they are only logged, too.
    """

    def provide_propagation_metadata(self, info: PropagationInput) -> PropagationMetadata | None:
        """Called before a chained invoke is made, but not when the invoke is replayed. The invoked execution gets the trace id that this
        returns; None adds no trace id. If several plugins return a trace id, the first plugin in their order decides."""
        return None

    def on_invocation_start(self, info: InvocationStartInfo) -> None:
        """Called in every invocation, before the handler runs."""

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        """Called as the last hook of an invocation, also if the handler raised or was suspended."""

    def on_operation_start(self, info: OperationStartInfo) -> None:
        """Called before the start of an operation, or of a further attempt of a step, is written. Also called when a replay reaches an
        operation that has not ended."""

    def on_operation_end(self, info: OperationEndInfo) -> None:
        """Called when an operation has ended, before the code gets its result."""

    def on_operation_change(self, info: OperationChangeInfo) -> None:
        """Called after writes that changed the status of operations. One call may report the changes of several writes; in that case it
        shows only the newest state."""

    def on_user_function_start(self, info: UserFunctionStartInfo) -> None:
        """Called before a user's function, on the thread or in the task of the function: the function sees the context variables that this
        hook sets."""

    def on_user_function_end(self, info: UserFunctionEndInfo) -> None:
        """Called after a user's function has returned, raised or was interrupted. If the function is still under way when the invocation
        ends, this is called then."""


class DurableInstrumentationPluginFactory(Protocol):
    """Makes the plugins of one kind. Any object with this method is a factory; it need not inherit from a class.

    Keep here what is needed longer than one invocation: exporters, connections, settings. A factory whose class sets
    `__durable_registration_api__ = 1` may have two more members. `exclusive_group` is a name: two factories with the same name on one
    function raise PluginLoadError. `on_registration_result(registered)` is called when a function is decorated; `registered` says whether
    that function uses the factory.
    """

    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        """The plugin for this invocation. Its `on_invocation_start` gets the same info. If this method raises, or returns another object,
        the invocation runs without the plugin."""
        ...
