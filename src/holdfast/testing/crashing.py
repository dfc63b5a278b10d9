"""Crash everywhere: run a function again and again, ending it before and after each of its checkpoints, and compare what comes of it.

A crash here is what a handler can notice of one: the invocation ends in the middle of a write, nothing it would have said afterwards is
heard, and another invocation has only the history to go on with. `before` the write is lost; `after` it is on disk and the answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.model.charging import Charge
from holdfast.model.errors import HoldfastError, LeaseLost
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
    operations: tuple[tuple[Any, ...], ...]
    effects: Any


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
            runner.wrap = lambda host: Crashing(host, function.name, crash)
            result = _driven(runner, input, script)
            return _meaning(result, effects() if effects is not None else None), crash.seen

    straight, points = run(0, BEFORE)
    places = [(point, when) for point in range(1, points + 1) for when in (BEFORE, AFTER)] + [(points, LAST)]
    for point, when in places:
        crashed, _ = run(point, when)
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
    return Meaning(result.status, result.payload, result.error, tuple(map(_told, result.operations)), effects)


def _told(op: Seen) -> tuple[Any, ...]:
    """An operation without its times, which a crash may move, and without its attempts, which an interrupted one may use up."""
    return (op.id, op.type.value, op.sub_type, op.name, op.status.value, op.payload, op.error, tuple(map(_told, op.operations)))


def _difference(straight: Meaning, crashed: Meaning, point: int, points: int, when: str) -> str:
    where = f"A crash {when} checkpoint {point} of {points} changes what the function comes to"
    for name in ("status", "error", "payload", "effects"):
        was, now = getattr(straight, name), getattr(crashed, name)
        if was != now:
            return f"{where}: {name} was {was!r}, now it is {now!r}."
    for was, now in zip(straight.operations, crashed.operations, strict=False):
        if was != now:
            return f"{where}: {was[2] or was[1]} {was[3]!r} was {was[4:7]!r}, now {now[2] or now[1]} {now[3]!r} is {now[4:7]!r}."
    return f"{where}: there were {len(straight.operations)} operations, now there are {len(crashed.operations)}."
