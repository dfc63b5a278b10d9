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
        """When this returns, all batches that began without this subscriber have ended."""
        if self._side.change(self._sql["subscribe"], (subscriber,)):
            with self._side.explained_transaction():
                self._side.run(self._sql["outwait_writers"], prepare=False)

    def unsubscribe(self, subscriber: str) -> None:
        self._side.change(self._sql["unsubscribe"], (subscriber,))

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        if not self._may_deliver(subscriber, runner):
            return None
        taken = self._read("take_delivery", {"name": subscriber, "runner": runner})
        return int(taken[0][0]) if taken else None

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        return self._side.change(self._sql["delivered"], (number, subscriber, runner)) == 1
