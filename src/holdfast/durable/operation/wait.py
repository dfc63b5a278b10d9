"""wait: the service wakes the execution after a time. A timer is a wait in two halves: it begins, other calls follow, then the code waits
for its end."""

from __future__ import annotations

from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Lookup, Plan, Record, Suspend
from holdfast.model.operations import Action, Status


def wait(at: Identity, seconds: int) -> Plan[None]:
    """Begin the wait, unless the history has it already, and suspend until the time has passed."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))
        seen = yield Lookup(at)
    while seen.status is Status.STARTED:  # as in `rested`, without a second generator, because many executions wait in memory
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def started(at: Identity, seconds: int) -> Plan[None]:
    """The first half of a timer: begin the wait, unless the history has it already. Does not suspend."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))


def rested(at: Identity) -> Plan[None]:
    """The second half of a timer: suspend until its time has passed. Returns at once if the timer was cancelled."""
    seen = yield Lookup(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def cancelled(at: Identity) -> Plan[None]:
    """Cancel the wait of a timer, if it has not ended."""
    seen = yield Lookup(at)
    if seen.status is Status.STARTED:
        yield Record(at.update(Action.CANCEL, if_open=True))  # the wait may end before the update is written
