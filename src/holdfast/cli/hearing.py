"""Hearing functions: what they log through `context.logger` goes to stderr, unless their author set up logging."""

from __future__ import annotations

import logging
import sys
from typing import Final

from holdfast.cli.terminal import printable
from holdfast.durable import plain
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Arn


class PlainLines(logging.Handler):
    """Lines for people: the execution, the operation, the message. Of other loggers only warnings, as Python does by itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        """What functions say, and every warning."""
        said = hasattr(record, "executionArn") or record.name == plain.log.name
        return said or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; the stream is asked for each time, because it may be redirected meanwhile."""
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
    except HoldfastError:  # an author's own field of that name
        return ""
    attempt = getattr(record, "attempt", None)
    words = [
        f"{execution.function}/{execution.name}",
        str(getattr(record, "operationName", None) or ""),
        f"(attempt {attempt})" if isinstance(attempt, int) and attempt > 1 else "",
    ]
    level = "" if record.levelno == logging.INFO else f"{record.levelname}: "
    return f"{' '.join(word for word in words if word)}: {level}"


_LINES: Final = PlainLines(logging.DEBUG)


def hear_functions() -> None:
    """Call this when the functions are loaded. Where their author set up logging, that decides, now and later."""
    root = logging.getLogger()
    if root.handlers:
        return
    if root.level == logging.WARNING:  # as Python leaves it
        root.setLevel(logging.INFO)
    logging.lastResort = _LINES
