"""Charges: what a write adds to counters that many executions share, in the same transaction.

A rate, a day's budget of a tenant and a key that is closed for a while are all counters: a counter is a number under a key, and starts
again from zero at a certain time. A write carries its charges. If a charge would go beyond its limit, the write is refused and nothing of
it happens.

A counter may hold a second number, the reserved amount: a call that is under way has reserved the most that it may cost, and the end of the
call adds its real cost to the first number. Both numbers together stay within the limit. A refusal says whether there would be room without
the reservations, because then there may be room when they are settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.model.errors import LimitReached


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What a write adds to a counter."""

    key: str
    amount: int = 0
    """What is added. It may be negative, to give back an amount that was not needed."""
    limit: int | None = None
    """The most that the counter's two numbers together may be after the charge."""
    until: int = 0
    """When the counter starts again from zero, if it begins with this charge."""
    extends: bool = False
    """Whether the counter's end moves to `until` if that is later, so that the key stays closed longer."""
    reserved: int = 0
    """What the charge adds to the reserved number. A settlement takes its reservation back here, and adds what was really used to
    `amount`."""


class Counter(msgspec.Struct, frozen=True, gc=False):
    """A counter as it stands; from `until` on it counts as absent."""

    key: str
    amount: int
    until: int
    reserved: int = 0


def charged(charges: Sequence[Charge], read: Callable[[str], Counter | None], now: int) -> dict[str, Counter]:
    """The counters after all charges. If one charge would go beyond its limit, raises LimitReached, and no charge is made.

    If several charges are refused, the error names one that stays refused even when all reservations are settled, if there is one.
    """
    after: dict[str, Counter] = {}
    curable: LimitReached | None = None
    for charge in charges:
        found = after.get(charge.key) or read(charge.key)
        if found is None or found.until <= now:
            found = Counter(charge.key, 0, charge.until)
        amount, reserved = found.amount + charge.amount, found.reserved + charge.reserved
        if charge.limit is not None and amount + reserved > charge.limit:
            fits = amount + charge.reserved <= charge.limit
            refused = LimitReached(charge.key, charge.limit, found.until, spent=found.amount, reserved=found.reserved, is_curable=fits)
            if not fits:
                raise refused
            curable = curable or refused
        if charge.amount or charge.reserved or charge.extends:  # a charge of 0 only checks the limit
            until = max(found.until, charge.until) if charge.extends else found.until
            after[charge.key] = Counter(charge.key, max(amount, 0), until, max(reserved, 0))
    if curable is not None:
        raise curable
    return after
