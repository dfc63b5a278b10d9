"""Retention: expired rows are removed a few at a time, by any number of processes at once.

An execution's header is removed first, and its name becomes free. Its key stays in `expired` until all its rows are removed. After a crash
between two transactions, keys are still in `expired`, and the next call continues with them. Rows that another process has locked are
skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.store.postgres.columns import texts
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.reads import Parameters
from holdfast.store.retention import IDLE_MS, Leftovers, shared_rates
from holdfast.store.rows import Row


class PostgresRetention(PostgresReads, Leftovers):
    """The part of a store that removes rows whose time is over."""

    def expire(self, now: int, limit: int) -> bool:
        """Daily sums of the ledger are removed, too, but not counted in `limit`."""
        ((over,),) = self._read("is_over", (*[now] * 6, now - IDLE_MS))
        if not over:
            return False
        with self._side.explained_transaction():
            room = self._remove_leftovers(limit - self._removed("expire_executions", (now, limit)))
            if room:
                room -= self._removed("drop_signals", (room,))
            if room:
                room -= self._removed("drop_counters", (now, room))
            if room:
                room -= self._removed("drop_notes", (now, room))
            if room:
                room -= self._removed("drop_sessions", (now, room))
            if room:
                room -= self._drop_lanes(now, room)
            if room:
                room -= self._drop_ledger(now, room)
        return room < limit

    def _drop_ledger(self, now: int, limit: int) -> int:
        """Remove daily sums and ledger entries whose time is over: all such sums, and at most `limit` entries. `now` is noted in `meta`
        (`forgotten`), so that a check of the store compares only what expires later. Returns how many entries were removed."""
        sums = self._removed("drop_ledger_days", (now,))
        entries = self._removed("drop_ledger", (now, limit))
        if sums or entries:
            self._read("put_meta", ("forgotten", str(now)))
        return entries

    def _drop_lanes(self, now: int, limit: int) -> int:
        """Remove at most `limit` lanes that are empty and have admitted nothing for an hour. Such a lane stays, and is checked again an
        hour later, if an execution may return to it, if a lane is below it, or if one of its rates is in use. A lane that a writer has
        locked is skipped. Returns how many lanes were checked."""
        idle = [row[0] for row in self._read("idle_lanes", (now - IDLE_MS, limit))]
        if idle:
            for name in ("drop_lanes", "drop_rates_of", "keep_lanes"):
                self._removed(name, {"lanes": texts(idle), "shared": texts(shared_rates(idle)), "now": now})
        return len(idle)

    def _remove_graph(self, graph: str) -> bool:
        """Remove a graph, if no execution names it. Returns False if a writer has locked it. This does not wait for the writer, which may
        be waiting for the name of an execution that this transaction has locked."""
        ((named,),) = self._read("is_graph_named", (graph,))
        if not named and self._read("free_graph", (graph,)):
            self._removed("drop_graph", {"graph": graph})
            return True
        return bool(named) or not self._read("graph", (graph,))

    def _rows_inside(self, name: str, parameters: Parameters = ()) -> Iterable[Row]:
        return self._read(name, parameters)

    def _removed(self, name: str, parameters: Parameters) -> int:
        return self._side.change(self._sql[name], parameters)
