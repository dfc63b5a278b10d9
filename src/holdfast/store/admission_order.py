"""Lanes, the levels of a queue: how they take turns, and the walk that chooses which executions are admitted next.

Each level of a path (model.places) is a row. `held` counts the executions below it that have a slot, `waiting` those that wait for one.
Both change only in the same write as the header of an execution (its main row), so they are always equal to a recount. A lane is open if an
execution waits in it, a slot is free, no rate or cool-down has closed it and its queue is not paused. The database has an index of open
lanes, by their turn.

Fairness is by turns: of the lanes below one lane, the one with the lowest `turn` is served first. The lane above remembers in `clock` which
turn it served last, and an admission sets the served lane's `turn` to one after this clock. A lane in which nothing waited gets at least
the clock of the lane above as its turn, so that it does not catch up on turns that it did not need. So a lane with a long backlog delays
each of its siblings by about one admission.

Both backends share this module. A backend reads rows and writes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Change, Claimant, Execution, ExecutionStatus
from holdfast.model.places import Level, level_of, parent_of
from holdfast.model.rates import RateState
from holdfast.model.verbs import Admit, Answer
from holdfast.store.lane_rows import LaneRow, SharedRates, rates_charged
from holdfast.store.seam import Committed, Target

ROOT: Final = ""
"""The key of the lane above all queues. Of this lane only the clock is used."""
PAGE: Final = 32
"""A walk reads at most this many sibling lanes with one statement."""
_MOST_LOOKS: Final = 2000
"""A walk ends after it has looked at this many lanes from which it admits nothing."""
_FEW_HEADS: Final = 8
_MOST_HEADS: Final = 256
"""After the first read of a leaf, one statement reads at most this many of its executions."""
_LOOKS_OF_HEAD: Final = 8
"""An execution that turns out to be closed, or whose admission is refused, counts as this many of the looks in `_MOST_LOOKS`."""


class Head(NamedTuple):
    """An execution that waits near the front of its lane, so that the walk may admit it next, and its estimated number of tokens."""

    execution: str
    units: int


class LaneReads(NamedTuple):
    """The questions that a `LaneWalk` asks its backend, inside the transaction that admits."""

    open_lanes: Callable[[str, tuple[int, str], int], Sequence[LaneRow]]
    """Takes a lane, a turn with a key, and a count. Gives open lanes below the lane that stand after this turn and key, in the order of
    turn and key. If it gives fewer than the count, the walk does not ask for more."""
    heads: Callable[[str, int, int], Sequence[Head | None]]
    """Takes a leaf, a count, and how many executions to skip. Gives at most the count of executions, in the order in which the lane admits
    them. None stands for an execution whose row is damaged: it stays in the lane, and the executions behind it are admitted."""
    is_ordered: Callable[[str], bool]
    """Whether a queue is ordered by key."""
    next_of_key: Callable[[str], str | None]
    """Called with the lane of a key in an ordered queue. Returns that leaf below it whose first execution was enqueued before those of the
    other leaves; None if nothing waits there. The leaf may be closed."""
    root: LaneRow


class _Siblings:
    """The open lanes below one lane, in the order of their turns. They are read a page at a time."""

    def __init__(self, reads: LaneReads, parent: str) -> None:
        self._reads, self._parent = reads, parent
        self._heap: list[tuple[int, str, LaneRow]] = []
        self._last = (-1, "")
        self._is_read = False

    def first(self) -> LaneRow | None:
        """The lane whose turn it is; None if none is left."""
        while not self._is_read and (not self._heap or self._heap[0][:2] > self._last):
            page = self._reads.open_lanes(self._parent, self._last, PAGE)
            self._is_read = len(page) < PAGE
            for lane in page:
                self._last = (lane.turn, lane.key)
                heapq.heappush(self._heap, (lane.turn, lane.key, lane))
        return self._heap[0][2] if self._heap else None

    @property
    def is_alone(self) -> bool:
        """Whether all these lanes were read, and only one of them is left."""
        return self._is_read and len(self._heap) == 1

    def count(self, most: int) -> int:
        """How many of these lanes are left, but at least 1. If not all of these lanes have been read, `most`."""
        return max(len(self._heap), 1) if self._is_read else most

    def drop(self) -> None:
        """Drop the first lane, because it has nothing for this walk."""
        heapq.heappop(self._heap)

    def moved(self) -> None:
        """Sort the first lane in again, because its turn has moved."""
        lane = self._heap[0][2]
        heapq.heapreplace(self._heap, (lane.turn, lane.key, lane))


class _Heads:
    """The next executions of a leaf. They are read a few at a time."""

    def __init__(self, reads: LaneReads, leaf: str) -> None:
        self._reads, self._leaf = reads, leaf
        self._page: list[Head] = []
        self._read = 0
        self._is_read = False

    def first(self, wanted: Callable[[], int]) -> Head | None:
        """The next execution of this leaf; None if none is left. `wanted` is called before the first read; it returns how many executions
        of the leaf will probably be admitted."""
        while not self._page and not self._is_read:
            limit = wanted() if not self._read else max(_FEW_HEADS, min(2 * self._read, _MOST_HEADS))
            page = self._reads.heads(self._leaf, limit, self._read)
            self._read += len(page)
            self._is_read = len(page) < limit
            self._page = [head for head in reversed(page) if head is not None]
        return self._page[-1] if self._page else None

    def drop(self) -> None:
        """Drop the first execution of this leaf: the walk has decided what happens with it."""
        self._page.pop()


class LaneWalk:
    """Chooses executions from open lanes, and lets the backend claim each of them."""

    def __init__(self, reads: LaneReads, targets: Sequence[Target], now: int, decide: Callable[[Admit], Answer | HoldfastError]) -> None:
        self._reads, self._now, self._decide = reads, now, decide
        self._targets = {(target.function, target.version) for target in targets}
        self._only = targets[0].only if targets else None
        self._siblings: dict[str, _Siblings] = {}
        self._heads: dict[str, _Heads] = {}
        self._ordered: dict[str, bool] = {}
        self._unordered: set[str] = set()
        self._next_leaf: dict[str, str | None] = {}
        """By ordered key: the only leaf below it from which the next execution may be admitted."""
        self._root = reads.root
        self._looks = _MOST_LOOKS
        self._in_vain: dict[str, tuple[LaneRow, list[LaneRow]]] = {}
        self._wanted = 1
        self._shared: SharedRates = {}
        self._lone: list[LaneRow] | None = None
        """The path from a queue to a leaf that was found last, if the walk knows that no other path is open; else None."""
        self.seen: dict[str, LaneRow] = {}
        """The lanes that the walk has changed or admitted from."""

    def take(self, by: Sequence[Claimant]) -> list[Execution]:
        """Admit at most one execution for each claimant. Returns the headers of the admitted executions. There may be fewer than claimants:
        the walk ends when it finds no further execution, or has looked at too many lanes in vain."""
        taken: list[Execution] = []
        for claimant in by:
            self._wanted = len(by) - len(taken)
            header = self._next(claimant)
            if header is None:
                break
            taken.append(header)
        return taken

    def committed(self, taken: Sequence[Execution], changes: Sequence[Change], followed: Sequence[Change], *, signalled: bool) -> Committed:
        """The result of an admission that is on disk: the executions in `taken`, which were claimed, all other executions in `changes` and
        `followed`, and the earliest time at which a lane that it closed opens again."""
        claimed = {header.id for header in taken}
        others = [*(change for change in changes if change.header.id not in claimed), *followed]
        told = {change.header.id: change for change in others}
        closed = [lane.closed_until for lane in self.seen.values() if lane.closed_until]
        return Committed(taken, [change.header for change in told.values()], signalled, list(told.values()), min(closed, default=None))

    def changed(self) -> list[LaneRow]:
        """The lanes that must be written. If the walk ended because it looked at too many lanes in vain, those lanes are moved behind their
        siblings, so that the next walk meets the siblings first."""
        if self._looks <= 0:
            for above, siblings in self._in_vain.values():
                last = max(lane.turn for lane in siblings)
                above.clock = max(above.clock, last)  # so that a lane that was empty does not get a turn far before theirs
                for lane in (above, *siblings):
                    lane.is_changed = True
                    self.seen[lane.key] = lane
                for lane in siblings:
                    lane.turn = last + 1
        self.seen[ROOT] = self._root
        for lane in self.seen.values():
            if lane.taken:
                lane.drained(self._now, lane.taken)
        return [lane for lane in self.seen.values() if lane.is_changed]

    def _next(self, by: Claimant) -> Execution | None:
        while (found := self._found()) is not None:
            leaf = found[-1]
            heads = self._heads.get(leaf.key)
            if heads is None:
                heads = self._heads[leaf.key] = _Heads(self._reads, leaf.key)
            head = heads.first(partial(self._share, found))
            if head is None:
                leaf.waiting = 0  # as far as this walk knows
                continue
            charged = self._charged(found, head.units)
            if charged is None:
                continue
            heads.drop()
            answer = self._decide(Admit(head.execution, by))
            if isinstance(answer, Execution):
                for lane in found:
                    lane.waiting -= 1
                if answer.status is ExecutionStatus.RUNNING and answer.invocation == by.invocation:
                    self._advance(found, charged)
                    return answer
            self._looks -= _LOOKS_OF_HEAD  # this one was refused or is over, and the next head is looked at
            if parent_of(leaf.key) in self._next_leaf:
                leaf.waiting = 0  # the next one of an ordered key may stand in another leaf
        return None

    def _found(self) -> list[LaneRow] | None:
        """The lanes from a queue down to the leaf whose turn it is; None if the walk finds no further leaf that may admit."""
        if self._lone is not None and all(lane.waiting > 0 and lane.has_room for lane in self._lone):
            return self._lone
        found, self._lone = self._descended(self._root), None
        is_ordered = found is not None and parent_of(found[-1].key) in self._next_leaf
        if found is not None and not is_ordered and all(self._siblings[parent_of(lane.key)].is_alone for lane in found):
            self._lone = found
        return found

    def _share(self, path: Sequence[LaneRow]) -> int:
        """How many executions of a leaf this walk will probably admit: an equal share for all lanes, but not more than there are free slots
        in every lane of the path, and not more than wait in the leaf."""
        share = self._wanted
        for lane in path:
            share = min(-(-share // self._siblings[parent_of(lane.key)].count(share)), lane.at_once - lane.held)
        return min(share, path[-1].waiting)

    def _descended(self, above: LaneRow) -> list[LaneRow] | None:
        """The lanes below `above`, down to the leaf whose turn it is; None if the walk finds no further leaf there that may admit."""
        below = self._siblings.get(above.key)
        if below is None:
            below = self._siblings[above.key] = _Siblings(self._reads, above.key)
        while self._looks > 0 and (lane := below.first()) is not None:
            if lane.waiting > 0 and lane.has_room:
                if self._only is not None and not self._only.reaches(lane.key):
                    pass  # only other runners admit from this lane
                elif lane.is_leaf:
                    if (lane.function, lane.version) in self._targets and self._is_next(above.key, lane.key):
                        return [lane]
                elif (deeper := self._descended(lane)) is not None:
                    return [lane, *deeper]
                self._looks -= 1
                self._in_vain.setdefault(above.key, (above, []))[1].append(lane)
            below.drop()
        return None

    def _is_next(self, parent: str, leaf: str) -> bool:
        """Whether a leaf may admit its next execution. In an ordered queue, only one of the leaves of a key may: the leaf whose first
        execution was enqueued before those of the others."""
        if parent in self._unordered:
            return True
        if parent not in self._next_leaf:
            if level_of(parent) != Level.KEY:  # no read is needed
                self._unordered.add(parent)
                return True
            queue = parent.partition("/")[0]
            if queue not in self._ordered:
                self._ordered[queue] = self._reads.is_ordered(queue)
            if not self._ordered[queue]:
                self._unordered.add(parent)
                return True
            self._next_leaf[parent] = self._reads.next_of_key(parent)
        return self._next_leaf[parent] == leaf

    def _charged(self, path: Sequence[LaneRow], units: int) -> list[tuple[RateState, ...]] | None:
        """The rates of a path after an admission. None if a rate is used up: then its lane is closed until the rate has recovered."""
        after: list[tuple[RateState, ...]] = []
        for lane in path:
            if not lane.rates:
                after.append(())
                continue
            charged = rates_charged(lane, units, self._now, self._shared)
            if isinstance(charged, int):
                lane.closed_until, lane.is_changed = charged, True
                self.seen[lane.key] = lane
                return None
            after.append(charged)
        return after

    def _advance(self, path: Sequence[LaneRow], charged: Sequence[tuple[RateState, ...]]) -> None:
        above = self._root
        above.is_changed = True
        for lane, rates in zip(path, charged, strict=True):
            if above.clock < lane.turn:
                above.clock = lane.turn
            lane.turn = above.clock + 1
            lane.held += 1
            lane.taken += 1
            lane.rates = rates
            self._shared.update(((rate.shared, rate.kind), rate) for rate in rates if rate.shared)
            self._siblings[above.key].moved()
            self.seen[lane.key] = lane
            above = lane
