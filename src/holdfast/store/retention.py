"""What expired executions leave behind, removed a few rows at a time inside one short transaction.

A graph goes last, with the key of an execution that named it: a crash before that leaves the key, and the next call looks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from holdfast.model.places import Level, level_of, shared_rate_of
from holdfast.store.reads import Parameters
from holdfast.store.rows import Row

MAX_BYTES: Final = 4 * 1024 * 1024
"""One transaction removes about this many bytes of payload. A database reads what it removes, so a few large rows take as long as many
small ones."""
IDLE_MS: Final = 3_600_000
"""A lane is removed, or checked again, after it has been empty for this long."""


def shared_rates(lanes: Iterable[str]) -> list[str]:
    """The keys of the rates that leaf lanes among these may share with others."""
    return sorted({shared_rate_of(lane) for lane in lanes if level_of(lane) == Level.LEAF})


class Leftovers(ABC):
    """Removes the events and operations of executions whose header is gone, oldest key first."""

    @abstractmethod
    def _rows_inside(self, name: str, parameters: Parameters = ()) -> Iterable[Row]:
        """The answer to a question, inside the transaction that removes."""

    @abstractmethod
    def _removed(self, name: str, parameters: Parameters) -> int:
        """How many rows a statement removed, inside the transaction that removes."""

    @abstractmethod
    def _remove_graph(self, graph: str) -> bool:
        """Remove a graph that no execution names. Returns False if a writer is about to name it, so that a later call must look again."""

    def _remove_leftovers(self, room: int) -> int:
        """Remove up to `room` rows. Returns how many more may be removed."""
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
        """Remove the first events that fit, at least one. Returns how many, and how many bytes may still be removed."""
        count = last = 0
        for number, size in self._rows_inside("expired_events", (key, room)):
            count, last, space = count + 1, number, space - size
            if space <= 0:
                break
        if count:
            self._removed("drop_events", (key, last))
        return count, space
