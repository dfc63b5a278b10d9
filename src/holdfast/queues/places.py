"""The place of an execution in its queue: its lane, how many executions are before it, and which limit it waits for."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.error_text import ordinal
from holdfast.model.execution import Execution, State
from holdfast.model.places import Level, key_of, path
from holdfast.model.queues import LaneState, Mode
from holdfast.store.seam import QueueStore

_MOST: int = 10_000
_AFTER_ALL: str = "\uffff"
"""A character that is greater than every character in the path of a lane."""


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an execution in a queue."""

    queue: str
    lane: str
    key: str | None
    """The key that its caller gave; None if the caller gave none."""
    admitted_at: int | None
    """When it was admitted for the first time, in milliseconds since 1970-01-01 UTC; None if it was never admitted."""
    position: int | None = None
    """Its position among the executions that wait in its lane, from 1; None if it does not wait in the lane."""
    before_is_bounded: bool = False
    """True if more executions may be before it than `position` says, because at most 10,000 are counted."""
    limit: str | None = None
    """The limit that it waits for, or that the queue is paused, in words; None if it waits only for its turn or for a runner, or does not
    wait."""
    parked: bool = False
    """Whether it is parked. False again after its name was started again."""

    def told(self) -> str:
        """Where it stands, in words: its position in its lane, `admitted`, or `not in its lane yet`."""
        if self.position is None:
            return "admitted" if self.admitted_at is not None else "not in its lane yet"
        more = "more than " if self.before_is_bounded else ""
        return f"{ordinal(self.position)} in its lane, {more}{self.position - 1:,} before it"


def place_document(place: QueuePlace) -> dict[str, Any]:
    """The place of an execution as a JSON object: queue, lane, key, position, and the limit that it waits for."""
    return {"queue": place.queue, "lane": place.lane, "key": place.key, "position": place.position, "limit": place.limit}


def queue_place(store: QueueStore, header: Execution, now: int | None = None) -> QueuePlace | None:
    """The place of an execution in its queue; None if it was not enqueued. With `now`, the present time, a rate is named as the limit only
    if it is still used up at this time. Without `now`, a rate that was used up before may be named too."""
    place = header.place
    if place is None:
        return None
    ahead = store.ahead(header, _MOST) if header.state is State.QUEUED else None
    return QueuePlace(
        queue=place.queue,
        lane=place.lane,
        key=key_of(place.lane),
        admitted_at=place.admitted_at,
        position=None if ahead is None else ahead + 1,
        before_is_bounded=ahead == _MOST,
        limit=_limit(store, place.queue, place.lane, now) if ahead is not None else None,
        parked=header.parked and header.superseded_by is None,
    )


def _limit(store: QueueStore, queue: str, lane: str, now: int | None) -> str | None:
    row = store.queue(queue)
    if row is not None and row.mode is Mode.PAUSED:
        return f"queue {queue} is paused"
    for key in path(lane):
        found = lane_at(store, queue, key)
        if found is not None and (told := _full(found, now)) is not None:
            return told
    return None


def _full(lane: LaneState, now: int | None) -> str | None:
    what = f"queue {lane.key}" if lane.level == Level.QUEUE else lane.key.rpartition("/")[2].replace("=", " ", 1)
    if lane.at_once is not None and lane.held >= lane.at_once:
        return f"{what} has {lane.held} of {lane.at_once} slots in use"
    if lane.closed_until is not None and (now is None or lane.closed_until > now):
        return f"a rate of {what} is used up" + ("" if now is None else f" for {(lane.closed_until - now + 999) // 1000} s")
    return None


def lane_at(store: QueueStore, queue: str, key: str) -> LaneState | None:
    """The lane with this path; None if there is none. `store.lanes` lists the lanes after a given text, so this function gives it a text
    that sorts directly before the path. Paths have only ASCII characters."""
    below = f"{key[:-1]}{chr(ord(key[-1]) - 1)}{_AFTER_ALL}"
    found = store.lanes(queue, below, 1)
    return found[0] if found and found[0].key == key else None


def why_it_waits(place: QueuePlace, header: Execution) -> str:
    """Why an execution waits in its queue, as a sentence. The limit comes first, because lists cut long sentences."""
    if header.state is State.DELAYED:
        return f"It is delayed: it enters queue {place.queue} when its delay is over."
    limit = "" if place.limit is None else f"{place.limit.replace(f'queue {place.queue} ', 'it ')}; "
    return f"It waits in queue {place.queue}: {limit}{place.told()}."
