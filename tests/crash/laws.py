"""What must hold for every execution, whatever was killed: its history, its bodies in the outside world, and what it invoked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.model import codec
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ids import Arn
from holdfast.model.operations import OPEN, Operation, Status, Type
from tests.crash.scene import Scene

ENDINGS = ("ExecutionSucceeded", "ExecutionFailed", "ExecutionStopped", "ExecutionTimedOut")
ENDS = ("Succeeded", "Failed", "Cancelled", "Stopped", "TimedOut")
Events = Sequence[dict[str, Any]]


def check_history(history: Events) -> None:
    """No gap, times that never go back, no operation that ends twice, one ending of all and it is the last."""
    assert [event["EventId"] for event in history] == list(range(1, len(history) + 1))
    times = [event["EventTimestamp"] for event in history]
    assert times == sorted(times)
    assert [event["EventType"] in ENDINGS for event in history] == [False] * (len(history) - 1) + [True]
    ended = Counter(event["Id"] for event in history if event["EventType"].endswith(ENDS) and not retries(event))
    assert [operation for operation, count in ended.items() if count > 1] == []


def details(event: dict[str, Any]) -> dict[str, Any]:
    """What an event says of its own kind."""
    found: dict[str, Any] = event.get(f"{event['EventType']}Details", {})
    return found


def retries(event: dict[str, Any]) -> bool:
    """Whether this end of an attempt is followed by another attempt."""
    return "NextAttemptDelaySeconds" in details(event).get("RetryDetails", {})


def died(history: Events) -> int:
    """How many invocations ended with their process."""
    errors = [details(event).get("Error", {}) for event in history if event["EventType"] == "InvocationCompleted"]
    return sum(error.get("Payload", {}).get("ErrorType") == "Runtime.ExitError" for error in errors)


def check_bodies(name: str, history: Events, bodies: Sequence[dict[str, Any]]) -> None:
    """No attempt runs after its end was recorded, nor more often than its process died; what must run at most once does."""
    takeovers = died(history)
    runs = Counter((body["step"], body["attempt"]) for body in bodies)
    once = {body["step"] for body in bodies if body.get("once")}
    for (step, attempt), count in runs.items():
        most = 1 if step in once else 1 + takeovers
        assert count <= most, f"{name}: attempt {attempt} of {step} ran {count} times, with {takeovers} takeovers"
    for event in history:
        if event["EventType"] in ("StepSucceeded", "StepFailed"):
            step, attempt, at = event["Name"], details(event)["RetryDetails"]["CurrentAttempt"], event["EventTimestamp"] * 1000
            late = [body for body in bodies if body["step"] == step and body["attempt"] <= attempt and body["at"] > at + 1]
            assert late == [], f"{name}: {step} ran again after attempt {attempt} was recorded at {at}"
            if event["EventType"] == "StepSucceeded":
                assert runs[step, attempt] >= 1, f"{name}: {step} is recorded and never ran"


class Family:
    """Which execution was invoked by which operation."""

    def __init__(self, scene: Scene, executions: Iterable[Execution]) -> None:
        self._scene = scene
        self.members = {header.id: header for header in executions}
        self._invoked: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for header in self.members.values():
            if header.parent is not None:
                assert header.parent_operation is not None
                assert header.parent in self.members, f"{header.name} was invoked by nobody"
                self._invoked[header.parent][header.parent_operation].add(header.id)

    def root_of(self, header: Execution) -> Execution:
        """Who started it all."""
        return header if header.parent is None else self.root_of(self.members[header.parent])

    def chain(self, first: str) -> list[Execution]:
        """An execution and those that went on for it."""
        header = self.members[first]
        return [header] if header.continued_as is None else [header, *self.chain(header.continued_as)]

    def check(self, header: Execution, history: Events) -> int:
        """Every invoke started one execution and no other, and came to what that one came to. Answers how many there were."""
        operations = {op.id: op for op in self._scene.client.operations(header.id) if op.type is Type.CHAINED_INVOKE}
        began = [event for event in history if event["EventType"] == "ChainedInvokeStarted"]
        assert sorted(event["Id"] for event in began) == sorted(operations), f"{header.name}: an invoke began twice"
        assert self._invoked[header.id].keys() == operations.keys(), f"{header.name} has an orphan"
        for event in began:
            chain = self.chain(Arn.parse(details(event)["DurableExecutionArn"]).id)
            assert {one.id for one in chain} == self._invoked[header.id][event["Id"]], f"{header.name}: {event['Name']} was started twice"
            self._check_ending(header, operations[event["Id"]], chain[-1])
        return len(began)

    def _check_ending(self, header: Execution, operation: Operation, child: Execution) -> None:
        where = f"{header.name}: {operation.name}"
        if operation.status in OPEN:
            assert header.status is ExecutionStatus.STOPPED, f"{where} is still open"
            assert child.status is ExecutionStatus.STOPPED, f"{where} was not told that {child.name} has ended"
            return
        told = self._scene.client.describe(child.id)
        assert operation.status == Status(child.status.value), where
        if operation.status is Status.SUCCEEDED:
            assert codec.loads(operation.result or "null") == told.result, where
        else:
            error = operation.error
            assert error is not None
            assert told.error is not None
            assert (error.type, error.message) == (told.error.get("ErrorType"), told.error.get("ErrorMessage")), where
