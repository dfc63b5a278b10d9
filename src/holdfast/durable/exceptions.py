"""The errors of the durable API. They have the names and the meaning of the errors of AWS's SDK.

The class says what happens after the error. The first line of the docstring is the default message.

HoldfastError
└─ DurableExecutionsError
   ├─ DurableOperationError ─┬─ StepError                an operation failed: catch it, or the execution fails
   │                         ├─ InvokeError
   │                         ├─ ChildContextError
   │                         ├─ WaitForConditionError
   │                         ├─ CallbackError ─┬─ CallbackExternalError
   │                         │                 ├─ CallbackTimeoutError
   │                         │                 └─ CallbackSubmitterError
   │                         └─ BatchCompletionError     (holdfast.durable.concurrency.models)
   ├─ SerDesError                                        a value cannot be written or read; a step does not retry it
   ├─ ValidationError                                    a wrong argument
   ├─ InvalidStateError
   ├─ PluginLoadError
   ├─ OrderedLockError
   └─ UnrecoverableError ─┬─ ExecutionError              the execution fails now, without a retry
                          │  └─ NonDeterministicExecutionError
                          └─ InvocationError             this invocation fails; if it is retryable, the service tries again
                             ├─ BotoClientError ─┬─ CheckpointError
                             │                   └─ GetExecutionStateError
                             ├─ StepInterruptedError
                             └─ RetryableSerDesError

BaseException                                            not errors (interrupts.py): `except Exception` does not catch them
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
    """The name of an error's class in checkpoints: `module.QualName`, or only the class name for a builtin.

    Classes of `holdfast.durable` get the module names of AWS's package, so that a checkpoint names the same class on Holdfast and on AWS.
    """
    cls = error if isinstance(error, type) else type(error)
    module = cls.__module__
    if module == "builtins":
        return cls.__qualname__
    if module.startswith(_OUR_PACKAGE):
        module = _OFFICIAL_PACKAGE + module.removeprefix(_OUR_PACKAGE)
    return f"{module}.{cls.__qualname__}"


class DurableExecutionsError(HoldfastError):
    """An error of the durable API."""

    code: ClassVar[str] = "durable_executions_error"

    def __init__(self, *args: object) -> None:
        if not args or args[0] is None:
            super().__init__(None)
        else:
            Exception.__init__(self, *args)  # all arguments are kept, because AWS's classes accept any arguments


class PluginLoadError(DurableExecutionsError):
    """A configured plugin could not be loaded.

    It is also raised if an object in `plugins` is not a factory, or if two factories have the same `exclusive_group`."""

    code = "plugin_load_error"


class ValidationError(DurableExecutionsError):
    """A durable call, or a configuration, was given a value that it does not accept.

    It is also raised if the call is not allowed in this place, such as `continue_as_new` in a branch."""

    code = "validation_error"
    tells_line = False
    """Whether the message already names the line of the author's code."""


class InvalidStateError(DurableExecutionsError):
    """The object does not allow this call in its present state.

    Holdfast does not raise it; the class exists because AWS's SDK has it."""

    code = "invalid_state_error"


class OrderedLockError(DurableExecutionsError):
    """An earlier holder of the lock failed, so later holders cannot get the lock. (Holdfast does not raise it; AWS's SDK has the class.)"""

    code = "ordered_lock_error"

    def __init__(self, message: str, source_exception: Exception | None = None) -> None:
        super().__init__(f"{message} {type(source_exception).__name__}: {source_exception}" if source_exception else message)
        self.source_exception = source_exception


class UnrecoverableError(DurableExecutionsError):
    """The invocation cannot continue."""

    code = "unrecoverable_error"

    def __init__(self, message: str, termination_reason: TerminationReason) -> None:
        super().__init__(message)
        self.termination_reason = termination_reason


class ExecutionError(UnrecoverableError):
    """The execution fails now and is not retried.

    The author's code may raise it, and Holdfast raises it. Its subclass NonDeterministicExecutionError quarantines the execution instead,
    unless the function has `on_mismatch="fail"` or runs in a Lambda runtime.
    """

    code = "execution_error"
    tells_line = False
    """Whether the message already names the line of the author's code."""

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.EXECUTION_ERROR) -> None:
        super().__init__(message, termination_reason)


class NonDeterministicExecutionError(ExecutionError):
    """The code does not match the recorded history of the execution."""

    code = "non_deterministic_execution_error"
    tells_line = True

    def __init__(self, message: str, step_id: str | None = None) -> None:
        super().__init__(message, TerminationReason.NON_DETERMINISTIC_EXECUTION)
        self.step_id = step_id


class InvocationError(UnrecoverableError):
    """This invocation fails.

    If the error leaves the handler, the engine (on AWS: Lambda) invokes the function again; if not `is_retryable()`, the execution fails.
    """

    code = "invocation_error"

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.INVOCATION_ERROR) -> None:
        super().__init__(message, termination_reason)

    def is_retryable(self) -> bool:
        """Whether another invocation may succeed. Subclasses may return False."""
        return True


class StepInterruptedError(InvocationError):
    """An attempt of a step began, and its end was not recorded."""

    code = "step_interrupted_error"

    def __init__(self, message: str, step_id: str | None = None) -> None:
        super().__init__(message, TerminationReason.STEP_INTERRUPTED)
        self.step_id = step_id


class RetryableSerDesError(InvocationError):
    """A value could not be written or read this time; another invocation may succeed.

    A `SerDes` that uses a network or a disk may raise it, for example if a server does not answer. It ends the invocation, also from a
    branch of `map` or `parallel`. A step with AT_MOST_ONCE_PER_RETRY is already recorded as started, so in the next invocation this attempt
    counts as interrupted: the retry strategy of the step gets a StepInterruptedError. Inside `with_retry`, the strategy
    of `with_retry` is asked first, and may decide on another attempt in place of the end of the invocation.
    """

    code = "retryable_ser_des_error"

    def __init__(self, message: str, termination_reason: TerminationReason = TerminationReason.SERIALIZATION_ERROR) -> None:
        super().__init__(message, termination_reason)


class BotoClientError(InvocationError):
    """A call to the Lambda service failed; `error_category` says whether another invocation can help."""

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
        """The error of this class for an exception that boto3 raised. An exception without a `response`, such as a lost connection, gets
        the category INVOCATION: another invocation may succeed."""
        response: Mapping[str, Any] = getattr(exception, "response", {})
        error, metadata = response.get("Error"), response.get("ResponseMetadata")
        return cls(str(exception), error_category=categorize(error, metadata), error=error, response_metadata=metadata)

    def is_retryable(self) -> bool:
        """Whether another invocation may succeed."""
        return self.error_category is DurableApiErrorCategory.INVOCATION

    is_retriable = is_retryable

    def build_logger_extras(self) -> dict[str, Any]:
        """For a log line: the `Error` and the `ResponseMetadata` of the answer that the service gave. A part that the answer does not have
        is left out."""
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
    """An error that a checkpoint can store: its whole content is in the four fields that a checkpoint has for an error."""

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
    """A value cannot be serialized or deserialized. A step that raises it is not tried again."""

    code = "ser_des_error"


class DurableOperationError(_RecordedError):
    """A durable operation failed and is not tried again.

    The class names the kind of operation. The four fields describe the error inside it; only the `error_type` of a CallbackError is the
    name of its own class. `__cause__`, if set, is made from what is recorded, also in the first run: every replay gets the same error.
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
        """The error that these fields of a checkpoint describe. Its class is the registered class whose `wire_name` is `error_type`; if
        there is none, DurableOperationError."""
        known = _KNOWN.get(error_type or "", DurableOperationError)
        return known(message=message, error_type=error_type, data=data, stack_trace=stack_trace)


class StepError(DurableOperationError):
    """The step failed."""

    code = "step_error"


class InvokeError(DurableOperationError):
    """The invoked function failed, timed out or was stopped.

    It is also raised if the function could not be started, for example because there is no function with this name.
    """

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
    """The outside system answered the callback with a failure."""

    code = "callback_external_error"


class CallbackTimeoutError(CallbackError):
    """The callback was not answered in time, or its heartbeats stopped."""

    code = "callback_timeout_error"


class CallbackSubmitterError(CallbackError):
    """The submitter of the callback failed, so the callback's id may not have been handed over."""

    code = "callback_submitter_error"


_KNOWN: dict[str, type[DurableOperationError]] = {}


def register_operation_error(error_cls: type[DurableOperationError]) -> None:
    """Register an error class, so that a replay can make an error of this class again. The class must accept `message`, `error_type`,
    `data` and `stack_trace` as keyword arguments."""
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
