"""Exceptions that end an invocation from inside. They are no errors, so none is an `Exception`: do not catch them.

Users import them from exceptions.py.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from holdfast.model.clock import Clock, SystemClock

_WALL_CLOCK = SystemClock()


class BackgroundThreadError(BaseException):
    """Checkpoints can no longer be written, so this invocation ends here. Do not catch it."""

    code: ClassVar[str] = "background_thread_error"

    def __init__(self, message: str, source_exception: Exception) -> None:
        super().__init__(message)
        self.source_exception = source_exception


class SuspendExecution(BaseException):
    """The execution is suspended and will come back. Not an error: let it pass.

    Around durable calls catch `Exception` or a named error, never everything: a bare `except:` would swallow the suspension.
    A `finally` runs at every suspension, and may not make durable calls.
    """

    code: ClassVar[str] = "suspend_execution"

    def __init__(self, message: str) -> None:
        super().__init__(message)


class TimedSuspendExecution(SuspendExecution):
    """The execution is suspended until `scheduled_timestamp` (seconds since the epoch). Not an error: let it pass."""

    code = "timed_suspend_execution"

    def __init__(self, message: str, scheduled_timestamp: float) -> None:
        super().__init__(message)
        self.scheduled_timestamp = scheduled_timestamp

    @classmethod
    def from_delay(cls, message: str, delay_seconds: int, *, clock: Clock = _WALL_CLOCK) -> TimedSuspendExecution:
        """Suspend for this many seconds from now."""
        return cls(message, scheduled_timestamp=clock.now() / 1000 + delay_seconds)

    @classmethod
    def from_datetime(cls, message: str, datetime_timestamp: datetime) -> TimedSuspendExecution:
        """Suspend until this moment."""
        return cls(message, scheduled_timestamp=datetime_timestamp.timestamp())


class ContinueAsNew(BaseException):
    """This execution ends here and goes on as a new one. Not an error: do not catch it."""

    code: ClassVar[str] = "continue_as_new"

    def __init__(self, input: str) -> None:
        super().__init__("The execution continues as a new one.")
        self.input = input


class OrphanedChildException(BaseException):
    """The map or parallel this branch belongs to has ended without it, so the branch ends too. Let it pass."""

    code: ClassVar[str] = "orphaned_child_exception"

    def __init__(self, message: str, operation_id: str) -> None:
        super().__init__(message)
        self.operation_id = operation_id
