"""`kill -9` at random moments: hundreds of executions and all they invoke, two processes on one file, and everything ends as it must."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from holdfast.model.execution import Execution, ExecutionStatus
from tests.crash.chaos import ROUNDS, SEED, Chaos
from tests.crash.laws import Family, check_bodies, check_history, died
from tests.crash.scene import Scene
from tests.histories import wire

PER_ROUND = 25
"""Executions started in each round: always enough under way to be hit."""
FEW = 4
DEADLINE_SECONDS = 60.0 + 5 * ROUNDS


@pytest.mark.alone
@pytest.mark.timeout(DEADLINE_SECONDS + 60)
@pytest.mark.parametrize("rounds", [pytest.param(FEW, id="few"), pytest.param(ROUNDS, id="all", marks=pytest.mark.long)])
def test_executions_survive_any_number_of_kills(scene: Scene, rounds: int) -> None:
    """Half of the kills come after a number of bodies, often while many run; the others after a time, whatever happens then."""
    chaos = Chaos(scene, random.Random(SEED), DEADLINE_SECONDS)
    chance = chaos.chance
    for _ in range(rounds):
        chaos.start(PER_ROUND)
        if chance.random() < 0.5:
            chaos.until_told(chance.randint(1, 4 * PER_ROUND))
            chaos.for_seconds(chance.random() * 0.01)
        else:
            chaos.for_seconds(chance.random())
        chaos.kill()
    chaos.to_the_end()
    check(scene, chaos)


def check(scene: Scene, chaos: Chaos) -> None:
    bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in scene.lines():
        bodies[line["x"]].append(line)
    family = Family(scene.client._store, chaos.executions())
    deaths = invokes = 0
    for header in family.members.values():
        history = wire(scene.client.history(header.id))
        check_history(history)
        check_bodies(header.name, history, bodies[header.name])
        invokes += family.check(header, history)
        check_end(scene, chaos, family, header)
        deaths += died(history)
    assert scene.strays() == []
    assert {header.name for header in family.members.values() if header.parent is None} == chaos.roots.keys()
    statuses = Counter(header.status.value for header in family.members.values())
    runs = Counter((line["x"], line["step"], line["attempt"]) for line in scene.lines())
    again = sum(runs.values()) - len(runs)
    print(
        f"{len(family.members)} executions, {invokes} of them invoked: {dict(statuses)}; "
        f"{chaos.kills} kills ended {deaths} invocations; {again} bodies ran again; {chaos.released} put aside"
    )
    assert deaths >= chaos.kills / 2, "hardly any kill hit a live invocation"
    assert statuses["STOPPED"], "no stop came in time"


def check_end(scene: Scene, chaos: Chaos, family: Family, header: Execution) -> None:
    """It came to what it must. What was stopped took everything along that was still open, and began nothing after that."""
    root = family.root_of(header)
    if root.status is ExecutionStatus.STOPPED:
        assert header.ended_at is not None
        assert root.ended_at is not None
        assert header.started_at <= root.ended_at
        assert header.ended_at <= root.ended_at or header.status is ExecutionStatus.STOPPED, f"{header.name} went on after {root.name}"
    elif header is root:
        assert chaos.roots[header.name].is_right(scene.result(header.id)), header.name
    else:
        assert header.status is (ExecutionStatus.FAILED if header.function == "refusal" else ExecutionStatus.SUCCEEDED)
