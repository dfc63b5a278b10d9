"""What the console keeps: sessions and saved views."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.browse_errors import TooManyViews
from holdfast.model.console_state import MAX_VIEWS, ConsoleSession, SavedView, checked_view
from holdfast.store.console_rows import session_from, view_from
from holdfast.store.sqlite.transactions import Transactions


class SqliteConsole(Transactions):
    """The part of a store that keeps the sessions and saved views of the console."""

    def put_session(self, session: ConsoleSession) -> None:
        self._write("put_session", msgspec.structs.astuple(session))

    def session(self, session: str) -> ConsoleSession | None:
        found = self._read("console_session", (session,))
        return session_from(found[0]) if found else None

    def remove_session(self, session: str) -> bool:
        return self._write("remove_session", (session,)) == 1

    def remove_login(self, credential: str, csrf: str) -> int:
        return self._write("remove_login", (credential, csrf))

    def remove_sessions(self, credential: str) -> int:
        return self._write("remove_sessions", (credential,))

    def views(self, owner: str) -> Sequence[SavedView]:
        return [view_from(row) for row in self._read("views", (owner,))]

    def put_view(self, view: SavedView) -> None:
        asked = msgspec.structs.asdict(checked_view(view)) | {"most": MAX_VIEWS}
        with self._transaction() as writer:
            if not writer.execute(self._sql["put_view"], asked).rowcount:
                raise TooManyViews

    def remove_view(self, owner: str, name: str) -> bool:
        return self._write("remove_view", (owner, name)) == 1
