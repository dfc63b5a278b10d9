"""Log lines of functions: what they log through `context.logger` is printed to stderr, unless their author configured logging."""

from __future__ import annotations

import atexit
import contextlib
import logging
import queue
import sys
import threading

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
            self.put("\n".join(map(printable, text.splitlines())))
        except Exception:
            self.handleError(record)

    def put(self, text: str) -> None:
        """Print a text."""
        print(text, file=sys.stderr)


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


class FunctionLogPrinter(FunctionLogHandler):
    """Prints the records in a thread, so that no function waits for a program that does not read stderr. If too many lines wait, further
    lines are dropped, and a line says how many."""

    def __init__(self, most: int = 10_000) -> None:
        super().__init__(logging.DEBUG)
        self._texts: queue.Queue[str] = queue.Queue(most)
        self._dropped = 0
        threading.Thread(target=self._print, name="holdfast-function-logs", daemon=True).start()
        atexit.register(self._finish)

    def put(self, text: str) -> None:
        """Hand a text to the thread, or drop it."""
        try:
            self._texts.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def _print(self) -> None:
        while True:
            text = self._texts.get()
            with contextlib.suppress(OSError, ValueError):  # stderr is closed
                print(text, file=sys.stderr)
                if self._dropped:
                    dropped, self._dropped = self._dropped, 0
                    print(f"{dropped} lines of functions were not printed: stderr was not read fast enough", file=sys.stderr)
            self._texts.task_done()

    def _finish(self) -> None:
        """Wait until the lines are printed, but at most a second."""
        with self._texts.all_tasks_done:
            self._texts.all_tasks_done.wait_for(lambda: not self._texts.unfinished_tasks, timeout=1)


def print_function_logs(handler: FunctionLogHandler | None = None) -> None:
    """Begin to print log lines with this handler; None: each line is printed before the function goes on. Call this after the functions are
    loaded. If their author configured logging, this changes nothing."""
    if not logging.getLogger().handlers:
        set_function_log_level()
        logging.lastResort = handler or FunctionLogHandler(logging.DEBUG)


def set_function_log_level() -> None:
    """Set the level of Python's root logger to INFO, if it still is WARNING, Python's default. With WARNING, the logs of functions in this
    process would have no records below a warning."""
    root = logging.getLogger()
    if root.level == logging.WARNING:
        root.setLevel(logging.INFO)
