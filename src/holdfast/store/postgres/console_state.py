"""What the console keeps: sessions and saved views."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.browse_errors import TooManyViews
from holdfast.model.console_state import MAX_VIEWS, ConsoleSession, SavedView, checked_view
from holdfast.store.console_rows import session_from, view_from
from holdfast.store.postgres.reads import PostgresReads


class PostgresConsole(PostgresReads):
    """The part of a store that keeps the sessions and saved views of the console."""

    def put_session(self, session: ConsoleSession) -> None:
        self._read("put_session", msgspec.structs.astuple(session))

    def session(self, session: str) -> ConsoleSession | None:
        found = self._read("console_session", (self._text(session),))
        return session_from(found[0]) if found else None

    def remove_session(self, session: str) -> bool:
        return self._side.change(self._sql["remove_session"], (self._text(session),)) == 1

    def remove_login(self, credential: str, csrf: str) -> int:
        return self._side.change(self._sql["remove_login"], (self._text(credential), self._text(csrf)))

    def remove_sessions(self, credential: str) -> int:
        return self._side.change(self._sql["remove_sessions"], (self._text(credential),))

    def views(self, owner: str) -> Sequence[SavedView]:
        return [view_from(row) for row in self._read("views", (self._text(owner),))]

    def put_view(self, view: SavedView) -> None:
        asked = msgspec.structs.asdict(checked_view(view)) | {"most": MAX_VIEWS}
        with self._side.explained_transaction():
            self._read("saving", (view.owner,))
            if not self._side.change(self._sql["put_view"], asked):
                raise TooManyViews

    def remove_view(self, owner: str, name: str) -> bool:
        return self._side.change(self._sql["remove_view"], (self._text(owner), self._text(name))) == 1
