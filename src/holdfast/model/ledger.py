"""The ledger: what every call of a model has reserved and spent, in rows that are only added.

A call has two entries. The first is written with the call's intent and says what the call has reserved. The second is written with the
call's receipt and says how the call ended: what it spent, or that it spent nothing. Both travel with the write that they belong to, so
that both are on disk or neither is, and each is there once. An execution that is stopped, fails or takes too long writes no receipt any
more: the store ends its open calls as unknown, with the write that closes the execution.

`held_tokens` and `held_nanos` are signed: the first entry adds the reservation, the second takes it back. So the sum over any set of
entries is what is still reserved there. `nanos` is money that was spent, in billionths of a dollar.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import msgspec

from holdfast.model.operations import Word

DAY_MS: Final = 86_400_000
NANO: Final = 10**9
"""Money is counted in billionths of a dollar."""


class EntryState(Word):
    """What an entry says about its call."""

    RESERVED = "reserved"
    """The call begins. Every other state ends a call."""
    SETTLED = "settled"
    """The model's server said what the call used."""
    UNKNOWN = "unknown"
    """The server did not say what the call used. The amounts are estimates, rather too high than too low."""
    RELEASED = "released"
    """The call certainly cost nothing."""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of the ledger."""

    at: int
    tenant: str
    pipeline: str = ""
    """The pipeline whose node asked for the run; empty for a run that no pipeline asked for."""
    node: str = ""
    worker: str
    run: str
    root: str
    """The outermost execution above the run; the run itself where there is none."""
    path: str
    """The executions above the run and the run itself, outermost first, with `/` between them."""
    owner: str = ""
    """The execution whose node or operation asked for the run."""
    call: str
    """Which call of the run it is, and which try of it."""
    model: str = ""
    """The model that was asked; empty for another tool."""
    state: EntryState
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """How many input tokens came from the server's cache."""
    reasoning_tokens: int = 0
    """How many output tokens the model used for reasoning."""
    nanos: int = 0
    held_tokens: int = 0
    held_nanos: int = 0
    price_source: str = ""
    """Where the price is from; empty if there was no price."""
    price_date: str = ""
    """The day for which the price was written down, if it is known."""
    expires_at: int

    @property
    def day(self) -> int:
        """The UTC day, counted from 1970-01-01."""
        return self.at // DAY_MS


class Dimension(Word):
    """A field by which entries can be grouped and summed."""

    DAY = "day"
    TENANT = "tenant"
    PIPELINE = "pipeline"
    NODE = "node"
    WORKER = "worker"
    MODEL = "model"
    RUN = "run"


class CostFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are summed, and by what. Without a run the sums come from the daily sums, so times are whole UTC days."""

    by: tuple[Dimension, ...] = ()
    since_day: int | None = None
    until_day: int | None = None
    """The first day that is not summed."""
    tenant: str | None = None
    pipeline: str | None = None
    worker: str | None = None
    run: str | None = None
    """Only the calls of this run and of all runs below it."""
    root: str | None = None
    """The outermost execution above that run."""
    limit: int = 10_000


class CostSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of all entries of one group and one state."""

    group: tuple[str | int | None, ...]
    """The value of each dimension that was asked for, in that order."""
    state: EntryState
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    nanos: int
    held_tokens: int
    held_nanos: int


class CostSample(msgspec.Struct, frozen=True):
    """What one run spent: for one node of a pipeline, or as a run that no pipeline asked for (`node` is empty)."""

    node: str
    owner: str
    run: str
    tokens: int
    nanos: int


def lost(begun: LedgerEntry, at: int) -> LedgerEntry:
    """The second entry of a call whose execution was closed before the call ended: all that it has reserved counts as spent."""
    days = begun.expires_at // DAY_MS - begun.day - 1
    return msgspec.structs.replace(
        begun,
        at=at,
        state=EntryState.UNKNOWN,
        input_tokens=begun.held_tokens,
        nanos=begun.held_nanos,
        held_tokens=-begun.held_tokens,
        held_nanos=-begun.held_nanos,
        expires_at=expiry(at, days),
    )


def nanos_of(cost: Decimal) -> int:
    """An amount of money in billionths of a dollar."""
    return int(cost * NANO)


def expiry(at: int, days: int) -> int:
    """When an entry of this time may be removed: this many days after the end of its day. All entries of one day are removed together."""
    return (at // DAY_MS + 1 + days) * DAY_MS
