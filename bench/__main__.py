"""`make bench`: Holdfast beside the raw limit of this machine, as ratios from one run.

Times move by a factor of two from day to day and from second to second. So each measurement is taken several times, the limit between
them, and a ratio is the median of pairs measured side by side.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import limit, restart, workloads
from bench.table import Row, show

PAIRS = 5
FEW = 3


def paired(measure: Callable[[], float], against: Callable[[], float], pairs: int) -> tuple[float, float, float]:
    """The median of a measurement, of the thing it is compared with, and of their ratio pair by pair."""
    taken = [(measure(), against()) for _ in range(pairs)]
    ratios = [ours / theirs for ours, theirs in taken]
    return statistics.median(o for o, _ in taken), statistics.median(t for _, t in taken), statistics.median(ratios)


def run(work: Callable[[], Coroutine[Any, Any, float]]) -> float:
    return asyncio.run(work())


def w1(folder: Path) -> list[Row]:
    def ours(function: str) -> float:
        return run(partial(workloads.w1, folder, function))

    bare = partial(limit.bare_commit, folder, commits=200, runs=1)
    taken, commit, ratio = paired(partial(ours, "in_sequence"), bare, PAIRS)
    blocking, _, blocking_ratio = paired(partial(ours, "in_sequence_blocking"), bare, PAIRS)
    return [
        Row(what="bare commit", value=commit * 1000, unit="ms"),
        Row(what="W1 async", value=taken * 1000, unit="ms/step", ratio=ratio, of="bare commit", floor="≤ 2.5 ×", kept=ratio <= 2.5),
        Row(what="W1 def", value=blocking * 1000, unit="ms/step", ratio=blocking_ratio, of="bare commit"),
    ]


def w2(folder: Path) -> list[Row]:
    def ours(function: str, *, computing: bool = False) -> float:
        return run(partial(workloads.w2, folder, function, computing=computing))

    sketch = partial(limit.sketch, folder, runs=1)
    rate, sketched, ratio = paired(partial(ours, "in_sequence"), sketch, PAIRS)
    blocking, _, blocking_ratio = paired(partial(ours, "in_sequence_blocking"), sketch, FEW)
    busy, _, busy_ratio = paired(partial(ours, "in_sequence", computing=True), partial(ours, "in_sequence"), FEW)
    kept = rate >= 8_000 and ratio >= 0.25
    return [
        Row(what="sketch W2 (1,000 × 5 steps)", value=sketched, unit="steps/s"),
        Row(what="W2 async", value=rate, unit="steps/s", ratio=ratio, of="sketch", floor="≥ 8,000 and ≥ 0.25 ×", kept=kept),
        Row(what="W2 def", value=blocking, unit="steps/s", ratio=blocking_ratio, of="sketch"),
        Row(what="W2 async beside a CPU-bound step", value=busy, unit="steps/s", ratio=busy_ratio, of="W2 async"),
    ]


def w3(folder: Path) -> list[Row]:
    """The sketch does the same number of steps, all at once."""

    def sketched(steps: int) -> float:
        return steps / limit.sketch(folder, tasks=steps, steps=1, runs=1)

    rows = []
    for mapped, steps, most in ((False, workloads.W3_BRANCHES, 0.25), (True, workloads.W3_ITEMS, 2.5)):
        what = f"W3 {'map' if mapped else 'parallel'} of {steps:,}"
        for colour, function, pairs in (("async", "side_by_side", FEW), ("def", "side_by_side_blocking", 1)):
            ours = partial(run, partial(workloads.w3, folder, function, mapped=mapped))
            taken, _, ratio = paired(ours, partial(sketched, steps), pairs)
            row = Row(what=f"{what}, {colour}", value=taken, unit="s", ratio=ratio, of="sketch")
            rows.append(row.promised(f"≤ {most} s", kept=taken <= most) if colour == "async" else row)
    return rows


def w4(folder: Path) -> list[Row]:
    """One restart for all: to make the histories takes longest."""
    sizes, colours = {restart.W4_STEPS: 0.03, restart.W4_MANY_STEPS: 0.3}, {"async": "asks_late", "def": "asks_late_blocking"}
    taken = restart.w4(folder, [(function, steps) for steps in sizes for function in colours.values()], FEW)
    rows = []
    for steps, most in sizes.items():
        at_best = limit.recall(folder, steps=steps)
        for colour, function in colours.items():
            seconds = taken[function, steps]
            what = f"W4 after {steps:,} steps, {colour}"
            row = Row(what=what, value=seconds * 1000, unit="ms", ratio=seconds / at_best, of="bare recall")
            rows.append(row.promised(f"≤ {most * 1000:g} ms", kept=seconds <= most) if colour == "async" else row)
    return rows


def w6(folder: Path) -> list[Row]:
    taken = [(*asyncio.run(workloads.w6(folder)), limit.bare_commit(folder, commits=200, runs=1)) for _ in range(FEW)]
    p50, p99 = (statistics.median(t[n] for t in taken) for n in (0, 1))
    p50_ratio, p99_ratio = (statistics.median(t[n] / t[2] for t in taken) for n in (0, 1))
    return [
        Row(what="W6 start to result, median", value=p50 * 1000, unit="ms", ratio=p50_ratio, of="bare commit"),
        Row(what="W6 start to result, 99th percentile", value=p99 * 1000, unit="ms", ratio=p99_ratio, of="bare commit"),
    ]


def rest(folder: Path) -> list[Row]:
    """What happens while nothing happens."""
    wake, idle = run(partial(workloads.wakes, folder)), run(partial(workloads.idle, folder))
    return [
        Row(what="answer in another process to wake, median", value=wake * 1000, unit="ms", floor="≤ 100 ms", kept=wake <= 0.1),
        Row(what="idle CPU", value=idle * 100, unit="%", floor="< 1 %", kept=idle < 0.01),
    ]


MEASURES: dict[str, Callable[[Path], list[Row]]] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W6": w6, "rest": rest}


def measured(folder: Path, only: Sequence[str] = ()) -> list[Row]:
    return [row for name in only or MEASURES for row in MEASURES[name](folder)]


def main() -> None:
    """Measure, print the table, and fail when a floor is broken."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the databases go: the disk is what is measured")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=(), help="measure these alone")
    wanted = parser.parse_args()
    folder: Path = wanted.folder
    try:
        limit.require_disk(folder)
    except limit.NotADisk as refused:
        sys.exit(f"error: {refused}")
    with TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        print(limit.conditions(Path(place)), flush=True)
        rows = measured(Path(place), wanted.only)
    show(rows)
    if any(row.kept is False for row in rows):
        sys.exit("a floor is broken")


if __name__ == "__main__":
    main()
