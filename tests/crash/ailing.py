"""Outages: a disk that is full, and one that fails, while two workers are in the middle of everything; then it is well again.

    python -m tests.crash.ailing FOLDER DISK

DISK is a file system of its own, which is filled to the last byte and freed again.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

from holdfast.model.errors import DiskFull
from tests.crash.chaos import SEED, Chaos
from tests.crash.laws import died
from tests.crash.orders import order
from tests.crash.scene import Scene, until
from tests.crash.test_kill import check
from tests.crash.wal import frames_of
from tests.histories import wire

OUTAGES = 3
PER_OUTAGE = 12
SECONDS = 100.0


class Disk(Protocol):
    """What falls ill."""

    def fall(self, chaos: Chaos) -> None: ...
    def heal(self, chaos: Chaos) -> None: ...
    def refuses(self, chaos: Chaos) -> bool: ...


class SmallDisk:
    """A separate file system on which another program uses all the space."""

    def __init__(self, disk: Path) -> None:
        self._ballast = disk / "ballast"

    def fall(self, chaos: Chaos) -> None:
        """Use every free byte, and the space that is preallocated for the WAL."""
        with contextlib.closing(sqlite3.connect(chaos.scene.store, isolation_level=None, timeout=60)) as nobody_writes:
            nobody_writes.execute("BEGIN IMMEDIATE")
            os.truncate(f"{chaos.scene.store}-wal", used(chaos.scene.store))
            with self._ballast.open("wb", buffering=0) as file:
                for size in (1 << 20, 1 << 12, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"x" * size):
                            pass

    def heal(self, chaos: Chaos) -> None:
        self._ballast.unlink()

    def refuses(self, chaos: Chaos) -> bool:
        """Whether another process is refused too, with a code that says why."""
        try:
            chaos.scene.start(order, "too-late", n=0)
        except DiskFull as refused:
            return refused.code == "disk_full" and "no space left" in str(refused)
        return False


class FailingDisk:
    """A limit on the size of files, which the kernel lays upon the workers: every write at the end of the WAL fails."""

    def fall(self, chaos: Chaos) -> None:
        size = used(chaos.scene.store)
        for worker in chaos.workers:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def heal(self, chaos: Chaos) -> None:
        for worker in chaos.workers:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def refuses(self, chaos: Chaos) -> bool:
        """It fails for the workers alone."""
        return True


def used(store: str) -> int:
    """Where the frames of the WAL end."""
    return frames_of(Path(f"{store}-wal").read_bytes())[-1].ends


def outages(scene: Scene, disk: Disk) -> None:
    """Fall ill and recover a few times. It must cost time and nothing else: no invocation, no attempt, no body that runs twice."""
    chaos = Chaos(scene, random.Random(SEED), SECONDS, "brisk")
    for outage in range(1, OUTAGES + 1):
        chaos.start(PER_OUTAGE)
        chaos.until_told(chaos.chance.randint(1, 2 * PER_OUTAGE))
        disk.fall(chaos)
        until(lambda outage=outage: said(scene)["pauses"] == 2 * outage, "both workers to pause")  # type: ignore[misc]
        before = standing(chaos)
        assert disk.refuses(chaos)
        until(lambda: max(scene.leases().values()) < time.time_ns() // 1_000_000, "every lease to be over")
        assert standing(chaos) == before, "a runner claimed or wrote"
        disk.heal(chaos)
        until(lambda outage=outage: said(scene)["continues:"] == 2 * outage, "both workers to go on")  # type: ignore[misc]
    chaos.to_the_end()
    check(scene, chaos)
    check_nothing_was_repeated(scene, chaos)


def standing(chaos: Chaos) -> dict[str, tuple[int, int]]:
    """How far each execution has come, and in whose hands it is."""
    return {header.id: (header.revision, header.epoch) for header in chaos.executions()}


def said(scene: Scene) -> Counter[str]:
    """The second word of each line that a worker logged: `pauses` and `continues:` are all that it may say."""
    words = Counter(line.split()[1] for line in scene.errors.read_text().splitlines())
    assert words.keys() <= {"pauses", "continues:"}, scene.errors.read_text()
    return words


def check_nothing_was_repeated(scene: Scene, chaos: Chaos) -> None:
    """Every body ran once, and no invocation came to a bad end."""
    runs = Counter((line["x"], line["step"], line["attempt"]) for line in scene.lines())
    assert {run: count for run, count in runs.items() if count > 1} == {}
    for header in chaos.executions():
        history = wire(scene.client.history(header.id))
        assert died(history) == 0
        assert [e for e in history if e["EventType"] == "InvocationCompleted" and "Error" in e["InvocationCompletedDetails"]] == []


def main(folder: Path, place: Path) -> None:
    scene = Scene(folder, place)
    try:
        outages(scene, SmallDisk(place))
    finally:
        scene.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
