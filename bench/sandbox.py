"""`python -m bench.sandbox`: what a jail costs. A warm attempt, its confirmed end, and how long the next spare takes."""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Literal

from holdfast.hosts.sandbox.jail import BodyEnd, Jail
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.visible_folders import packages, readable

BODY = """
from holdfast.hosts.sandbox.inside.body_channel import Channel

def main(fd):
    channel = Channel(fd)
    channel.send({"op": "ready"})
    channel.receive()
    channel.send({"op": "done"})
"""
ROUNDS = 200


async def measured(folder: Path, isolation: Literal["all", "process"]) -> None:
    """One line per figure."""
    (folder / "body.py").write_text(BODY)
    sandbox = Sandbox(Jail(package=folder, entry="body:main", path=packages(), readable=readable(), isolation=isolation))
    figures: dict[str, list[float]] = {"first start": [], "spare made": [], "warm attempt": [], "confirmed end": []}
    try:
        began = perf_counter()
        await sandbox.start()
        figures["first start"].append(perf_counter() - began)
        for _ in range(ROUNDS):
            began = perf_counter()
            await sandbox.start()
            assert sandbox._spare is not None
            await sandbox._spare.settled()
            figures["spare made"].append(perf_counter() - began)
            began = perf_counter()
            attempt = await sandbox.attempt(10)
            await attempt.send({"op": "run"})
            await attempt.receive()
            figures["warm attempt"].append(perf_counter() - began)
            assert isinstance(await attempt.receive(), BodyEnd)
            figures["confirmed end"].append(perf_counter() - began)
    finally:
        await sandbox.close()
    for name, samples in figures.items():
        print(f"{isolation:8} {name:14} p50 {statistics.median(samples) * 1e3:7.2f} ms   p95 {_high(samples) * 1e3:7.2f} ms")


def _high(samples: Sequence[float]) -> float:
    return sorted(samples)[int(len(samples) * 0.95)]


def main() -> None:
    """Both isolations, or the one that is named."""
    isolations: tuple[Literal["all", "process"], ...] = ("all", "process")
    for isolation in isolations:
        if isolation in (sys.argv[1:] or isolations):
            with TemporaryDirectory() as folder:
                Path(folder).chmod(0o755)
                asyncio.run(measured(Path(folder), isolation))


if __name__ == "__main__":
    main()
