"""A stop takes a whole tree of executions along, or nothing of it, whenever the process that stops is killed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.store.seam import Filter
from tests.conftest import ROOT
from tests.crash import worker as hosted
from tests.crash.chaos import ROUNDS, SEED
from tests.crash.laws import check_history
from tests.crash.scene import Scene, until
from tests.histories import wire

WIDTH = 4
SIZE = 1 + WIDTH + WIDTH * WIDTH
LATEST = 0.002
"""Seconds after the beginning of COMMIT: by then it is surely over."""


class Stopper:
    """The process that stops and dies."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def stop(self, execution: str, moment: object) -> str:
        """How many statements it took, or `killed`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{execution} {moment}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def stopper(scene: Scene) -> Iterator[Stopper]:
    command = [sys.executable, "-m", "tests.crash.stopper", scene.store]
    with (
        scene.errors.open("ab") as errors,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        yield Stopper(process)


def trees(scene: Scene, count: int) -> dict[str, list[Execution]]:
    """So many trees of executions, all of them at rest: most wait, and some are at work in a body that does not end."""
    roots = [scene.start(hosted.tree, f"tree-{n}", level=2, width=WIDTH) for n in range(count)]

    def at_rest() -> bool:
        members = everybody(scene)
        at_work = [header for header in members if header.function == "endless"]
        waiting = [header for header in members if header.state is State.SUSPENDED or is_live_parent(header)]
        return len(members) == len(at_work) + len(waiting) == SIZE * count and all(header.operations for header in at_work)

    until(at_rest, "all trees to be grown")
    members = everybody(scene)
    by_id = {header.id: header for header in members}
    grown: dict[str, list[Execution]] = {root: [] for root in roots}
    for header in members:
        root = header
        while root.parent is not None:
            root = by_id[root.parent]
        grown[root.id].append(header)
    return grown


def is_live_parent(header: Execution) -> bool:
    """Whether it stays live for what it has invoked, because some of that is at work in the same process."""
    return header.function == "tree" and header.state is State.RUNNING and header.pending == WIDTH


def everybody(scene: Scene) -> list[Execution]:
    return list(scene.client.list(Filter(limit=100_000)))


def test_a_stop_killed_in_the_middle_stops_a_whole_tree_or_nothing_of_it(scene: Scene) -> None:
    """It dies before some statement of its transaction, or during the COMMIT; a later stop finds nothing in its way."""
    chance = random.Random(SEED)
    scene.worker().wait_until_ready()
    first, *others = trees(scene, ROUNDS).items()
    with stopper(scene) as process:
        root, members = first
        statements = int(process.stop(root, "never"))
        assert statements > SIZE, "each execution is looked at"
        check_stopped(scene, members)
        root, members = others[0]
        for moment in (1, statements, *(chance.randint(2, statements) for _ in range(ROUNDS))):
            assert process.stop(root, moment) == "killed"
            assert now(scene, members) == members, f"a stop that died before statement {moment} of {statements} changed something"
        stopped = []
        for root, members in others:
            process.stop(root, f"+{chance.random() * LATEST}")
            stopped.append(now(scene, members) != members)
            if not stopped[-1]:
                scene.client.stop(root)
            check_stopped(scene, members)
    print(f"{stopped.count(True)} of {len(stopped)} stops were on disk when their process died during the COMMIT or just after it")


def now(scene: Scene, members: list[Execution]) -> list[Execution]:
    """These executions as they stand."""
    return [scene.client.get(header.id) for header in members]


def check_stopped(scene: Scene, members: list[Execution]) -> None:
    """All of them, and each history ends with it."""
    assert {header.status for header in now(scene, members)} == {ExecutionStatus.STOPPED}
    for header in members:
        history = wire(scene.client.history(header.id))
        check_history(history)
        assert history[-1]["EventType"] == "ExecutionStopped"
