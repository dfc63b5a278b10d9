"""The verdict over a simulation: every law of laws.py for every execution, and every acknowledgement against what is on disk."""

from __future__ import annotations

from holdfast.model import codec
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.store.seam import Filter, Store
from tests.simulation.laws import Bodies, Family, check_execution
from tests.simulation.workload import Act, Outside, is_right


class Acknowledged:
    """What callers were told is done."""

    def __init__(self) -> None:
        self.scripts: dict[str, list[list[Act]]] = {}
        """The starts of each name; more than one if a client used a name twice."""
        self.started: dict[str, set[tuple[int, str]]] = {}
        """Under each name: which of its scripts, as which execution."""
        self.answers: dict[str, list[str]] = {}
        self.sent: set[str] = set()
        self.stopped: set[str] = set()
        self.ended: list[tuple[Execution, str | None]] = []
        self.checked: list[str] = []
        self.enqueued: dict[str, tuple[str, int]] = {}
        """By execution: the name that it was enqueued under by a caller, and which script of that name."""
        self.replaced: set[str] = set()
        """Names of which a caller asked to replace the execution."""


def check_all(store: Store, known: Acknowledged, outside: Outside) -> int:
    """Raise an AssertionError for the first law that is broken; else answer the number of all events."""
    executions = store.list(Filter(limit=10_000))
    family = Family(store, executions, cascading=False)
    bodies = Bodies(outside.bodies, outside.seen)
    strangers = bodies.executions() - family.members.keys()
    assert not strangers, f"bodies ran for executions that do not exist: {sorted(strangers)}"
    events = 0
    for header in executions:
        events += check_execution(store, header, family, bodies)
        _check_result(store, header, known)
        known.checked.append(header.id)
    _check_acknowledged(store, known)
    return events


def _check_result(store: Store, header: Execution, known: Acknowledged) -> None:
    result = store.result(header)
    assert header.status is not ExecutionStatus.FAILED, f"{header.name} ({header.function}) failed: {result}"
    if header.status is ExecutionStatus.SUCCEEDED and header.function != "lap":
        script = codec.loads(store.input(header.id) or "null")
        assert is_right(script, codec.loads(result or "null"), known.sent), f"{header.name}: {script} ended with {result}"


def _check_acknowledged(store: Store, known: Acknowledged) -> None:
    for execution, (name, which) in known.enqueued.items():
        header = store.find(execution)
        assert header is not None, f"{name} was enqueued as {execution} and is not there"
        assert codec.loads(store.input(execution) or "null") == known.scripts[name][which], f"{name} has another input"
        current = store.find_named("script", name)
        assert current is not None, f"{name} was enqueued and its name is gone"
        assert current.id == execution or name in known.replaced, f"{name} was enqueued twice"
    for name, found in known.started.items():
        assert len(found) == 1, f"{name} was started as {found}"
        ((which, execution),) = found
        header = store.find_named("script", name)
        assert header is not None, f"{name} was acknowledged and is not there"
        assert header.id == execution, f"{name} was acknowledged as another execution"
        assert codec.loads(store.input(execution) or "null") == known.scripts[name][which], f"{name} has another input"
    for callback, texts in known.answers.items():
        assert len(texts) == 1, f"a callback took {len(texts)} answers"
        execution, operation_id = store.seal.callback_target(callback)
        (operation,) = [op for op in store.operations(execution) if op.id == operation_id]
        taken = operation.result if operation.error is None else operation.error.message
        assert taken == texts[0], f"a callback's acknowledged answer is not there: {operation.name} has {taken!r}, not {texts[0]!r}"
    for execution in known.stopped:
        header = store.find(execution)
        assert header is not None, f"{execution} was stopped and is not there"
        assert header.status is not ExecutionStatus.RUNNING, f"{header.name} was stopped and runs"
    for ending, payload in known.ended:
        header = store.find(ending.id)
        assert header is not None, f"{ending.name} has ended and is not there"
        assert (header.status, store.result(header)) == (ending.status, payload), f"{ending.name} ended otherwise than its caller was told"
