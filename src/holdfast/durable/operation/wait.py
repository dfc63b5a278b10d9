"""wait: the service wakes the execution after a time. A timer is a wait in two halves, with other calls between them."""

from __future__ import annotations

from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Lookup, Plan, Record, Suspend
from holdfast.model.operations import Action, Status


def wait(at: Identity, seconds: int) -> Plan[None]:
    """Suspend until the time has passed."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))
        seen = yield Lookup(at)
    while seen.status is Status.STARTED:  # as in `rested`, without a second generator, because many executions wait in memory
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def started(at: Identity, seconds: int) -> Plan[None]:
    """The first half: start the time."""
    seen = yield Lookup(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))


def rested(at: Identity) -> Plan[None]:
    """The second half: suspend until the time has passed."""
    seen = yield Lookup(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)


def cancelled(at: Identity) -> Plan[None]:
    """In place of the second half: cancel the wait."""
    seen = yield Lookup(at)
    if seen.status is Status.STARTED:
        yield Record(at.update(Action.CANCEL, if_open=True))  # the wait may be over before the update is written
