"""Chaos: work is started, answered and stopped while worker processes are killed at random moments."""

from __future__ import annotations

import os
import random
import time
from typing import Any, NamedTuple

from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.life import next_try
from holdfast.model.operations import Failure
from holdfast.store.seam import Filter
from tests.crash import orders, trips
from tests.crash.scene import POLL_SECONDS, Scene

ROUNDS = int(os.environ.get("HOLDFAST_CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "2026"))
STOP = Failure("the chaos took it", "Chaos")


class Root(NamedTuple):
    """An execution that was started from outside."""

    function: str
    n: int
    answered: bool = True

    def is_right(self, result: Any) -> bool:
        """Whether this is the expected result."""
        if self.function in ("order", "aorder"):
            return bool(result == orders.result_of_order(f"{self.function}-{self.n}", self.n))
        *known, reason, stops = result
        done = all(value == self.n + index and index < trips.STOPS for index, value in stops)
        return bool(known == trips.result_of_trip(self.n, self.answered) and reason == "MIN_SUCCESSFUL_REACHED") and done


class Chaos:
    """Two workers and their fate."""

    def __init__(self, scene: Scene, chance: random.Random, seconds: float, how: str = "new") -> None:
        self.scene = scene
        self.chance = chance
        self.roots: dict[str, Root] = {}
        self.kills = 0
        self.released = 0
        self.workers = [scene.worker(how=how).wait_until_ready() for _ in range(2)]
        self._answered = 0
        self._stops: list[tuple[float, str]] = []
        self._deadline = time.monotonic() + seconds

    def start(self, count: int) -> None:
        """Every third is a trip, half are `def` and half `async def`; one of the trips will be stopped while it is under way."""
        names = []
        for n in range(len(self.roots), len(self.roots) + count):
            kind = "trip" if n % 3 == 0 else "order"
            root = Root(kind if n % 2 else f"a{kind}", n, self.chance.random() < 0.5)
            name = f"{root.function}-{n}"
            function = getattr(trips if kind == "trip" else orders, root.function)
            self.scene.start(function, name, n=n, answered=root.answered)
            self.roots[name] = root
            names += [name] if kind == "trip" else []
        self._stops.append((time.monotonic() + 2 * self.chance.random(), self.chance.choice(names)))

    def kill(self) -> None:
        """One worker, or now and then both."""
        for place in self.chance.choice([(0,), (1,), (0,), (1,), (0, 1)]):
            self.scene.kill(self.workers[place])
            self.kills += 1
            self.workers[place] = self.scene.worker()

    def until_told(self, count: int) -> None:
        """Go on until so many more bodies have run, or all is over."""
        wanted = len(self.scene.lines()) + count
        while len(self.scene.lines()) < wanted and self.running():
            self.pause()

    def for_seconds(self, seconds: float) -> None:
        """Go on until a moment of real time."""
        moment = time.monotonic() + seconds
        while time.monotonic() < moment:
            self.pause()

    def to_the_end(self) -> None:
        """Go on until everything is over."""
        while self.running():
            self.for_seconds(10 * POLL_SECONDS)
        for worker in self.workers:
            worker.wait_until_ready()
        while any(header.state is not State.CLOSED for header in self.executions()):
            self.pause()

    def pause(self) -> None:
        """Do what the outside world does meanwhile."""
        assert time.monotonic() < self._deadline, f"still open: {self.running()}\n{self.scene.errors.read_text()[-2000:]}"
        self._answer_all()
        self._stop_some()
        time.sleep(POLL_SECONDS)

    def _answer_all(self) -> None:
        """Answer every callback that the outside world was told of, at once: often before the execution waits for it."""
        lines = self.scene.lines()
        for line in lines[self._answered :]:
            if "callback" in line:
                self.scene.answer(line["callback"], f"yes {line['x']}")
        self._answered = len(lines)

    def _stop_some(self) -> None:
        for moment, name in [due for due in self._stops if due[0] <= time.monotonic()]:
            self.scene.client.stop(name, STOP)
            self._stops.remove((moment, name))

    def running(self) -> list[str]:
        """What is not over yet. A person looks after what was put aside: killed from outside in a bad moment, nothing is wrong with it."""
        rows = list(self.scene.client.list(Filter(statuses=(ExecutionStatus.RUNNING,), limit=100_000)))
        for header in rows:
            if header.state is State.QUARANTINED or next_try(header) is not None:
                self.scene.client.release(header.id)
                self.released += 1
        return [f"{header.name} ({header.function}, {header.state})" for header in rows]

    def executions(self) -> list[Execution]:
        """All that there is, also what was invoked."""
        return list(self.scene.client.list(Filter(limit=100_000)))
