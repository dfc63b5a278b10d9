"""Live events of runs, kept for a while. Each followed run has a ring with its newest live events. There is a limit for each ring, and one
for all rings together.

A live event is not on disk. Its id is `RECORDED.RING.NUMBER`: the number of the last recorded event before it, the name of the ring, and
its own number in that ring. So an id says how far a follower has read the recorded events and the live ones. A follower that comes back
with its last id learns whether it missed live events.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from secrets import token_hex
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.model.errors import InvalidParameter

_ID: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9a-f]{8})\.([0-9]{1,18}))?")
_encoder: Final = msgspec.json.Encoder()
_AROUND: Final = 64
"""About how many bytes an event takes in addition to its data."""


class RingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many live events, and how many bytes of them, are kept."""

    events: int = 512
    """At most this many events of one run."""
    bytes: int = 256 * 1024
    """At most this many bytes of one run's events."""
    event_bytes: int = 64 * 1024
    """At most this many bytes of one event. The data of a larger event is replaced by `{"too_large": SIZE}`."""
    all_bytes: int = 16 * 1024 * 1024
    """At most this many bytes of all rings together."""
    unfollowed: int = 100
    """At most this many rings of runs whose followers have all left. They are kept because a follower may come back."""


class FollowerPosition(msgspec.Struct, frozen=True):
    """How far a follower has read."""

    recorded: int = 0
    """The number of the last recorded event that the follower got; 0 if none."""
    ring: str | None = None
    """The name of the ring, if the last event that the follower got was a live event; else None."""
    number: int = 0
    """The number of that live event in its ring; 0 if none."""

    @property
    def is_beginning(self) -> bool:
        """Whether the follower has got no event yet."""
        return self.recorded == 0 and self.ring is None


def position_of(text: str | int) -> FollowerPosition:
    """The position after the event with this id. Raises InvalidParameter if the text does not have the form of an event's id."""
    found = _ID.fullmatch(str(text))
    if found is None:
        raise InvalidParameter("The id of the last event must be the id of an event of this run, such as 12 or 12.0a1b2c3d.7.")
    return FollowerPosition(int(found[1]), found[2], int(found[3] or 0))


class LiveEvent(msgspec.Struct, frozen=True):
    """One live event in its ring."""

    number: int
    """Its number in the ring, from 1."""
    recorded: int
    """The number of the last recorded event before it."""
    event: str
    data: Any
    size: int
    """About how many bytes it takes."""


class EventRing:
    """The last live events of one run, and the place of each between the recorded events.

    All followers get the events in the same order: a live event comes after every recorded event that any follower had got already when the
    live event happened.
    """

    def __init__(self, name: str, recorded: int, limits: RingLimits) -> None:
        self._name = name
        self._limits = limits
        self._kept: deque[LiveEvent] = deque()
        self.begun = recorded
        """The number of the last recorded event when the ring began: every live event of the ring comes after it."""
        self.recorded = recorded
        """New live events get their place after the recorded event with this number: the last that a follower has got, but at least
        `begun`."""
        self.size = 0
        self.last = 0
        """The number of the last live event."""
        self._dropped = 0
        """The number of the last live event that the ring has dropped."""
        self._whole_from = recorded
        """The ring has every live event that came after the recorded event with this number, or after a later one."""

    def add(self, event: str, data: Any) -> None:
        """Keep one more event, and drop the oldest events if there are too many."""
        size = _AROUND + _size(data)
        if size > self._limits.event_bytes:
            data, size = {"too_large": size}, _AROUND
        self.last += 1
        self._kept.append(LiveEvent(self.last, self.recorded, event, data, size))
        self.size += size
        while len(self._kept) > self._limits.events or self.size > self._limits.bytes:
            self.drop()

    def drop(self) -> None:
        """Drop the oldest event, if there is one."""
        if self._kept:
            oldest = self._kept.popleft()
            self.size -= oldest.size
            self._dropped, self._whole_from = oldest.number, oldest.recorded + 1

    def began(self, position: FollowerPosition) -> tuple[int, bool]:
        """Where in the ring a follower at this position continues. Returns a number: the follower gets the live events with higher numbers.
        Also returns whether the follower may have missed live events besides those that this ring dropped after the number (`missed`), so
        that their count is unknown."""
        if position.is_beginning:
            return self._dropped, False
        if position.ring == self._name:
            return min(position.number, self.last), False  # `missed` reports events that were dropped since then
        number = next((kept.number - 1 for kept in self._kept if kept.recorded >= position.recorded), self.last)
        return number, position.ring is not None or position.recorded < self._whole_from

    def missed(self, number: int) -> int:
        """How many live events with a higher number than this the ring has dropped."""
        return max(0, self._dropped - number)

    def after(self, number: int) -> LiveEvent | None:
        """The oldest live event in the ring whose number is higher than this; None if there is none yet."""
        return next(islice(self._kept, max(0, number - self._dropped), None), None)

    def id_at(self, recorded: int, number: int) -> str:
        """The id of the live event with this number in the ring; `recorded` is the number of the recorded event before it."""
        return f"{recorded}.{self._name}.{number}"


class EventRings:
    """The rings of the runs that are followed in this process, or were followed lately."""

    def __init__(self, limits: RingLimits | None = None, name: Callable[[], str] = lambda: token_hex(4)) -> None:
        self._limits = limits or RingLimits()
        self._name = name
        self._rings: OrderedDict[str, EventRing] = OrderedDict()
        self._followed: dict[str, int] = {}
        self.size = 0
        """About how many bytes the events of all rings take."""

    def __len__(self) -> int:
        return len(self._rings)

    def get(self, run_id: str) -> EventRing | None:
        """The ring of a run; None if it has none."""
        return self._rings.get(run_id)

    def open(self, run_id: str, recorded: int) -> EventRing:
        """The ring of a run, for one more follower. If the run has no ring, a new one is made; its first live events come after the
        recorded event with the number `recorded`."""
        ring = self._rings.get(run_id)
        if ring is None:
            ring = self._rings[run_id] = EventRing(self._name(), recorded, self._limits)
        self._rings.move_to_end(run_id)
        self._followed[run_id] = self._followed.get(run_id, 0) + 1
        return ring

    def leave(self, run_id: str) -> None:
        """Note that the run has one follower less. Its ring stays for a while, because the follower may come back."""
        self._followed[run_id] -= 1
        if not self._followed[run_id]:
            del self._followed[run_id]
            self._rings.move_to_end(run_id)
            self._remove(self._unfollowed(), len(self._rings) - len(self._followed) - self._limits.unfollowed)

    def add(self, run_id: str, event: str, data: Any) -> bool:
        """Keep a live event if the run has a ring. Returns whether the run has a ring."""
        ring = self._rings.get(run_id)
        if ring is None:
            return False
        before = ring.size
        ring.add(event, data)
        self.size += ring.size - before
        if self.size > self._limits.all_bytes:
            self._make_room(ring)
        return True

    def _make_room(self, ring: EventRing) -> None:
        """Remove events until all rings together are within their limit: first whole rings without followers, beginning with the ring that
        lost its last follower first; then, if needed, the oldest events of `ring`."""
        for run_id in self._unfollowed():
            if self.size <= self._limits.all_bytes:
                return
            self._remove(iter([run_id]), 1)
        while self.size > self._limits.all_bytes and ring.size:
            before = ring.size
            ring.drop()
            self.size -= before - ring.size

    def _unfollowed(self) -> Iterator[str]:
        return iter([run_id for run_id in self._rings if run_id not in self._followed])

    def _remove(self, run_ids: Iterator[str], count: int) -> None:
        for run_id in islice(run_ids, max(0, count)):
            self.size -= self._rings.pop(run_id).size


def _size(data: Any) -> int:
    """How many bytes the data has as JSON. For data that is not JSON, a number above the limit for one event."""
    try:
        return len(_encoder.encode(data))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return codec.MAX_PAYLOAD_BYTES
