"""Time in a fleet: the database's decides, because leases and timers of many machines are compared with each other."""

from __future__ import annotations

from holdfast.model.clock import Clock


class DatabaseClock:
    """The database's time, read through the machine's own clock and compared with it now and then."""

    virtual = False

    def __init__(self, machine: Clock) -> None:
        self.machine = machine
        self._ahead = 0

    def now(self) -> int:
        """Milliseconds since the epoch, as the database counts them."""
        return self.machine.now() + self._ahead

    def skip_to(self, at: int) -> None:
        """Real time moves by itself."""

    def compare(self, before: int, theirs: int, after: int) -> None:
        """The database said `theirs` while the machine's clock went from `before` to `after`."""
        self._ahead = 0 if before <= theirs <= after else theirs - (before + after) // 2
