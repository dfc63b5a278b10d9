"""AWS Lambda's names: errors in the form of a checkpoint, and Holdfast's enumerations under the names that AWS's SDK gives them."""

from __future__ import annotations

import builtins
from collections.abc import MutableMapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from holdfast.durable.author_lines import refused_at
from holdfast.durable.exceptions import DurableOperationError, SerDesError, wire_name
from holdfast.model.operations import Action as OperationAction
from holdfast.model.operations import Failure
from holdfast.model.operations import Status as OperationStatus
from holdfast.model.operations import SubType as OperationSubType
from holdfast.model.operations import Type as OperationType

__all__ = [
    "CallbackTimeoutType",
    "ErrorObject",
    "InvocationStatus",
    "OperationAction",
    "OperationStatus",
    "OperationSubType",
    "OperationType",
]

_SERDES_ERROR = wire_name(SerDesError)


class CallbackTimeoutType(Enum):
    """The error type of a callback that timed out: its timeout passed, or its heartbeats stopped."""

    TIMEOUT = "Callback.Timeout"
    HEARTBEAT = "Callback.Heartbeat"


class InvocationStatus(Enum):
    """How an invocation ended. Only plugins see RETRY. A function in a Lambda runtime does not send it to the service: it raises an error
    instead, so that the service invokes it again."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PENDING = "PENDING"
    RETRY = "RETRY"


def _text(exception: BaseException) -> str:
    try:
        return str(exception)
    except Exception as worse:  # a user's __str__ is user code
        return f"<{type(exception).__name__} whose text could not be made: {type(worse).__name__}>"


@dataclass(frozen=True)
class ErrorObject:
    """An error in a checkpoint: four fields, each of which may be missing."""

    message: str | None
    type: str | None
    data: str | None
    stack_trace: list[str] | None

    @classmethod
    def from_dict(cls, data: MutableMapping[str, Any]) -> ErrorObject:
        """The error that `data` describes, in the JSON form of the Lambda service (`ErrorMessage`, `ErrorType`, `ErrorData`, `StackTrace`).
        A missing field becomes None."""
        return cls(data.get("ErrorMessage"), data.get("ErrorType"), data.get("ErrorData"), data.get("StackTrace"))

    @classmethod
    def from_exception(cls, exception: BaseException) -> ErrorObject:
        """The ErrorObject for an exception. `data` and `stack_trace` are kept only if the exception is a SerDesError or a
        DurableOperationError. The Python traceback of the exception is not stored. If Holdfast's own checks raised the exception, the
        message also names the author's line."""
        if isinstance(exception, SerDesError):
            # A user's subclass is recorded as SerDesError: a replay cannot make the subclass, and must raise the same error.
            return cls(exception.message, _SERDES_ERROR, exception.data, exception.stack_trace)
        if isinstance(exception, DurableOperationError):
            return cls(exception.message, wire_name(exception), exception.data, exception.stack_trace)
        return cls(f"{_text(exception)}{refused_at(exception, exception)}", wire_name(exception), None, None)

    @classmethod
    def from_message(cls, message: str) -> ErrorObject:
        """An error that has only a message."""
        return cls(message, None, None, None)

    @classmethod
    def from_failure(cls, failure: Failure) -> ErrorObject:
        """The error that a `Failure` of holdfast.model describes."""
        return cls(failure.message, failure.type, failure.data, None if failure.stack_trace is None else list(failure.stack_trace))

    def to_failure(self) -> Failure:
        """This error as a `Failure` of holdfast.model."""
        return Failure(self.message, self.type, self.data, None if self.stack_trace is None else tuple(self.stack_trace))

    def to_dict(self) -> MutableMapping[str, Any]:
        """This error in the JSON form of the Lambda service; a field that is None is left out."""
        said = {"ErrorMessage": self.message, "ErrorType": self.type, "ErrorData": self.data, "StackTrace": self.stack_trace}
        return {name: value for name, value in said.items() if value is not None}

    def to_durable_operation_error(self) -> DurableOperationError:
        """The exception that this object describes. Its class is the class that is registered for the object's `type`; if there is none,
        DurableOperationError."""
        return DurableOperationError.from_error_fields(self.type, self.message, self.data, self.stack_trace)

    def raise_as_operation_error(self, operation_error_cls: builtins.type[DurableOperationError]) -> NoReturn:
        """Raise an error of the class `operation_error_cls`; its cause is the exception that this object describes. If that is a
        SerDesError, raise SerDesError instead. The first run and a replay both use this method, so user code gets the same error in
        both."""
        raised = SerDesError if self.type == _SERDES_ERROR else operation_error_cls
        raise raised(
            message=self.message, error_type=self.type, data=self.data, stack_trace=self.stack_trace
        ) from self.to_durable_operation_error()
