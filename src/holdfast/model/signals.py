"""Signals: messages to subscribers about changes of an execution's status, numbered in the order of commits."""

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
    """An execution began (RUNNING), was quarantined (RUNNING, with `quarantine`), or ended (any other status). Times are in milliseconds
    since 1970-01-01 UTC."""

    number: int
    """Each new signal of a store has a greater number than all signals before it, and a number is never used twice. So a receiver that
    stores the greatest number it got knows which signals it has received."""
    arn: str
    name: str
    function: str
    version: str
    status: ExecutionStatus
    started_at: int
    ended_at: int | None
    quarantine: Quarantine | None = None
    """Why the execution was quarantined; None if it was not. It continues when a person releases it."""
    quarantined_at: int | None = None
    """When the execution was quarantined; None if it was not."""


def is_news(before: Execution | None, header: Execution) -> bool:
    """Whether a write makes a signal. It does if it starts the execution, changes its status, or quarantines it. For an enqueued execution,
    the signal of the start is made at its first admission. `before` is the header before the write; None for a new execution."""
    if header.place is not None and header.status is ExecutionStatus.RUNNING and (before is None or is_unadmitted(before)):
        return not is_unadmitted(header)
    return before is None or header.status is not before.status or (header.state is State.QUARANTINED and before.state is not header.state)


def signal_row(header: Execution) -> tuple[object, ...]:
    """The values of a signal's row, in the order of the table's columns."""
    aside = header.quarantine if header.state is State.QUARANTINED else None
    told = (header.id, header.function, header.version, header.name, header.status._value_, header.started_at, header.ended_at)
    return (*told, None if aside is None else aside._value_, None if aside is None else header.touched_at)


Subscriber = Callable[[StatusSignal], Awaitable[object] | object]
"""A function that receives signals, one after the other. An `async def` function is called on the engine's event loop, a `def` function in
a thread. If it raises an error, it gets the same signal again later."""


def check_subscriber(name: object, receive: object) -> None:
    """Raise InvalidParameter for a name that is not allowed, or a subscriber that cannot be called."""
    if not isinstance(name, str) or not _SUBSCRIBER.fullmatch(name):
        raise InvalidParameter(f"Subscriber name {name!r}: use 1 to 64 letters, digits, '-', '_' or '.'.")
    if not callable(receive):
        raise InvalidParameter(f"Subscriber {name!r} is {receive!r}, which cannot be called. Give a function that takes one signal.")
