"""Pushes: enqueue many executions of one function, a thousand in each commit. It needs no engine, and it runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.model.admission import Enqueue, Same
from holdfast.model.clock import Clock
from holdfast.model.errors import FunctionNotFound, HoldfastError, InvalidParameter, PayloadTooLarge
from holdfast.model.execution import Terms
from holdfast.model.ids import IdSource, checked_key
from holdfast.model.life import new_execution
from holdfast.model.operations import Kind
from holdfast.model.queue_errors import QueueFull
from holdfast.model.starts import Start, Started
from holdfast.store.seam import CommitStore, FunctionStore

BATCH: Final = 1000
"""How many lines are enqueued in one commit."""


class PushTarget(msgspec.Struct, frozen=True):
    """The function whose executions a push enqueues."""

    function: str
    version: str
    terms: Terms


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the executions of a push are enqueued."""

    queue: str
    tenant: str | None = None
    key_field: str | None = None
    """The member of each input whose value is the idempotency key of its execution; None: no key. With a key, a line that is pushed again
    finds the existing execution (see `same`)."""
    lane_field: str | None = None
    """The name of the member of each input whose value is the key of the execution's lane; None: the lane has no key."""
    units_field: str | None = None
    """The member of each input whose value is the number of tokens that its execution is expected to use; None: no number is given."""
    delay_ms: int = 0
    """After how many milliseconds an execution enters its lane; 0: at once."""
    ttl_ms: int | None = None
    """How many milliseconds an execution may wait, after its delay, before it expires; None: as long as the queue's settings say."""
    head_start_ms: int = 0
    """The priority: a lane treats an execution as if it had been enqueued this many milliseconds earlier. An ordered queue ignores it."""
    same: Same = Same.EXISTING
    """What is done with a line whose idempotency key belongs to an existing execution."""


class PushedLine(msgspec.Struct, frozen=True):
    """The result for one line of a push."""

    line: int
    """The number of the line."""
    execution: str | None = None
    """The id of its execution; None if the line was refused."""
    created: bool = False
    """Whether this line made the execution; False if the execution existed before this line, or if the line was refused."""
    error: HoldfastError | None = None
    """Why the line was refused; None if it was not."""


def published_target(store: FunctionStore, name: str) -> PushTarget:
    """The function with this name that a process of the store has hosted. If several versions were hosted, the version whose text sorts
    last. Raises FunctionNotFound if no process has hosted the function, or if the name is that of a worker or a pipeline."""
    found = store.hosted(name)
    if not found:
        raise FunctionNotFound(f"No process of this store has hosted a function {name!r:.100}. Name its file: FILE:{name:.100}.")
    newest = found[-1]
    if newest.kind is not Kind.FUNCTION:
        raise FunctionNotFound(f"{name!r:.100} is a worker or a pipeline of this store: name its file, because its contract is needed.")
    return PushTarget(newest.function, newest.version, newest.terms)


def push(
    store: CommitStore, target: PushTarget, lines: Iterable[tuple[int, bytes]], options: PushOptions, clock: Clock, ids: IdSource
) -> Iterator[Sequence[PushedLine]]:
    """Push numbered lines of JSON while the caller iterates, and report each batch after it is on disk. A wrong line is refused, and the
    others are still enqueued. If the queue is full or is drained, two kinds of lines of the present batch are still reported: those that
    were enqueued, and those that were wrong. Then QueueFull is raised. What was enqueued stays enqueued.
    """
    batch: list[tuple[int, Start | HoldfastError]] = []
    for number, text in lines:
        try:
            batch.append((number, _start(target, text, options, clock.now(), ids)))
        except HoldfastError as refused:
            batch.append((number, refused))
        if len(batch) == BATCH:
            yield from _told(store, batch, clock.now())
            batch = []
    if batch:
        yield from _told(store, batch, clock.now())


def _told(store: CommitStore, batch: Sequence[tuple[int, Start | HoldfastError]], now: int) -> Iterator[Sequence[PushedLine]]:
    """Write a batch and report its lines. If the queue refuses lines because it is full or is drained, only the lines that were enqueued
    and those that were wrong are reported, and then QueueFull is raised."""
    answers = iter(store.commit([start for _, start in batch if isinstance(start, Start)], now).answers)
    told: list[PushedLine] = []
    full: QueueFull | None = None
    for number, start in batch:
        answer = next(answers) if isinstance(start, Start) else start
        if isinstance(answer, QueueFull):
            full = full or answer
        elif isinstance(answer, HoldfastError):
            told.append(PushedLine(number, error=answer))
        else:
            assert isinstance(answer, Started)
            told.append(PushedLine(number, answer.header.id, answer.created))
    yield told
    if full is not None:
        raise full


def _start(target: PushTarget, text: bytes, options: PushOptions, now: int, ids: IdSource) -> Start:
    value = read_line(text)
    payload = codec.dumps(value)
    asked = Enqueue(
        queue=options.queue,
        key=member_of(value, options.lane_field),
        delay_ms=options.delay_ms,
        ttl_ms=options.ttl_ms,
        head_start_ms=options.head_start_ms,
        units=units_of(value, options.units_field) or 0,
        same=options.same,
    )
    name, who = member_of(value, options.key_field), {"tenant": options.tenant}
    header = new_execution(
        ids(now), checked_key(name), target.function, target.version, payload=payload, now=now, terms=target.terms, **who
    )
    return Start(header, payload, enqueue=asked)


def units_of(value: Any, field: str | None) -> int | None:
    """The number of tokens that an execution is expected to use, from the member `field` of its input; None if `field` is None. Raises
    InvalidParameter if the member is not a whole number from 0 on."""
    if field is None:
        return None
    found = value.get(field) if isinstance(value, dict) else None
    if type(found) is not int or found < 0:
        raise InvalidParameter(f"The input has no whole number from 0 on in {field!r:.100}.")
    return found


def read_line(text: bytes) -> Any:
    """The JSON value of one line. Raises PayloadNotJson if the line is not JSON, and PayloadTooLarge if it is longer than an input may
    be."""
    if len(text.strip()) > codec.MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(f"The line is longer than {codec.MAX_PAYLOAD_BYTES:,} bytes, the most that an input may have.")
    return codec.parsed(text)


def member_of(value: Any, field: str | None) -> str | None:
    """The member `field` of an input, as text: an idempotency key, or the key of a lane. None if `field` is None. Raises InvalidParameter
    if the member is not a text or an integer."""
    if field is None:
        return None
    found = value.get(field) if isinstance(value, dict) else None
    if type(found) is int:
        return str(found)
    if not isinstance(found, str):
        raise InvalidParameter(f"The input has no text or whole number in {field!r:.100}.")
    return found
