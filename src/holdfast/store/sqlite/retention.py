"""Retention: expired rows are removed a few at a time, so that no other writer waits long for the file.

An execution's header is removed first, and its name becomes free. Its key stays in `expired` until all its rows are removed, so that no new
execution gets the key before that. After a crash between two transactions, keys are still in `expired`, and the next call continues with
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model import codec
from holdfast.store.reads import Parameters
from holdfast.store.retention import IDLE_MS, Leftovers, shared_rates
from holdfast.store.rows import Row
from holdfast.store.sqlite.transactions import Transactions


class SqliteRetention(Transactions, Leftovers):
    """The part of a store that removes rows whose time is over."""

    def expire(self, now: int, limit: int) -> bool:
        ((over,),) = self._read("is_over", (*[now] * 6, now - IDLE_MS))
        if not over:
            return False
        with self._transaction() as writer:
            room = self._remove_leftovers(limit - self._expire_executions(now, limit))
            if room:
                room -= self._removed("drop_signals", (room,))
            if room > 0:
                room -= self._removed("drop_counters", (now, room))
            if room > 0:
                writer.execute(self._sql["put_meta"], ("forgotten", now))
                room -= self._removed("drop_notes", (now, room))
                room -= self._removed("drop_ledger_days", (now,))
            if room > 0:
                room -= self._removed("drop_ledger", (now, room))
            if room > 0:
                room -= self._removed("drop_sessions", (now, room))
            if room > 0:
                self._drop_lanes(now, room)
        return True

    def _drop_lanes(self, now: int, limit: int) -> None:
        """Remove at most `limit` lanes that are empty and have admitted nothing for an hour. Such a lane stays, and is checked again an
        hour later, if an execution may return to it, if a lane is below it, or if one of its rates is in use."""
        idle = [row[0] for row in self._rows_inside("idle_lanes", (now - IDLE_MS, limit))]
        asked = {"lanes": codec.dumps(idle), "shared": codec.dumps(shared_rates(idle)), "now": now}
        for name in ("drop_lanes", "drop_rates_of", "keep_lanes"):
            self._removed(name, asked)

    def _expire_executions(self, now: int, limit: int) -> int:
        gone = list(self._rows_inside("expire_executions", (now, limit)))
        if gone:
            self._writer.execute(self._sql["put_expired"], (codec.dumps(gone),))
        return len(gone)

    def _remove_graph(self, graph: str) -> bool:
        self._removed("drop_graph", {"graph": graph})  # no other process writes during this transaction
        return True

    def _rows_inside(self, name: str, parameters: Parameters = ()) -> Iterable[Row]:
        return self._writer.execute(self._sql[name], parameters)  # row by row: SQLite must read a payload to measure it

    def _removed(self, name: str, parameters: Parameters) -> int:
        return self._writer.execute(self._sql[name], parameters).rowcount
