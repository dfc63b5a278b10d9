"""Crash everywhere: run a function again and again, ending it before and after each of its checkpoints, and compare what comes of it.

A crash here is what a handler can notice of one: the invocation ends in the middle of a write, nothing it would have said afterwards is
heard, and another invocation has only the history to go on with. `before` the write is lost; `after` it is on disk and the answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.model.charging import Charge
from holdfast.model.errors import ExecutionQuarantined, HoldfastError, LeaseLost
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.operations import Failure, Operation, Update
from holdfast.model.ports import ChargingPort, Host, Invocation, Port
from holdfast.model.verbs import Checkpointed
from holdfast.testing.results import Result, Seen
from holdfast.testing.runner import Runner

BEFORE, AFTER, LAST = "before", "after", "after the handler's end, which is later than"


class CrashDiffers(HoldfastError, AssertionError):
    """A crash changed what a function comes to."""

    code = "crash_differs"


class Answers(msgspec.Struct, frozen=True):
    """What the people outside do: the answer to each callback by its name, a text or an error."""

    by_name: Mapping[str, str | Failure]


class Meaning(msgspec.Struct, frozen=True):
    """What must be the same with and without a crash."""

    status: ExecutionStatus
    payload: str | None
    error: Failure | None
    operations: Mapping[str, Told]
    """By their ids, at every depth. Branches that run at the same time begin in any order, with a crash and without."""
    effects: Any


class Told(msgspec.Struct, frozen=True):
    """An operation without its times, which a crash may move, and without its attempts, which an interrupted one may use up."""

    what: str
    name: str | None
    inside: str | None
    """The id of the operation that it belongs to."""
    came_to: tuple[str, str | None, Failure | None]


def crash_everywhere(
    function: DurableFunction,
    input: Any = None,
    *,
    answers: Mapping[str, str | Failure] | None = None,
    effects: Callable[[], Any] | None = None,
    reset: Callable[[], None] | None = None,
    functions: Sequence[DurableFunction] = (),
    stubs: Mapping[str, Any] | None = None,
) -> int:
    """Crash `function` at every point; raises `CrashDiffers` at the first that changes anything, else says how many points there were.

    `effects()` tells what it did to the world, after `reset()` before each run. A step's body may run again when the crash came before its
    result was on disk, so count what must be the same: keys that were used, not calls that were made.
    """
    script = Answers(answers or {})

    def run(point: int, when: str) -> tuple[Meaning, int]:
        if reset is not None:
            reset()
        crash = Crash(point, when)
        with Runner(function, functions=functions, stubs=stubs, replay=True) as runner:
            runner.wrap = lambda host: Crashing(host.unhurried(), function.name, crash)
            result = _driven(runner, input, script)
            return _meaning(result, effects() if effects is not None else None), crash.seen

    straight, points = run(0, BEFORE)
    places = [(point, when) for point in range(1, points + 1) for when in (BEFORE, AFTER)] + [(points, LAST)]
    for point, when in places:
        try:
            crashed, _ = run(point, when)
        except ExecutionQuarantined as aside:
            raise CrashDiffers(f"A crash {when} checkpoint {point} of {points} puts the execution aside: {aside}") from aside
        if crashed != straight:
            raise CrashDiffers(_difference(straight, crashed, point, points, when))
    return len(places)


def _driven(runner: Runner, input: Any, script: Answers) -> Result:
    arn = runner.run_async(input)
    while True:
        callback = runner.wait_for_callback_or_end(arn, among=script.by_name)
        if callback is None:
            return runner.look(arn)
        answer = script.by_name[callback.name or ""]
        if isinstance(answer, Failure):
            runner.send_callback_failure(callback.id, answer.message, answer.type)
        else:
            runner.send_callback_success(callback.id, answer)


class Crash:
    """Where the crash comes, and how many checkpoints have been seen so far."""

    def __init__(self, point: int, when: str) -> None:
        self.point = point
        self.when = when
        self.seen = 0

    def comes(self) -> bool:
        self.seen += 1
        return self.seen == self.point and self.when != LAST

    def comes_last(self, outcome: Outcome) -> bool:
        """Whether the end of the handler, which is its last word, is to be lost: once, and only when it is an end."""
        if self.when != LAST or outcome.status is OutcomeStatus.PENDING:
            return False
        self.when = BEFORE
        return True


class _Port:
    """A port that loses one write or one answer; afterwards its invocation hears nothing more."""

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
        landed: Callable[[Checkpointed | HoldfastError], None],
        *,
        charges: tuple[Charge, ...] = (),
    ) -> None:
        if self._begin():
            landed(LeaseLost())
        else:
            port = cast("ChargingPort", self._port)
            port.checkpoint_soon(token, updates, lambda answer: landed(LeaseLost() if self._dead else answer), charges=charges)

    def _begin(self) -> bool:
        """Count a write; True when it must not be made."""
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
    """A host whose invocations of one function may crash."""

    def __init__(self, host: Host, function: str, crash: Crash) -> None:
        self._host = host
        self._function = function
        self._crash = crash
        self.cancel, self.nudge, self.idle = host.cancel, host.nudge, host.idle

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        if invocation.header.function != self._function:
            self._host.invoke(invocation, port, done)
            return
        tripped: list[bool] = []

        def ended(outcome: Outcome, seen: int) -> None:
            lost = bool(tripped) or self._crash.comes_last(outcome)
            done(Outcome(OutcomeStatus.INTERRUPTED) if lost else outcome, seen)

        self._host.invoke(invocation, _Port(port, self._crash, lambda: tripped.append(True)), ended)


def _meaning(result: Result, effects: Any) -> Meaning:
    return Meaning(result.status, result.payload, result.error, dict(_told(result.operations, None)), effects)


def _told(operations: Sequence[Seen], inside: str | None) -> Iterator[tuple[str, Told]]:
    """The innermost first: what differs inside a batch is the cause of what differs in the batch."""
    for op in operations:
        yield from _told(op.operations, op.id)
        yield op.id, Told(op.sub_type or op.type.value, op.name, inside, (op.status.value, op.payload, op.error))


def _difference(straight: Meaning, crashed: Meaning, point: int, points: int, when: str) -> str:
    where = f"A crash {when} checkpoint {point} of {points} changes what the function comes to"
    for name in ("status", "error", "payload", "effects"):
        was, now = getattr(straight, name), getattr(crashed, name)
        if was != now:
            return f"{where}: {name} was {was!r}, now it is {now!r}."
    for id, told in straight.operations.items():
        then = crashed.operations.get(id)
        if then is None:
            return f"{where}: {told.what} {told.name!r} was {told.came_to!r}, now it is not there."
        if told != then:
            return f"{where}: {told.what} {told.name!r} was {told.came_to!r}, now {then.what} {then.name!r} is {then.came_to!r}."
    more = [told for id, told in crashed.operations.items() if id not in straight.operations]
    return f"{where}: {more[0].what} {more[0].name!r} was not there, now it is {more[0].came_to!r}."
