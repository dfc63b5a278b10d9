"""first_of: wait until the first of several callbacks and timers has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from holdfast.durable import argument_checks
from holdfast.durable.config import ChildConfig
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.child import contained
from holdfast.durable.plan import Lookup, Plan, Suspend
from holdfast.durable.scope import Scope
from holdfast.model.operations import OPEN, Operation, Type

SUB_TYPE: Final = "FirstOf"


class Awaited(Protocol):
    """An element of the list that `first_of` accepts: a callback or a timer, which has the identity of its operation in `at`."""

    @property
    def at(self) -> Identity: ...


def first_of_call(scope: Scope, awaited: Sequence[Awaited], name: str | None) -> tuple[Identity, Plan[int]]:
    """Check the arguments of `context.first_of`. Returns the identity of the call, and its plan."""
    if not awaited:
        raise ValidationError("first_of needs at least one callback or timer")
    places = [getattr(one, "at", None) for one in awaited]
    for one, place in zip(awaited, places, strict=True):
        if not isinstance(place, Identity):
            raise ValidationError(
                f"first_of: {argument_checks.shown(one)} is neither a callback nor a timer. Pass what create_callback and create_timer "
                f"return; in an `async def` handler await these calls first."
            )
    at = scope.next_identity(Type.CONTEXT, SUB_TYPE, argument_checks.name(name, "first_of"))
    return at, first_of(at, scope, [one.at for one in awaited])


def first_of(at: Identity, scope: Scope, awaited: Sequence[Identity]) -> Plan[int]:
    """Wait until at least one of the callbacks and timers in `awaited` has ended, and return the index of the one that ended first. The
    index is recorded as the result of a context, so that every replay returns the same index."""

    def body(_: Scope) -> Plan[int]:
        return _first(awaited)

    return (yield from contained(at, scope, body, ChildConfig()))


def _first(awaited: Sequence[Identity]) -> Plan[int]:
    while True:
        seen: list[Operation] = []
        for identity in awaited:
            looked = yield Lookup(identity)
            seen.append(looked)
        over = [(op.ended_at or 0, op.revision, place) for place, op in enumerate(seen) if op.status not in OPEN]
        if over:
            return min(over)[2]
        yield Suspend(seen[-1].id, tuple(seen[:-1]))
