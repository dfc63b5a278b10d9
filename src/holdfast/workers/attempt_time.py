"""The time of one attempt. Its clock is stopped while a call of the attempt waits for room in a shared budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.model.clock import monotonic


class StoppableBody(Protocol):
    """A body whose time limit can be stopped."""

    def stop_time(self) -> None:
        """Stop the clock of the body's time limit."""
        ...

    def go_on(self) -> None:
        """Let the clock of the body's time limit run again, from where it stopped."""
        ...


class AttemptTime:
    """How long an attempt may take, and how long it has taken."""

    def __init__(self, seconds: float = 0.0, used_ms: int = 0) -> None:
        """`seconds` is how long the attempt may take from now on. `used_ms` is how many milliseconds it used before it waited for a person;
        0 if it did not wait."""
        self.body: StoppableBody | None = None
        self._began = monotonic()
        self._seconds = seconds
        self._used_ms = used_ms
        self._stopped = 0.0
        self._waiting = 0
        self._since = 0.0

    @property
    def stopped(self) -> float:
        """For how many seconds the clock was stopped so far."""
        return self._stopped + (monotonic() - self._since if self._waiting else 0.0)

    @property
    def deadline(self) -> float:
        """When the attempt's time limit ends, in seconds of `monotonic`. While the time is stopped, this moment moves into the future."""
        return self._began + self._seconds + self.stopped

    @property
    def left(self) -> float:
        """How many seconds of the attempt's time are left; 0 if its time is over."""
        return max(0.0, self.deadline - monotonic())

    @property
    def used_ms(self) -> int:
        """How many milliseconds the attempt has used, without the time in which its clock was stopped, and including what it used before it
        waited for a person."""
        return self._used_ms + int((monotonic() - self._began - self.stopped) * 1000)

    @contextmanager
    def while_stopped(self) -> Iterator[None]:
        """Stop the attempt's time inside this block. If several calls are in such a block at once, the time runs again when the last one
        leaves it."""
        self._waiting += 1
        if self._waiting == 1:
            self._since = monotonic()
            if self.body is not None:
                self.body.stop_time()
        try:
            yield
        finally:
            stopped = self.stopped
            self._waiting -= 1
            if not self._waiting:
                self._stopped = stopped
                if self.body is not None:
                    self.body.go_on()
