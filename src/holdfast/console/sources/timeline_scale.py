"""The scale of a timeline: it turns times into positions on the axis. A long time in which nothing ran is drawn as a short marked segment,
a fold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

WIDTH: Final = 10_000
"""Positions on the axis go from 0 to this."""
_MOST_FOLDS: Final = 24
_LEAST_IDLE: Final = 2_000
"""An idle time that is shorter than this is never folded, in milliseconds."""
_FOLD: Final = 700
"""The width of a fold on the axis. If there are many folds, each is narrower."""
_LABEL: Final = 1_200
_ALL_FOLDS: Final = 4_000
_STEPS: Final = (
    tuple(
        unit * many
        for unit, sizes in ((1, (1, 2, 5, 10, 20, 50, 100, 200, 500)), (1_000, (1, 2, 5, 10, 15, 30)), (60_000, (1, 2, 5, 10, 15, 30)))
        for many in sizes
    )
    + tuple(3_600_000 * many for many in (1, 2, 3, 6, 12))
    + tuple(86_400_000 * many for many in (1, 2, 7, 30, 90, 365))
)


class Fold(msgspec.Struct, frozen=True, gc=False):
    """A long time in which nothing ran, from `start` to `end`. On the axis it goes from `x0` to `x1`."""

    start: int
    end: int
    x0: int
    x1: int


class Scale:
    """Turns the times of one execution into positions on its axis. Pure."""

    def __init__(self, start: int, end: int, busy: Iterable[tuple[int, int]]) -> None:
        """The axis goes from the time `start` to the time `end`. `busy`: the spans of time in which something ran, each as (start, end), in
        the order of their starts."""
        self.start = start
        self.end = max(end, start + 1)
        gaps = _folded(_gaps(self.start, self.end, busy), self.end - self.start)
        width = min(_FOLD, _ALL_FOLDS // max(len(gaps), 1))
        shown = self.end - self.start - sum(end - start for start, end in gaps)
        per_ms = (WIDTH - width * len(gaps)) / max(shown, 1)
        self._times, self._places, self._rates = [self.start], [0.0], [per_ms]
        self.folds: list[Fold] = []
        at, place = self.start, 0.0
        for begin, finish in gaps:
            place += (begin - at) * per_ms
            self.folds.append(Fold(begin, finish, round(place), round(place + width)))
            self._add(begin, place, width / (finish - begin))
            place, at = place + width, finish
            self._add(finish, place, per_ms)
        self.idle = sum(end - start for start, end in gaps)
        """The time of all folds together, in milliseconds."""
        self.shown = shown

    def _add(self, time: int, place: float, rate: float) -> None:
        self._times.append(time)
        self._places.append(place)
        self._rates.append(rate)

    def place(self, time: int) -> int:
        """The position of a time on the axis, from 0 to WIDTH. A time before the start is at 0, and a time after the end at WIDTH."""
        if time <= self.start:
            return 0
        if time >= self.end:
            return WIDTH
        piece = bisect_right(self._times, time) - 1
        return min(WIDTH, round(self._places[piece] + (time - self._times[piece]) * self._rates[piece]))

    def ticks(self, most: int = 8) -> list[tuple[int, int]]:
        """The marks on the axis, each as (position, milliseconds since the start). The first is at the start. No later mark is in or close
        to a fold, or close to another mark. `most`: about how many marks there may be."""
        step = next((size for size in _STEPS if self.shown / size <= most), _STEPS[-1])
        found, last = [(0, 0)], 0
        for begin, finish in self._pieces():
            first = -(-(begin - self.start) // step) * step
            for since in range(first, finish - self.start, step):
                place = self.place(self.start + since)
                if place - last >= WIDTH // (most + 4) and self._is_free(place):
                    found.append((place, since))
                    last = place
        return found

    def _is_free(self, place: int) -> bool:
        """Whether the label of a mark at this position would fit: it would not touch a fold or the end of the axis."""
        return WIDTH - place > _LABEL and not any(fold.x0 - _LABEL < place < fold.x1 + _LABEL // 2 for fold in self.folds)

    def _pieces(self) -> Iterable[tuple[int, int]]:
        at = self.start
        for fold in self.folds:
            yield at, fold.start
            at = fold.end
        yield at, self.end


def _gaps(start: int, end: int, busy: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of time in which nothing ran, if they last at least `_LEAST_IDLE` milliseconds, each as (start, end)."""
    found, at = [], start
    for begin, finish in busy:
        if begin - at >= _LEAST_IDLE:
            found.append((at, begin))
        at = max(at, finish)
    if end - at >= _LEAST_IDLE:
        found.append((at, end))
    return found


def _folded(gaps: list[tuple[int, int]], whole: int) -> list[tuple[int, int]]:
    """The gaps that are folded: each that is longer than `_LEAST_IDLE` and than half of all the time in which something ran. If there are
    too many, only the longest of them. `whole` is the length of the whole axis, in milliseconds."""
    ran = whole - sum(end - start for start, end in gaps)
    long = [(begin, end) for begin, end in gaps if end - begin > max(_LEAST_IDLE, ran // 2)]
    longest = sorted(long, key=lambda gap: gap[0] - gap[1])[:_MOST_FOLDS]
    return sorted(longest)
