"""Enqueues: what a caller says when it enqueues an execution."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from holdfast.model.durations import MAX_SECONDS
from holdfast.model.operations import Word
from holdfast.model.places import lane_beside, lane_of
from holdfast.model.rates import Rate


def is_time(seconds: object) -> bool:
    """Whether a value is a number of seconds that an enqueue may have as its delay, its time to live or its head start (its priority)."""
    return not isinstance(seconds, bool) and isinstance(seconds, int | float) and 0 <= seconds <= MAX_SECONDS  # NaN and inf are neither


ALLOWED_SECONDS: Final = f"use a number of seconds from 0 up to {MAX_SECONDS:,} (366 days)"
"""The range that `is_time` accepts, as words for an error."""


class LaneMembers(Protocol):
    """The members of an execution's header that decide in which lane the execution is."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def function(self) -> str: ...
    @property
    def version(self) -> str: ...


class Same(Word):
    """What an enqueue does if the function already has an execution with the name that the enqueue asks for."""

    EXISTING = "existing"
    """Return the existing execution if its input and version are the same; else raise ExecutionAlreadyStarted."""
    REPLACE = "replace"
    """Stop the existing execution if it is not closed, and start a new one, which supersedes it. An imported copy that was not closed is
    not replaced: raise ExecutionAlreadyStarted."""
    REFUSE = "refuse"
    """Raise ExecutionAlreadyStarted."""


class Enqueue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution is enqueued. The store makes the execution's place from this and from the settings of the queue."""

    queue: str
    key: str | None = None
    """The key of its lane; None: the lane has no key. A queue can limit and order the executions of each key, and shares its slots fairly
    between keys."""
    delay_ms: int = 0
    """After how many milliseconds the execution enters its lane; 0: at once."""
    ttl_ms: int | None = None
    """How many milliseconds the execution may wait, after its delay, before it expires; None: as long as the queue's settings say."""
    head_start_ms: int = 0
    """Its priority: the lane treats it as if it had been enqueued this many milliseconds earlier. An ordered queue ignores it."""
    units: int = 0
    """How many tokens the execution is estimated to use, for rates of tokens."""
    money: int = 0
    """Its estimated cost, in billionths of a dollar, for queues that limit the cost of waiting executions."""
    same: Same = Same.EXISTING
    rates: tuple[Rate, ...] = ()
    """The rates of the function itself. All leaf lanes of the function that have the same tenant and user share them."""
    user: str | None = None
    """The user whose executions of this function share `rates`; None: all executions of this function and tenant share them."""
    beside: str | None = None
    """The leaf lane, the lowest of the lanes, of an earlier execution. The new execution gets a leaf lane that differs from it only in the
    version, which is the new execution's own. None: the lane is made from the queue, `key`, `user` and the header."""

    def lane(self, header: LaneMembers) -> str:
        """The leaf lane, the lowest of the lanes, of an execution with this header."""
        if self.beside is not None:
            return lane_beside(self.beside, header.version)
        return lane_of(self.queue, header.tenant, self.key, header.function, header.version, self.user)
