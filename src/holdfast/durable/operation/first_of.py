"""first_of: wait until the first of several callbacks and timers has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.durable.config import ChildConfig
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.child import contained
from holdfast.durable.plan import Lookup, Plan, Suspend
from holdfast.durable.scope import Scope
from holdfast.model.operations import OPEN, Operation

SUB_TYPE: Final = "FirstOf"


def first_of(at: Identity, scope: Scope, awaited: Sequence[Identity]) -> Plan[int]:
    """The index, in `awaited`, of the callback or timer that ended first. The index is recorded as the result of a context, because at the
    next replay more of them may have ended."""

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
