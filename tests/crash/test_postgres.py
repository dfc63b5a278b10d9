"""A process of a fleet is killed: when its lease is over, in the database's time, another goes on with its work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.service.client import Client
from tests.crash import worker as hosted
from tests.crash.laws import check_history, died
from tests.crash.scene import Scene, until
from tests.histories import wire
from tests.postgres import new_schema


class Fleet(Scene):
    """A scene whose store is a database."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.client.close()
        self.store = new_schema()
        self.client = Client.open(self.store)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_the_work_of_a_killed_process_is_taken_over_when_its_lease_is_over(fleet: Fleet) -> None:
    fleet.hold.touch()
    first = fleet.worker(how="brisk").wait_until_ready()
    execution = fleet.start(hosted.holding, "x", once=True)
    until(lambda: fleet.told("x", "held"), "the step to be at work")
    until(lambda: fleet.client.operations(execution), "its start to be in the database")
    second = fleet.worker(how="brisk").wait_until_ready()
    fleet.kill(first)
    fleet.hold.unlink()

    fleet.closed(execution)

    assert fleet.result(execution)[0] == second.pid
    history = wire(fleet.client.history(execution))
    check_history(history)
    assert died(history) == 1
    held = [(body["pid"], body["attempt"]) for body in fleet.told("x", "held")]
    assert held == [(first.pid, 1), (second.pid, 2)], "at most once: the body that was killed does not run again by itself"
