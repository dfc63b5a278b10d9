"""Signals: messages to subscribers. Each change of an execution's status is one signal, numbered in the order of commits."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from holdfast.model.admission import is_unadmitted
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, Quarantine, State

_SUBSCRIBER: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class StatusSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An execution began (RUNNING), was put aside (RUNNING, with `quarantine`), or ended (any other status)."""

    number: int
    """Grows with every signal of a store and is never used again: a receiver that keeps the last number knows which signals it has had."""
    arn: str
    name: str
    function: str
    version: str
    status: ExecutionStatus
    started_at: int
    ended_at: int | None
    quarantine: Quarantine | None = None
    """Why the execution was put aside, if the signal says so. It continues when a person releases it."""
    quarantined_at: int | None = None


def is_news(before: Execution | None, header: Execution) -> bool:
    """Whether a change makes a signal: the status changed, or the execution was put aside. For an enqueued execution, RUNNING is signalled
    when it is admitted.
    """
    if header.place is not None and header.status is ExecutionStatus.RUNNING and (before is None or is_unadmitted(before)):
        return not is_unadmitted(header)
    return before is None or header.status is not before.status or (header.state is State.QUARANTINED and before.state is not header.state)


def signal_row(header: Execution) -> tuple[object, ...]:
    """The row of a signal, in the order of its table."""
    aside = header.quarantine if header.state is State.QUARANTINED else None
    told = (header.id, header.function, header.version, header.name, header.status._value_, header.started_at, header.ended_at)
    return (*told, None if aside is None else aside._value_, None if aside is None else header.touched_at)


Subscriber = Callable[[StatusSignal], Awaitable[object] | object]
"""Receives signals, one after the other: `async def` on the engine's loop, `def` on a thread. After an error the signal comes again."""


def check_subscriber(name: object, receive: object) -> None:
    """Refuse a name that a store cannot keep, and a subscriber that cannot be called."""
    if not isinstance(name, str) or not _SUBSCRIBER.fullmatch(name):
        raise InvalidParameter(f"Subscriber name {name!r}: use 1 to 64 letters, digits, '-', '_' or '.'.")
    if not callable(receive):
        raise InvalidParameter(f"Subscriber {name!r} is {receive!r}, which cannot be called. Give a function that takes one signal.")
