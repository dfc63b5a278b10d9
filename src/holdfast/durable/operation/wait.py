"""wait: the service wakes us after a time."""

from __future__ import annotations

from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Look, Plan, Record, Suspend
from holdfast.model.operations import Action, Status


def wait(at: Identity, seconds: int) -> Plan[None]:
    """Suspend until the time has passed."""
    seen = yield Look(at)
    if seen is None:
        yield Record(at.update(Action.START, wait_seconds=seconds))
        seen = yield Look(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Look(at)
