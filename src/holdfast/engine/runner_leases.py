"""Runner leases: a runner renews its own lease while it lives, and finds the runners that have died, because their leases are over. With
SQLite the kernel also says which processes have ended, at once (store/sqlite/presence.py).

The machine slept. All leases are over, also those of living runners. So a runner that has just begun, or that last looked for dead runners
more than five seconds ago, believes only the kernel until every living runner has had time to renew its lease.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.clock import Clock, monotonic
from holdfast.store.seam import RunnerStore

LEASE_MS: Final = 10_000
_VIRTUAL_LEASE_MS: Final = 10**15
"""Under a virtual clock a year may pass between two renewals, so the lease never runs out."""
RENEWAL_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 1.0
"""A runner looks for dead runners at most once in this time."""
ASLEEP_MS: Final = LEASE_MS // 2
"""More time than this between two looks for dead runners means that this process slept, or that the clock was set."""
AWAKE_SECONDS: Final = RENEWAL_SECONDS + LOOK_SECONDS
"""A runner relies on the leases of others only after it was awake this long: by then every living runner has renewed its lease."""


class RunnerLeases:
    """The lease of one runner, and what this runner knows about the leases of others."""

    def __init__(self, store: RunnerStore, clock: Clock, runner: str) -> None:
        self._store, self._clock, self._runner = store, clock, runner
        self._lease_ms = _VIRTUAL_LEASE_MS if clock.virtual else LEASE_MS
        self._look_at, self._looked_at, self._awake_at = 0.0, 0, 0.0

    def join(self) -> None:
        """Register this runner in the store, with a lease."""
        self._store.join(self._runner, self._clock.now() + self._lease_ms)

    def renew(self) -> None:
        """Extend this runner's lease. If another process declared the runner dead meanwhile, register it again."""
        if not self._store.renew(self._runner, self._clock.now() + self._lease_ms):
            self.join()

    def doubt(self) -> None:
        """Believe no lease until the living runners have had time to renew theirs: for a time, no lease could be renewed."""
        self._looked_at = 0

    def dead(self, now: int) -> frozenset[str]:
        """The other runners that hold executions and are dead. Empty if the last look was less than a second ago."""
        if monotonic() < self._look_at:
            return frozenset()
        self._look_at = monotonic() + LOOK_SECONDS
        if now - self._looked_at > ASLEEP_MS:
            self._awake_at = monotonic()
        self._looked_at = now
        awake = monotonic() - self._awake_at >= AWAKE_SECONDS
        return self._store.dead(now if awake else 0) - {self._runner}  # at time 0 no lease is over
