"""The loop watch: notices an event loop that is blocked. While one call blocks the loop, no timer fires and no execution continues.

The poller's thread looks at the loop's thread four times a second. If the loop waits for something to do, nothing more happens, so an idle
engine is not woken. Otherwise it asks the loop for an answer, and logs a message if the loop has not answered for a second.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import sysconfig
import threading
from asyncio import runners
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

from holdfast.model.clock import monotonic

log = logging.getLogger("holdfast.engine.loop")

BLOCKED_SECONDS: Final = 1.0
_CHECKS: Final = 10
"""The watch warns only if it has checked at least this many times since it asked the loop for an answer. Fewer checks in that time mean
that the whole process slept, and not that the loop was blocked."""
_SELDOM: Final = 5
"""While the loop owes no answer, only every fifth check reads the stack of the loop's thread, because that takes longer than everything
else in a check."""
_FRAMES: Final = 12
_RESTING: Final = (selectors.__file__, runners.__file__)
"""The thread of a loop that waits is in the code of one of these files: Python's own loop waits in a selector; a loop that is written in C
waits below the call that runs it."""
_LOOP: Final = str(Path(asyncio.__file__).parent)
_PYTHON: Final = sysconfig.get_path("stdlib")
_OURS: Final = str(Path(__file__).resolve().parents[1])


class LoopWatch:
    """Watches one loop from another thread. Must be made on the loop's own thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        now: Callable[[], float] = monotonic,
        frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
    ) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._now, self._frames = now, frames
        self._asked_at: float | None = None
        self._checks = 0
        self._told = False
        self._idle_checks = 0

    def check(self) -> None:
        """Check whether the loop runs. Each time that the loop is blocked for a second, log one message: a warning, or INFO if Holdfast's
        own code blocks it."""
        if self._asked_at is None:
            self._idle_checks = (self._idle_checks + 1) % _SELDOM
            if self._idle_checks:
                return
            frame = self._frames().get(self._thread)
            if frame is not None and frame.f_code.co_filename not in _RESTING:
                self._asked_at, self._checks, self._told = self._now(), 0, False
                self._loop.call_soon_threadsafe(self._answer)
            return
        self._checks += 1
        blocked = self._now() - self._asked_at
        if not self._told and blocked >= BLOCKED_SECONDS and self._checks >= _CHECKS:
            self._told = True
            self._tell(blocked)

    def _answer(self) -> None:
        self._asked_at = None

    def _tell(self, blocked: float) -> None:
        frame = self._frames().get(self._thread)
        stack = "".join(f"\n  {line}" for line in _stack(frame))
        log.log(
            logging.INFO if _is_our_own(frame) else logging.WARNING,
            "the event loop has been blocked for %.1f s: no timer fires and no other execution continues in this process. Code on the "
            "loop must await what takes long; write a step that blocks as a `def`, which runs on a thread. "
            "The loop is in (innermost first):%s",
            blocked,
            stack,
        )


def _is_our_own(frame: FrameType | None) -> bool:
    """Whether the loop is blocked in code that Holdfast itself called, for example by a slow disk. An author can do nothing about that, so
    the message is then logged as INFO and not as a warning."""
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):  # ours may be installed below Python's own folder
        if not frame.f_code.co_filename.startswith(_PYTHON):
            return False
        frame = frame.f_back
    return frame is not None


def _stack(frame: FrameType | None) -> Iterator[str]:
    """The innermost lines of the stack, at most 12, without those of asyncio itself."""
    count = 0
    while frame is not None and count < _FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_LOOP):
            yield f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
            count += 1
        frame = frame.f_back
