"""Enqueues: how a caller asks for a place in a queue."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from holdfast.model.durations import MAX_SECONDS
from holdfast.model.operations import Word
from holdfast.model.places import lane_of
from holdfast.model.rates import Rate


def is_time(seconds: object) -> bool:
    """Whether this is a delay, a time to live or a head start that an enqueue may have: a number of seconds."""
    return not isinstance(seconds, bool) and isinstance(seconds, int | float) and 0 <= seconds <= MAX_SECONDS  # NaN and inf are neither


ALLOWED_SECONDS: Final = f"use a number of seconds from 0 up to {MAX_SECONDS:,} (366 days)"
"""The range of these times, for an error."""


class Standing(Protocol):
    """The members of a header that decide its lane."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def function(self) -> str: ...
    @property
    def version(self) -> str: ...


class Same(Word):
    """What an enqueue does if an execution with its key exists already."""

    EXISTING = "existing"
    """Return the existing execution if its input is the same; else refuse."""
    REPLACE = "replace"
    """Stop the existing execution if it is open, and start a new one, which supersedes it."""
    REFUSE = "refuse"


class Enqueue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution is enqueued. The store makes its place from this and from the settings of the queue."""

    queue: str
    key: str | None = None
    """The key of its lane: limits of each key, fairness and order go by it."""
    delay_ms: int = 0
    ttl_ms: int | None = None
    """How long it may wait; None: as long as the queue's settings say."""
    head_start_ms: int = 0
    """Its priority: the lane treats it as if it had been enqueued this much earlier. An ordered queue has no head starts."""
    units: int = 0
    money: int = 0
    """Its estimated cost, in billionths of a dollar, for queues that limit the cost of what waits."""
    same: Same = Same.EXISTING
    rates: tuple[Rate, ...] = ()
    """The rates of the function itself. They apply to the leaf lane."""

    def lane(self, header: Standing) -> str:
        """The leaf lane of an execution."""
        return lane_of(self.queue, header.tenant, self.key, header.function, header.version)
