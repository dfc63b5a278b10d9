"""Charges: what a write adds to counters that many executions share, in the same transaction.

A counter is a number under a key. It starts again from zero at a certain time. Examples: how often a worker was asked in a time, what a
tenant has spent today, and a mark that a tenant must not call a server before a certain time. A write carries its charges. If a charge
would take a counter beyond its limit, the write is refused, and nothing of it is written. (The charges of an execution that a checkpoint
starts are an exception: only the operation that asks for it fails. See `Birth.charges`.)

A counter may have a second number, the reserved amount: a call that is under way has reserved the most that it may cost, and the end of the
call adds its real cost to the first number. Both numbers together stay within the limit. A refusal says whether there would be room without
the reserved amount. If so, there may be room when the calls that reserved it have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.model.errors import LimitReached


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What a write adds to a counter. Times are in milliseconds since 1970-01-01 UTC."""

    key: str
    amount: int = 0
    """What is added. It may be negative, to give back an amount that was not needed."""
    limit: int | None = None
    """The most that the counter's two numbers together may be after the charge; None: no limit."""
    until: int = 0
    """From this time on the counter is zero again. It is used only if this charge begins a counter: there is none with this key yet, or the
    `until` of the old one has passed. For a counter that exists, see `extends`."""
    extends: bool = False
    """Whether the charge may move the `until` of a counter that exists: to the `until` of the charge, if that is later."""
    reserved: int = 0
    """What is added to the counter's second number, the reserved amount. A call that begins adds its reservation. The charge at its end has
    the same number here, negative, and in `amount` what the call really used."""


class Counter(msgspec.Struct, frozen=True, gc=False):
    """A counter. From `until` on it is as if it did not exist."""

    key: str
    amount: int
    until: int
    reserved: int = 0


def charged(charges: Sequence[Charge], read: Callable[[str], Counter | None], now: int) -> dict[str, Counter]:
    """The counters that the charges change, by their keys, as they are after all charges. A charge that adds 0 and cannot prolong its
    counter (`extends`) changes no counter: it only checks the limit. `read` returns the counter of a key; None if there is none. Raises
    LimitReached if a charge would take its counter beyond its limit.

    If several charges are refused, the error is about the first one that would be refused even without the reserved amounts; if there is
    none, about the first refused one.
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
