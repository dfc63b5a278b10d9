"""The errors of the durable API: the official SDK's tree, same names, same meaning.

The class says what happens next; the docstring is the default message.

HoldfastError
└─ DurableExecutionsError
   ├─ DurableOperationError ─┬─ StepError                an operation failed for good: catch it, or fail with it
   │                         ├─ InvokeError
   │                         ├─ ChildContextError
   │                         ├─ WaitForConditionError
   │                         ├─ CallbackError ─┬─ CallbackExternalError
   │                         │                 ├─ CallbackTimeoutError
   │                         │                 └─ CallbackSubmitterError
   │                         └─ BatchCompletionError     (holdfast.durable.concurrency.models)
   ├─ SerDesError                                        a value cannot be written or read; never retried
   ├─ ValidationError                                    wrong arguments; nothing was recorded
   ├─ InvalidStateError
   ├─ PluginLoadError
   ├─ OrderedLockError
   └─ UnrecoverableError ─┬─ ExecutionError              the execution fails now, without a retry
                          │  └─ NonDeterministicExecutionError
                          └─ InvocationError             this invocation fails; the service tries again
                             ├─ BotoClientError ─┬─ CheckpointError
                             │                   └─ GetExecutionStateError
                             ├─ StepInterruptedError
                             └─ RetryableSerDesError

BaseException                                            not errors (interrupts.py): `except Exception` lets them pass
├─ SuspendExecution ── TimedSuspendExecution
├─ OrphanedChildException
└─ BackgroundThreadError
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Self

from holdfast.durable.interrupts import BackgroundThreadError as BackgroundThreadError
from holdfast.durable.interrupts import OrphanedChildException as OrphanedChildException
from holdfast.durable.interrupts import SuspendExecution as SuspendExecution
from holdfast.durable.interrupts import TimedSuspendExecution as TimedSuspendExecution
from holdfast.durable.service_failures import BAD_REQUEST_ERROR as BAD_REQUEST_ERROR
from holdfast.durable.service_failures import INVALID_CHECKPOINT_TOKEN_PREFIX as INVALID_CHECKPOINT_TOKEN_PREFIX
from holdfast.durable.service_failures import INVALID_PARAMETER_VALUE_EXCEPTION as INVALID_PARAMETER_VALUE_EXCEPTION
from holdfast.durable.service_failures import SERVICE_ERROR as SERVICE_ERROR
from holdfast.durable.service_failures import TOO_MANY_REQUESTS_ERROR as TOO_MANY_REQUESTS_ERROR
from holdfast.durable.service_failures import AwsErrorMetadata as AwsErrorMetadata
from holdfast.durable.service_failures import AwsErrorObj as AwsErrorObj
from holdfast.durable.service_failures import DurableApiErrorCategory as DurableApiErrorCategory
from holdfast.durable.service_failures import categorize
from holdfast.model.errors import HoldfastError

_OUR_PACKAGE = __name__.removesuffix("exceptions")
_OFFICIAL_PACKAGE = "aws_durable_execution_sdk_python."


class TerminationReason(Enum):
    """Why an invocation ended early."""

    UNHANDLED_ERROR = "UNHANDLED_ERROR"
    INVOCATION_ERROR = "INVOCATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CHECKPOINT_FAILED = "CHECKPOINT_FAILED"
    NON_DETERMINISTIC_EXECUTION = "NON_DETERMINISTIC_EXECUTION"
    STEP_INTERRUPTED = "STEP_INTERRUPTED"
    SERIALIZATION_ERROR = "SERIALIZATION_ERROR"


CheckpointErrorCategory = DurableApiErrorCategory


def wire_name(error: BaseException | type[BaseException]) -> str:
    """The name an error class has in checkpoints: `module.QualName`, builtins bare.

    Our own classes carry the official package's names, so a function may move between Holdfast and AWS while its executions are under way.
    """
    cls = error if isinstance(error, type) else type(error)
    module = cls.__module__
    if module == "builtins":
        return cls.__qualname__
    if module.startswith(_OUR_PACKAGE):
        module = _OFFICIAL_PACKAGE + module.removeprefix(_OUR_PACKAGE)
    return f"{module}.{cls.__qualname__}"


class DurableExecutionsError(HoldfastError):
    """A durable operation could not do its work."""

    code: ClassVar[str] = "durable_executions_error"

    def __init__(self, *args: object) -> None:
        if not args or args[0] is None:
            super().__init__(None)
        else:
            Exception.__init__(self, *args)  # kept as given: the official classes take any arguments


class PluginLoadError(DurableExecutionsError):
    """A configured plugin could not be loaded."""

    code = "plugin_load_error"


class ValidationError(DurableExecutionsError):
    """An operation was given arguments it cannot accept."""

    code = "validation_error"
    tells_line = False
    """Whether the message already names the author's line."""


class InvalidStateError(DurableExecutionsError):
    """This cannot be done to an object in its present state."""

    code = "invalid_state_error"


class OrderedLockError(DurableExecutionsError):
    """An earlier holder of the lock failed, so later holders cannot follow in order."""

    code = "ordered_lock_error"

    def __init__(self, message: str, source_exception: Exception | None = None) -> None:
        super().__init__(f"{message} {type(source_exception).__name__}: {source_exception}" if source_exception else message)
        self.source_exception = source_exception


class UnrecoverableError(DurableExecutionsError):
    """The invocation cannot go on."""

    code = "unrecoverable_error"

    def __init__(self, message: str, termination_reason: TerminationReason) -> None:
        super().__init__(message)
        self.termination_reason = termination_reason


class ExecutionError(UnrecoverableError):
    """The execution fails now and is not retried."""

    code = "execution_error"
    tells_line = False
    """Whether the message already names the author's line."""

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.EXECUTION_ERROR) -> None:
        super().__init__(message, termination_reason)


class NonDeterministicExecutionError(ExecutionError):
    """The code took another path than the one recorded."""

    code = "non_deterministic_execution_error"
    tells_line = True

    def __init__(self, message: str, step_id: str | None = None) -> None:
        super().__init__(message, TerminationReason.NON_DETERMINISTIC_EXECUTION)
        self.step_id = step_id


class InvocationError(UnrecoverableError):
    """This invocation fails; the service invokes again."""

    code = "invocation_error"

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.INVOCATION_ERROR) -> None:
        super().__init__(message, termination_reason)

    def is_retryable(self) -> bool:
        """Whether another invocation may succeed."""
        return True


class StepInterruptedError(InvocationError):
    """A step began and its end was never recorded."""

    code = "step_interrupted_error"

    def __init__(self, message: str, step_id: str | None = None) -> None:
        super().__init__(message, TerminationReason.STEP_INTERRUPTED)
        self.step_id = step_id


class RetryableSerDesError(InvocationError):
    """A value could not be written or read this time; another invocation may manage.

    For a `SerDes` that reaches outside, say to a store that did not answer. It escapes map and parallel as well. An at-most-once
    step is already recorded as started then, so the next invocation hands it to the step's retry strategy as interrupted.
    """

    code = "retryable_ser_des_error"

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.SERIALIZATION_ERROR) -> None:
        super().__init__(message, termination_reason)


class BotoClientError(InvocationError):
    """A call to the service failed; `error_category` says whether trying again can help."""

    code = "boto_client_error"

    def __init__(
        self,
        message: str,
        error_category: DurableApiErrorCategory = DurableApiErrorCategory.INVOCATION,
        error: AwsErrorObj | None = None,
        response_metadata: AwsErrorMetadata | None = None,
        termination_reason: TerminationReason = TerminationReason.INVOCATION_ERROR,
    ) -> None:
        super().__init__(message, termination_reason)
        self.error_category = error_category
        self.error = error
        self.response_metadata = response_metadata

    @classmethod
    def from_exception(cls, exception: Exception) -> Self:
        """Wrap what boto3 raised; anything without a `response` (a lost connection) is worth another try."""
        response: Mapping[str, Any] = getattr(exception, "response", {})
        error, metadata = response.get("Error"), response.get("ResponseMetadata")
        return cls(str(exception), error_category=categorize(error, metadata), error=error, response_metadata=metadata)

    def is_retryable(self) -> bool:
        """Whether another invocation may succeed."""
        return self.error_category is DurableApiErrorCategory.INVOCATION

    is_retriable = is_retryable

    def build_logger_extras(self) -> dict[str, Any]:
        """What the service said, under the names it used."""
        said = {"Error": self.error, "ResponseMetadata": self.response_metadata}
        return {name: value for name, value in said.items() if value}


class CheckpointError(BotoClientError):
    """A checkpoint could not be written."""

    code = "checkpoint_error"

    def __init__(
        self,
        message: str,
        error_category: DurableApiErrorCategory = DurableApiErrorCategory.INVOCATION,
        error: AwsErrorObj | None = None,
        response_metadata: AwsErrorMetadata | None = None,
    ) -> None:
        super().__init__(message, error_category, error, response_metadata, TerminationReason.CHECKPOINT_FAILED)


class GetExecutionStateError(BotoClientError):
    """The state of the execution could not be read."""

    code = "get_execution_state_error"

    def __init__(
        self,
        message: str,
        error_category: DurableApiErrorCategory = DurableApiErrorCategory.INVOCATION,
        error: AwsErrorObj | None = None,
        response_metadata: AwsErrorMetadata | None = None,
    ) -> None:
        super().__init__(message, error_category, error, response_metadata, TerminationReason.INVOCATION_ERROR)


class _RecordedError(DurableExecutionsError):
    """An error that survives storage: all it has are the four fields of a checkpoint."""

    code = "recorded_error"

    def __init__(
        self,
        message: str | None = None,
        error_type: str | None = None,
        data: str | None = None,
        stack_trace: list[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_type: str = error_type or wire_name(self)
        self.data = data
        self.stack_trace = stack_trace


class SerDesError(_RecordedError):
    """A value cannot be serialized or deserialized, and no retry will change that."""

    code = "ser_des_error"


class DurableOperationError(_RecordedError):
    """A durable operation failed for good.

    The class names the kind of operation; `error_type`, `message`, `data` and `stack_trace` describe what went wrong inside it.
    `__cause__` is rebuilt from the same four fields, on the first run too, so that a replay sees what the first run saw.
    """

    code = "durable_operation_error"

    @classmethod
    def from_error_fields(
        cls,
        error_type: str | None,
        message: str | None,
        data: str | None,
        stack_trace: list[str] | None,
    ) -> DurableOperationError:
        """The error a checkpoint describes. Only registered classes are built: never one named by data."""
        known = _KNOWN.get(error_type or "", DurableOperationError)
        return known(message=message, error_type=error_type, data=data, stack_trace=stack_trace)


class StepError(DurableOperationError):
    """The step failed."""

    code = "step_error"


class InvokeError(DurableOperationError):
    """The invoked function failed, timed out or was stopped."""

    code = "invoke_error"


class ChildContextError(DurableOperationError):
    """The child context failed."""

    code = "child_context_error"


class WaitForConditionError(DurableOperationError):
    """`wait_for_condition` failed: its strategy gave up before the condition was met, or the check or the strategy raised an error."""

    code = "wait_for_condition_error"


class CallbackError(DurableOperationError):
    """The callback failed."""

    code = "callback_error"


class CallbackExternalError(CallbackError):
    """The other side answered the callback with a failure."""

    code = "callback_external_error"


class CallbackTimeoutError(CallbackError):
    """The callback was not answered in time, or its heartbeat stopped."""

    code = "callback_timeout_error"


class CallbackSubmitterError(CallbackError):
    """The callback's id could not be handed to the other side."""

    code = "callback_submitter_error"


_KNOWN: dict[str, type[DurableOperationError]] = {}


def register_operation_error(error_cls: type[DurableOperationError]) -> None:
    """Let a replay rebuild this class. It must accept the four fields of `DurableOperationError` as keywords."""
    _KNOWN[wire_name(error_cls)] = error_cls


for _cls in (
    StepError,
    InvokeError,
    ChildContextError,
    WaitForConditionError,
    CallbackError,
    CallbackExternalError,
    CallbackTimeoutError,
    CallbackSubmitterError,
):
    register_operation_error(_cls)
