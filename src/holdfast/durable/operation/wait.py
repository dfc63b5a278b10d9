"""wait: the service wakes the execution after a time. A timer is a wait in two halves: `create_timer` begins the wait, then the code may
make other calls, and `result()` waits for the end."""

from __future__ import annotations

from holdfast.durable import argument_checks
from holdfast.durable.delays import Duration
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Lookup, Plan, Record, Suspend
from holdfast.durable.scope import Scope
from holdfast.model.operations import Action, Status, SubType, Type


def _at_least_a_second(duration: Duration, call: str) -> int:
    seconds = argument_checks.seconds(duration, call)
    if seconds < 1:
        refusal = ValidationError("duration must be at least 1 second")
        refusal.tells_line = True  # exactly AWS's message, so that histories do not differ
        raise refusal
    return seconds


def wait_call(scope: Scope, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
    """Check the arguments of `context.wait`. Returns the identity of the call, and its plan."""
    seconds, name = _at_least_a_second(duration, "wait"), argument_checks.name(name, "wait")
    at = scope.next_identity(Type.WAIT, SubType.WAIT.value, name)
    return at, wait(at, seconds)


def timer_call(scope: Scope, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
    """Check the arguments of `context.create_timer`. Returns the identity of the call, and its plan."""
    seconds, name = _at_least_a_second(duration, "create_timer"), argument_checks.name(name, "create_timer")
    at = scope.only_begins(scope.next_identity(Type.WAIT, SubType.WAIT.value, name))
    return at, started(at, seconds)


def wait(at: Identity, seconds: int) -> Plan[None]:
    """Begin a wait of this many seconds, unless the history has the wait already, and suspend until the time has passed."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))
        seen = yield Lookup(at)
    while seen.status is Status.STARTED:  # as in `rested`, without a second generator, because many executions wait in memory
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def started(at: Identity, seconds: int) -> Plan[None]:
    """The first half of a timer: begin a wait of this many seconds, unless the history has the wait already. Does not suspend."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))


def rested(at: Identity) -> Plan[None]:
    """The second half of a timer: suspend until its time has passed. Does not suspend if the time has passed or the timer was cancelled."""
    seen = yield Lookup(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def cancelled(at: Identity) -> Plan[None]:
    """Cancel the wait of a timer, if it has not ended."""
    seen = yield Lookup(at)
    if seen.status is Status.STARTED:
        yield Record(at.update(Action.CANCEL, if_open=True))  # the wait may end before the update is written
