"""A graph as a text for terminals, with boxes and lines made of characters. If that is too large, the text has one line for each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.contract.notes import shown
from holdfast.pipelines.draw.captions import NodeView, Views, about, rounds_label, state_line
from holdfast.pipelines.draw.layout import BEGIN, END, Box, DrawingLengths, EdgeLine, Layout, layout
from holdfast.pipelines.graph.edges import EdgeKind
from holdfast.pipelines.graph.graph import Graph, kind_of
from holdfast.pipelines.graph.order import NodeOrder

MOST_NAME = 28
MOST_STATE = 44
MOST_BOXES = 60
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    3: "│", 12: "─", 10: "╭", 6: "╮", 9: "╰", 5: "╯", 11: "├", 7: "┤", 14: "┬", 13: "┴", 15: "┼", 1: "│", 2: "│", 4: "─", 8: "─",
}  # fmt: skip
_DASHED = {"│": "┆", "─": "┄"}


def draw_text(graph: Graph, views: Views | None = None, *, width: int = 100) -> str:
    """The drawing as text. A graph whose boxes and lines need more columns than `width`, or that has more than MOST_BOXES nodes, is drawn
    as a list. A label beside a line may go beyond `width`. `views`: the states of the nodes in a run; None: no states are shown."""
    if len(graph.nodes) <= MOST_BOXES:
        captions = _captions(graph, views or {})
        drawn = layout(graph, _metrics(captions))
        if drawn.width <= width:
            return _Canvas(drawn, captions, graph).text()
    return "\n".join(_list(graph, views or {}, width)) + "\n"


def _captions(graph: Graph, views: Mapping[str, NodeView]) -> dict[str, list[str]]:
    captions = {BEGIN: [f"{shown(graph.contract.get('worker_id', 'pipeline'), MOST_NAME)} takes inputs"], END: ["gives outputs"]}
    for node in graph.nodes:
        lines = [shown(node.name, MOST_NAME), shown(f"{kind_of(node)} {about(node)}", MOST_NAME)]
        if node.name in views:
            lines.append(shown(state_line(views[node.name]), MOST_STATE))
        captions[node.name] = lines
    return captions


def _metrics(captions: dict[str, list[str]]) -> DrawingLengths:
    def box(name: str) -> tuple[int, int]:
        lines = captions[name]
        return max(map(len, lines)) + 4, len(lines) + 2

    return DrawingLengths(box=box, gap=3, track=1, port=2, arrow=1, margin=0)


class _Canvas:
    """A drawing made of characters: lines, boxes and labels."""

    def __init__(self, drawn: Layout, captions: dict[str, list[str]], graph: Graph) -> None:
        self._marks = [[0] * (drawn.width + 1) for _ in range(drawn.height + 1)]
        self._dashed: set[tuple[int, int]] = set()
        self._plain: set[tuple[int, int]] = set()
        self._over: dict[tuple[int, int], str] = {}
        for wire in drawn.wires:
            self._wire(wire)
        for box in drawn.boxes:
            self._box(box, captions[box.name])
        for wire in drawn.wires:
            label = rounds_label(graph, wire.source) if wire.kind == "revise" else wire.label
            if label:
                self._label(wire, shown(label, 16))

    def _wire(self, wire: EdgeLine) -> None:
        points = wire.points if wire.points[0][1] <= wire.points[-1][1] else wire.points[::-1]
        cells = list(_cells(points))[:-1]  # the last one is the border of the lower box
        for at, (x, y) in enumerate(cells):
            marks = 0
            for near in (cells[at - 1] if at else (x, y - 1), cells[at + 1] if at + 1 < len(cells) else (x, y + 1)):
                marks |= _UP if near[1] < y else _DOWN if near[1] > y else _LEFT if near[0] < x else _RIGHT
            self._marks[y][x] |= marks
            (self._plain if wire.kind == "data" else self._dashed).add((x, y))
        x, y = cells[-1] if wire.points[0][1] <= wire.points[-1][1] else cells[0]
        self._over[(x, y)] = "▼" if wire.points[0][1] <= wire.points[-1][1] else "▲"

    def _box(self, box: Box, lines: list[str]) -> None:
        inner = box.width - 2
        round_box = box.name in (BEGIN, END)
        top, bottom = ("╭╮", "╰╯") if round_box else ("┌┐", "└┘")
        rows = [top[0] + "─" * inner + top[1], *(f"│ {line.ljust(inner - 2)} │" for line in lines), bottom[0] + "─" * inner + bottom[1]]
        for down, row in enumerate(rows):
            for right, character in enumerate(row):
                self._over[(box.x + right, box.y + down)] = character

    def _label(self, wire: EdgeLine, label: str) -> None:
        """Write a label beside its line where there is room: above the lower box, else below the upper one. If there is no room, leave it
        out."""
        upper, lower = sorted((wire.points[0], wire.points[-1]), key=lambda point: point[1])
        for left, row in (
            (lower[0] + 2, lower[1] - 1),
            (lower[0] - 1 - len(label), lower[1] - 1),
            (lower[0] + 2, lower[1] - 2),
            (upper[0] + 2, upper[1]),
        ):
            places = [(left + step, row) for step in range(-1, len(label) + 1)]
            if left >= 0 and not any(place in self._over or self._marked(place) for place in places):
                self._over |= {(left + step, row): character for step, character in enumerate(label)}
                return

    def _marked(self, place: tuple[int, int]) -> bool:
        x, y = place
        return x < len(self._marks[y]) and self._marks[y][x] != 0

    def text(self) -> str:
        width = max([len(self._marks[0]), *(x + 1 for x, _ in self._over)])
        rows = ["".join(self._character(x, y) for x in range(width)).rstrip() for y in range(len(self._marks))]
        return "\n".join(rows).rstrip() + "\n"

    def _character(self, x: int, y: int) -> str:
        if (x, y) in self._over:
            return self._over[(x, y)]
        line = _LINES.get(self._marks[y][x], " ") if x < len(self._marks[y]) else " "
        dashed = (x, y) in self._dashed and (x, y) not in self._plain
        return _DASHED.get(line, line) if dashed else line


def _cells(points: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    """Every cell of a line, from its first point to its last."""
    x, y = points[0]
    yield x, y
    for right, down in points[1:]:
        while (x, y) != (right, down):
            x += (right > x) - (right < x)
            y += (down > y) - (down < y)
            yield x, y


_ARROWS: dict[EdgeKind, str] = {"data": "←", "after": "after", "revise": "revises"}


def _list(graph: Graph, views: Mapping[str, NodeView], width: int) -> Iterator[str]:
    """The drawing as a list: one line for each node, with its state, kind and the nodes that it needs. A node comes after the nodes that it
    needs."""
    order = NodeOrder(graph)
    names = [name for group in order.groups for name in sorted(group, key=order.position.__getitem__)]
    longest = min(MOST_NAME, max(map(len, names), default=0))
    kinds = max((len(kind_of(node)) for node in graph.nodes), default=0)
    doing = min(MOST_NAME, max((len(about(node)) for node in graph.nodes), default=0))
    for name in names:
        node = order.nodes[name]
        state = f"{state_line(views[name]):<24} " if name in views else ""
        needs: dict[str, list[str]] = {}
        for edge in order.into[name]:
            source = f"{edge.source}={edge.label}" if edge.label is not None else edge.source
            needs.setdefault(_ARROWS[edge.kind], []).append(shown(source, MOST_NAME))
        told = "  ".join(f"{word} {', '.join(sources)}" for word, sources in needs.items())
        loops = [f"revises {edge.target}" for edge in order.edges if edge.kind == "revise" and edge.source == name]
        line = f"{state}{shown(name, MOST_NAME):<{longest}}  {kind_of(node):<{kinds}}  {shown(about(node), MOST_NAME):<{doing}}"
        yield shown("  ".join([line, told, *loops]).rstrip(), max(width, 60))
