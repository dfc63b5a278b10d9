"""Signals: what the world is told of executions. Each change of an execution's status is one, numbered in the order of their commits."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, Quarantine, State

_SUBSCRIBER: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class StatusSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution began (RUNNING), was put aside (RUNNING, with `quarantine`), or ended (any other status)."""

    number: int
    """Grows with every signal of a store and is never used again: a receiver that keeps the last one knows what it has had."""
    arn: str
    name: str
    function: str
    version: str
    status: ExecutionStatus
    started_at: int
    ended_at: int | None
    quarantine: Quarantine | None = None
    """Why it was put aside, if this is what the signal tells: it goes on when a person releases it."""
    quarantined_at: int | None = None


def is_news(before: Execution | None, header: Execution) -> bool:
    """Whether a change is one to tell of: another status, or that the execution was put aside."""
    return before is None or header.status is not before.status or (header.state is State.QUARANTINED and before.state is not header.state)


def signal_row(header: Execution) -> tuple[object, ...]:
    """What the outbox keeps of a change, in the order of its table."""
    aside = header.quarantine if header.state is State.QUARANTINED else None
    told = (header.id, header.function, header.version, header.name, header.status._value_, header.started_at, header.ended_at)
    return (*told, None if aside is None else aside._value_, None if aside is None else header.touched_at)


Subscriber = Callable[[StatusSignal], Awaitable[object] | object]
"""Receives signals, one after the other: `async def` on the engine's loop, `def` on a thread. An error means: again, later."""


def check_subscriber(name: object, receive: object) -> None:
    """Refuse a name that cannot be kept, and what cannot be called."""
    if not isinstance(name, str) or not _SUBSCRIBER.fullmatch(name):
        raise InvalidParameter(f"Subscriber name {name!r}: use 1 to 64 letters, digits, '-', '_' or '.'.")
    if not callable(receive):
        raise InvalidParameter(f"Subscriber {name!r} is {receive!r}, which cannot be called. Give a function that takes one signal.")
