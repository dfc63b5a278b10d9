"""The plan of context.run, driven by hand: how often it asks, how long it waits, and what it makes of each end."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from holdfast.durable.identifier import Identity
from holdfast.durable.operation.run import MOST_ASKED, run
from holdfast.durable.plan import Accept, Lookup, Record
from holdfast.durable.run_response import RunResponse, WorkerFailed
from holdfast.durable.scope import Scope
from holdfast.model.operations import RUN, Failure, Kind, Operation, Order, Status, Type, Update
from holdfast.model.run_port import RunAsked

NOW = 1_767_225_600_000
AT = Identity("a" * 64, Type.CHAINED_INVOKE, RUN, None, "page")
ASKED = RunAsked(worker_id="scrape", version="1.0", inputs={})
FULL = Failure("full", "LimitReached", msgspec.json.encode({"key": "rate/scrape/default", "limit": 2, "until": NOW + 60_000}).decode())


class Passing:
    """A scope that only remembers the last operation."""

    last: Operation | None = None

    def passed(self, done: Operation) -> None:
        self.last = done


class Service:
    """Closes what the plan starts: a wait at once, a run as it is told."""

    def __init__(self, *ends: dict[str, Any]) -> None:
        self._ends = list(ends)
        self.operations: dict[str, Operation] = {}
        self.updates: list[Update] = []
        self.scope = Passing()

    def drive(self, *, check: bool = False) -> RunResponse:
        """Serve the plan until it is over."""
        plan, answer = run(AT, cast("Scope", self.scope), ASKED, check=check), None
        try:
            while True:
                answer = self._serve(plan.send(answer))
        except StopIteration as over:
            response: RunResponse = over.value
            return response

    def _serve(self, effect: object) -> Any:
        if isinstance(effect, Lookup):
            return self.operations.get(effect.identity.operation_id)
        if isinstance(effect, Accept):
            return Order(Kind.WORKER, "{}")
        assert isinstance(effect, Record)
        update = effect.update
        self.updates.append(update)
        end: dict[str, Any] = {"status": Status.SUCCEEDED}
        if update.type is Type.CHAINED_INVOKE:
            end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        told: dict[str, Any] = {"sub_type": update.sub_type, "name": update.name, "started_at": NOW, "ended_at": NOW}
        self.operations[update.id] = Operation(id=update.id, type=update.type, **told, **end)
        return None

    @property
    def pauses(self) -> list[int]:
        return [update.wait_seconds or 0 for update in self.updates if update.type is Type.WAIT]


REFUSED = {"status": Status.FAILED, "error": FULL}
DONE = {
    "status": Status.SUCCEEDED,
    "result": msgspec.json.encode(RunResponse(run_id="r", worker_id="w", version="1", status="ok")).decode(),
}


def test_a_rate_that_stays_used_up_is_asked_a_bounded_number_of_times() -> None:
    service = Service(REFUSED)
    response = service.drive()
    assert response.error is not None
    assert (response.status, response.error.error_code, response.error.retryable) == ("retryable_error", "rate_limited", True)
    assert sum(update.type is Type.CHAINED_INVOKE for update in service.updates) == MOST_ASKED
    assert len({update.id for update in service.updates}) == len(service.updates) == 2 * MOST_ASKED - 1


def test_the_first_wait_ends_when_the_rate_does_and_later_ones_are_spread() -> None:
    service = Service(*[REFUSED] * 20, DONE)
    assert service.drive().status == "ok"
    assert service.pauses[0] == 60
    assert all(60 <= pause <= 660 for pause in service.pauses)
    assert len(set(service.pauses)) > 10
    assert service.scope.last is not None
    assert service.scope.last.id == service.updates[-1].id


def test_the_same_refusals_give_the_same_waits_in_every_replay() -> None:
    first, again = Service(*[REFUSED] * 9, DONE), Service(*[REFUSED] * 9, DONE)
    first.drive()
    again.drive()
    assert first.updates == again.updates


@pytest.mark.parametrize(
    "end, code",
    [
        ({"status": Status.TIMED_OUT, "error": Failure("late", "ChainedInvoke.Timeout")}, "timeout"),
        ({"status": Status.STOPPED, "error": Failure("enough")}, "cancelled"),
        ({"status": Status.FAILED, "error": Failure("Function not found: scrape", "ResourceNotFoundException")}, "worker_not_found"),
        ({"status": Status.FAILED, "error": Failure("boom", "ValueError", "no json")}, "worker_crashed"),
        ({"status": Status.FAILED}, "worker_crashed"),
    ],
)
def test_a_run_that_ended_without_a_response_has_one_with_the_code_of_its_end(end: dict[str, Any], code: str) -> None:
    with pytest.raises(WorkerFailed) as failed:
        Service(end).drive(check=True)
    assert (failed.value.error_code, failed.value.response.worker_id, failed.value.response.run_id) == (code, "scrape", "")
