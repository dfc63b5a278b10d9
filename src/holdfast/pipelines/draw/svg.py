"""A graph as an SVG picture for light and dark pages, readable without colours, with titles for screen readers. It has no scripts and loads
no fonts.

The console shows the same picture with its own style sheet (`style=False`), because its pages do not allow styles inside them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from holdfast.contract.notes import printable, shown
from holdfast.pipelines.draw.captions import STATES, NodeView, Views, about, rounds_label, state_line, told
from holdfast.pipelines.draw.layout import BEGIN, END, Box, DrawingLengths, EdgeLine, Layout, layout
from holdfast.pipelines.graph.graph import AnyNode, Graph, kind_of

_NAME, _SMALL = 13.0, 11.5
_PAD = 14
_NARROW, _WIDE = 110, 290
_CORNER = 7
_MARK = 15
"""The width, in pixels, that the mark of a state takes."""


def draw_svg(graph: Graph, views: Views | None = None, *, style: bool = True) -> str:
    """The picture as SVG text. `views`: the states of the nodes in a run; without it, no states are shown. `style`: whether the picture has
    its styles and its background inside."""
    return "\n".join(_Picture(graph, views or {}, style).lines()) + "\n"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is in a usual sans-serif font of this size. The estimate is usually a little too wide."""
    return size * sum(_em(character) for character in text) * (1.12 if bold else 1.0)


def _em(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "iljtfrI.,:;'|!()[]- ":
        return 0.38
    if character in "mwMW@%…—":
        return 0.95
    return 0.7 if character.isupper() else 0.6


def _fitting(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """The text on one line, cut with `…` if it is wider than `width` in a font of this size, or longer than 120 characters."""
    text = shown(text, 120)
    while text_width(text, size, bold=bold) > width and len(text) > 1:
        text = text.removesuffix("…")[:-1] + "…"
    return text


class _Picture:
    def __init__(self, graph: Graph, views: Mapping[str, NodeView], style: bool) -> None:
        self._graph = graph
        self._views = views
        self._style = style
        self._nodes: dict[str, AnyNode] = {node.name: node for node in graph.nodes}
        self._title = f"{graph.contract.get('worker_id', 'pipeline')} {graph.contract.get('version', '')}".strip()
        self._captions = {name: self._caption(name) for name in (BEGIN, END, *self._nodes)}
        self.drawn: Layout = layout(graph, DrawingLengths(box=self._size, gap=26, track=12, port=14, arrow=18, margin=16))
        self._arriving: dict[int, set[int]] = {}
        """The x positions of the lower ends of all lines, by the y position of these ends."""
        for wire in self.drawn.wires:
            x, y = max(wire.points[0], wire.points[-1], key=lambda point: point[1])
            self._arriving.setdefault(y, set()).add(x)

    def _caption(self, name: str) -> list[tuple[str, str, float]]:
        """The lines of text in a box: the CSS class, the text and the font size of each."""
        inner = _WIDE - 2 * _PAD
        if name == BEGIN:
            return [("hf-name", _fitting(self._title, _NAME, inner, bold=True), _NAME), ("hf-about", "takes inputs", _SMALL)]
        if name == END:
            return [("hf-name", "gives outputs", _NAME)]
        node = self._nodes[name]
        lines = [("hf-name", _fitting(name, _NAME, inner, bold=True), _NAME)]
        lines.append(("hf-about", _fitting(f"{kind_of(node)}  {about(node)}", _SMALL, inner), _SMALL))
        if name in self._views:
            state = state_line(self._views[name]).partition(" ")[2]
            lines.append(("hf-state", _fitting(state, _SMALL, inner - _MARK, bold=True), _SMALL))
        return lines

    def _size(self, name: str) -> tuple[int, int]:
        lines = self._captions[name]
        inner = max(text_width(text, size, bold=kind != "hf-about") + (_MARK if kind == "hf-state" else 0) for kind, text, size in lines)
        return max(_NARROW, int(inner) + 2 * _PAD + 1), {1: 34, 2: 48, 3: 66}[len(lines)]

    def lines(self) -> Iterator[str]:
        width, height = self.drawn.width, self.drawn.height
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="hf-graph" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{_safe("Pipeline " + self._title)}">'
        )
        yield f"<title>{_safe('Pipeline ' + self._title)}</title>"
        if self._style:
            yield f"<style>{CSS}</style>"
            yield f'<rect class="hf-page" width="{width}" height="{height}"/>'
        for kind in ("after", "data", "revise"):
            yield from (self._wire(wire) for wire in self.drawn.wires if wire.kind == kind)
        for box in self.drawn.boxes:
            yield from self._box(box)
        yield from self._labels()
        yield "</svg>"

    # --- edges

    def _wire(self, wire: EdgeLine) -> str:
        *_, (x, y) = wire.points
        up = wire.points[-2][1] > y
        tip = f"M{x} {y}l-4.5 {7 if up else -7}h9z"
        words = {"data": "to", "after": "before", "revise": "asks again"}
        title = f"{wire.source or 'inputs'} {words[wire.kind]} {wire.target.strip() or 'outputs'}"
        short = (*wire.points[:-1], (x, y + (6 if up else -6)))
        line = f'<path class="hf-line" d="{_rounded(short)}"/><path class="hf-tip" d="{tip}"/>'
        return f'<g class="hf-{wire.kind}"><title>{_safe(title)}</title>{line}</g>'

    def _labels(self) -> Iterator[str]:
        for wire in self.drawn.wires:
            label = rounds_label(self._graph, wire.source) if wire.kind == "revise" else wire.label
            if label:  # beside the line, right above the lower box: no other line runs sideways there
                x, y = wire.points[0] if wire.points[0][1] > wire.points[-1][1] else wire.points[-1]
                text = _fitting(label, 11, 120, bold=True)
                crowded = any(x < other < x + 12 + text_width(text, 11, bold=True) for other in self._arriving[y])
                place = f'x="{x - 8}" text-anchor="end"' if crowded else f'x="{x + 8}"'
                yield f'<text class="hf-label" {place} y="{y - 5}">{_safe(text)}</text>'

    # --- boxes

    def _box(self, box: Box) -> Iterator[str]:
        node = self._nodes.get(box.name)
        kind = "end" if node is None else kind_of(node)
        view = self._views.get(box.name)
        state = f" hf-{view.state}" if view is not None and view.state in STATES else ""
        title = told(self._graph, node, view) if node is not None else " ".join(text for _, text, _ in self._captions[box.name])
        yield f'<g class="hf-node hf-{kind}{state}"' + (f' data-node="{_safe(box.name)}"' if node is not None else "") + ">"
        yield f"<title>{_safe(title)}</title>{_outline(kind, box)}"
        lines = self._captions[box.name]
        baseline = box.y + (22 if len(lines) == 1 else 20)
        for at, (css, text, _) in enumerate(lines):
            left = box.x + _PAD
            if css == "hf-state" and view is not None:
                yield _mark(view.state, left + 5, baseline - 4)
                left += _MARK
            yield f'<text class="{css}" x="{left}" y="{baseline}">{_safe(text)}</text>'
            baseline += 17 if at == 0 else 18
        yield "</g>"


def _outline(kind: str, box: Box) -> str:
    """The border of a box as SVG. Its shape shows the kind of the node; a few kinds share one shape."""
    x, y, w, h = box.x, box.y, box.width, box.height
    rect = f'<rect class="hf-box" x="{x}" y="{y}" width="{w}" height="{h}" rx="{{}}"/>'
    match kind:
        case "map":
            return f'<rect class="hf-box" x="{x + 5}" y="{y + 5}" width="{w}" height="{h}" rx="4"/>' + rect.format(4)
        case "pipeline":  # a box in a box
            return rect.format(4) + f'<rect class="hf-box" x="{x + 3}" y="{y + 3}" width="{w - 6}" height="{h - 6}" rx="2"/>'
        case "supervise" | "until":  # a node that runs again has a double left edge
            return rect.format(4) + f'<path class="hf-box" d="M{x + 4} {y + 1}v{h - 2}"/>'
        case "gate":
            corners = ((10, 0), (w - 10, 0), (w, 10), (w, h - 10), (w - 10, h), (10, h), (0, h - 10), (0, 10))
            return _polygon(box, corners)
        case "route":
            return _polygon(box, ((10, 0), (w - 10, 0), (w, h / 2), (w - 10, h), (10, h), (0, h / 2)))
        case "human":
            return rect.format(16)
        case "end" | "wait":
            return rect.format(h / 2)
        case _:
            return rect.format(4)


def _polygon(box: Box, corners: tuple[tuple[float, float], ...]) -> str:
    points = " ".join(f"{box.x + right:g},{box.y + down:g}" for right, down in corners)
    return f'<polygon class="hf-box" points="{points}"/>'


def _mark(state: str, x: float, y: float) -> str:
    """The SVG of the mark that shows a state, with its middle at `x`, `y`. An unknown state gets the mark of `waiting`."""
    match state:
        case "ok":
            return f'<circle class="hf-full" cx="{x}" cy="{y}" r="4.5"/>'
        case "partial":
            return f'<circle class="hf-ring" cx="{x}" cy="{y}" r="4"/><path class="hf-full" d="M{x} {y}v-4a4 4 0 1 1 -4 4z"/>'
        case "running":
            return f'<circle class="hf-ring" cx="{x}" cy="{y}" r="4"/><circle class="hf-full" cx="{x}" cy="{y}" r="1.8"/>'
        case "failed":
            return f'<path class="hf-ring" d="M{x - 4} {y - 4}l8 8m0 -8l-8 8"/>'
        case "blocked":
            return f'<rect class="hf-full" x="{x - 4}" y="{y - 4}" width="8" height="8"/>'
        case "person":
            return f'<path class="hf-ring" d="M{x} {y - 5}l5 5l-5 5l-5 -5z"/>'
        case "undone":
            return f'<path class="hf-ring" d="M{x + 4} {y + 4}a4 4 0 1 0 -5 -6m0 -3v3.5h3.5"/>'
        case "skipped":
            return f'<path class="hf-ring" d="M{x - 4} {y}h8"/>'
        case _:
            return f'<circle class="hf-ring" cx="{x}" cy="{y}" r="4"/>'


def _rounded(points: tuple[tuple[int, int], ...]) -> str:
    """The SVG path of a line through these points, with round corners."""
    x, y = points[0]
    path = [f"M{x} {y}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        into, out = _toward(corner, before), _toward(corner, after)
        path.append(f"L{into[0]:g} {into[1]:g}Q{corner[0]} {corner[1]} {out[0]:g} {out[1]:g}")
    path.append(f"L{points[-1][0]} {points[-1][1]}")
    return "".join(path)


def _toward(corner: tuple[int, int], other: tuple[int, int]) -> tuple[float, float]:
    """The point at which the round corner begins or ends: a little away from `corner` in the direction of `other`, the point of the line
    before or after the corner."""
    right, down = other[0] - corner[0], other[1] - corner[1]
    length = min(_CORNER, (abs(right) + abs(down)) / 2)
    return corner[0] + length * ((right > 0) - (right < 0)), corner[1] + length * ((down > 0) - (down < 0))


def _safe(text: str) -> str:
    """A text for XML: special characters are escaped, and each character that cannot be printed is replaced by U+FFFD."""
    return escape(printable(text), quote=True)


def _coloured(dark: bool) -> str:
    page, panel, text, muted, line, accent = (
        ("#0f1216", "#171b21", "#e6eaf0", "#a3adba", "#5b6472", "#4fc3d0")
        if dark
        else ("#ffffff", "#f6f7f9", "#14181f", "#5b6472", "#8b95a3", "#0b6b75")
    )
    rules = [
        f".hf-page{{fill:{page}}}.hf-box{{fill:{panel};stroke:{line}}}.hf-name{{fill:{text}}}.hf-about{{fill:{muted}}}",
        f".hf-line{{stroke:{muted}}}.hf-tip{{fill:{muted}}}.hf-revise .hf-line{{stroke:{accent}}}.hf-revise .hf-tip{{fill:{accent}}}",
        f".hf-label{{fill:{accent};stroke:{page}}}",
    ]
    for state, look in STATES.items():
        colour = look.dark if dark else look.light
        rules.append(
            f".hf-{state} .hf-box,.hf-{state} .hf-ring{{stroke:{colour}}}.hf-{state} .hf-state,.hf-{state} .hf-full{{fill:{colour}}}"
        )
    return "".join(rules)


CSS: Final = (
    ".hf-graph{font-family:system-ui,sans-serif}.hf-name{font-size:13px;font-weight:600}.hf-about,.hf-state{font-size:11.5px}"
    ".hf-state{font-weight:600}.hf-label{font-size:11px;font-weight:600;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}"
    ".hf-box{stroke-width:1.2px}.hf-line{fill:none;stroke-width:1.6px}.hf-after .hf-line{stroke-width:1px}"
    ".hf-revise .hf-line{stroke-width:1.4px;stroke-dasharray:5 4}.hf-end .hf-box{stroke-dasharray:none;fill-opacity:0}"
    ".hf-skipped .hf-box{stroke-dasharray:4 3}.hf-ring{fill:none;stroke-width:1.6px}"
    + _coloured(dark=False)
    + "@media (prefers-color-scheme:dark){"
    + _coloured(dark=True)
    + "}"
)
"""The style sheet of the picture, with the colours for light and for dark pages."""
