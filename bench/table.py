"""Measured rows as an aligned text table: what, how much, how that compares, and what was promised."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. `ratio` is against the thing named by `of`, from the same run; `floor` is the promise; `kept` says if it held."""

    what: str
    value: float
    unit: str
    ratio: float | None = None
    of: str = ""
    floor: str = ""
    kept: bool | None = None

    def promised(self, floor: str, *, kept: bool) -> "Row":
        """The same row with a promise."""
        return replace(self, floor=floor, kept=kept)

    def cells(self) -> tuple[str, str, str, str, str, str]:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} ×"
        verdict = "" if self.kept is None else "kept" if self.kept else "BROKEN"
        return self.what, f"{figure(self.value)} {self.unit}", ratio, self.of, self.floor, verdict


HEAD = ("what", "measured", "ratio", "of", "floor", "")
RIGHT = (1, 2)  # numbers line up at their end


def figure(value: float) -> str:
    """Three digits that matter, thousands apart: 31,400 · 12.5 · 0.231."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """The rows under a heading, without columns nobody filled."""
    lines = [HEAD, *(row.cells() for row in rows)]
    filled = [column for column in range(len(HEAD)) if any(line[column] for line in lines[1:])]
    width = {column: max(len(line[column]) for line in lines) for column in filled}
    texts = [[line[c].rjust(width[c]) if c in RIGHT else line[c].ljust(width[c]) for c in filled] for line in lines]
    texts.insert(1, ["-" * width[c] for c in filled])
    return "\n".join("  ".join(cells).rstrip() for cells in texts)


def show(rows: Sequence[Row]) -> None:
    print(table(rows), flush=True)
