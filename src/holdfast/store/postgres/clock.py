"""The processes of a fleet use the database's time, because leases and timers of many machines are compared with each other."""

from __future__ import annotations

from holdfast.model.clock import Clock


class DatabaseClock:
    """The database's time: the machine's own clock, corrected each time it is compared with the database's clock, for example when a lease
    is renewed."""

    virtual = False

    def __init__(self, machine: Clock) -> None:
        self.machine = machine
        self._ahead = 0

    def now(self) -> int:
        return self.machine.now() + self._ahead

    def skip_to(self, at: int) -> None:
        """Do nothing: only a virtual clock can be moved."""

    def compare(self, before: int, theirs: int, after: int) -> None:
        """Correct the clock. The database was asked for its time and answered `theirs`; the machine's clock said `before` right before, and
        `after` right after. All are milliseconds. If `theirs` lies between `before` and `after`, the machine's clock needs no
        correction."""
        self._ahead = 0 if before <= theirs <= after else theirs - (before + after) // 2
