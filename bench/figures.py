"""Figures: what was taken how often, beside what, and whether it keeps what was promised. Pure values, to JSON and back."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Self

LIMIT: Final = "limit"
ASYNC: Final = "async"
DEF: Final = "def"
OURS: Final = (LIMIT, ASYNC, DEF)
"""The columns that are not a peer's."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One figure, taken several times; `against` is the limit taken right after each of them."""

    samples: tuple[float, ...]
    against: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the way from the least to the most, as a part of the median."""
        return (max(self.samples) - min(self.samples)) / 2 / abs(self.median) if self.median else 0.0

    @property
    def ratio(self) -> float | None:
        """How many times the limit: the median of pairs, because the machine changes from one second to the next."""
        if not self.against:
            return None
        return statistics.median(ours / limit for ours, limit in zip(self.samples, self.against, strict=True))

    def scaled(self, factor: float) -> Self:
        return replace(self, samples=_times(self.samples, factor), against=_times(self.against, factor))


def _times(samples: Iterable[float], factor: float) -> tuple[float, ...]:
    return tuple(sample * factor for sample in samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A promise about one column: the figure itself, or how many times the limit it is. Without it `make bench` fails."""

    column: str = ASYNC
    bound: float
    of_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing measured, by everybody who can do it. A column nobody filled is absent."""

    workload: str
    what: str
    unit: str
    more: bool = False
    """More is better (a rate); else less is (a time, memory)."""
    limit: str = ""
    """What the limit is, where there is one."""
    cells: Mapping[str, Taken] = field(default_factory=dict)
    floors: tuple[Floor, ...] = ()

    def better(self, peer: str) -> float | None:
        """How many times better than this peer Holdfast is, with `async def`."""
        ours, theirs = self.cells.get(ASYNC), self.cells.get(peer)
        if ours is None or theirs is None or min(ours.median, theirs.median) <= 0:
            return None
        return ours.median / theirs.median if self.more else theirs.median / ours.median

    def behind(self, column: str) -> float | None:
        """How many times slower than the limit a column is."""
        limit, taken = self.cells.get(LIMIT), self.cells.get(column)
        if limit is None or taken is None:
            return None
        times = taken.ratio or taken.median / limit.median
        return 1 / times if self.more else times

    def found(self, floor: Floor) -> float | None:
        """What the floor speaks of, as it was measured."""
        taken = self.cells.get(floor.column)
        if taken is None:
            return None
        return taken.ratio if floor.of_limit else taken.median

    def kept(self, floor: Floor) -> bool | None:
        found = self.found(floor)
        if found is None:
            return None
        return found >= floor.bound if self.more else found <= floor.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the bench."""

    conditions: tuple[str, ...]
    """Where and how it was measured, a line each."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know about the peers: how they were set up, or why one is not there."""

    @property
    def peers(self) -> list[str]:
        return list(dict.fromkeys(column for line in self.lines for column in line.cells if column not in OURS))

    @property
    def broken(self) -> bool:
        return any(line.kept(floor) is False for line in self.lines for floor in line.floors)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        said = json.loads(text)
        lines = tuple(_line(line) for line in said["lines"])
        return cls(conditions=tuple(said["conditions"]), lines=lines, notes=tuple(said["notes"]))


def _line(said: dict[str, object]) -> Line:
    cells = said.pop("cells")
    floors = said.pop("floors")
    assert isinstance(cells, dict)
    assert isinstance(floors, list)
    taken = {column: Taken(tuple(cell["samples"]), tuple(cell["against"])) for column, cell in cells.items()}
    return Line(**said, cells=taken, floors=tuple(Floor(**floor) for floor in floors))  # type: ignore[arg-type]


def limits(cells: Mapping[str, Taken]) -> Sequence[float]:
    """Every time the limit was taken beside one of these."""
    return [sample for taken in cells.values() for sample in taken.against]
