"""What tenants have used today, compared with the operator's daily caps. An amount without a cap is not counted."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from holdfast.model.ledger import NANO
from holdfast.store.seam import CounterStore
from holdfast.workers.counters import day_of, key_part
from holdfast.workers.policy import Policy


class DayCapUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One daily cap of one tenant, and what is spent of it today (UTC)."""

    tenant: str
    what: str
    """runs, tokens or cost_usd."""
    spent: Decimal
    """What was spent today, including the reservations of calls under way."""
    cap: Decimal
    until: int
    """When the UTC day ends, in milliseconds since 1970."""

    @property
    def left(self) -> Decimal:
        """What is left of this cap today; 0 if more than the cap is spent."""
        return max(Decimal(0), self.cap - self.spent)


def spent_today(store: CounterStore, policy: Policy, tenants: Iterable[str], now: int) -> list[DayCapUsage]:
    """One `DayCapUsage` for each daily cap of each of these tenants, in the order of `tenants`, with what is spent of the cap on the UTC
    day of `now`."""
    day, until = day_of(now)
    wanted = []
    for tenant in tenants:
        caps, at = policy.caps_of(tenant), f"day/{day}/{key_part(tenant)}"
        for what, key, cap, unit in (
            ("runs", f"{at}/runs", caps.runs, 1),
            ("tokens", f"{at}/tokens", caps.tokens, 1),
            ("cost_usd", f"{at}/cost", caps.cost_usd, NANO),
        ):
            if cap is not None:
                wanted.append((key, unit, DayCapUsage(tenant=tenant, what=what, spent=Decimal(0), cap=Decimal(cap), until=until)))
    found = {counter.key: counter.amount for counter in store.counters([key for key, _, _ in wanted])}
    return [msgspec.structs.replace(each, spent=Decimal(found.get(key, 0)) / unit) for key, unit, each in wanted]
