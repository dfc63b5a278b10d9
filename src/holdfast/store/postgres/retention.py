"""Retention: what is over is removed a few rows at a time, by any number of processes at once.

An execution's header goes first, and with it its name; its key stays in `expired` until nothing of it is left. A crash between two
chunks leaves keys in `expired`, and the next one to ask goes on with them. What somebody else is at work on is passed over.
"""

from __future__ import annotations

from typing import Final

from holdfast.store.postgres.reads import Reading

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Payload that one transaction removes, about."""


class Retention(Reading):
    """The part of a store that forgets."""

    def expire(self, now: int, limit: int) -> bool:
        """Remove up to `limit` rows; nothing is written when there is nothing to remove."""
        ((over,),) = self._read("is_over", (now, now, now))
        if not over:
            return False
        with self._side.explained_transaction():
            gone = self._side.change(self._sql["expire_executions"], (now, limit))
            room = self._remove_leftovers(limit - gone)
            if room:
                room -= self._side.change(self._sql["drop_signals"], (room,))
            if room:
                room -= self._side.change(self._sql["drop_counters"], (now, room))
            if room:
                room -= self._side.change(self._sql["drop_notes"], (now, room))
        return room < limit

    def _remove_leftovers(self, room: int) -> int:
        """Remove what expired executions left; says for how many rows there is still room."""
        space = _MAX_BYTES
        while room > 0 and space > 0:
            found = self._read("expired")
            if not found:
                break
            ((key,),) = found
            count, space = self._remove_events(key, room, space)
            room -= count
            if room > 0 and space > 0:
                room -= self._side.change(self._sql["drop_operations"], {"key": key, "limit": room})
            if room > 0 and space > 0:
                self._side.change(self._sql["drop_expired"], (key,))
        return room if space > 0 else 0

    def _remove_events(self, key: int, room: int, space: int) -> tuple[int, int]:
        """The first events that fit, at least one; says how many, and how much space is left after them."""
        count = last = 0
        for number, size in self._read("expired_events", (key, room)):
            count, last, space = count + 1, number, space - size
            if space <= 0:
                break
        if count:
            self._side.change(self._sql["drop_events"], (key, last))
        return count, space
