"""Retention: what is over is removed a few rows at a time, so that nobody waits long for the file.

An execution's header goes first, and with it its name; its key stays in `expired` until nothing of it is left, so that no new execution
gets the key meanwhile. A crash between two chunks leaves keys in `expired`, and the next one to ask goes on with them.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from holdfast.model import codec
from holdfast.store.sqlite.writing import Writing

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Payload that one transaction removes, about: SQLite reads what it removes, so a few large rows take as long as many small ones."""


class Retention(Writing):
    """The part of a store that forgets."""

    def expire(self, now: int, limit: int) -> bool:
        """Remove up to `limit` rows; nothing is written when there is nothing to remove."""
        ((over,),) = self._read("is_over", (now,))
        if not over:
            return False
        with self._transaction() as writer:
            room = limit - self._expire_executions(writer, now, limit)
            room = self._remove_leftovers(writer, room)
            if room:
                room -= writer.execute(self._sql["drop_signals"], (room,)).rowcount
            if room > 0:
                room -= writer.execute(self._sql["drop_counters"], (now, room)).rowcount
            if room > 0:
                writer.execute(self._sql["put_meta"], ("forgotten", now))
                writer.execute(self._sql["drop_notes"], (now, room))
        return True

    def _expire_executions(self, writer: sqlite3.Connection, now: int, limit: int) -> int:
        keys = [row[0] for row in writer.execute(self._sql["expire_executions"], (now, limit)).fetchall()]
        if keys:
            writer.execute(self._sql["put_expired"], (codec.dumps(keys),))
        return len(keys)

    def _remove_leftovers(self, writer: sqlite3.Connection, room: int) -> int:
        """Remove what expired executions left; says for how many rows there is still room."""
        space = _MAX_BYTES
        while room > 0 and space > 0:
            found = writer.execute(self._sql["expired"]).fetchone()
            if found is None:
                break
            (key,) = found
            count, space = self._remove_events(writer, key, room, space)
            room -= count
            if room > 0 and space > 0:
                room -= writer.execute(self._sql["drop_operations"], (key, room)).rowcount
            if room > 0 and space > 0:
                writer.execute(self._sql["drop_expired"], (key,))
        return room if space > 0 else 0

    def _remove_events(self, writer: sqlite3.Connection, key: int, room: int, space: int) -> tuple[int, int]:
        """The first events that fit, at least one; says how many, and how much space is left after them."""
        count = last = 0
        rows = writer.execute(self._sql["expired_events"], (key, room))
        for number, size in rows:
            count, last, space = count + 1, number, space - size
            if space <= 0:
                break
        rows.close()
        if count:
            writer.execute(self._sql["drop_events"], (key, last))
        return count, space
