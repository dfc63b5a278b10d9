"""Admission: how the header of an enqueued execution changes when it waits in its lane, gets a slot, and gives the slot back.

The store decides which execution is admitted, because it has the lanes (store.admission_order).
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.durations import MAX_SECONDS
from holdfast.model.enqueues import Enqueue as Enqueue
from holdfast.model.enqueues import Same as Same
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.places import NEVER, Level, Place, checked_queue
from holdfast.model.queues import QueueSettings, Waiting
from holdfast.model.rates import MAX_UNITS, TOKENS, checked_rate

EXPIRED: Final = "expired"
"""The error type of an execution that waited in its queue until its time to live was over."""
REPLACED: Final = "replaced"
"""The error type of an execution that another one replaced: a caller enqueued its name again with `replace`."""
_MOST_MS: Final = MAX_SECONDS * 1000
"""The longest delay, time to live and head start in milliseconds."""
MOST_MONEY: Final = 10**15
"""The highest estimated cost of one execution, in billionths of a dollar: a million dollars."""
_WITH_RUNNERS: Final = frozenset({State.READY, State.RUNNING})


def holds(header: Execution | None) -> bool:
    """Whether an execution holds a slot in its lanes; False for None."""
    if header is None or header.place is None or header.place.admitted_at is None or header.status is not ExecutionStatus.RUNNING:
        return False
    return header.state in _WITH_RUNNERS or (header.state is State.SUSPENDED and header.place.holds_waiting)


def waits(header: Execution | None) -> bool:
    """Whether an execution waits in its lane; False for None."""
    return header is not None and header.state is State.QUEUED


def moved(before: Execution | None, after: Execution) -> tuple[int, int, int]:
    """What a write adds to three numbers of an execution's lanes: how many slots are held, how many executions wait, and what the waiting
    ones are estimated to cost together, in billionths of a dollar. `before` and `after` are the headers before and after the write;
    `before` is None for a new execution."""
    waiting = waits(after) - waits(before)
    return holds(after) - holds(before), waiting, 0 if after.place is None else waiting * after.place.money


def settled(before: Execution, after: Execution) -> Execution:
    """The header after a write. If the write makes an enqueued execution ready that held no slot before, the execution is queued: it must
    wait in its lane for a slot. Otherwise `after` is returned unchanged."""
    if after.place is None or after.state is not State.READY or holds(before):
        return after
    return msgspec.structs.replace(after, state=State.QUEUED)


def placed(asked: Enqueue, header: Execution, at: int, settings: QueueSettings, *, admits: bool) -> Execution:
    """The header of a new execution in its queue; `settings` are those of the queue. With `admits` it is admitted at once. Otherwise it is
    delayed if the enqueue has a delay, and waits in its lane if not. `at` is the time of the enqueue."""
    ready_at = at + max(asked.delay_ms, 0)
    head_start = 0 if settings.ordered else asked.head_start_ms
    place = Place(
        asked.queue,
        asked.lane(header),
        ready_at - head_start,
        holds_waiting=settings.ordered or settings.waiting is Waiting.HOLDS,
        units=asked.units,
        parks=settings.parks,
        money=asked.money,
    )
    here = msgspec.structs.replace(header, place=place, ready_at=ready_at)
    if admits:
        return admitted(here, at)
    ttl_ms = asked.ttl_ms if asked.ttl_ms is not None else None if settings.ttl_seconds is None else settings.ttl_seconds * 1000
    until = NEVER if ttl_ms is None else ready_at + ttl_ms
    delayed = ready_at > at
    due_at = ready_at if delayed else None if ttl_ms is None else until
    return msgspec.structs.replace(here, state=State.DELAYED if delayed else State.QUEUED, deadline=until, due_at=due_at)


def checked_enqueue(asked: Enqueue, settings: QueueSettings) -> Enqueue:
    """The enqueue itself. Raises InvalidParameter if a value is not allowed, if the queue is ordered and the enqueue has no key, or if the
    enqueue asks for more tokens of models (`units`) than a rate of the queue or of the function ever admits at one moment."""
    checked_queue(asked.queue)
    times = (("delay_ms", asked.delay_ms), ("ttl_ms", asked.ttl_ms), ("head_start_ms", asked.head_start_ms))
    for what, value, most in (*((what, value, _MOST_MS) for what, value in times), ("units", asked.units, MAX_UNITS)):
        if value is not None and (type(value) is not int or not 0 <= value <= most):
            raise InvalidParameter(f"{what} of an enqueue is {value!r:.50}; use a whole number from 0 up to {most:,}.")
    if type(asked.money) is not int or not 0 <= asked.money <= MOST_MONEY:
        raise InvalidParameter(f"money of an enqueue is {asked.money!r:.50}; use billionths of a dollar, from 0 up to {MOST_MONEY:,}.")
    for rate in asked.rates:
        checked_rate(rate)
    if len({rate.kind for rate in asked.rates}) != len(asked.rates):
        raise InvalidParameter("The rates of an enqueue limit one kind of unit twice. Keep one rate of each kind.")
    if settings.ordered and asked.key is None:
        raise InvalidParameter(f"Queue {asked.queue} is ordered by key: give each execution a key.")
    levels = [Level.QUEUE, Level.TENANT, *([Level.KEY] if asked.key is not None else [])]
    for rate in (*asked.rates, *(rate for level in levels for rate in settings.at(level).parsed_rates())):
        if rate.kind == TOKENS and asked.units > rate.burst:
            raise InvalidParameter(
                f"Queue {asked.queue}: the execution asks for {asked.units} tokens, and the rate {rate} never admits more than "
                f"{rate.burst} tokens at once. Lower `units`, or raise the burst of the rate."
            )
    return asked


def admitted(header: Execution, now: int) -> Execution:
    """The header of an execution that is admitted at `now`. The first admission sets `admitted_at`, and the timeout begins with it. A later
    admission returns the header unchanged."""
    place = header.place
    assert place is not None
    if place.admitted_at is not None:
        return header
    deadline = now + header.terms.timeout_seconds * 1000
    return msgspec.structs.replace(
        header, place=msgspec.structs.replace(place, admitted_at=now), deadline=deadline, due_at=deadline, ready_at=now
    )


def is_unadmitted(header: Execution) -> bool:
    """Whether an execution was enqueued and never admitted."""
    return header.place is not None and header.place.admitted_at is None
