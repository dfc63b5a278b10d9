"""The counters that all runs of a tenant share: what the tenant has used today, and which keys (such as a host) are closed because a server
sent Retry-After."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.clock import Clock
from holdfast.model.errors import LimitReached
from holdfast.model.ledger import NANO
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Remaining, Reservation, ToolFailed, Usage


def day_of(now: int) -> tuple[str, int]:
    """The UTC day to which the time `now` belongs, such as 2026-11-01, and the time at which that day ends. Both times are milliseconds
    since 1970."""
    at = datetime.fromtimestamp(now / 1000, UTC)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return at.strftime("%Y-%m-%d"), int(midnight.timestamp() * 1000)


def utc(at: int) -> str:
    """A time in milliseconds since 1970 as ISO 8601 text in UTC, such as 2026-11-01T12:00:00Z."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def capped(limit: LimitReached) -> dict[str, str]:
    """The details of an error about a daily cap: the name of the cap that was reached, and when the UTC day ends."""
    what = limit.key.rpartition("/")[2]
    return {"cap": "cost_usd" if what == "cost" else what, "until": utc(limit.until)}


def key_part(text: str) -> str:
    """A text in a form that can be one part of a counter's key, so without `/`. A long text becomes its hash."""
    safe = text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return safe if len(safe) <= 100 else sha256(text.encode(errors="replace")).hexdigest()


class Counters:
    """The counters that the calls of one tenant are charged to."""

    def __init__(self, policy: Policy, tenant: str, clock: Clock) -> None:
        self._caps = policy.caps_of(tenant)
        self._tenant = tenant
        self._clock = clock

    def left(self, remaining: Remaining) -> Remaining:
        """`remaining`, but at most the tenant's daily caps. What was spent of the caps today is not subtracted: the store checks that when
        it writes the charges. If there is a daily cap on cost, the result has a cost limit, so that a tool refuses a model without a
        price."""
        return remaining.within(self._caps.tokens, self._caps.cost_usd)

    def reserved(self, reservation: Reservation, at: int) -> tuple[Charge, ...]:
        """The charges of a call's reservation on the daily caps. `at` is when the call begins: its UTC day is charged."""
        return self._day(reservation.tokens, int(reservation.cost_usd * NANO), at)

    def settled(self, reservation: Reservation, usage: Usage, began: int) -> tuple[Charge, ...]:
        """The charges that correct the reservation of a call that began at `began` and has ended. Empty if the call used what it reserved,
        if there is no daily cap, or if the UTC day in which the call began is over."""
        if day_of(began)[1] <= self._clock.now():
            return ()
        nanos = int(usage.cost_usd * NANO) - int(reservation.cost_usd * NANO)
        return tuple(msgspec.structs.replace(charge, limit=None) for charge in self._day(usage.tokens - reservation.tokens, nanos, began))

    def _day(self, tokens: int, nanos: int, at: int) -> tuple[Charge, ...]:
        day, until = day_of(at)
        charges = []
        if self._caps.tokens is not None and tokens:
            charges.append(Charge(f"day/{day}/{key_part(self._tenant)}/tokens", tokens, self._caps.tokens, until))
        if self._caps.cost_usd is not None and nanos:
            charges.append(Charge(f"day/{day}/{key_part(self._tenant)}/cost", nanos, int(self._caps.cost_usd * NANO), until))
        return tuple(charges)

    def open(self, keys: Iterable[str]) -> tuple[Charge, ...]:
        """A charge of 0 for each of these keys. It counts nothing, but the store refuses a write that contains it while its key is
        closed."""
        return tuple(Charge(self._closed(key), 0, 0) for key in keys)

    def closing(self, failed: ToolFailed) -> tuple[Charge, ...]:
        """The charge that closes a key until the time that a server asked for, as a tuple of one. Until that time, calls of this tenant
        with the key are refused. Empty if the error closes no key."""
        if failed.closes is None or failed.retry_after_seconds is None:
            return ()
        until = self._clock.now() + int(failed.retry_after_seconds * 1000)
        return (Charge(self._closed(failed.closes), 1, None, until, extends=True),)

    def _closed(self, key: str) -> str:
        return f"closed/{key_part(self._tenant)}/{key_part(key)}"

    def refused(self, limit: LimitReached) -> ToolFailed:
        """The error of a call that the store refused because of a closed key or a daily cap."""
        what, seconds = limit.key.rpartition("/")[2], max(0.0, (limit.until - self._clock.now()) / 1000)
        if limit.key.startswith("closed/"):
            return ToolFailed(
                "rate_limited", f"{what} asked not to be called before {utc(limit.until)}. Try again then.", retry_after_seconds=seconds
            )
        most = f"${limit.limit / NANO:g}" if what == "cost" else f"{limit.limit:,} {what}"
        return ToolFailed(
            "rate_limited",
            f"The call could use more than is left of the {most} that tenant {self._tenant} may use in a UTC day. Try again at "
            f"{utc(limit.until)}, or ask the operator to raise the cap ([policy.caps]).",
            retry_after_seconds=seconds,
            details=capped(limit),
        )
