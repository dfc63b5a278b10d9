"""Removes the rows that expired executions leave behind: a few rows in each short transaction.

A graph is removed last, together with the key (table `expired`) of an execution that named it. After a crash before that, the key is still
there, and the next call removes both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from holdfast.model.places import Level, level_of, shared_rate_of
from holdfast.store.reads import Parameters
from holdfast.store.rows import Row

MAX_BYTES: Final = 4 * 1024 * 1024
"""One transaction removes about this many bytes of payload at most. A database reads what it removes, so removing a few large rows takes as
long as removing many small ones."""
IDLE_MS: Final = 3_600_000
"""In milliseconds. A lane that is empty and has admitted nothing for this long is removed, unless it is still needed; then it is checked
again after the same time. The lane of a queue itself stays even then."""


def shared_rates(lanes: Iterable[str]) -> list[str]:
    """The keys of the shared rates to which the leaves among these lanes belong. Lanes that are not leaves share no rate."""
    return sorted({shared_rate_of(lane) for lane in lanes if level_of(lane) == Level.LEAF})


class Leftovers(ABC):
    """Removes the events and operations of executions whose header was removed, smallest key first."""

    @abstractmethod
    def _rows_inside(self, name: str, parameters: Parameters = ()) -> Iterable[Row]:
        """Run the query of this name inside the transaction that removes, and return its rows."""

    @abstractmethod
    def _removed(self, name: str, parameters: Parameters) -> int:
        """Run the statement of this name inside the transaction that removes. Returns how many rows it removed or changed."""

    @abstractmethod
    def _remove_graph(self, graph: str) -> bool:
        """Remove a graph, if no execution names it. Returns False if a writer may be about to name it, so that a later call must try
        again."""

    def _remove_leftovers(self, room: int) -> int:
        """Remove at most `room` rows. Returns how many more rows the same transaction may remove; 0 if it has removed enough rows or enough
        bytes."""
        space = MAX_BYTES
        while room > 0 and space > 0:
            found = next(iter(self._rows_inside("expired")), None)
            if found is None:
                break
            key, graph = found
            count, space = self._remove_events(key, room, space)
            room -= count
            if room > 0 and space > 0:
                room -= self._removed("drop_operations", {"key": key, "limit": room})
            if room > 0 and space > 0:
                if graph is not None and not self._remove_graph(graph):
                    break
                self._removed("drop_expired", (key,))
        return room if space > 0 else 0

    def _remove_events(self, key: int, room: int, space: int) -> tuple[int, int]:
        """Remove events of an execution, the first ones first: at most `room` rows and about `space` bytes, but at least one event if there
        is one. Returns how many were removed, and how many bytes may still be removed."""
        count = last = 0
        for number, size in self._rows_inside("expired_events", (key, room)):
            count, last, space = count + 1, number, space - size
            if space <= 0:
                break
        if count:
            self._removed("drop_events", (key, last))
        return count, space
