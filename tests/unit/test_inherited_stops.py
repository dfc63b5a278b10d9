"""A stop that comes from the parent: a plain function is stopped, a run that listens for its cancel is cancelled. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.life import new_execution
from holdfast.model.operations import CANCEL, CANCEL_ID, Failure, Operation, Status, Type
from holdfast.model.outside import Stop
from holdfast.model.seal import Seal
from holdfast.workers.run_operations import CANCEL_AT

NOW = 1_767_225_600_000
SEAL = Seal(bytes(32))


class View:
    """One execution with a few operations."""

    def __init__(self, header: Execution, *operations: Operation) -> None:
        self.header = header
        self._operations = {operation.id: operation for operation in operations}

    def get(self, operation_id: str) -> Operation | None:
        return self._operations.get(operation_id)

    def newer(self, revision: int) -> Iterable[Operation]:
        return [operation for operation in self._operations.values() if operation.revision > revision]

    def due(self, now: int) -> Iterable[Operation]:
        return []

    def next_due(self, after: int) -> int | None:
        return None

    def has_ready(self, since: int) -> bool:
        return False


def header(**more: object) -> Execution:
    born = new_execution("r1", None, "w", "1", payload="{}", now=NOW, terms=Terms())
    return msgspec.structs.replace(born, **{"deadline": NOW + 60_000, "state": State.SUSPENDED, "pending": 1, "revision": 3, **more})


def listening(status: Status = Status.STARTED) -> Operation:
    return Operation(id=CANCEL_ID, type=Type.CALLBACK, status=status, started_at=NOW, sub_type=CANCEL, name="cancel", revision=2)


def stopped(view: View, *, inherited: bool = True) -> Execution:
    after = Stop("r1", Failure("enough"), inherited=inherited).decide(view, NOW, SEAL)[1]
    assert isinstance(after, Execution)
    return after


def test_the_id_of_the_cancel_is_the_one_that_runs_listen_on() -> None:
    assert CANCEL_AT.operation_id == CANCEL_ID


def test_a_run_that_listens_is_woken_with_its_cancel_and_not_stopped() -> None:
    change, _ = Stop("r1", Failure("enough"), inherited=True).decide(View(header(), listening()), NOW, SEAL)
    assert change is not None
    assert (change.header.status, change.header.state) == (ExecutionStatus.RUNNING, State.READY)
    assert change.operations[CANCEL_ID].status is Status.FAILED


def test_a_live_run_hears_its_cancel_and_keeps_its_invocation() -> None:
    after = stopped(View(header(state=State.RUNNING, runner="a", invocation="i"), listening()))
    assert (after.status, after.state, after.invocation) == (ExecutionStatus.RUNNING, State.RUNNING, "i")


@pytest.mark.parametrize(
    "view",
    [View(header()), View(header(state=State.QUARANTINED), listening()), View(header(deadline=NOW), listening())],
    ids=["it listens to nothing", "it is quarantined", "its time is over"],
)
def test_what_cannot_hear_a_cancel_is_stopped(view: View) -> None:
    assert stopped(view).status is ExecutionStatus.STOPPED


def test_a_run_that_was_cancelled_before_ends_by_itself() -> None:
    change, _ = Stop("r1", inherited=True).decide(View(header(), listening(Status.FAILED)), NOW, SEAL)
    assert change is None


def test_an_operators_own_stop_stops_a_run_at_once() -> None:
    assert stopped(View(header(), listening()), inherited=False).status is ExecutionStatus.STOPPED
