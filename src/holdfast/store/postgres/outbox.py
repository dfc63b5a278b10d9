"""The outbox: signals are written in the transaction of the changes that they report, and are kept until every subscriber has got them.

The numbers of signals come from one row, which a batch locks last of all and holds until its COMMIT (`write_signals`). So the order of
numbers is the order of commits, and a reader that has seen a number never finds a smaller one later.
"""

from __future__ import annotations

from holdfast.store.outbox import OutboxReads
from holdfast.store.postgres.reads import PostgresReads


class PostgresOutbox(PostgresReads, OutboxReads):
    """The part of a store that keeps signals for subscribers."""

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, which gets every signal from now on. If it is registered already, nothing changes. When this returns, all
        batches that began without this subscriber have ended."""
        if self._side.change(self._sql["subscribe"], (subscriber,)):
            with self._side.explained_transaction():
                self._side.run(self._sql["outwait_writers"], prepare=False)

    def unsubscribe(self, subscriber: str) -> None:
        """Remove a subscriber. The store gives no runner further signals for it. A runner that is delivering to it may still deliver the
        signals that it has read before, for about 0.1 seconds."""
        self._side.change(self._sql["unsubscribe"], (subscriber,))

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Make this runner the only one that delivers to a subscriber. Returns the number of the last signal that was delivered to it; None
        if another runner delivers to it, or if there is no such subscriber."""
        if not self._may_deliver(subscriber, runner):
            return None
        taken = self._read("take_delivery", {"name": subscriber, "runner": runner})
        return int(taken[0][0]) if taken else None

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """Note that every signal up to this number was delivered to the subscriber. Returns False, and changes nothing, if this runner is
        not the one that delivers to it."""
        return self._side.change(self._sql["delivered"], (number, subscriber, runner)) == 1
