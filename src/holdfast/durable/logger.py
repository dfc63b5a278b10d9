"""A logger that adds the execution and the operation to each line, as `extra` fields.

While a context replays, its logger writes nothing, because the first run wrote the same lines. Each attempt of a step gets a logger, and
most loggers are never used. So the fields are made only when the first line is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

from holdfast.durable.protocols import LoggerInterface

# Two frames of Holdfast are between user code and the standard library, which must report the user's line.
_STACK_LEVEL = 3


class HasExecutionArn(Protocol):
    """An execution with its ARN: what a logger needs of it."""

    @property
    def durable_execution_arn(self) -> str: ...


class HasIdentity(Protocol):
    """An operation with its ids and its name: what a logger needs of it."""

    @property
    def operation_id(self) -> str: ...

    @property
    def parent_id(self) -> str | None: ...

    @property
    def name(self) -> str | None: ...


@dataclass(frozen=True)
class LogInfo:
    """The execution and the operation to which a log line belongs. `parent_id` is the id of the context in which the operation is; for a
    line that belongs to no operation, the id of the context itself. A field without a value is None."""

    execution_state: HasExecutionArn
    parent_id: str | None = None
    operation_id: str | None = None
    name: str | None = None
    attempt: int | None = None

    @classmethod
    def from_operation_identifier(cls, execution_state: HasExecutionArn, op_id: HasIdentity, attempt: int | None = None) -> LogInfo:
        """The LogInfo for lines of this operation. `attempt` is the number of its attempt; None if it has none."""
        return cls(execution_state, op_id.parent_id, op_id.operation_id, op_id.name, attempt)

    def with_parent_id(self, parent_id: str) -> LogInfo:
        """A copy of this LogInfo with this `parent_id`."""
        return replace(self, parent_id=parent_id)

    def to_extra(self) -> dict[str, object]:
        """The `extra` fields of a log record, without those that have no value. The name is in `operationName`, because the standard
        library uses `name` itself."""
        extra: dict[str, object] = {"executionArn": self.execution_state.durable_execution_arn}
        if self.parent_id:
            extra["parentId"] = self.parent_id
        if self.name:
            extra["operationName"] = self.name
        if self.attempt is not None:
            extra["attempt"] = self.attempt
        if self.operation_id:
            extra["operationId"] = self.operation_id
        return extra


def _never() -> bool:
    return False


class Logger(LoggerInterface):
    """Wraps any logger: adds `default_extra` to each line, and writes nothing while `is_replaying()` is true."""

    def __init__(self, logger: LoggerInterface, default_extra: Mapping[str, object], is_replaying: Callable[[], bool] = _never) -> None:
        self._logger = logger
        self._extra: Mapping[str, object] | LogInfo | Callable[[], LogInfo] = default_extra
        self._is_replaying = is_replaying

    @classmethod
    def from_log_info(cls, logger: LoggerInterface, info: LogInfo, is_replaying: Callable[[], bool] = _never) -> Logger:
        """A logger whose lines have the fields of `info`. It writes nothing while `is_replaying()` is true."""
        made = cls(logger, {}, is_replaying)
        made._extra = info
        return made

    def with_log_info(self, info: LogInfo) -> Logger:
        """A logger like this one, but with the fields of `info`."""
        return Logger.from_log_info(self._logger, info, self._is_replaying)

    @classmethod
    def where(cls, logger: LoggerInterface, info: Callable[[], LogInfo], is_replaying: Callable[[], bool]) -> Logger:
        """A logger that calls `info` once, when it writes its first line. All its lines have the fields of that LogInfo. It writes nothing
        while `is_replaying()` is true."""
        made = cls(logger, {}, is_replaying)
        made._extra = info
        return made

    def with_is_replaying(self, is_replaying: Callable[[], bool]) -> Logger:
        """A logger like this one, but with another `is_replaying`: it writes nothing while that function returns True."""
        made = Logger(self._logger, {}, is_replaying)
        made._extra = self._extra
        return made

    def get_logger(self) -> LoggerInterface:
        """The logger that this one wraps."""
        return self._logger

    def debug(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log at DEBUG. `extra` has further fields for this line."""
        self._log("debug", logging.DEBUG, msg, args, extra)

    def info(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log at INFO. `extra` has further fields for this line."""
        self._log("info", logging.INFO, msg, args, extra)

    def warning(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log at WARNING. `extra` has further fields for this line."""
        self._log("warning", logging.WARNING, msg, args, extra)

    def error(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log at ERROR. `extra` has further fields for this line."""
        self._log("error", logging.ERROR, msg, args, extra)

    def exception(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log at ERROR, with the exception that is being handled and its traceback. `extra` has further fields for this line."""
        self._log("exception", logging.ERROR, msg, args, extra)

    def _log(self, verb: str, level: int, msg: object, args: tuple[object, ...], extra: Mapping[str, object] | None) -> None:
        if self._is_replaying():
            return
        logger = self._logger
        # `type()` and not isinstance: a mock pretends to be a Logger, but accepts only the arguments of the protocol.
        if not issubclass(type(logger), logging.Logger):
            getattr(logger, verb)(msg, *args, extra=self._merged(extra))
        elif cast(logging.Logger, logger).isEnabledFor(level):
            getattr(logger, verb)(msg, *args, extra=self._merged(extra), stacklevel=_STACK_LEVEL)

    def _merged(self, extra: Mapping[str, object] | None) -> dict[str, object]:
        known = self._extra
        if not isinstance(known, Mapping):
            known = self._extra = (known if isinstance(known, LogInfo) else known()).to_extra()
        return {**known, **(extra or {})}
