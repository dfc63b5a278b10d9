"""What a batch changes in lanes: slots and waiting executions as differences, everything else as rows.

Differences need no lock: a write that ends an execution only subtracts from its lanes what the execution held, so it does not matter what
other processes write at the same time. A write that may admit an execution must read the lanes first; the Postgres store, where other
processes write at the same time, locks them before.
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
"""The Retry-After, in seconds, if it is not known when the queue admits again."""
_NOTHING: Final = (0, 0, 0)
Moves = tuple[int, int, int]
"""The numbers that are added to `held`, `waiting` and `money` of a lane."""


class LaneBook:
    """The changes of one batch in lanes. Each change is noted, so that the changes of one entry can be undone."""

    def __init__(self) -> None:
        self.rows: dict[str, LaneRow] = {}
        """By key: the lanes that the batch has read or makes, as the batch leaves them; only `held` and `waiting` are as they were read."""
        self.shared: SharedRates = {}
        self.settled: list[tuple[str, int]] = []
        """One entry for each execution that used more or fewer tokens than estimated: its leaf lane, and the tokens that it used beyond the
        estimate; negative if it used fewer."""
        self.cooled: list[tuple[str, int]] = []
        """One entry for each cool-down that an execution asked for: its leaf lane, and the time before which this lane admits nothing."""
        self._summed: dict[str, Moves] = {}
        self._leaves: dict[str, Moves] = {}
        """By leaf lane: moves that are not yet added to the lanes above it. `moves` adds them."""
        self._queues: dict[str, tuple[QueueRow, QueueSettings]] = {}
        self._undo: list[Callable[[], object] | tuple[str, Moves]] = []

    @property
    def is_used(self) -> bool:
        """Whether the batch has read or changed a lane."""
        return bool(self._leaves or self._summed or self.settled or self.cooled or self.rows)

    @property
    def moves(self) -> Mapping[str, Moves]:
        """By lane: the numbers that the batch adds to `held`, `waiting` and `money`."""
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
        """Take back every change since a mark."""
        while len(self._undo) > mark:
            step = self._undo.pop()
            if isinstance(step, tuple):
                held, waiting, money = step[1]
                self._add(step[0], (-held, -waiting, -money))
            else:
                step()

    def queue(self, name: str, read: Callable[[str], QueueRow]) -> tuple[QueueRow, QueueSettings]:
        """A queue, and the settings that it uses now. `read` reads the queue from the store; it is called only if the batch has not read
        this queue yet."""
        found = self._queues.get(name)
        if found is None:
            row = read(name)
            found = self._queues[name] = (row, row.settings())
        return found

    def lane(self, key: str, read: Callable[[str], LaneRow | None]) -> LaneRow | None:
        """A lane as the batch leaves it; None if there is no such lane. `read` reads the lane from the store; it is called only if the
        batch does not know the lane yet."""
        found = self.rows.get(key)
        if found is None:
            found = read(key)
            if found is not None:
                self.rows[key] = found
        return found

    def add(self, lane: LaneRow) -> None:
        """Add a lane that the batch makes."""
        self.rows[lane.key] = lane
        self._undo.append(lambda: self.rows.pop(lane.key, None))

    def counts(self, lane: LaneRow) -> tuple[int, int]:
        """How many slots are held and how many executions wait in a lane, as the batch leaves it."""
        held, waiting, _ = self.moves.get(lane.key, _NOTHING)
        return lane.held + held, lane.waiting + waiting

    def money(self, lane: LaneRow, before: int) -> int:
        """The estimated cost of all executions that wait in a lane, as the batch leaves it, in billionths of a dollar. `before` is this
        cost before the batch."""
        return before + self.moves.get(lane.key, _NOTHING)[2]

    def move(self, before: Execution | None, change: Change) -> None:
        """Note what a change of an execution changes in its lanes. `before` is the header before the change; None for a new execution. The
        execution must have a place in a queue."""
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
        """Admit one execution now, if each lane of its path has a free slot, is neither paused nor closed, has no execution that waits, and
        has rates that allow it. Returns True, and counts the execution against these rates, if it was admitted. Otherwise returns False and
        changes nothing. `units` are the execution's estimated tokens."""
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
    """What `check_depth` reads about a queue, inside the transaction."""

    lane: LaneRow | None
    """The lane of the queue; None if there is no such lane yet."""
    oldest: Callable[[], int | None]
    """Returns the time at which the execution that has waited longest began to wait, in milliseconds since the epoch; None if none
    waits."""
    money: Callable[[], int]
    """Returns the estimated cost of all executions that waited before the batch, in billionths of a dollar."""


def check_depth(row: QueueRow, settings: QueueSettings, book: LaneBook, reads: DepthReads, asked: Enqueue, now: int) -> None:
    """Raise QueueFull if the queue is draining, if too many executions wait in it, if one of them has waited too long, or if the executions
    that wait may cost too much together with the new one."""
    lane = reads.lane
    if row.mode is Mode.DRAINING:
        raise QueueFull(f"Queue {row.name} is being drained: it accepts no new executions until an operator resumes it.", _UNKNOWN_SECONDS)
    if lane is None or (settings.most_waiting is None and settings.oldest_seconds is None and settings.most_waiting_usd is None):
        return
    waiting = book.counts(lane)[1]
    if settings.most_waiting is not None and waiting >= settings.most_waiting:
        again = _again(row, lane, waiting - settings.most_waiting + 1, now)
        told = f"{waiting} executions wait in queue {row.name}, and it accepts at most {settings.most_waiting}."
        raise QueueFull(told + _paused(row), again)
    if settings.oldest_seconds is not None and waiting:
        since = reads.oldest()
        if since is not None and now - since > settings.oldest_seconds * 1000:
            told = f"An execution has waited in queue {row.name} for {(now - since) // 1000} s"
            raise QueueFull(
                f"{told}; the queue accepts no new executions while one has waited longer than {settings.oldest_seconds} s.{_paused(row)}",
                _again(row, lane, 1, now),
            )
    if settings.most_waiting_usd is not None and waiting:
        _check_money(row, settings.most_waiting_usd, book.money(lane, reads.money()), waiting, lane, asked, now)


def _again(row: QueueRow, lane: LaneRow, places: int, now: int) -> int:
    """After how many seconds a caller should try again: about the time until the queue has admitted `places` more executions. 60 for a
    paused queue, because it is not known when an operator resumes it."""
    return _UNKNOWN_SECONDS if row.mode is Mode.PAUSED else retry_after(lane, places, now)


def _paused(row: QueueRow) -> str:
    return " The queue is paused." if row.mode is Mode.PAUSED else ""


def _check_money(row: QueueRow, most_usd: float, money: int, waiting: int, lane: LaneRow, asked: Enqueue, now: int) -> None:
    """Raise QueueFull if the waiting executions together with this one may cost too much. If the cost of all that wait is 0, even an
    expensive execution is accepted."""
    beyond = money + asked.money - int(most_usd * NANO)
    if money and beyond > 0:
        told = f"The executions in queue {row.name} may cost ${money / NANO:,.2f}, and this one ${asked.money / NANO:,.2f}"
        places = math.ceil(beyond / (money / waiting))
        again = _again(row, lane, min(places, waiting), now)
        raise QueueFull(f"{told}; the queue accepts at most ${most_usd:,.2f}.{_paused(row)}", again)


def retry_after(lane: LaneRow, places: int, now: int) -> int:
    """About how many seconds it takes until the lane has admitted `places` more executions, from 1 to 3,600. The estimate uses the number
    of executions that the lane admitted in the last minute. If it admitted none, the result is 60."""
    fresh = max(0.0, 1 - max(now - lane.drained_at, 0) / 60_000)
    per_second = lane.drain * fresh / 60
    return _UNKNOWN_SECONDS if per_second <= 0 else min(max(math.ceil(places / per_second), 1), _LONGEST_SECONDS)
