"""Finds the rates of lanes whose rows were read. The last column of such a row is the key of the rate that the lane shares with other
lanes; NULL or empty if it shares none.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.store.rows import Row


def kept_under(lanes: Iterable[Row]) -> list[str]:
    """The keys under which the rates of these lanes are stored: the key of each lane, and the key of the rate that it shares."""
    found = list(lanes)
    return sorted({row[0] for row in found} | {row[-1] for row in found if row[-1]})


class Rates:
    """Rates by the key under which they are kept."""

    def __init__(self, found: Iterable[Row]) -> None:
        self._found: dict[str, list[Row]] = {}
        for row in found:
            self._found.setdefault(row[0], []).append(row)

    def of(self, lane: Row) -> list[Row]:
        """The rates of a lane: its own rates, and the rate that it shares."""
        return [*self._found.get(lane[0], ()), *self._found.get(lane[-1] or "", ())]

    def has_shared(self, lane: Row) -> bool:
        """True if the lane shares no rate, or if the rate that it shares is among these rates."""
        return not lane[-1] or lane[-1] in self._found
