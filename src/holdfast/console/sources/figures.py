"""Figures of functions: how many runs began in the last 24 hours, how they ended, how long they took, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

import msgspec

from holdfast.model.shown_status import ShownStatus
from holdfast.store.browse import BrowsedRow

MOST_ROWS: Final = 10_000
"""Figures count at most this many runs, the newest ones."""
_GOOD: Final = frozenset({ShownStatus.OK, ShownStatus.PARTIAL})
ENDED: Final = (ShownStatus.OK, ShownStatus.PARTIAL, ShownStatus.FAILED, ShownStatus.STOPPED)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the runs that began in the last 24 hours."""

    runs: int = 0
    ended: Mapping[str, int] = {}
    """How many runs ended with each status."""
    p50: int | None = None
    """At least half of the runs that ended took at most this many milliseconds; None if no run ended."""
    p95: int | None = None
    cost: int | None = None
    """What the runs cost together, in billionths of a dollar; None if nothing was spent."""

    @property
    def over(self) -> int:
        """How many runs ended."""
        return sum(self.ended.values())

    @property
    def rate(self) -> float | None:
        """Of the runs that ended, the share (0 to 1) that ended with a whole or a partial result. None if no run ended."""
        return None if not self.over else sum(self.ended.get(one, 0) for one in _GOOD) / self.over

    @property
    def told(self) -> str:
        """How the runs ended, in words."""
        return ", ".join(f"{count:,} {word}" for word, count in self.ended.items()) or "none ended"

    def bars(self, width: int) -> list[tuple[str, float, float]]:
        """The parts of a bar of this width, one for each status with which runs ended: the status, where the part begins, and how wide the
        part is."""
        parts, at = [], 0.0
        for word, count in self.ended.items():
            wide = width * count / self.over
            parts.append((word, round(at, 2), round(wide, 2)))
            at += wide
        return parts


def figures_of(rows: Iterable[BrowsedRow]) -> Figures:
    """The figures of some runs."""
    statuses: dict[str, int] = {}
    took: list[int] = []
    count, cost, spent = 0, 0, False
    for row in rows:
        count += 1
        header, summary = row.header, row.header.summary
        if header.ended_at is not None and row.status in ENDED:
            statuses[row.status.value] = statuses.get(row.status.value, 0) + 1
            took.append(header.ended_at - header.started_at)
        if summary is not None and summary.cost:
            cost, spent = cost + summary.cost, True
    ended = {one.value: statuses[one.value] for one in ENDED if one.value in statuses}
    took.sort()
    return Figures(runs=count, ended=ended, p50=_part(took, 0.5), p95=_part(took, 0.95), cost=cost if spent else None)


def figures_by_function(rows: Iterable[BrowsedRow]) -> dict[str, Figures]:
    """The figures of each function among some runs."""
    grouped: dict[str, list[BrowsedRow]] = {}
    for row in rows:
        grouped.setdefault(row.header.function, []).append(row)
    return {name: figures_of(found) for name, found in grouped.items()}


def _part(ordered: Sequence[int], share: float) -> int | None:
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None
