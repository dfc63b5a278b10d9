"""The ledger: what each call of a model, or of another tool that costs money, has reserved and spent. Its rows are never changed.

A call has two entries. The first is written in the same transaction as the call's intent (the record that the call is about to be made),
and says what the call has reserved. The second is written in the same transaction as the call's receipt, and says how the call ended: what
it spent, or that it spent nothing. A call of a tool that is no model, and that reserved nothing, has only the second, and only if it spent
something. If an execution is stopped, fails or times out during a call, there is no receipt. Then the write that closes the execution adds
the second entry, with the state `unknown`.

`held_tokens` and `held_nanos` are signed: the first entry adds the reservation, and the second subtracts it. So their sum over any set of
entries is what these calls have still reserved.
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
    """It is known what the call used: the model's server or the tool said it."""
    UNKNOWN = "unknown"
    """It is not known what the call used. The amounts are estimates, rather too high than too low."""
    RELEASED = "released"
    """The call certainly cost nothing."""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of the ledger. Times are in milliseconds since 1970-01-01 UTC."""

    at: int
    tenant: str
    pipeline: str = ""
    """The pipeline whose node asked for the run; empty for a run that no pipeline asked for."""
    node: str = ""
    """The node of `pipeline` that asked for the run; empty if no pipeline did."""
    worker: str
    run: str
    root: str
    """The id of the outermost execution above the run; the run's own id if there is none above it."""
    path: str
    """The ids of the executions above the run and of the run itself, the outermost first, with `/` between them."""
    owner: str = ""
    """The id of the execution whose node or operation asked for the run; empty if no execution asked for it."""
    call: str
    """A text of three parts: the id of the call within its run, a dot, and the number of the try."""
    model: str = ""
    """The model that was called; empty for another tool."""
    state: EntryState
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """How many input tokens came from the cache of the model's server."""
    reasoning_tokens: int = 0
    """How many output tokens the model used for reasoning."""
    nanos: int = 0
    """The money that the call spent, in billionths of a dollar; 0 in the first entry of a call."""
    held_tokens: int = 0
    """The reserved tokens. In the first entry of a call the number is positive; the second entry has the same number, negative."""
    held_nanos: int = 0
    """The reserved money, in billionths of a dollar. In the first entry of a call the number is positive; the second entry has the same
    number, negative."""
    price_source: str = ""
    """Where the price is from; empty if there was no price."""
    price_date: str = ""
    """The day on which the price was last known to be right (`as_of`), such as 2026-11-01; empty if no day is known."""
    expires_at: int
    """From this time on the entry may be removed."""

    @property
    def day(self) -> int:
        """The UTC day of `at`, as the number of days since 1970-01-01."""
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
    """Which entries are summed, and by which fields they are grouped. A member that is None does not restrict. Days are UTC days, as
    numbers of days since 1970-01-01. Times are whole days because the store keeps daily sums, and without `run` it adds up only these. With
    `run`, the store adds up the entries themselves, and ignores the days, `pipeline` and `worker`."""

    by: tuple[Dimension, ...] = ()
    """The fields to group by; empty: all entries are one group."""
    since_day: int | None = None
    """The first day that is summed."""
    until_day: int | None = None
    """The day after the last day that is summed."""
    tenant: str | None = None
    pipeline: str | None = None
    worker: str | None = None
    run: str | None = None
    """Only the calls of this run and of all runs below it, at any depth; None: of all runs."""
    root: str | None = None
    """With `run`: the id of the outermost execution above that run; None: there is none above it."""
    limit: int = 10_000
    """At most this many sums are returned."""


class CostSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of all entries of one group and one state."""

    group: tuple[str | int | None, ...]
    """The value of each dimension in `CostFilter.by`, in the same order."""
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
    """What one run spent. If a pipeline asked for the run, `node` is the pipeline's node; else it is empty."""

    node: str
    owner: str
    """The id of the execution that asked for the run; empty if no execution asked for it."""
    run: str
    tokens: int
    nanos: int


def lost(begun: LedgerEntry, at: int) -> LedgerEntry:
    """The second entry of a call whose execution was closed at `at`, before the call ended. `begun` is the call's first entry. The second
    entry has the state `unknown`, and says that all reserved tokens (as `input_tokens`) and all reserved money were spent."""
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
    """`cost`, which is in dollars, in billionths of a dollar. A part of a billionth is dropped."""
    return int(cost * NANO)


def expiry(at: int, days: int) -> int:
    """When an entry that was written at `at` may be removed: `days` days after the end of the UTC day on which it was written. So all
    entries of one day expire together."""
    return (at // DAY_MS + 1 + days) * DAY_MS
