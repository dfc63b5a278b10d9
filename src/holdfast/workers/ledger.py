"""The entries that the calls of one run add to the ledger: one with the intent of a call, one with its receipt.

Only calls that may cost something have entries. An entry depends only on the run, the intent, the receipt and the time.
"""

from __future__ import annotations

import msgspec

from holdfast.model.clock import Clock
from holdfast.model.ledger import EntryState, LedgerEntry, expiry, nanos_of
from holdfast.workers.accepted_request import Lineage
from holdfast.workers.calls import Intent, Receipt
from holdfast.workers.tools.seam import Reservation, Usage


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """To whom the ledger assigns the costs of a run: `pipeline` and `node` are empty for a run that no pipeline asked for."""

    run_id: str
    tenant: str
    worker_id: str
    lineage: Lineage = Lineage()
    pipeline: str = ""
    node: str = ""


class Ledger:
    """Makes the entries of one run."""

    def __init__(self, payer: Payer, days: int, clock: Clock) -> None:
        """`days` is how many days the ledger keeps an entry."""
        self._payer = payer
        self._days = days
        self._clock = clock

    def reserved(self, intent: Intent) -> tuple[LedgerEntry, ...]:
        """The entry for the intent of a call, as a tuple of one. Empty if the call may cost nothing: it asks no model, and reserves neither
        tokens nor money."""
        reservation = intent.reservation
        if not has_entries(reservation):
            return ()
        held = {"held_tokens": reservation.tokens, "held_nanos": nanos_of(reservation.cost_usd)}
        return (self._entry(intent, EntryState.RESERVED, Usage(), held),)

    def ended(self, intent: Intent, receipt: Receipt) -> tuple[LedgerEntry, ...]:
        """The entry for the receipt of a call, as a tuple of one. Empty if the call asked no model, reserved neither tokens nor money, and
        used neither."""
        reservation, usage = intent.reservation, receipt.usage
        if not has_entries(reservation) and not _is_something(usage):
            return ()
        held = {"held_tokens": -reservation.tokens, "held_nanos": -nanos_of(reservation.cost_usd)}
        return (self._entry(intent, _state_of(receipt), usage, held),)

    def _entry(self, intent: Intent, state: EntryState, usage: Usage, held: dict[str, int]) -> LedgerEntry:
        payer, reservation, now = self._payer, intent.reservation, self._clock.now()
        above = payer.lineage.above
        return LedgerEntry(
            at=now,
            tenant=payer.tenant,
            pipeline=payer.pipeline,
            node=payer.node,
            worker=payer.worker_id,
            run=payer.run_id,
            root=above[0] if above else payer.run_id,
            path="/".join((*above, payer.run_id)),
            owner=payer.lineage.owner,
            call=f"{intent.identity}.{intent.number}",
            model=reservation.model,
            state=state,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            nanos=nanos_of(usage.cost_usd),
            price_source=reservation.price_source,
            price_date=reservation.price_date,
            expires_at=expiry(now, self._days),
            **held,
        )


def has_entries(reservation: Reservation) -> bool:
    """Whether a call with this reservation may cost something. If so, the ledger gets an entry when the call begins."""
    return bool(reservation.model or reservation.tokens or reservation.cost_usd)


def _is_something(usage: Usage) -> bool:
    return bool(usage.tokens or usage.cost_usd)


def _state_of(receipt: Receipt) -> EntryState:
    if receipt.usage.is_estimated:
        return EntryState.UNKNOWN
    if (receipt.error is not None or receipt.void) and not _is_something(receipt.usage):
        return EntryState.RELEASED
    return EntryState.SETTLED
