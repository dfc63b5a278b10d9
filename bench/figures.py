"""Figures: the samples of each measurement, its limit, and its targets. Pure values, which convert to JSON and back."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Literal, Self

LIMIT: Final = "limit"
Verdict = Literal["goal", "must", "not yet", "BROKEN", ""]


@dataclass(frozen=True, slots=True)
class Taken:
    """One figure, measured in several rounds; `against` is the limit, measured right after each round."""

    samples: tuple[float, ...]
    against: tuple[float, ...] = ()

    @property
    def spread(self) -> float:
        """Half the range of the rounds, relative to the median."""
        median = statistics.median(self.samples)
        return (max(self.samples) - min(self.samples)) / 2 / abs(median) if median else 0.0

    @property
    def ratio(self) -> float | None:
        """The ratio to the limit: the median of pairs, because the speed of the machine changes from second to second."""
        if not self.against:
            return None
        return statistics.median(ours / limit for ours, limit in zip(self.samples, self.against, strict=True))

    def scaled(self, factor: float) -> Self:
        return replace(self, samples=_times(self.samples, factor), against=_times(self.against, factor))


def _times(samples: Iterable[float], factor: float) -> tuple[float, ...]:
    return tuple(sample * factor for sample in samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target of the design: for the figure itself, for its ratio to the limit, or for its ratio to a peer."""

    of: str = ""
    """Empty for the figure itself, `limit`, or a peer's name."""
    must: float | None = None
    goal: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One measured line of the table."""

    workload: str
    what: str
    unit: str
    more: bool = False
    """More is better (a rate); else less is (a time, memory)."""
    best: bool = False
    """True: the best round counts, because noise only makes it worse. False: the median counts."""
    limit: str = ""
    """The name of the limit, if there is one."""
    raw: bool = True
    """True if the limit is the raw limit of this machine; False if it is another figure of Holdfast."""
    targets: tuple[Target, ...] = ()
    floor: float | None = None
    """The value at which the run fails: about half as good as usual. With a limit it is a ratio, because noise affects both sides."""
    ours: Taken
    peers: Mapping[str, Taken] = field(default_factory=dict)

    def figure(self, samples: Iterable[float]) -> float:
        """Many rounds as one figure."""
        if not self.best:
            return statistics.median(samples)
        return max(samples) if self.more else min(samples)

    @property
    def value(self) -> float:
        """Our figure."""
        return self.figure(self.ours.samples)

    @property
    def at_best(self) -> float | None:
        """The limit's figure."""
        return self.figure(self.ours.against) if self.ours.against else None

    def better(self, peer: str) -> float | None:
        """How many times better than this peer Holdfast is."""
        if peer not in self.peers:
            return None
        ours, theirs = self.value, self.figure(self.peers[peer].samples)
        if min(ours, theirs) <= 0:
            return None
        return ours / theirs if self.more else theirs / ours

    def behind(self, peer: str = "") -> float | None:
        """How many times slower than the limit Holdfast is, or a peer."""
        if self.ours.ratio is None or self.at_best is None or (peer and peer not in self.peers):
            return None
        times = self.figure(self.peers[peer].samples) / self.at_best if peer else self.ours.ratio
        return 1 / times if self.more else times

    def found(self, target: Target) -> float | None:
        """The measured value for a target; None if it was not measured."""
        if not target.of:
            return self.value
        return self.ours.ratio if target.of == LIMIT else self.better(target.of)

    def upward(self, target: Target) -> bool:
        """Whether more is better there."""
        return self.more or target.of not in ("", LIMIT)

    @property
    def verdict(self) -> Verdict:
        """The verdict: every goal reached, every must reached, or not yet; none without a target."""
        if self.floor is not None and not _reached(self.ours.ratio if self.limit else self.value, self.floor, self.more):
            return "BROKEN"
        known = [target for target in self.targets if self.found(target) is not None]
        if not known:
            return ""
        if not all(_reached(self.found(target), target.must, self.upward(target)) for target in known):
            return "not yet"
        goals = [_reached(self.found(target), target.goal, self.upward(target)) for target in known if target.goal is not None]
        return "goal" if goals and all(goals) else "must"


def _reached(found: float | None, bound: float | None, upward: bool) -> bool:
    if found is None or bound is None:
        return True
    return found >= bound if upward else found <= bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the bench."""

    conditions: tuple[str, ...]
    """Where and how it was measured, a line each."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    """Notes about the peers: how they were set up, or why one is missing."""

    @property
    def peers(self) -> list[str]:
        return list(dict.fromkeys(peer for line in self.lines for peer in line.peers))

    @property
    def broken(self) -> bool:
        return any(line.verdict == "BROKEN" for line in self.lines)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        said = json.loads(text)
        lines = tuple(_line(**line) for line in said["lines"])
        return cls(conditions=tuple(said["conditions"]), lines=lines, notes=tuple(said["notes"]))


def _line(
    *, ours: dict[str, list[float]], peers: dict[str, dict[str, list[float]]], targets: list[dict[str, float]], **rest: object
) -> Line:
    return Line(
        ours=_taken(ours),
        peers={peer: _taken(taken) for peer, taken in peers.items()},
        targets=tuple(Target(**target) for target in targets),  # type: ignore[arg-type]
        **rest,  # type: ignore[arg-type]
    )


def _taken(said: dict[str, list[float]]) -> Taken:
    return Taken(tuple(said["samples"]), tuple(said["against"]))
