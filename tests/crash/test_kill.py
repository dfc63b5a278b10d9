"""`kill -9` at random moments: 200 executions, two processes on one file, and everything ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from holdfast.model.execution import State
from holdfast.store.seam import Filter
from tests.crash import worker as hosted
from tests.crash.scene import POLL_SECONDS, Scene, check_history, died

ROUNDS = int(os.environ.get("HOLDFAST_CRASH_ROUNDS", "8"))
PER_ROUND = 25
"""Executions started in each round: 200 in the short form, and always enough under way to be hit."""
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "2026"))
BODIES = 4
"""Step bodies of one execution."""
DEADLINE_SECONDS = 60.0 + 5 * ROUNDS


class Storm:
    """Kills workers while they work, and answers what they ask."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self.scene = scene
        self.chance = chance
        self.kills = 0
        self.names: dict[str, int] = {}
        self._answered = 0
        self._deadline = time.monotonic() + DEADLINE_SECONDS

    def start(self, count: int) -> None:
        """Half `def`, half `async def`."""
        for n in range(len(self.names), len(self.names) + count):
            function = hosted.order if n % 2 else hosted.aorder
            self.scene.start(function, f"order-{n}", n=n)
            self.names[f"order-{n}"] = n

    def answer_all(self) -> None:
        """Answer every callback that the outside world was told of, at once: often before anybody waits for it."""
        lines = self.scene.lines()
        for line in lines[self._answered :]:
            if "callback" in line:
                self.scene.answer(line["callback"], f"yes {line['x']}")
        self._answered = len(lines)

    def until_told(self, count: int) -> None:
        """Go on until so many bodies have run, or all are over."""
        while len(self.scene.lines()) < count and self.open():
            self.pause()

    def pause(self) -> None:
        """Do what the outside world does meanwhile."""
        assert time.monotonic() < self._deadline, f"still open: {self.open()}\n{self.scene.errors.read_text()[-2000:]}"
        self.answer_all()
        time.sleep(POLL_SECONDS)

    def open(self) -> list[str]:
        """What is not over yet."""
        rows = self.scene.client.list(Filter(limit=10_000))
        return [header.name for header in rows if header.state is not State.CLOSED]


@pytest.mark.alone
@pytest.mark.timeout(DEADLINE_SECONDS + 60)
def test_executions_survive_any_number_of_kills(scene: Scene) -> None:
    storm = Storm(scene, random.Random(SEED))
    workers = [scene.worker(), scene.worker()]
    for one in workers:
        one.wait_until_ready()
    for _ in range(ROUNDS):
        storm.start(PER_ROUND)
        storm.until_told(len(scene.lines()) + storm.chance.randint(1, PER_ROUND * BODIES // 2))
        time.sleep(storm.chance.random() * 0.01)
        victim = storm.chance.randrange(len(workers))
        scene.kill(workers[victim])
        storm.kills += 1
        workers[victim] = scene.worker()
    while storm.open():
        storm.pause()
    check(scene, storm)


def check(scene: Scene, storm: Storm) -> None:
    histories = {name: scene.client.history(name) for name in storm.names}
    for name, n in storm.names.items():
        assert scene.result(name) == [n, n * 10, f"yes {name}", f"shipped {n}"]
        check_history(histories[name])
        check_bodies(scene, name, histories[name])
    deaths = sum(died(history) for history in histories.values())
    bodies = Counter((line["x"], line["step"], line["attempt"]) for line in scene.lines())
    again = sum(bodies.values()) - len(bodies)
    print(f"{storm.kills} kills ended {deaths} invocations; {again} bodies ran again")
    assert storm.kills > 0
    assert deaths >= storm.kills / 2, "hardly any kill hit a live invocation"


def check_bodies(scene: Scene, name: str, history: Any) -> None:
    takeovers = died(history)
    for step in ("reserve", "charge", "announce", "ship"):
        bodies = scene.told(name, step)
        names = (step, "approval submitter") if step == "announce" else (step,)
        ended = [e for e in history if e["EventType"] == "StepSucceeded" and e["Name"] in names]
        assert len(ended) == 1, f"{name} {step} is recorded {len(ended)} times"
        assert len(bodies) >= 1
        recorded_at = ended[0]["EventTimestamp"] * 1000
        late = [body for body in bodies if body["at"] > recorded_at + 1]
        assert late == [], f"{name} {step} ran again after it was recorded at {recorded_at}"
        runs = Counter(body["attempt"] for body in bodies)
        if step == "charge":
            assert max(runs.values()) == 1, f"{name} {step} ran twice in one attempt: {runs}"
            assert ended[0]["StepSucceededDetails"]["RetryDetails"]["CurrentAttempt"] == max(runs)
        else:
            assert max(runs.values()) <= 1 + takeovers, f"{name} {step}: {runs} runs, {takeovers} takeovers"
