"""The outbox: signals are written in the transaction of the changes that they report, and are kept until every subscriber has got them.

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
    """SQLite's data version at the time when `_subscribed` was read. As long as the data version is the same, `_subscribed` is not read
    again."""

    def _new_signals(self, changes: Iterable[Change], bases: Mapping[str, RowView]) -> Sequence[rows.Row]:
        """The rows of the signals of a batch, in order; none if there is no subscriber. Called inside the batch's transaction."""
        if self._subscribed_version != self._version:
            (found,) = self._writer.execute(self._sql["is_subscribed"]).fetchone()
            self._subscribed, self._subscribed_version = bool(found), self._version
        return signals_of(changes, bases) if self._subscribed else ()

    def subscribe(self, subscriber: str) -> None:
        with self._transaction() as writer:
            writer.execute(self._sql["subscribe"], (subscriber,))
            self._subscribed_version = None

    def unsubscribe(self, subscriber: str) -> None:
        with self._transaction() as writer:
            writer.execute(self._sql["unsubscribe"], (subscriber,))
            self._subscribed_version = None

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        if not self._may_deliver(subscriber, runner):
            return None
        with self._transaction() as writer:
            taken = writer.execute(self._sql["take_delivery"], {"name": subscriber, "runner": runner}).fetchall()
        return int(taken[0][0]) if taken else None

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        return self._change("delivered", (number, subscriber, runner)) == 1
