"""The error of `context.enqueue`, and the check of its arguments."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec

from holdfast.durable import argument_checks
from holdfast.durable.exceptions import DurableOperationError, ValidationError, register_operation_error
from holdfast.model import codec, json_structs
from holdfast.model.enqueues import ALLOWED_SECONDS, is_time
from holdfast.model.errors import InvalidParameter, PayloadNotJson
from holdfast.model.operations import Queued
from holdfast.model.places import checked_queue
from holdfast.model.run_port import EnqueueAsked
from holdfast.model.typed import Unwritable, without_models

OVERLOADED: Final = "overloaded"


class EnqueueRefused(DurableOperationError):
    """The execution was not enqueued. `error_type` says why; it is `overloaded` if the queue accepts no more executions now.

    `error_type` is `overloaded` in all cases in which the queue accepts no more executions now: `QueueFull` has the reasons. It is also
    `overloaded` if the runner has too much work to check the input of a worker or a pipeline.
    """

    code = "enqueue_refused"

    @property
    def is_overloaded(self) -> bool:
        """Whether the queue is full, or the runner has too much work now, so that a later try may succeed."""
        return self.error_type == OVERLOADED

    @property
    def retry_after_seconds(self) -> int | None:
        """After how many seconds the author's code may try again: an estimate. None if there is none: only a full queue gives one."""
        with contextlib.suppress(msgspec.MsgspecError):
            return json_structs.decoded(self.data or "{}", _Full).retry_after_seconds
        return None


class _Full(msgspec.Struct):
    """The data of an EnqueueRefused that a full queue caused."""

    retry_after_seconds: int | None = None


register_operation_error(EnqueueRefused)


def enqueue_asked(
    target: object,
    input: object,
    *,
    queue: object,
    key: object,
    version: object,
    delay: object,
    ttl: object,
    head_start: object,
    units: object,
) -> EnqueueAsked:
    """The request that these arguments make. Raises ValidationError for a wrong argument."""
    named = getattr(target, "name", None) if callable(target) else target
    if not isinstance(named, str) or not named:
        raise ValidationError(
            f"enqueue: the target is {argument_checks.shown(target)}. Give a durable function, or the name of a function, a worker or a "
            f"pipeline."
        )
    wanted = version if version is not None else getattr(target, "version", None) if callable(target) else None
    try:
        checked = checked_queue(queue)
        plain: Any = without_models(input)
        codec.dumps(plain)
    except InvalidParameter as odd:
        raise ValidationError(f"enqueue: {odd}") from None
    except (Unwritable, RecursionError, PayloadNotJson) as error:
        raise ValidationError(f"enqueue: the input cannot be written as JSON: {error}.") from None
    if units is not None and (type(units) is not int or units < 0):
        raise ValidationError(f"enqueue: units is {argument_checks.shown(units)}; use a whole number that is at least 0.")
    queued = Queued(
        queue=checked,
        key=argument_checks.optional_text(key, "enqueue", "key"),
        delay_ms=_milliseconds(delay, "delay"),
        ttl_ms=None if ttl is None else max(1, _milliseconds(ttl, "ttl")),
        head_start_ms=_milliseconds(head_start, "head_start"),
        units=units or 0,
    )
    return EnqueueAsked(target=named, version=None if wanted is None else str(wanted), input=plain, queued=queued)


def _milliseconds(given: object, what: str) -> int:
    """A number of seconds, or a Duration, in milliseconds. Raises ValidationError if `given` is neither, or is below 0 or above 366
    days."""
    say = getattr(given, "to_seconds", None)
    seconds = say() if callable(say) else given
    if not isinstance(seconds, int | float) or not is_time(seconds):
        raise ValidationError(f"enqueue: {what} is {argument_checks.shown(given)}; {ALLOWED_SECONDS}.")
    return round(seconds * 1000)
