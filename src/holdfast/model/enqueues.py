"""Enqueues: how a caller asks for a place in a queue."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.model.operations import Word
from holdfast.model.places import lane_of
from holdfast.model.rates import Rate


class Standing(Protocol):
    """What of a header decides its lane."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def function(self) -> str: ...
    @property
    def version(self) -> str: ...


class Same(Word):
    """What an enqueue does if its key is that of an execution that there is."""

    EXISTING = "existing"
    """Answer with the execution that there is, if its input is the same; else refuse."""
    REPLACE = "replace"
    """Stop the execution that there is, if it is open, and start anew. The old one is superseded."""
    REFUSE = "refuse"


class Enqueue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution is enqueued. The store makes its place from this and from the settings of the queue."""

    queue: str
    key: str | None = None
    """Limits of each key, fairness and order count by it."""
    delay_ms: int = 0
    ttl_ms: int | None = None
    """How long it may wait; None for the time that the queue gives."""
    head_start_ms: int = 0
    """Its priority: the lane takes it as if it had been enqueued so much earlier. An ordered queue has no head starts."""
    units: int = 0
    money: int = 0
    """What it is estimated to cost, in billionths of a dollar. It counts for the depth of a queue that is bounded by money."""
    same: Same = Same.EXISTING
    rates: tuple[Rate, ...] = ()
    """The rates of the function itself. They count for the last lane of its path."""

    def lane(self, header: Standing) -> str:
        """The leaf lane of an execution."""
        return lane_of(self.queue, header.tenant, self.key, header.function, header.version)
