"""What the console keeps: sessions and saved views."""

from __future__ import annotations

from holdfast.store.changes import ConsoleChanges
from holdfast.store.postgres.changes import PostgresChanges


class PostgresConsole(PostgresChanges, ConsoleChanges):
    """The part of a store that keeps the sessions and saved views of the console."""

    def _lock_views(self, owner: str) -> None:
        self._read("saving", (owner,))
