"""crash_everywhere: runs a function many times, crashes it before and after each of its checkpoints and at its end, and compares the
results.

The crash is simulated as a handler would notice it: the invocation ends in the middle of a write, its later writes fail, and the next
invocation has only the history. A crash before a checkpoint loses the write. A crash after a checkpoint keeps the write in the store and
loses its answer. A crash at the end loses what the handler returned or raised.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.model.charges import Charge
from holdfast.model.errors import ExecutionQuarantined, HoldfastError, LeaseLost
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import ENQUEUE, RUN, Failure, Operation, Order, Update
from holdfast.model.ports import ChargingPort, Host, Invocation, OnAnswer, Port
from holdfast.model.run_port import RunAsked, RunPort
from holdfast.model.verbs import Checkpointed
from holdfast.testing.results import Result, Seen
from holdfast.testing.runner import Runner

BEFORE, AFTER, LAST = "before", "after", "after the handler's end, which is later than"


class CrashDiffers(HoldfastError, AssertionError):
    """A crash changed what a function, a worker or a pipeline does: its result, its operations, its questions or its side effects."""

    code = "crash_differs"


class ComparedRun(msgspec.Struct, frozen=True):
    """The parts of a run that must be the same with and without a crash."""

    status: ExecutionStatus
    payload: str | None
    error: Failure | None
    operations: Mapping[str, ComparedOperation]
    """The operations by id, at every depth. Their order is not compared, because concurrent branches begin in any order."""
    effects: Any
    """What the test's `effects()` returned after the run; None if the test gives no such function."""


class ComparedOperation(msgspec.Struct, frozen=True):
    """An operation without its times, which a crash may change, and without its attempts, which a crash may use up."""

    what: str
    """The sub-type of the operation, or its type if it has no sub-type."""
    name: str | None
    inside: str | None
    """The id of the operation that contains it; None at the top."""
    came_to: tuple[str, str | None, Failure | None]
    """The status, the payload and the error. The payload of a worker's run is without its ids and times; the payload of an enqueue is
    None."""


def crash_everywhere(
    function: DurableFunction,
    input: Any = None,
    *,
    answers: Mapping[str, str | Exception] | None = None,
    effects: Callable[[], Any] | None = None,
    reset: Callable[[], None] | None = None,
    functions: Sequence[DurableFunction] = (),
    stubs: Mapping[str, Any] | None = None,
    workers: Mapping[str, Any] | Sequence[str | os.PathLike[str]] = (),
) -> int:
    """Run `function` once without a crash, then again and again: with a crash before and after each of its checkpoints, and at its end.

    Returns the number of crashes. Raises `CrashDiffers` at the first crash that changes the status, the result, the error, an operation or
    the side effects, or that quarantines the execution.

    `answers` are the answers to callbacks, by the callback's name: a text, or an exception if the callback fails. (The callback of
    `wait_for_callback` with the name `sign` has the name `sign create callback id`; both names may be used.) A callback without an answer
    stays open until its timeout, or else until the timeout of the execution. `reset()` is called before each run, and `effects()` after it;
    what `effects()` returns must be the same for every run. If the crash comes before the result of a step is on disk, the step's body may
    run again. So `effects()` should return what stays equal: the used keys, not the number of calls. `functions` are real functions that
    `function` may invoke, `stubs` replace invoked functions by name, `workers` are the workers that it may run, all in the forms that
    `Runner` accepts. Ids and times of runs of workers are not compared.
    """

    def run(point: int, when: str) -> tuple[ComparedRun, int]:
        if reset is not None:
            reset()
        crash = Crash(point, when)
        with Runner(function, functions=functions, stubs=stubs, workers=workers, replay=True) as runner:
            runner.wrap = lambda host: Crashing(host.unhurried(), [function.name], crash)
            result = _driven(runner, input, answers or {})
            return _meaning(result, effects() if effects is not None else None), crash.seen

    straight, points = run(0, BEFORE)
    places = [(point, when) for point in range(1, points + 1) for when in (BEFORE, AFTER)] + [(points, LAST)]
    for point, when in places:
        try:
            crashed, _ = run(point, when)
        except ExecutionQuarantined as aside:
            raise CrashDiffers(f"A crash {when} checkpoint {point} of {points} quarantines the execution: {aside}") from aside
        if crashed != straight:
            raise CrashDiffers(_difference(straight, crashed, point, points, when))
    return len(places)


def _driven(runner: Runner, input: Any, answers: Mapping[str, str | Exception]) -> Result:
    arn = runner.run_async(input)
    while True:
        callback = runner.wait_for_callback_or_end(arn, among=answers)
        if callback is None:
            return runner.look(arn)
        answer = next(answers[name] for name in callback.names if name in answers)
        if isinstance(answer, Exception):
            runner.send_callback_failure(callback.id, str(answer), type(answer).__name__)
        else:
            runner.send_callback_success(callback.id, answer)


class Crash:
    """Where the crash comes, and how many writes there were until now. `point` is the number of a write, from 1; 0: no crash. `when` is
    BEFORE, AFTER or LAST."""

    def __init__(self, point: int, when: str) -> None:
        self.point = point
        self.when = when
        self.seen = 0

    def comes(self) -> bool:
        """Count a write. Returns whether the crash comes at this write."""
        self.seen += 1
        return self.seen == self.point and self.when != LAST

    def comes_last(self, outcome: Outcome) -> bool:
        """Whether the outcome of an invocation must be lost. With LAST this is true once: for the first invocation whose outcome is not
        PENDING."""
        if self.when != LAST or outcome.status is OutcomeStatus.PENDING:
            return False
        self.when = BEFORE
        return True


class _Port:
    """A port that loses one write or one answer, if the crash comes at one of its writes. After that, each checkpoint through it fails with
    LeaseLost and writes nothing."""

    def __init__(self, port: Port, crash: Crash, trip: Callable[[], None]) -> None:
        self._port = port
        self._crash = crash
        self._trip = trip
        self._dead = False

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        if self._begin():
            raise LeaseLost
        answer = self._port.checkpoint(token, updates, client_token)
        if self._dead:
            raise LeaseLost
        return answer

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        on_answer: OnAnswer,
        *,
        charges: tuple[Charge, ...] = (),
        ledger: tuple[LedgerEntry, ...] = (),
    ) -> None:
        if self._begin():
            on_answer(LeaseLost())
        else:
            port = cast("ChargingPort", self._port)
            port.checkpoint_soon(
                token, updates, lambda answer: on_answer(LeaseLost() if self._dead else answer), charges=charges, ledger=ledger
            )

    async def accept(self, parent: Execution, operation_id: str, asked: RunAsked) -> Order | Failure:
        return await cast("RunPort", self._port).accept(parent, operation_id, asked)

    def accept_blocking(self, parent: Execution, operation_id: str, asked: RunAsked) -> Order | Failure:
        return cast("RunPort", self._port).accept_blocking(parent, operation_id, asked)

    def _begin(self) -> bool:
        """Count a write, unless the crash has come through this port before. Returns whether this write must be lost."""
        if self._dead:
            return True
        if self._crash.comes():
            self._dead = True
            self._trip()
            return self._crash.when == BEFORE
        return False

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return self._port.state(token, newer_than)

    def input(self, token: Position) -> str | None:
        return self._port.input(token)


class Crashing:
    """A host whose invocations of some functions may crash."""

    def __init__(self, host: Host, functions: Container[str], crash: Crash) -> None:
        self._host = host
        self._functions = functions
        self._crash = crash
        self.cancel, self.learn, self.recheck, self.idle = host.cancel, host.learn, host.recheck, host.idle

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        if invocation.header.function not in self._functions:
            self._host.invoke(invocation, port, done)
            return
        tripped: list[bool] = []

        def ended(outcome: Outcome, seen: int) -> None:
            lost = bool(tripped) or self._crash.comes_last(outcome)
            done(Outcome(OutcomeStatus.INTERRUPTED) if lost else outcome, seen)

        self._host.invoke(invocation, _Port(port, self._crash, lambda: tripped.append(True)), ended)


def _meaning(result: Result, effects: Any) -> ComparedRun:
    return ComparedRun(result.status, result.payload, result.error, dict(_told(result.operations, None)), effects)


def _told(operations: Sequence[Seen], inside: str | None) -> Iterator[tuple[str, ComparedOperation]]:
    """The operations by id, each after those inside it. So a difference inside a map or a parallel, which is the cause, is reported before
    the difference of the whole map or parallel. `inside` is the id of the operation that contains `operations`."""
    for op in operations:
        yield from _told(op.operations, op.id)
        payload = _without_ids(op.payload) if op.sub_type == RUN else None if op.sub_type == ENQUEUE else op.payload
        yield op.id, ComparedOperation(op.sub_type or op.type.value, op.name, inside, (op.status.value, payload, op.error))


def _without_ids(response: str | None) -> str | None:
    """A run's response without its ids and times, because they may differ: a crash before the write that starts a run gives the run another
    id. None for None."""
    if response is None:
        return None
    document = msgspec.json.decode(response)
    seen = document.get("observability") or {}
    document.pop("run_id", None)
    for name in ("duration_ms", "trace_id", "span_id", "log_fields"):
        seen.pop(name, None)
    return msgspec.json.encode(document).decode()


def _difference(straight: ComparedRun, crashed: ComparedRun, point: int, points: int, when: str) -> str:
    where = f"A crash {when} checkpoint {point} of {points} changes the result of the function"
    for name in ("status", "error", "payload", "effects"):
        was, now = getattr(straight, name), getattr(crashed, name)
        if was != now:
            return f"{where}: {name} was {was!r}, now it is {now!r}."
    for id, told in straight.operations.items():
        then = crashed.operations.get(id)
        if then is None:
            return f"{where}: {told.what} {told.name!r} was {told.came_to!r}, now it is missing."
        if told != then:
            return f"{where}: {told.what} {told.name!r} was {told.came_to!r}, now {then.what} {then.name!r} is {then.came_to!r}."
    more = [told for id, told in crashed.operations.items() if id not in straight.operations]
    return f"{where}: {more[0].what} {more[0].name!r} was missing, now it is {more[0].came_to!r}."
