"""The figures as one picture: per workload one bar for each system. Its length is the slowdown against the limit, on a log scale.

One axis for all workloads, because each is compared with the best this machine could do at it. Plain SVG, so that nothing is needed to
draw it and a browser, a README and a diff can read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.figures import Line, Report
from bench.lines import HOLDFAST
from bench.table import figure

WIDTH: Final = 960
LEFT, RIGHT, TOP, BOTTOM = 270, 130, 84, 44
BAR, GAP, GROUP_GAP = 13, 2, 15
LINE_HEIGHT: Final = 14
FONT: Final = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"
OURS: Final = "#0b6e4f"
PEER_COLOURS: Final = ("#c2570c", "#5b6fb5", "#a23b72", "#7a7a2a")
"""The colours differ in brightness, so that colour-blind readers can tell them apart."""


def picture(report: Report) -> str:
    """The whole SVG. Lines without a limit of the machine have no place on this axis and stay in the table."""
    lines = [line for line in report.lines if line.limit and line.raw]
    colours = {"": OURS, **dict(zip(report.peers, _endless(PEER_COLOURS), strict=False))}
    times = [behind for line in lines for column in colours if (behind := line.behind(column)) is not None]
    axis = Axis(min(times, default=1.0), max(times, default=1.0))
    height = TOP + sum(_height(line, colours) + GROUP_GAP for line in lines) + BOTTOM
    title = "How many times slower than the limit of the same disk in the same run (log scale; shorter is better)"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' role='img' {FONT}>",
        f"<title>{title}</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
        _text(16, 26, title, 15, weight=600),
        *_legend(colours),
        *_grid(axis, height),
    ]
    y = TOP
    for line in lines:
        parts += _group(line, colours, axis, y)
        y += _height(line, colours) + GROUP_GAP
    parts += [_text(16, height - 12, " · ".join(report.conditions[:2]), 10, fill=FAINT), "</svg>"]
    return "\n".join(parts) + "\n"


class Axis:
    """Maps `how many times slower` to an x position. 1 is the limit itself; a faster system is left of it."""

    def __init__(self, least: float, most: float) -> None:
        self._from = min(math.log10(least), 0.0)
        self._to = max(math.log10(most), self._from + 1.0)

    def x(self, times: float) -> float:
        return LEFT + (math.log10(times) - self._from) / (self._to - self._from) * (WIDTH - LEFT - RIGHT)

    def marks(self) -> Iterator[tuple[float, bool]]:
        """Where lines of the grid stand, and whether they have a name: every power of ten; between them 2 and 5."""
        for power in range(math.floor(self._from), math.ceil(self._to) + 1):
            for digit in (1, 2, 5):
                times = digit * 10.0**power
                if self._from <= math.log10(times) <= self._to + 1e-9:
                    yield times, digit == 1


def _endless(colours: Sequence[str]) -> Iterator[str]:
    while True:
        yield from colours


def _height(line: Line, columns: Iterable[str]) -> int:
    """Room for the bars, and for the two lines of text beside them."""
    bars = sum(line.behind(column) is not None for column in columns)
    return max(bars * (BAR + GAP), 2 * LINE_HEIGHT)


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = float(LEFT)
    for column, colour in colours.items():
        title = column or HOLDFAST
        yield f"<rect x='{x:.0f}' y='42' width='12' height='12' rx='2' fill='{colour}'/>"
        yield _text(x + 17, 52, title, 12)
        x += 36 + 7.2 * len(title)


def _grid(axis: Axis, height: int) -> Iterator[str]:
    bottom = height - BOTTOM + 4
    for times, named in axis.marks():
        x = axis.x(times)
        limit = times == 1
        colour, width = (INK, 1.4) if limit else (GRID, 1.2 if named else 0.6)
        yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP - 8}' y2='{bottom}' stroke='{colour}' stroke-width='{width}'/>"
        if named:
            yield _text(x, TOP - 13, "the limit" if limit else f"{times:,g} ×", 11, fill=FAINT, anchor="middle")


def _group(line: Line, colours: Mapping[str, str], axis: Axis, y: int) -> Iterator[str]:
    middle = y + _height(line, colours) / 2
    yield _text(LEFT - 14, middle - 2, f"{line.workload} {line.what}".replace("`", ""), 12, anchor="end", weight=600)
    yield _text(LEFT - 14, middle + 12, f"limit {figure(line.at_best or 0)} {line.unit} ({line.limit})", 10, fill=FAINT, anchor="end")
    for column, colour in colours.items():
        behind = line.behind(column)
        if behind is None:
            continue
        ends = sorted((axis.x(1), axis.x(behind)))
        value = line.figure(line.peers[column].samples) if column else line.value
        yield (
            f"<rect x='{ends[0]:.1f}' y='{y}' width='{max(ends[1] - ends[0], 1):.1f}' height='{BAR}' rx='1.5' fill='{colour}'>"
            f"<title>{escape(column or HOLDFAST)}: {behind:.3g} times slower than the limit</title></rect>"
        )
        yield _text(ends[1] + 5, y + 10.5, f"{figure(value)} {line.unit}", 11)
        y += BAR + GAP


def _text(x: float, y: float, said: str, size: int, *, fill: str = INK, anchor: str = "start", weight: int = 400) -> str:
    place = f"x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{fill}' text-anchor='{anchor}' font-weight='{weight}'"
    return f"<text {place}>{escape(said)}</text>"
