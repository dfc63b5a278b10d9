"""What must hold for every execution, whatever went wrong around it: laws of its history, of its bodies, and of what it invoked.

Independent of the engine: nothing here asks how a history came about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.descriptions.history import wire_history
from holdfast.model import codec
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ids import Arn
from holdfast.model.operations import OPEN, Operation, Status, Type
from holdfast.store.seam import Store

ENDINGS: Final = ("ExecutionSucceeded", "ExecutionFailed", "ExecutionStopped", "ExecutionTimedOut")
ENDS: Final = ("Succeeded", "Failed", "Cancelled", "Stopped", "TimedOut")
Events = Sequence[dict[str, Any]]


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


def invocations(history: Events) -> int:
    """How many invocations there were."""
    return sum(event["EventType"] == "InvocationCompleted" for event in history)


def broken_laws(history: Events) -> Iterator[str]:
    """What is wrong with the history of an execution that is over.

    No gap, times that never go back, nothing ends that did not begin, nothing begins or ends after its end, one ending of all and it is
    the last.
    """
    if [event["EventId"] for event in history] != list(range(1, len(history) + 1)):
        yield "the numbers of its events have gaps"
    times = [event["EventTimestamp"] for event in history]
    if times != sorted(times):
        yield "its time goes back"
    if not history or history[0]["EventType"] != "ExecutionStarted":
        yield "it does not begin with its start"
    if [event["EventType"] in ENDINGS for event in history] != [False] * (len(history) - 1) + [True]:
        yield "its end is not its last event, or not the only one"
    begun: set[str] = set()
    over: set[str] = set()
    for event in history:
        kind, operation = event["EventType"], event.get("Id")
        if operation is None or kind.startswith(("Execution", "Invocation")):
            continue
        where = f"{event.get('Name')} ({kind}, event {event['EventId']})"
        if operation in over:
            yield f"{where} comes after its end"
        if kind.endswith("Started"):
            if operation in begun:
                yield f"{where} begins twice"
            begun.add(operation)
        elif kind.endswith(ENDS):
            if operation not in begun:
                yield f"{where} ends and never began"
            if retries(event):
                begun.discard(operation)
            else:
                over.add(operation)


def check_history(history: Events) -> None:
    """Raise an AssertionError for the first law that a history breaks."""
    for broken in broken_laws(history):
        raise AssertionError(broken)


class Family:
    """Which execution was invoked by which operation."""

    def __init__(self, store: Store, executions: Iterable[Execution], *, cascading: bool = True) -> None:
        """`cascading`: no execution was stopped without the executions that it had invoked."""
        self._store = store
        self._cascading = cascading
        self.members = {header.id: header for header in executions}
        self._invoked: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for header in self.members.values():
            if header.parent is not None:
                assert header.parent_operation is not None
                assert header.parent in self.members, f"{header.name} was invoked by no execution"
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
        operations = {op.id: op for op in self._store.operations(header.id) if op.type is Type.CHAINED_INVOKE}
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
            assert header.status in (ExecutionStatus.STOPPED, ExecutionStatus.TIMED_OUT), f"{where} is still open"
            if child.cascade and self._cascading:
                assert child.status is ExecutionStatus.STOPPED, f"{where} was not told that {child.name} has ended"
            return
        assert operation.status == Status(child.status.value), where
        if operation.status is Status.SUCCEEDED:
            assert operation.result == self._store.result(child), where
        elif operation.status is not Status.TIMED_OUT:  # of a timeout each is told in its own words
            assert operation.error == codec.failure_from(self._store.result(child) or "{}"), where


class Bodies:
    """The bodies that ran, as the world outside saw them."""

    def __init__(self, ran: Iterable[tuple[str, str, int, bool, int]], seen: Iterable[tuple[str, str, Any, int]]) -> None:
        """`ran`: execution, step, attempt, whether it must run at most once, order. `seen`: execution, step, result, order."""
        self._ran: dict[str, list[tuple[str, int, bool, int]]] = defaultdict(list)
        self._seen: dict[str, dict[str, tuple[Any, int]]] = defaultdict(dict)
        for execution, step, attempt, once, order in ran:
            self._ran[execution].append((step, attempt, once, order))
        for execution, step, value, order in seen:
            self._seen[execution].setdefault(step, (value, order))

    def executions(self) -> set[str]:
        """All processes that ran an execution."""
        return {*self._ran, *self._seen}

    def check(self, header: Execution, history: Events) -> None:
        """At most once is that; an attempt runs once in each invocation; what a handler was given is recorded and never runs again."""
        most = max(invocations(history), 1)
        ran = self._ran.get(header.id, [])
        once = {step for step, _, once, _ in ran if once}
        for (step, attempt), count in Counter((step, attempt) for step, attempt, _, _ in ran).items():
            limit = 1 if step in once else most
            assert count <= limit, f"{header.name}: attempt {attempt} of {step} ran {count} times, at most {limit} are allowed"
        results = {event["Name"]: event for event in history if event["EventType"] == "StepSucceeded"}
        for step, (_, order) in self._seen.get(header.id, {}).items():
            assert step in results, f"{header.name}: the result of {step} was given to its handler and is not in its history"
            late = [one for one in ran if one[0] == step and one[3] > order]
            assert not late, f"{header.name}: {step} ran again after its handler had its result"
        begun = {step for step, _, _, _ in ran}
        for step in results:
            assert step in begun or step.endswith("submitter") or step.startswith("enqueue"), (
                f"{header.name}: {step} is recorded and never ran"
            )


def check_execution(store: Store, header: Execution, family: Family, bodies: Bodies) -> int:
    """All laws for one execution that is over; answers how many events it has."""
    history = wire_history(store, header)
    for broken in broken_laws(history):
        raise AssertionError(f"{header.name} ({header.function}): {broken}")
    family.check(header, history)
    bodies.check(header, history)
    return len(history)
