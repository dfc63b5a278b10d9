"""Time. Only this module asks the machine for it; everywhere else time is an argument."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the epoch, and whether they pass by themselves."""

    def now(self) -> int: ...

    @property
    def virtual(self) -> bool:
        """A virtual clock stands still until the engine or a test moves it."""
        ...

    def skip_to(self, at: int) -> None:
        """Tell the clock that the engine has nothing to do before `at`. A virtual clock may move there."""
        ...


class SystemClock:
    """The machine's own time."""

    virtual = False

    def now(self) -> int:
        """The wall clock in milliseconds."""
        return time.time_ns() // 1_000_000

    def skip_to(self, at: int) -> None:
        """Real time moves by itself."""


class VirtualClock:
    """Time that moves only when the engine has nothing left to do: a year's wait takes no time."""

    virtual = True

    def __init__(self, now: int = 1_767_225_600_000, *, skipping: bool = True) -> None:
        self._now = now
        self.skipping = skipping
        """Whether the clock moves to the engine's next timer by itself. If not, a test must call `move_to`."""

    def now(self) -> int:
        """The time of the clock."""
        return self._now

    def skip_to(self, at: int) -> None:
        """Go to the engine's next timer, if the clock moves by itself."""
        if self.skipping:
            self.move_to(at)

    def move_to(self, at: int) -> None:
        """Move the clock to a later time; an earlier time changes nothing."""
        self._now = max(self._now, at)


def monotonic() -> float:
    """Seconds for measuring how long something took. They are not a time of day."""
    return _monotonic()


def idle_seconds() -> float:
    """Seconds, from an arbitrary start, in which this thread did not compute: differences tell how long it waited."""
    return _monotonic() - _computed()


_monotonic: Callable[[], float] = time.monotonic
_computed: Callable[[], float] = time.thread_time


@contextmanager
def measured_by(seconds: Callable[[], float]) -> Iterator[None]:
    """Replace the clock of `monotonic` in the whole process, so that a simulation decides how long things take and a slow machine changes
    nothing."""
    global _monotonic, _computed
    before = _monotonic, _computed
    _monotonic = _computed = seconds
    try:
        yield
    finally:
        _monotonic, _computed = before
