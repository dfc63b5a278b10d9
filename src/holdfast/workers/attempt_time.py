"""The time of one attempt. It is stopped while one of its calls waits for room in a shared budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.model.clock import monotonic


class StoppableBody(Protocol):
    """A body whose time can be stopped."""

    def stop_time(self) -> None:
        """Stop the body's time."""
        ...

    def go_on(self) -> None:
        """Let the body's time run again, from where it stopped."""
        ...


class AttemptTime:
    """How long an attempt may take, and how long it has taken."""

    def __init__(self, seconds: float = 0.0, used_ms: int = 0) -> None:
        """`used_ms`: how much time the attempt used before it waited for a person."""
        self.body: StoppableBody | None = None
        self._began = monotonic()
        self._seconds = seconds
        self._used_ms = used_ms
        self._stopped = 0.0
        self._waiting = 0
        self._since = 0.0

    @property
    def stopped(self) -> float:
        """For how many seconds the time was stopped."""
        return self._stopped + (monotonic() - self._since if self._waiting else 0.0)

    @property
    def deadline(self) -> float:
        """When the attempt's time is over, as `monotonic` counts. It moves further away while the time is stopped."""
        return self._began + self._seconds + self.stopped

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.deadline - monotonic())

    @property
    def used_ms(self) -> int:
        """The milliseconds that were used, also before the attempt waited for a person."""
        return self._used_ms + int((monotonic() - self._began - self.stopped) * 1000)

    @contextmanager
    def while_stopped(self) -> Iterator[None]:
        """Stop the time of the attempt. Several calls may wait at the same time."""
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
