"""`make bench`: Holdfast compared with the raw limit of this machine and with other systems, as ratios from one run.

A whole run is saved (bench/results/latest.json), drawn (docs/bench.svg) and copied into docs/proof.md; a partial run is only printed.
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
from time import monotonic
from typing import Final

from bench import limit
from bench.figures import Report
from bench.measuring import WORKLOADS, measured
from bench.page import PAGE, with_figures
from bench.peers.peer_runs import MORE_PEERS, PEERS, ROOT
from bench.picture import picture
from bench.table import text
from bench.terms import Sizes

RESULTS: Final = ROOT / "bench" / "results" / "latest.json"
PICTURE: Final = ROOT / "docs" / "bench.svg"


def main() -> None:
    """Measure, print the table, save it, and fail if a figure is below its floor."""
    wanted = _arguments()
    if wanted.again:
        report = Report.from_json(RESULTS.read_text(encoding="utf-8"))
        show(report, PICTURE, PAGE)
        print(text(report))
        return
    try:
        limit.require_disk(wanted.folder)
    except limit.NotADisk as refused:
        sys.exit(f"error: {refused}")
    sizes = replace(Sizes(), w5_executions=wanted.waiting)
    report = measure(wanted.folder, sizes, wanted.only, wanted.peers)
    print(text(report), flush=True)
    if not wanted.only:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(report.to_json(), encoding="utf-8")
        show(report, PICTURE, PAGE)
        print("\nwritten to " + ", ".join(str(path.relative_to(ROOT)) for path in (RESULTS, PICTURE, PAGE)))
    if report.broken:
        sys.exit("a floor is broken: far below what is usual here")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the databases go: the disk is what is measured")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=(), help="measure these alone, and write nothing down")
    parser.add_argument(
        "--peers",
        choices=("0", "1", "all"),
        default="1",
        help="others, each installed into an environment of its own: none, the usual ones with less work, or all of them with all of it",
    )
    parser.add_argument("--waiting", type=int, default=Sizes().w5_executions, metavar="N", help="executions that wait at once in W5")
    parser.add_argument("--again", action="store_true", help="measure nothing: print and draw the last whole run again")
    return parser.parse_args()


def measure(folder: Path, sizes: Sizes, only: Sequence[str], asked: str) -> Report:
    """One run, with the load of the machine before and after it."""
    before, began = os.getloadavg()[0], monotonic()
    peers = {"0": (), "1": PEERS, "all": MORE_PEERS}[asked]
    theirs = sizes if asked == "all" else sizes.less()

    def say(said: str) -> None:
        print(f"{monotonic() - began:4.0f} s  {said}", file=sys.stderr, flush=True)

    with TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        where = limit.conditions(Path(place))
        lines, notes = measured(Path(place), sizes, only=only, peers=peers, theirs=theirs, say=say)
    after = os.getloadavg()[0]
    conditions = (where, machine(), f"load average {before:.1f} before, {after:.1f} after; {monotonic() - began:.0f} s in all")
    return Report(conditions=conditions, lines=lines, notes=notes)


def machine() -> str:
    """The machine and the versions that made the figures."""
    return f"{processor()} · {platform.system()} · Python {platform.python_version()} · Holdfast {version('holdfast')}"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, or its kind where the kernel does not tell (macOS)."""
    try:
        named = [line for line in cpuinfo.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
    except OSError:
        named = []
    return named[0].partition(":")[2].strip() if named else platform.machine()


def show(report: Report, drawn: Path, page: Path) -> None:
    """Draw a run, and put it into the page of proof."""
    drawn.write_text(picture(report), encoding="utf-8")
    page.write_text(with_figures(page.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()
