"""Health: whether the disk under the store works, as far as this engine knows.

While it does not, the engine pauses. Nothing is claimed, what invocations have to write is kept and their callers wait, and who asks
for something new is refused. The watch tries again once a second (scheduler.py), and everything goes on when the disk takes it. People
are told once when a pause begins and once when it is surely over: a disk that takes this and not that is ill all the time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from holdfast.model.clock import monotonic
from holdfast.model.errors import DiskFailed

log = logging.getLogger("holdfast.engine")

_SURE_SECONDS: Final = 2.0


class Health:
    """What is known of one engine's disk."""

    def __init__(self, runner: str, well: Callable[[], object]) -> None:
        self._runner = runner
        self._well = well
        """Called, from any thread, when a pause is over."""
        self._changing = threading.Lock()
        self._fell_at = self._rose_at = 0.0
        self._told = False
        """People know that it is ill, and not yet that it is well."""
        self.trouble: DiskFailed | None = None
        """Why the engine pauses, if it does."""

    def fell(self, trouble: DiskFailed) -> None:
        """The disk did not take or give something."""
        with self._changing:
            self.trouble = trouble
            if not self._told:
                self._told, self._fell_at = True, monotonic()
                log.error("%s pauses until its store works again: %s", self._runner, trouble)

    def rose(self) -> None:
        """The disk took something."""
        with self._changing:
            if self.trouble is not None:
                self.trouble, self._rose_at = None, monotonic()
                self._well()

    def tell(self) -> None:
        """Tell people that it is over, when that is sure; to be called again and again."""
        with self._changing:
            if self._told and self.trouble is None and monotonic() - self._rose_at >= _SURE_SECONDS:
                self._told = False
                log.warning("%s goes on: its store works again after %.0f s", self._runner, self._rose_at - self._fell_at)
