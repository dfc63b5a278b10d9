"""The outbox: signals lie in the file with the changes that they tell of, until every subscriber has had them.

SQLite has one writer at a time, so the order of numbers is the order of commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.model.execution import Change
from holdfast.store import rows
from holdfast.store.outbox import OutboxReads, signals_of
from holdfast.store.sqlite.transactions import Transactions
from holdfast.store.views import RowView


class SqliteOutbox(Transactions, OutboxReads):
    """The part of a store that keeps signals for subscribers."""

    _version: int
    _subscribed = False
    _subscribed_version: int | None = None
    """The data version for which `_subscribed` is known to be true: without subscribers a batch pays for one comparison."""

    def _new_signals(self, changes: Iterable[Change], bases: Mapping[str, RowView]) -> Sequence[rows.Row]:
        """The signals of a batch, in order; called inside its transaction."""
        if self._subscribed_version != self._version:
            (found,) = self._writer.execute(self._sql["is_subscribed"]).fetchone()
            self._subscribed, self._subscribed_version = bool(found), self._version
        return signals_of(changes, bases) if self._subscribed else ()

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, from now on."""
        with self._transaction() as writer:
            writer.execute(self._sql["subscribe"], (subscriber,))
            self._subscribed_version = None

    def unsubscribe(self, subscriber: str) -> None:
        """Forget a subscriber."""
        with self._transaction() as writer:
            writer.execute(self._sql["unsubscribe"], (subscriber,))
            self._subscribed_version = None

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Become the runner that delivers, or stay it."""
        if not self._may_deliver(subscriber, runner):
            return None
        with self._transaction() as writer:
            taken = writer.execute(self._sql["take_delivery"], {"name": subscriber, "runner": runner}).fetchall()
        return int(taken[0][0]) if taken else None

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """Move the subscriber's cursor, if the delivery is still this runner's."""
        return self._write("delivered", (number, subscriber, runner)) == 1
