"""Layers of a drawing: the row of each node, the order in each row, and the horizontal positions. It is Sugiyama's method, pure and
deterministic.

layers      a node is in a row below all nodes that it needs; the longest path to it decides
trunks      an edge over several layers gets a place (a trunk) in each layer between; edges of one upper node and kind share it
order       sweeps move a node to the mean place of its neighbours; the order with the fewest crossings is kept
positions   the same sweeps with distances: each row moves toward its neighbours as far as there is room for the boxes
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from holdfast.pipelines.graph.edges import EdgeKind

_SWEEPS = 12
_PULLS = 10
_STRAIGHTENED = 3
_ANYWHERE = (float("-inf"), float("inf"))
_STRAIGHT = 8.0
"""The weight of a trunk when a row is packed: trunks should stay straight, so they weigh more than boxes."""


class DrawnEdge(NamedTuple):
    """An edge of the drawing, from the upper node to the lower one."""

    upper: str
    lower: str
    kind: EdgeKind
    label: str | None = None
    upward: bool = False
    """Whether the arrow points up. It does for the edge of a validation loop, and for an edge that closes a cycle."""


class Spot:
    """A place in a layer: of a node, or of a trunk (`name` is None), which is an edge that passes through the layer."""

    __slots__ = ("above", "at", "below", "layer", "name", "width", "x")

    def __init__(self, name: str | None, layer: int, width: int) -> None:
        self.name, self.layer, self.width = name, layer, width
        self.above: list[Spot] = []
        self.below: list[Spot] = []
        self.at = 0
        self.x = 0.0


class Layers:
    """The spots of a drawing in their layers, and the path of each link through the spots."""

    def __init__(self, names: Sequence[str], links: Sequence[DrawnEdge], width: Callable[[str], int], *, trunk: int, gap: int) -> None:
        self._gap = gap
        self.links = links
        depth = _depths(names, links)
        self.rows: list[list[Spot]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        self.spots: dict[str, Spot] = {}
        for name in names:
            self.spots[name] = self._spot(name, depth[name], width(name))
        self._trunks: dict[tuple[str, EdgeKind, bool, int], Spot] = {}
        self.ways = [self._way(link, trunk) for link in links]
        """For each link the spots from the upper node to the lower one."""
        for way in self.ways:
            for one, two in pairwise(way):
                if two not in one.below:
                    one.below.append(two)
                    two.above.append(one)
        self._order()
        self._place()

    def _spot(self, name: str | None, layer: int, width: int) -> Spot:
        spot = Spot(name, layer, width)
        self.rows[layer].append(spot)
        return spot

    def _way(self, link: DrawnEdge, trunk: int) -> list[Spot]:
        upper, lower = self.spots[link.upper], self.spots[link.lower]
        way = [upper]
        for layer in range(upper.layer + 1, lower.layer):
            key = (link.upper, link.kind, link.upward, layer)
            if key not in self._trunks:
                self._trunks[key] = self._spot(None, layer, trunk)
            way.append(self._trunks[key])
        return [*way, lower]

    # --- order

    def _order(self) -> None:
        best, least = [list(row) for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            if least == 0:
                break
            down = sweep % 2 == 0
            for row in self.rows[1:] if down else self.rows[-2::-1]:
                wanted = {spot: _mean([near.at for near in (spot.above if down else spot.below)], spot.at) for spot in row}
                row.sort(key=wanted.__getitem__)
                _count(row)
            crossings = self._crossings()
            if crossings < least:
                best, least = [list(row) for row in self.rows], crossings
        self.rows = best
        for row in self.rows:
            _count(row)

    def _crossings(self) -> int:
        total = 0
        for row in self.rows:
            _count(row)
        for row in self.rows:
            ends: list[int] = []
            for spot in row:
                below = sorted(near.at for near in spot.below)
                total += sum(len(ends) - bisect_right(ends, at) for at in below)
                for at in below:
                    insort(ends, at)
        return total

    # --- positions

    def _place(self) -> None:
        for row in self.rows:
            self._pack(row, [0.0] * len(row))
        for pull in range(_PULLS):
            rows = self.rows[1:] if pull % 2 == 0 else self.rows[-2::-1]
            for row in rows:
                self._pack(row, [self._wanted(spot, both=pull >= _PULLS - 2, down=pull % 2 == 0) for spot in row])
        for _ in range(_STRAIGHTENED):
            self._straighten()
        left = min((spot.x - spot.width / 2 for row in self.rows for spot in row), default=0.0)
        for row in self.rows:
            for spot in row:
                spot.x -= left

    def _straighten(self) -> None:
        """For each trunk that passes through several layers: move its spots into one column, from the upper layer downward, as long as the
        neighbours leave this column free. Where they do not, the spots below get another common column."""
        trunks: dict[tuple[str, EdgeKind, bool], list[Spot]] = {}
        for (source, kind, upward, _), spot in self._trunks.items():
            trunks.setdefault((source, kind, upward), []).append(spot)
        for trunk in trunks.values():
            run: list[Spot] = []
            low, high = _ANYWHERE
            for spot in trunk:
                left, right = self._room(spot)
                if run and max(low, left) > min(high, right):
                    _align(run, low, high)
                    run, (low, high) = [], _ANYWHERE
                run.append(spot)
                low, high = max(low, left), min(high, right)
            _align(run, low, high)

    def _room(self, spot: Spot) -> tuple[float, float]:
        """The leftmost and the rightmost position of a spot if its neighbours do not move. Its present position is always allowed."""
        row = self.rows[spot.layer]
        left, right = _ANYWHERE
        if spot.at > 0:
            left = row[spot.at - 1].x + (row[spot.at - 1].width + spot.width) / 2 + self._gap
        if spot.at + 1 < len(row):
            right = row[spot.at + 1].x - (row[spot.at + 1].width + spot.width) / 2 - self._gap
        return min(left, spot.x), max(right, spot.x)

    def _wanted(self, spot: Spot, *, both: bool, down: bool) -> float:
        near = [*spot.above, *spot.below] if both else spot.above if down else spot.below
        if spot.name is None and len(near) > 1:
            near = [one for one in near if one.name is None] or near
        return sum(one.x for one in near) / len(near) if near else spot.x

    def _pack(self, row: list[Spot], wanted: list[float]) -> None:
        """Move the spots of a row as near as possible to the wanted positions (one for each spot), in their order and without overlaps
        (isotonic regression)."""
        offset, offsets = 0.0, []
        for at, spot in enumerate(row):
            if at:
                offset += (row[at - 1].width + spot.width) / 2 + self._gap
            offsets.append(offset)
        blocks: list[tuple[float, float, int]] = []  # the weighted sum of the wanted positions, the weight, and the number of spots
        for spot, want, own in zip(row, wanted, offsets, strict=True):
            weight = _STRAIGHT if spot.name is None else 1.0
            blocks.append(((want - own) * weight, weight, 1))
            while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
                last, before = blocks.pop(), blocks.pop()
                blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
        places = [total / weight for total, weight, count in blocks for _ in range(count)]
        for spot, place, own in zip(row, places, offsets, strict=True):
            spot.x = place + own


def _depths(names: Sequence[str], links: Sequence[DrawnEdge]) -> dict[str, int]:
    """The layer of each name: 0 is at the top. Every link must lead from an earlier name to a later one. A node that needs only the inputs
    is moved down to the layer above the first node that needs it. The last name gets a layer of its own at the bottom."""
    below: dict[str, list[str]] = {name: [] for name in names}
    above: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        below[link.upper].append(link.lower)
        above[link.lower].append(link.upper)
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[one] + 1 for one in above[name]), default=0)
    for name in reversed(names):  # move a node that needs nothing down to right above the first node that needs it
        if below[name] and all(not above[one] for one in above[name]):
            depth[name] = max(depth[name], min(depth[one] for one in below[name]) - 1)
    depth[names[-1]] = max([depth[name] for name in names[:-1]], default=-1) + 1
    return depth


def _align(run: list[Spot], low: float, high: float) -> None:
    if run:
        column = min(max(sorted(spot.x for spot in run)[len(run) // 2], low), high)
        for spot in run:
            spot.x = column


def _count(row: list[Spot]) -> None:
    for at, spot in enumerate(row):
        spot.at = at


def _mean(places: list[int], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)
