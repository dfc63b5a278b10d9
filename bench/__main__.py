"""`make bench`: Holdfast beside the raw limit of this machine, as ratios from one run.

Times move by a factor of two from day to day and from second to second. So each measurement is taken several times, the limit between
them, and a ratio is the median of pairs measured side by side.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import limit, workloads
from bench.table import Row, show

PAIRS = 5
FEW = 3


def paired(measure: Callable[[], float], against: Callable[[], float], pairs: int) -> tuple[float, float, float]:
    """The median of a measurement, of the thing it is compared with, and of their ratio pair by pair."""
    taken = [(measure(), against()) for _ in range(pairs)]
    ratios = [ours / theirs for ours, theirs in taken]
    return statistics.median(o for o, _ in taken), statistics.median(t for _, t in taken), statistics.median(ratios)


def run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


def measured(folder: Path) -> list[Row]:
    def bare() -> float:
        return limit.bare_commit(folder, commits=200, runs=1)

    def sketch() -> float:
        return limit.sketch(folder, runs=1)

    w1, commit, w1_ratio = paired(lambda: run(workloads.w1(folder, "in_sequence")), bare, PAIRS)
    w1_def, _, w1_def_ratio = paired(lambda: run(workloads.w1(folder, "in_sequence_blocking")), bare, PAIRS)
    w2, sketched, w2_ratio = paired(lambda: run(workloads.w2(folder, "in_sequence")), sketch, PAIRS)
    w2_def, _, w2_def_ratio = paired(lambda: run(workloads.w2(folder, "in_sequence_blocking")), sketch, FEW)
    busy, _, busy_ratio = paired(
        lambda: run(workloads.w2(folder, "in_sequence", computing=True)), lambda: run(workloads.w2(folder, "in_sequence")), FEW
    )
    taken = [(*asyncio.run(workloads.w6(folder)), bare()) for _ in range(FEW)]
    wake = run(workloads.wakes(folder))
    idle = run(workloads.idle(folder))
    p50, p99 = (statistics.median(t[n] for t in taken) for n in (0, 1))
    p50_ratio, p99_ratio = (statistics.median(t[n] / t[2] for t in taken) for n in (0, 1))
    return [
        Row(what="bare commit", value=commit * 1000, unit="ms"),
        Row(what="sketch W2 (1,000 × 5 steps)", value=sketched, unit="steps/s"),
        Row(what="W1 async", value=w1 * 1000, unit="ms/step", ratio=w1_ratio, of="bare commit", floor="≤ 2.5 ×", kept=w1_ratio <= 2.5),
        Row(what="W1 def", value=w1_def * 1000, unit="ms/step", ratio=w1_def_ratio, of="bare commit"),
        Row(
            what="W2 async",
            value=w2,
            unit="steps/s",
            ratio=w2_ratio,
            of="sketch",
            floor="≥ 8,000 and ≥ 0.25 ×",
            kept=w2 >= 8_000 and w2_ratio >= 0.25,
        ),
        Row(what="W2 def", value=w2_def, unit="steps/s", ratio=w2_def_ratio, of="sketch"),
        Row(what="W2 async beside a CPU-bound step", value=busy, unit="steps/s", ratio=busy_ratio, of="W2 async"),
        Row(what="W6 start to result, median", value=p50 * 1000, unit="ms", ratio=p50_ratio, of="bare commit"),
        Row(what="W6 start to result, 99th percentile", value=p99 * 1000, unit="ms", ratio=p99_ratio, of="bare commit"),
        Row(what="answer in another process to wake, median", value=wake * 1000, unit="ms", floor="≤ 100 ms", kept=wake <= 0.1),
        Row(what="idle CPU", value=idle * 100, unit="%", floor="< 1 %", kept=idle < 0.01),
    ]


def main() -> None:
    """Measure, print the table, and fail when a floor is broken."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the databases go: the disk is what is measured")
    folder: Path = parser.parse_args().folder
    try:
        limit.require_disk(folder)
    except limit.NotADisk as refused:
        sys.exit(f"error: {refused}")
    with TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        print(limit.conditions(Path(place)), flush=True)
        rows = measured(Path(place))
    show(rows)
    if any(row.kept is False for row in rows):
        sys.exit("a floor is broken")


if __name__ == "__main__":
    main()
