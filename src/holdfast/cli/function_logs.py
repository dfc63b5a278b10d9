"""Log lines of functions: what they log through `context.logger` is printed to stderr, unless their author configured logging."""

from __future__ import annotations

import logging
import sys
from typing import Final

from holdfast.cli.terminal import printable
from holdfast.durable import plain
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Arn


class FunctionLogHandler(logging.Handler):
    """Prints the log records of functions as lines: the execution, the operation, the message. From other loggers it prints only records of
    level WARNING or above, as Python does by default."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept records that name an execution (`context.logger` makes these), records of `holdfast.plain`, and all records of level
        WARNING or above."""
        said = hasattr(record, "executionArn") or record.name == plain.log.name
        return said or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record. It uses the current sys.stderr each time, because stderr may be redirected meanwhile."""
        try:
            text = f"{_place(record)}{self.format(record)}"
            print("\n".join(map(printable, text.splitlines())), file=sys.stderr)
        except Exception:
            self.handleError(record)


def _place(record: logging.LogRecord) -> str:
    arn = getattr(record, "executionArn", None)
    if arn is None:
        return ""
    try:
        execution = Arn.parse(str(arn))
    except HoldfastError:  # the author's own field with this name
        return ""
    attempt = getattr(record, "attempt", None)
    words = [
        f"{execution.function}/{execution.name}",
        str(getattr(record, "operationName", None) or ""),
        f"(attempt {attempt})" if isinstance(attempt, int) and attempt > 1 else "",
    ]
    level = "" if record.levelno == logging.INFO else f"{record.levelname}: "
    return f"{' '.join(word for word in words if word)}: {level}"


_LINES: Final = FunctionLogHandler(logging.DEBUG)


def print_function_logs() -> None:
    """Begin to print log lines. Call this after the functions are loaded. If their author configured logging, this changes nothing."""
    if not logging.getLogger().handlers:
        set_function_log_level()
        logging.lastResort = _LINES


def set_function_log_level() -> None:
    """Set the level of Python's root logger to INFO, if it still is WARNING, Python's default. With WARNING, the logs of functions in this
    process would have no records below a warning."""
    root = logging.getLogger()
    if root.level == logging.WARNING:
        root.setLevel(logging.INFO)
