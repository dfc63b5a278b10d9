"""Exceptions that end the code of the handler, or of a branch, in this invocation. Durable calls raise them in the author's code. They
derive from BaseException, so that `except Exception` does not catch them. Do not catch them.

Users import them from exceptions.py, except ContinueAsNew.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from holdfast.model.clock import Clock, SystemClock

_WALL_CLOCK = SystemClock()


class BackgroundThreadError(BaseException):
    """This invocation ends here: no more checkpoints can be written, or a plugin stopped it. `source_exception` is the cause. Do not catch
    this exception."""

    code: ClassVar[str] = "background_thread_error"

    def __init__(self, message: str, source_exception: Exception) -> None:
        super().__init__(message)
        self.source_exception = source_exception


class SuspendExecution(BaseException):
    """The execution is suspended and continues later. This is not an error: do not catch it.

    Around durable calls catch `Exception` or a named error: a bare `except:` would also catch the suspension. A `finally` runs at every
    suspension, and must not make durable calls.
    """

    code: ClassVar[str] = "suspend_execution"

    def __init__(self, message: str) -> None:
        super().__init__(message)


class TimedSuspendExecution(SuspendExecution):
    """The execution is suspended until `scheduled_timestamp` (seconds since the epoch). This is not an error: do not catch it.

    Holdfast does not raise it; the class exists because AWS's SDK has it.
    """

    code = "timed_suspend_execution"

    def __init__(self, message: str, scheduled_timestamp: float) -> None:
        super().__init__(message)
        self.scheduled_timestamp = scheduled_timestamp

    @classmethod
    def from_delay(cls, message: str, delay_seconds: int, *, clock: Clock = _WALL_CLOCK) -> TimedSuspendExecution:
        """The exception for a suspension of this many seconds from now."""
        return cls(message, scheduled_timestamp=clock.now() / 1000 + delay_seconds)

    @classmethod
    def from_datetime(cls, message: str, datetime_timestamp: datetime) -> TimedSuspendExecution:
        """The exception for a suspension until this moment."""
        return cls(message, scheduled_timestamp=datetime_timestamp.timestamp())


class ContinueAsNew(BaseException):
    """This execution ends, and a new execution with this input (JSON text) continues the work. This is not an error: do not catch it."""

    code: ClassVar[str] = "continue_as_new"

    def __init__(self, input: str) -> None:
        super().__init__("The execution continues as a new one.")
        self.input = input


class OrphanedChildException(BaseException):
    """The `map` or `parallel` of this branch has ended before the branch, so the branch ends too. Do not catch this exception.

    Holdfast does not raise it; the class exists because AWS's SDK has it.
    """

    code: ClassVar[str] = "orphaned_child_exception"

    def __init__(self, message: str, operation_id: str) -> None:
        super().__init__(message)
        self.operation_id = operation_id
