"""What a batch changes in lanes: slots and waiting executions as differences, everything else as rows.

Differences need no lock: a write that ends an execution only subtracts from its lanes what the execution held, so writes of others at the
same time do not matter. A
write that may admit reads the lanes first, and a backend that has other writers locks them for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from holdfast.model.admission import Enqueue, moved
from holdfast.model.execution import Change, Execution
from holdfast.model.ledger import NANO
from holdfast.model.places import path
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import Mode, QueueRow, QueueSettings
from holdfast.model.rates import RateState
from holdfast.store.lane_rows import LaneRow, SharedRates, rates_charged

_LONGEST_SECONDS: Final = 3600
_UNKNOWN_SECONDS: Final = 60
"""The Retry-After, in seconds, of a queue that has admitted nothing recently."""
_NOTHING: Final = (0, 0, 0)
Moves = tuple[int, int, int]
"""What is added to `held`, `waiting` and `money` of a lane."""


class LaneBook:
    """The lanes of one batch. Every change is written down, so that an entry can be undone."""

    def __init__(self) -> None:
        self.rows: dict[str, LaneRow] = {}
        """The lanes that were read, or are new, as the batch leaves them; but `held` and `waiting` are as they were read."""
        self.shared: SharedRates = {}
        self.settled: list[tuple[str, int]] = []
        """Leaf lanes, and the tokens that an execution there used beyond its estimate."""
        self.cooled: list[tuple[str, int]] = []
        """Leaf lanes, and the time until which each admits nothing."""
        self._summed: dict[str, Moves] = {}
        self._leaves: dict[str, Moves] = {}
        """Moves of leaf lanes that are not yet added to the lanes above them (`moves`)."""
        self._queues: dict[str, tuple[QueueRow, QueueSettings]] = {}
        self._undo: list[Callable[[], object] | tuple[str, Moves]] = []

    @property
    def is_used(self) -> bool:
        """Whether the batch changes anything in lanes."""
        return bool(self._leaves or self._summed or self.settled or self.cooled or self.rows)

    @property
    def moves(self) -> Mapping[str, Moves]:
        """What the batch adds to `held`, `waiting` and `money` of each lane."""
        for leaf, moves in self._leaves.items():
            if any(moves):
                for key in path(leaf):
                    self._summed[key] = _sum(self._summed.get(key, _NOTHING), moves)
        self._leaves.clear()
        return self._summed

    def mark(self) -> int:
        """A point to which `undo` can go back."""
        return len(self._undo)

    def undo(self, mark: int) -> None:
        """Take back everything since a mark."""
        while len(self._undo) > mark:
            step = self._undo.pop()
            if isinstance(step, tuple):
                held, waiting, money = step[1]
                self._add(step[0], (-held, -waiting, -money))
            else:
                step()

    def queue(self, name: str, read: Callable[[str], QueueRow]) -> tuple[QueueRow, QueueSettings]:
        """A queue and its settings."""
        found = self._queues.get(name)
        if found is None:
            row = read(name)
            found = self._queues[name] = (row, row.settings())
        return found

    def lane(self, key: str, read: Callable[[str], LaneRow | None]) -> LaneRow | None:
        """A lane as the batch leaves it."""
        found = self.rows.get(key)
        if found is None:
            found = read(key)
            if found is not None:
                self.rows[key] = found
        return found

    def add(self, lane: LaneRow) -> None:
        """Keep a new lane."""
        self.rows[lane.key] = lane
        self._undo.append(lambda: self.rows.pop(lane.key, None))

    def counts(self, lane: LaneRow) -> tuple[int, int]:
        """Slots held and executions waiting, as the batch leaves them."""
        held, waiting, _ = self.moves.get(lane.key, _NOTHING)
        return lane.held + held, lane.waiting + waiting

    def money(self, lane: LaneRow, before: int) -> int:
        """What is estimated for all that waits in a lane, as the batch leaves it."""
        return before + self.moves.get(lane.key, _NOTHING)[2]

    def move(self, before: Execution | None, change: Change) -> None:
        """Count what a change does to the lanes of its execution."""
        place = change.header.place
        assert place is not None
        moves = moved(before, change.header)
        if any(moves):
            self._add(place.lane, moves)
            self._undo.append((place.lane, moves))
        if change.settled:
            self.settled.append((place.lane, change.settled))
            self._undo.append(self.settled.pop)
        if change.cool_until is not None:
            self.cooled.append((place.lane, change.cool_until))
            self._undo.append(self.cooled.pop)

    def admitted(self, lanes: Sequence[LaneRow], units: int, now: int) -> bool:
        """Whether every lane of a path has room and nothing waits in any of them. If so, the admission is charged to the rates and the
        drain of the path."""
        charged = []
        for lane in lanes:
            held, waiting = self.counts(lane)
            if waiting or held >= lane.at_once or lane.paused or lane.closed_until > now:
                return False
            rates = rates_charged(lane, units, now, self.shared)
            if isinstance(rates, int):
                return False
            charged.append(rates)
        for lane, after in zip(lanes, charged, strict=True):
            row = msgspec.structs.replace(lane, rates=after, is_changed=True)
            row.drained(now)
            self.rows[lane.key] = row
            self._undo.append(partial(self.rows.__setitem__, lane.key, lane))
            for rate in after:
                if rate.shared:
                    self._undo.append(partial(_put_back, self.shared, (rate.shared, rate.kind), self.shared.get((rate.shared, rate.kind))))
                    self.shared[rate.shared, rate.kind] = rate
        return True

    def _add(self, leaf: str, moves: Moves) -> None:
        self._leaves[leaf] = _sum(self._leaves.get(leaf, _NOTHING), moves)


def _put_back(rates: SharedRates, at: tuple[str, str], before: RateState | None) -> None:
    if before is None:
        rates.pop(at, None)
    else:
        rates[at] = before


def _sum(one: Moves, other: Moves) -> Moves:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


class DepthReads(NamedTuple):
    """The reads that tell the depth of a queue, inside the transaction."""

    lane: LaneRow | None
    """The lane of the queue; None if nothing was ever enqueued."""
    oldest: Callable[[], int | None]
    """When the execution that has waited longest was enqueued."""
    money: Callable[[], int]
    """The estimated cost of everything that waited before the batch."""


def check_depth(row: QueueRow, settings: QueueSettings, book: LaneBook, reads: DepthReads, asked: Enqueue, now: int) -> None:
    """Refuse another execution if the queue drains, if too many wait in it, if one has waited too long, or if what waits may cost too
    much."""
    lane = reads.lane
    if row.mode is Mode.DRAINING:
        raise QueueFull(f"Queue {row.name} is being drained and takes no more executions.", _UNKNOWN_SECONDS)
    if lane is None or (settings.most_waiting is None and settings.oldest_seconds is None and settings.most_waiting_usd is None):
        return
    waiting = book.counts(lane)[1]
    if settings.most_waiting is not None and waiting >= settings.most_waiting:
        again = _again(row, lane, waiting - settings.most_waiting + 1, now)
        told = f"{waiting} executions wait in queue {row.name}, and it takes at most {settings.most_waiting}."
        raise QueueFull(told + _paused(row), again)
    if settings.oldest_seconds is not None and waiting:
        since = reads.oldest()
        if since is not None and now - since > settings.oldest_seconds * 1000:
            told = f"An execution has waited in queue {row.name} for {(now - since) // 1000} s"
            raise QueueFull(f"{told}, and it takes no more after {settings.oldest_seconds} s.{_paused(row)}", _again(row, lane, 1, now))
    if settings.most_waiting_usd is not None and waiting:
        _check_money(row, settings.most_waiting_usd, book.money(lane, reads.money()), waiting, lane, asked, now)


def _again(row: QueueRow, lane: LaneRow, places: int, now: int) -> int:
    """After how many seconds there is room again, as far as it is known: a paused queue admits nothing until an operator resumes it."""
    return _UNKNOWN_SECONDS if row.mode is Mode.PAUSED else retry_after(lane, places, now)


def _paused(row: QueueRow) -> str:
    return " The queue is paused." if row.mode is Mode.PAUSED else ""


def _check_money(row: QueueRow, most_usd: float, money: int, waiting: int, lane: LaneRow, asked: Enqueue, now: int) -> None:
    """Refuse an execution if the waiting executions together would cost too much. If nothing waits, even an expensive execution is
    accepted."""
    beyond = money + asked.money - int(most_usd * NANO)
    if money and beyond > 0:
        told = f"What waits in queue {row.name} may cost ${money / NANO:,.2f}, and this execution ${asked.money / NANO:,.2f}"
        places = math.ceil(beyond / (money / waiting))
        again = _again(row, lane, min(places, waiting), now)
        raise QueueFull(f"{told}; the queue takes at most ${most_usd:,.2f}.{_paused(row)}", again)


def retry_after(lane: LaneRow, places: int, now: int) -> int:
    """After how many seconds this many places will be free, estimated from how fast the queue drains."""
    fresh = max(0.0, 1 - max(now - lane.drained_at, 0) / 60_000)
    per_second = lane.drain * fresh / 60
    return _UNKNOWN_SECONDS if per_second <= 0 else min(max(math.ceil(places / per_second), 1), _LONGEST_SECONDS)
