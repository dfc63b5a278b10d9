"""`make bench`: Holdfast beside the raw limit of this machine and, if asked, beside others, as ratios from one run.

A whole run is written down (bench/results/latest.json) and drawn (docs/bench.svg); a part of one is only printed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench import limit
from bench.figures import Report
from bench.measuring import MEASURES, measured
from bench.peers.running import PEERS, ROOT, Contestant
from bench.picture import picture
from bench.table import text
from bench.terms import Sizes

RESULTS: Final = ROOT / "bench" / "results" / "latest.json"
PICTURE: Final = ROOT / "docs" / "bench.svg"


def main() -> None:
    """Measure, print the table, write it down, and fail when a floor is broken."""
    wanted = _arguments()
    if wanted.again:
        report = Report.from_json(RESULTS.read_text(encoding="utf-8"))
        PICTURE.write_text(picture(report), encoding="utf-8")
        print(text(report))
        return
    try:
        limit.require_disk(wanted.folder)
    except limit.NotADisk as refused:
        sys.exit(f"error: {refused}")
    sizes = replace(Sizes(), w5_executions=wanted.waiting)
    report = measure(wanted.folder, sizes, wanted.only, PEERS if wanted.peers else ())
    print(text(report), flush=True)
    if not wanted.only:
        keep(report, RESULTS, PICTURE)
        print(f"\nwritten to {RESULTS.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")
    if report.broken:
        sys.exit("a floor is broken")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the databases go: the disk is what is measured")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=(), help="measure these alone")
    parser.add_argument("--peers", action="store_true", help="measure others too, each installed into an environment of its own")
    parser.add_argument("--waiting", type=int, default=Sizes().w5_executions, metavar="N", help="executions that wait at once in W5")
    parser.add_argument("--again", action="store_true", help="measure nothing: print and draw the last whole run again")
    return parser.parse_args()


def measure(folder: Path, sizes: Sizes, only: Sequence[str], peers: Sequence[Contestant]) -> Report:
    """One run, and how busy the machine was with other things before and after it."""
    before = os.getloadavg()[0]
    with TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        where = limit.conditions(Path(place))
        lines, notes = measured(Path(place), sizes, only=only, peers=peers, say=lambda said: print(said, file=sys.stderr, flush=True))
    after = os.getloadavg()[0]
    conditions = (where, machine(), f"load average {before:.1f} before, {after:.1f} after")
    return Report(conditions=conditions, lines=lines, notes=notes)


def machine() -> str:
    """What computed it."""
    return f"{processor()} · {platform.system()} · Python {platform.python_version()} · Holdfast {version('holdfast')}"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, or its kind where the kernel does not tell (macOS)."""
    try:
        named = [line for line in cpuinfo.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
    except OSError:
        named = []
    return named[0].partition(":")[2].strip() if named else platform.machine()


def keep(report: Report, results: Path, drawn: Path) -> None:
    """Write a run down, and draw it."""
    results.parent.mkdir(exist_ok=True)
    results.write_text(report.to_json(), encoding="utf-8")
    drawn.write_text(picture(report), encoding="utf-8")


if __name__ == "__main__":
    main()
