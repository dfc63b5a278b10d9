"""Charges: counters that many executions share, moved in the very write that uses them up.

A rate, a day's budget of a tenant and a key that is closed for a while are all one thing: a number under a key that begins anew at a
certain time. A write carries its charges; if one would go beyond its limit, the write is refused and nothing of it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.model.errors import LimitReached


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What a write adds to a counter."""

    key: str
    amount: int = 0
    """May be negative: what was reserved and not needed comes back."""
    limit: int | None = None
    """The counter may not stand above this afterwards."""
    until: int = 0
    """When the counter begins anew, if it begins with this charge."""
    extends: bool = False
    """Move the counter's end to `until` if that is later: the key stays closed longer."""


class Counter(msgspec.Struct, frozen=True, gc=False):
    """A counter as it stands; from `until` on it counts as absent."""

    key: str
    amount: int
    until: int


def charged(charges: Sequence[Charge], read: Callable[[str], Counter | None], now: int) -> dict[str, Counter]:
    """The counters after all charges, or LimitReached and nothing."""
    after: dict[str, Counter] = {}
    for charge in charges:
        found = after.get(charge.key) or read(charge.key)
        if found is None or found.until <= now:
            found = Counter(charge.key, 0, charge.until)
        amount = found.amount + charge.amount
        if charge.limit is not None and amount > charge.limit:
            raise LimitReached(charge.key, charge.limit, found.until)
        if charge.amount or charge.extends:  # else it only asks whether there is room
            until = max(found.until, charge.until) if charge.extends else found.until
            after[charge.key] = Counter(charge.key, max(amount, 0), until)
    return after
