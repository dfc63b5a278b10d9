"""Figures as aligned text: one table of everybody, one of the promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from bench.figures import ASYNC, DEF, LIMIT, Floor, Line, Report, Taken

Cells = Sequence[str]
TITLES: Final = {LIMIT: "limit", ASYNC: "Holdfast async", DEF: "Holdfast def"}
LEGEND: Final = (
    "Each figure is a median; ± is half the range of its repeats. async/limit and def/limit: how many times the limit, pair by pair.",
    "vs: how many times better than that peer Holdfast async is.",
)


def figure(value: float) -> str:
    """Three digits that matter, thousands apart: 31,400 · 12.5 · 0.231."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def aligned(head: Cells, rows: Sequence[Cells], right: Collection[int]) -> str:
    """The rows under a heading, without columns nobody filled; `right` columns line up at their end, as numbers do."""
    filled = [column for column in range(len(head)) if any(row[column] for row in rows)]
    width = {column: max(len(row[column]) for row in (head, *rows)) for column in filled}
    texts = [[row[c].rjust(width[c]) if c in right else row[c].ljust(width[c]) for c in filled] for row in (head, *rows)]
    texts.insert(1, ["-" * width[c] for c in filled])
    return "\n".join("  ".join(cells).rstrip() for cells in texts)


def table(report: Report) -> str:
    """One row per line, one column per contestant, then the ratios."""
    peers = report.peers
    columns = [LIMIT, ASYNC, DEF, *peers]
    ratios = [f"{ASYNC}/{LIMIT}", f"{DEF}/{LIMIT}", *(f"vs {peer}" for peer in peers)]
    head = ["", "", "unit", *(TITLES.get(column, column) for column in columns), *ratios, "limit is"]
    rows = [
        [
            line.workload,
            line.what,
            line.unit,
            *(_cell(line.cells.get(column)) for column in columns),
            *(_times(line.cells[ours].ratio if ours in line.cells else None) for ours in (ASYNC, DEF)),
            *(_times(line.better(peer)) for peer in peers),
            line.limit,
        ]
        for line in report.lines
    ]
    return aligned(head, rows, range(3, len(head) - 1))


def floors(report: Report) -> str:
    """Every promise, what was measured, and whether it holds."""
    rows = [_promise(line, floor) for line in report.lines for floor in line.floors]
    return aligned(("", "promised", "must be", "is", ""), rows, (3,)) if rows else ""


def text(report: Report) -> str:
    """Everything a run has to say."""
    parts = ["\n".join(report.conditions), table(report), "\n".join([*LEGEND, *report.notes]), floors(report)]
    return "\n\n".join(part for part in parts if part)


def _promise(line: Line, floor: Floor) -> Cells:
    unit = "× limit" if floor.of_limit else line.unit
    found, kept = line.found(floor), line.kept(floor)
    return (
        line.workload,
        f"{line.what}, {floor.column}",
        f"{'≥' if line.more else '≤'} {figure(floor.bound)} {unit}",
        "" if found is None else figure(found),
        "" if kept is None else "kept" if kept else "BROKEN",
    )


def _cell(taken: Taken | None) -> str:
    if taken is None:
        return ""
    return figure(taken.median) + (f" ±{taken.spread:.0%}" if len(taken.samples) > 1 else "")


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{figure(ratio)} ×"
