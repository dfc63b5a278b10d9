"""The layout of a graph: boxes in layers from top to bottom, and elbow lines between them. Pure data: text.py and svg.py draw it.

Lengths are in units of the drawing: characters in a text, pixels in a picture (`DrawingLengths`). Between two layers there are tracks for
horizontal lines. Lines of different sources share a track only if they do not touch there, or meet above a box that both enter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.pipelines.draw.layers import DrawnEdge, Layers, Spot
from holdfast.pipelines.graph.edges import Edge, EdgeKind
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.order import NodeOrder
from holdfast.pipelines.graph.templates import sources_in

BEGIN = ""
"""The name of the box for the pipeline's inputs. No node has this name."""
END = " "
"""The name of the box for the pipeline's outputs. No node has this name."""


class DrawingLengths(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of a drawing."""

    box: Callable[[str], tuple[int, int]]
    """A function that returns width and height of the box with a name: a node's name, BEGIN or END."""
    gap: int
    """The smallest distance between two neighbours in a layer (boxes, or lines that pass through)."""
    track: int
    """The distance between two horizontal lines, and between a line and a box."""
    port: int
    """The distance between two lines at the edge of a box."""
    arrow: int
    """The height that is kept free above the boxes of a layer for arrows and labels."""
    margin: int


class Box(msgspec.Struct, frozen=True):
    """A box with the position of its upper left corner. It stands for a node, or for the pipeline's inputs or outputs (BEGIN, END)."""

    name: str
    x: int
    y: int
    width: int
    height: int


class EdgeLine(msgspec.Struct, frozen=True):
    """The line of an edge. `points` leads from the border of the source to the border of the target, where the arrow is."""

    source: str
    target: str
    kind: EdgeKind
    label: str | None
    points: tuple[tuple[int, int], ...]


class Layout(msgspec.Struct, frozen=True):
    """A drawing as data."""

    boxes: tuple[Box, ...]
    wires: tuple[EdgeLine, ...]
    width: int
    height: int


_Net: TypeAlias = tuple[int, EdgeKind, bool]
"""A key for lines that share one column at a spot: the `id()` of the spot, the kind of their edges, and whether their arrows point up."""


class _Hop(NamedTuple):
    """The lines of one net (lines that share one column at a spot) between two neighbouring layers: the column where they leave the upper
    layer, and the columns where they enter the lower one."""

    leaves: int
    enters: set[int]


def layout(graph: Graph, metrics: DrawingLengths) -> Layout:
    """Compute the boxes and lines of a graph. The same graph gives the same layout."""
    order = NodeOrder(graph)
    names = [BEGIN, *(name for group in order.groups for name in sorted(group, key=order.position.__getitem__)), END]
    links = list(_links(graph, order, {name: at for at, name in enumerate(names)}))
    layers = Layers(names, links, lambda name: metrics.box(name)[0], trunk=metrics.port, gap=metrics.gap)
    return _Wiring(layers, metrics).layout()


def _links(graph: Graph, order: NodeOrder, sequence: dict[str, int]) -> Iterator[DrawnEdge]:
    """The links of the drawing. Several edges from one node to another become one link, except that an edge of the kind `revise` gets a
    link of its own. An edge from a node to itself gets none. A node that no other node feeds gets a link from BEGIN. A node whose result is
    in the outputs gets a link to END; if the outputs refer to no node, BEGIN is linked to END. `sequence` has the position of each name,
    and the earlier name is the upper end of a link."""
    strongest: dict[tuple[str, str, bool], Edge] = {}
    for edge in order.edges:
        key = (edge.source, edge.target, edge.kind == "revise")
        known = strongest.get(key)
        if known is None:
            strongest[key] = edge
        elif known.kind != "data" or edge.label is not None:
            strongest[key] = msgspec.structs.replace(known, kind="data", label=known.label or edge.label)
    fed: set[str] = set()
    for edge in strongest.values():
        if edge.source == edge.target:
            continue
        if sequence[edge.source] < sequence[edge.target]:
            yield DrawnEdge(edge.source, edge.target, edge.kind, edge.label)
            fed.add(edge.target)
        else:
            yield DrawnEdge(edge.target, edge.source, edge.kind, edge.label, upward=True)
            if edge.kind != "revise":
                fed.add(edge.source)
    given = [source for source in sources_in(graph.gives) if source in order.nodes]
    yield from (DrawnEdge(BEGIN, name, "data") for name in order.nodes if name not in fed)
    yield from (DrawnEdge(name, END, "data") for name in given)
    if not given:
        yield DrawnEdge(BEGIN, END, "data")


class _Wiring:
    """Makes columns, tracks and lines from layers."""

    def __init__(self, layers: Layers, metrics: DrawingLengths) -> None:
        self._layers = layers
        self._metrics = metrics
        self._heights = [max((self._size(spot)[1] for spot in row), default=0) for row in layers.rows]
        self._exits: dict[_Net, int] = {}
        self._entries: dict[_Net, int] = {}
        self._tracks: list[dict[_Net, int]] = []
        self._moved: dict[int, int] = {}
        self._move_trunks()

    def _size(self, spot: Spot) -> tuple[int, int]:
        return (spot.width, 0) if spot.name is None else self._metrics.box(spot.name)

    def layout(self) -> Layout:
        metrics, rows = self._metrics, self._layers.rows
        self._tracks = [self._tracked(self._nets(row)) for row in range(len(rows) - 1)]
        tops, y = [], metrics.margin
        for row, height in enumerate(self._heights):
            tops.append(y)
            y += height
            if row < len(self._tracks):
                y += metrics.track * (max(self._tracks[row].values(), default=-1) + 2) + metrics.arrow
        boxes = tuple(
            Box(spot.name, self._left(spot), tops[spot.layer], *self._size(spot)) for row in rows for spot in row if spot.name is not None
        )
        wires = tuple(self._wire(link, way, tops) for link, way in zip(self._layers.links, self._layers.ways, strict=True))
        right = max([box.x + box.width for box in boxes] + [x for wire in wires for x, _ in wire.points], default=0)
        return Layout(boxes, wires, right + metrics.margin, y + metrics.margin)

    def _left(self, spot: Spot) -> int:
        return round(spot.x - spot.width / 2) + self._metrics.margin

    def _middle(self, spot: Spot) -> int:
        return self._left(spot) + spot.width // 2 + self._moved.get(id(spot), 0)

    def _move_trunks(self) -> None:
        """Move a trunk aside if the trunk of another edge ends in the same column right above it: both would look like one line."""
        for above, below in pairwise(self._layers.rows):
            columns = {self._middle(spot): spot for spot in above if spot.name is None}
            for spot in below:
                other = columns.get(self._middle(spot)) if spot.name is None else None
                if other is not None and other not in spot.above:
                    self._moved[id(spot)] = max(1, self._metrics.port // 2)

    # --- columns: where lines leave and enter boxes

    def _nets(self, row: int) -> dict[_Net, _Hop]:
        """The nets between the layer with this index and the layer below it. A net has the lines of one kind and direction that leave one
        spot of the upper layer. Each net has the columns where it leaves and enters; they are also noted in `_exits` and `_entries`."""
        below: dict[_Net, list[Spot]] = {}
        uppers: dict[_Net, Spot] = {}
        for link, way in zip(self._layers.links, self._layers.ways, strict=True):
            at = row - way[0].layer
            if 0 <= at < len(way) - 1:
                net = (id(way[at]), link.kind, link.upward)
                uppers[net] = way[at]
                spots = below.setdefault(net, [])
                if way[at + 1] not in spots:
                    spots.append(way[at + 1])
        taken: set[int] = set()
        trunks = {self._middle(spot): spot for spot in self._layers.rows[row + 1] if spot.name is None}
        for net in sorted(uppers, key=lambda one: (self._middle(uppers[one]), one[2], _RANK[one[1]])):
            foreign = {column for column, spot in trunks.items() if spot not in below[net]}
            self._exits[net] = self._column(uppers[net], taken | foreign, [], _RANK[net[1]] + 2 * net[2])
            taken.add(self._exits[net])
        leaving: dict[_Net, set[int]] = {}
        ends: dict[_Net, Spot] = {}
        for net, spots in below.items():
            for spot in spots:
                end = (id(spot), net[1], net[2])
                leaving.setdefault(end, set()).add(self._exits[net])
                ends[end] = spot
        joined: dict[int, set[int]] = {}
        for end in sorted(ends, key=lambda one: one[2]):
            others = taken - leaving[end] | (self._beside(joined.get(end[0], set())) if end[2] else set())
            column = self._column(ends[end], others, sorted(leaving[end]), 2 * end[2])
            close = [one for one in joined.get(end[0], ()) if abs(one - column) < self._metrics.port and one not in others]
            self._entries[end] = close[0] if close else column  # arrows that would touch are one arrow
            joined.setdefault(end[0], set()).add(self._entries[end])
        return {net: _Hop(self._exits[net], {self._entries[(id(spot), net[1], net[2])] for spot in spots}) for net, spots in below.items()}

    def _beside(self, columns: set[int]) -> set[int]:
        """These columns and all columns that are nearer to them than two lines at a box may be (`DrawingLengths.port`): too near for
        another arrow."""
        return {column + step for column in columns for step in range(1 - self._metrics.port, self._metrics.port)}

    def _column(self, spot: Spot, taken: set[int], near: list[int], prefer: int) -> int:
        """The column where a line enters or leaves a spot. For a trunk: its middle. For a box: the column in `near`, if there is only one
        and if it is free and at this box; else the column `prefer` steps from the middle, if it is free; else the free column that is
        nearest to the middle. If none is free, the middle. `taken` are the columns that are not free."""
        middle, port = self._middle(spot), self._metrics.port
        if spot.name is None:
            return middle
        reach = max(0, (spot.width // 2 - 2) // port)
        straight = [column for column in near if abs(column - middle) <= reach * port and column not in taken]
        if len(near) == 1 and straight:
            return straight[0]
        steps = [prefer, *(step * sign for step in range(reach + 1) for sign in (1, -1))]
        return next((middle + step * port for step in steps if abs(step) <= reach and middle + step * port not in taken), middle)

    # --- tracks: the rows of horizontal lines

    def _tracked(self, nets: dict[_Net, _Hop]) -> dict[_Net, int]:
        """Choose a track for each net that has a horizontal line; other nets are not in the result. Two nets on one track do not touch,
        unless they meet above a box that both enter."""
        spans = []
        for key, (leaves, enters) in nets.items():
            low, high = min(leaves, *enters), max(leaves, *enters)
            if low != high:
                spans.append((low, high, key))
        tracks: list[tuple[int, bool]] = []  # where the last line of each track ends, and whether it ends above a box
        found: dict[_Net, int] = {}
        for low, high, key in sorted(spans, key=lambda span: (span[0], span[1])):
            enters = nets[key].enters
            free = (
                at for at, (end, above) in enumerate(tracks) if end + self._metrics.port < low or (end == low and above and low in enters)
            )
            track = next(free, len(tracks))
            tracks[track : track + 1] = [(high, high in enters and not key[2])]
            found[key] = track
        return found

    # --- lines

    def _wire(self, link: DrawnEdge, way: list[Spot], tops: list[int]) -> EdgeLine:
        points: list[tuple[int, int]] = []
        for upper, lower in pairwise(way):
            key = (id(upper), link.kind, link.upward)
            leaves, enters = self._exits[key], self._entries[(id(lower), link.kind, link.upward)]
            start = tops[upper.layer] + (self._size(upper)[1] if upper.name is not None else 0)
            points.append((leaves, start))
            if leaves != enters:
                y = tops[upper.layer] + self._heights[upper.layer] + self._metrics.track * (self._tracks[upper.layer].get(key, 0) + 1)
                points += [(leaves, y), (enters, y)]
            points.append((enters, tops[lower.layer]))
        line = _straight(points)
        if link.upward:
            return EdgeLine(link.lower, link.upper, link.kind, link.label, tuple(reversed(line)))
        return EdgeLine(link.upper, link.lower, link.kind, link.label, tuple(line))


_RANK: dict[EdgeKind, int] = {"data": 0, "after": 1, "revise": 2}


def _straight(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same line without repeated points and without points in the middle of a straight part."""
    kept: list[tuple[int, int]] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        while len(kept) > 1 and (kept[-2][0] == kept[-1][0] == point[0] or kept[-2][1] == kept[-1][1] == point[1]):
            kept.pop()
        kept.append(point)
    return kept
