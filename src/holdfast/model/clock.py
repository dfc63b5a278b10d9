"""Clocks. Other modules do not read the machine's clock: they get a clock or a time as an argument, or call a function of this module."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A clock for the engine. Times are milliseconds since 1970-01-01 UTC."""

    def now(self) -> int: ...

    @property
    def virtual(self) -> bool:
        """Whether time stands still until the engine or a test moves it."""
        ...

    def skip_to(self, at: int) -> None:
        """Tell the clock that the engine has nothing to do before the time `at`. A virtual clock may move to `at`."""
        ...


class SystemClock:
    """The machine's own time."""

    virtual = False

    def now(self) -> int:
        """The time of day, in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def skip_to(self, at: int) -> None:
        """Do nothing: real time moves by itself."""


class VirtualClock:
    """A clock that stands still while the engine works. When the engine has nothing to do and `skipping` is true, the clock moves to the
    engine's next timer or schedule. So a wait of a year takes no real time."""

    virtual = True

    def __init__(self, now: int = 1_767_225_600_000, *, skipping: bool = True) -> None:
        self._now = now
        self.skipping = skipping
        """Whether `skip_to` moves the clock. If not, only `move_to` moves it, which a test calls."""

    def now(self) -> int:
        """The time of the clock, in milliseconds since 1970-01-01 UTC."""
        return self._now

    def skip_to(self, at: int) -> None:
        """If `skipping` is true, move the clock to `at`: the time of the engine's next timer or schedule."""
        if self.skipping:
            self.move_to(at)

    def move_to(self, at: int) -> None:
        """Move the clock to a later time; an earlier time changes nothing."""
        self._now = max(self._now, at)


def monotonic() -> float:
    """Seconds for measuring how long something took. They are not a time of day."""
    return _monotonic()


def idle_seconds() -> float:
    """For how many seconds this thread did not use the CPU, counted from an arbitrary start. The difference of two calls is the time that
    the thread waited between them."""
    return _monotonic() - _computed()


# Tests replace these two, to decide how long things take.
_monotonic: Callable[[], float] = time.monotonic
_computed: Callable[[], float] = time.thread_time
