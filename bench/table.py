"""The figures as text: one row for each measured line, with the limit, the targets, and the other systems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from bench.figures import LIMIT, Line, Report, Taken, Target

Cells = Sequence[str]
LEGEND: Final = (
    "Rates, totals and restarts are the best of their rounds, for every system; the others are medians. ± is half the range of the rounds.",
    "× limit: the median of pairs taken one right after the other. A peer's (×): how many times better Holdfast is.",
    "must and goal are the design's: how many times the limit, or better than a peer, in the same run.",
    "BROKEN is far below what is usual, and fails the run.",
)


def figure(value: float) -> str:
    """Three digits that matter, thousands apart: 31,400 · 12.5 · 0.231."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def aligned(head: Cells, rows: Sequence[Cells], right: Collection[int]) -> str:
    """The rows under a heading, without empty columns. The columns in `right` are aligned at the right."""
    filled = [column for column in range(len(head)) if any(row[column] for row in rows)]
    width = {column: max(len(row[column]) for row in (head, *rows)) for column in filled}
    texts = [[row[c].rjust(width[c]) if c in right else row[c].ljust(width[c]) for c in filled] for row in (head, *rows)]
    texts.insert(1, ["-" * width[c] for c in filled])
    return "\n".join("  ".join(cells).rstrip() for cells in texts)


def head(report: Report) -> list[str]:
    return ["", "", "unit", "Holdfast", "limit", "× limit", "must", "goal", "verdict", *report.peers, "limit is"]


def row(line: Line, peers: Sequence[str]) -> list[str]:
    """A line under that heading."""
    return [
        line.workload,
        line.what,
        line.unit,
        _figure(line, line.ours),
        "" if line.at_best is None else figure(line.at_best),
        _times(line.ours.ratio),
        _asked(line, [(target, target.must) for target in line.targets]),
        _asked(line, [(target, target.goal) for target in line.targets]),
        line.verdict,
        *(_peer(line, peer) for peer in peers),
        line.limit,
    ]


def table(report: Report) -> str:
    rows = [row(line, report.peers) for line in report.lines]
    return aligned(head(report), rows, [3, 4, 5, *range(9, 9 + len(report.peers))])


def text(report: Report) -> str:
    """Everything a run has to say."""
    return "\n\n".join(["\n".join(report.conditions), table(report), "\n".join([*LEGEND, *report.notes])])


def _asked(line: Line, bounds: Sequence[tuple[Target, float | None]]) -> str:
    return ", ".join(_bound(line, target, bound) for target, bound in bounds if bound is not None)


def _bound(line: Line, target: Target, bound: float) -> str:
    of = {"": "", LIMIT: " ×"}.get(target.of, f" × {target.of}")
    return f"{'≥' if line.upward(target) else '≤'} {figure(bound)}{of}"


def _figure(line: Line, taken: Taken) -> str:
    return figure(line.figure(taken.samples)) + (f" ±{taken.spread:.0%}" if len(taken.samples) > 1 else "")


def _peer(line: Line, peer: str) -> str:
    if peer not in line.peers:
        return ""
    better = line.better(peer)
    return _figure(line, line.peers[peer]) + (f" ({_times(better)})" if better is not None else "")


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{figure(ratio)} ×"
