"""The terms of an execution: its limits, fixed when it starts."""

from __future__ import annotations

import msgspec

from holdfast.model.errors import InvalidParameter

DAY_SECONDS = 86_400
MAX_TIMEOUT_SECONDS = 366 * DAY_SECONDS
MAX_RETENTION_DAYS = 36_500
"""The longest retention: about a hundred years. AWS keeps closed executions for at most 90 days."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The limits of an execution, fixed when it starts."""

    timeout_seconds: int = MAX_TIMEOUT_SECONDS
    """After how many seconds the execution times out. They are counted from its start; if it was enqueued, from its first admission."""
    retention_days: int = 14
    """For how many days the execution is kept after it is closed."""
    max_operations: int = 1_000_000
    """An execution with more operations than this fails. It is a guard against a loop that never ends, not a limit of the engine."""
    max_bytes: int = 1 << 30
    """An execution with more bytes of stored payloads than this fails. It is a guard against a loop that never ends, not a limit of the
    engine."""

    def checked(self) -> Terms:
        """These terms themselves. Raises InvalidParameter if a value is not allowed."""
        limits = (
            ("execution_timeout", self.timeout_seconds, MAX_TIMEOUT_SECONDS),
            ("retention_days", self.retention_days, MAX_RETENTION_DAYS),
        )
        for what, value, most in (*limits, ("max_operations", self.max_operations, None), ("max_bytes", self.max_bytes, None)):
            if type(value) is not int or value < 1 or (most is not None and value > most):
                upto = "" if most is None else f" up to {most:,}"
                raise InvalidParameter(f"{what} is {value!r}; use a whole number from 1{upto}.")
        return self
