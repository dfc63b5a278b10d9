"""Writes the figures into docs/proof.md, between two marks. Only this module writes that part of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.figures import Report
from bench.table import LEGEND, head, row

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "proof.md"


def with_figures(page: str, report: Report) -> str:
    """The page with this run of the bench in it."""
    return _with(page, "bench", figures(report))


def with_soak(page: str, told: str) -> str:
    """The page with this soak in it."""
    return _with(page, "soak", f"> {told}")


def _with(page: str, word: str, said: str) -> str:
    begin, end = f"<!-- written by make {word} -->", f"<!-- end of make {word} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place for it: {begin} … {end}")
    return f"{before}{begin}\n\n{said}\n\n{end}{after}"


def figures(report: Report) -> str:
    """Conditions, table and notes in Markdown."""
    rows = [_row(head(report)), _row(["---"] * len(head(report))), *(_row(row(line, report.peers)) for line in report.lines)]
    return "\n\n".join([_lines(report.conditions), "\n".join(rows), _lines([*LEGEND, *report.notes])])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(said: list[str] | tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in said)
