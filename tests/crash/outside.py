"""The world outside a worker process: a log of every body that ran, and a file that keeps bodies from coming back.

What is written here has happened, whatever becomes of the process.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from holdfast.model.ids import Arn

POLL = 0.002


class Outside:
    """One line for each body that ran, written at its beginning."""

    def open(self, log: str, hold: str) -> None:
        """Where this process tells what it does, and which file holds it up."""
        self._file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._hold = Path(hold)

    def tell(self, execution: str, step: str, attempt: int = 1, **more: Any) -> None:
        """One line, in one write: lines of two processes do not mix."""
        line = {"x": execution, "step": step, "attempt": attempt, "pid": os.getpid(), "at": time.time_ns() // 1_000_000, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def hold(self, seconds: float) -> None:
        """Come back when the file is gone, or after so many seconds."""
        until = time.monotonic() + seconds
        while self._hold.exists() and time.monotonic() < until:
            time.sleep(POLL)


outside = Outside()
"""The one of this process."""


def who(context: Any) -> str:
    """The name of the execution that a context belongs to: its lines in the log carry it."""
    return Arn.parse(context.execution_context.durable_execution_arn).name
