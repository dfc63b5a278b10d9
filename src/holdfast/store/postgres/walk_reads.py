"""What an admission reads and locks: open lanes by their turns, and the executions at the heads of leaves.

Each read is a round trip. So the walk begins with one statement that follows lanes down as long as each is alone at its level, and the
lanes and executions below several lanes are read with one statement, before the walk asks for them. Rows that another process has locked
are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.model.errors import RowDamaged
from holdfast.model.execution import Execution
from holdfast.model.places import Level, level_of, parent_of, path
from holdfast.store.admission_order import PAGE, ROOT, Head, LaneReads
from holdfast.store.lane_rows import LaneRow
from holdfast.store.postgres.columns import texts
from holdfast.store.postgres.rates import Rates, kept_under
from holdfast.store.postgres.session import Session, Statement
from holdfast.store.queue_reads import lane_from, queue_from
from holdfast.store.rows import COLUMNS, Row
from holdfast.store.seam import Target

_TURN: Final = 6
"""The index of the column `turn` in the row of a lane."""
_ID: Final = COLUMNS["execution"].index("id")
_LANE: Final = COLUMNS["execution"].index("lane")
_ORDER_AT: Final = COLUMNS["execution"].index("order_at")
_BEFORE_ALL: Final = (-(2**63), "")
_FEW: Final = 3
"""When the walk reads ahead for several lanes, it reads at most this many lanes below each of them. Most lanes have fewer. For a lane that
has as many or more, all are read again later."""


class WalkReads:
    """The reads of one walk."""

    def __init__(
        self, writer: Session, sql: Mapping[str, Statement], targets: Sequence[Target], wanted: int, based: Callable[[Row], Execution]
    ) -> None:
        self._run, self._sql, self._based = writer.run, sql, based
        self._targets = {(target.function, target.version) for target in targets}
        self._wanted = wanted
        self.locked: set[str] = set()
        """The keys of the lanes that this walk has read, and so has locked."""
        self.may_pass = False
        """Whether there may be an open queue that the walk has not read, because another process has locked it or because there are too
        many."""
        self.is_hindered = False
        """Whether another process had locked a rate that a lane shares."""
        self._below: dict[str, list[LaneRow]] = {}
        """By the key of a lane: the first open lanes below it, read ahead: all of them, or a page."""
        self._ahead: dict[str, tuple[int, list[Row]]] = {}
        """By the key of a leaf: how many of its first executions were asked for, and those that were read ahead."""
        self._read: dict[str, tuple[int, str]] = {}
        """By the key of a leaf: the last execution that was returned, by its place in the order of admission and its id."""
        self._ordered: dict[str, bool] = {}
        self.inputs: dict[str, str] = {}
        """By the id of an execution: its input, as it is stored, if it was read together with the execution."""

    def begun(self, now: int) -> LaneReads:
        """The functions with which a walk reads. This call also opens the closed lanes whose time to open has come, and reads the first
        open lanes."""
        asked = {"now": now, "limit": PAGE}
        found = self._run(self._sql["open_queues"], asked)
        if found[0][1]:
            self._run(self._sql["reopen_lanes"], (now,))
            found = self._run(self._sql["open_queues"], asked)
        clock, _, count = found[0][:3]
        lanes = self._met([row[3:] for row in found if row[3] is not None])
        self._below = {lane.key: [] for lane in lanes if not lane.is_leaf}
        self._below[ROOT] = []
        for lane in lanes:
            self._below[parent_of(lane.key)].append(lane)
        queues = self._below[ROOT]
        self.may_pass = count > len(queues) or count >= PAGE
        if len(queues) < PAGE:  # no more are admitted than these queues have slots for, so no more executions are read and locked
            self._wanted = min(self._wanted, sum(min(queue.at_once - queue.held, queue.waiting) for queue in queues))
        for siblings in list(self._below.values()):
            if len(siblings) > 1:  # the other lanes below them are not read yet
                for lane in siblings:
                    self._below.pop(lane.key, None)
                self._look_ahead_of(siblings, PAGE)
        return LaneReads(self.open_lanes, self.heads, self.is_ordered, self.next_of_key, LaneRow(key=ROOT, clock=clock, at_once=0))

    # --- lanes

    def open_lanes(self, parent: str, after: tuple[int, str], limit: int) -> Sequence[LaneRow]:
        """Open lanes below a lane: those after the turn and key `after`, in the order of turn and key, about `limit` of them. Lanes that
        another process has locked are left out."""
        if parent in self._below:
            return self._below.pop(parent)
        lanes: list[LaneRow] = []
        while len(lanes) < limit:
            found = self._run(self._sql["open_lanes"], (parent, *after, limit))
            # A lane that was changed after the statement began is locked as it is now, and may be met again at its new turn.
            lanes += self._met([row for row in found if row[0] not in self.locked])
            if len(found) < limit:
                break
            after = max((row[_TURN], row[0]) for row in found)
        if len(lanes) > 1:
            self._look_ahead_of(lanes, limit)
        return lanes

    def _look_ahead_of(self, lanes: Sequence[LaneRow], limit: int) -> None:
        self._look_ahead(lanes[: self._wanted], 1 if len(lanes) >= limit else -(-self._wanted // len(lanes)))

    def _met(self, found: Sequence[Row]) -> list[LaneRow]:
        """The lanes of these rows, which this process has locked, with their rates. A lane is left out if another process has locked the
        rate that it shares."""
        self.locked.update(row[0] for row in found)
        rates = Rates(())
        if rated := [row for row in found if row[-1] is not None]:
            rates = Rates(self._run(self._sql["free_rates"], (texts(kept_under(rated)),)))
        free = [row for row in found if rates.has_shared(row)]
        self.is_hindered |= len(free) < len(found)
        return [lane_from(row[:-1], rates.of(row)) for row in free]

    def _look_ahead(self, lanes: Sequence[LaneRow], share: int) -> None:
        """Read the lanes and executions below these lanes before the walk asks for them: of each leaf at most `share` executions."""
        above = [lane.key for lane in lanes if not lane.is_leaf]
        leaves = [lane for lane in lanes if lane.is_leaf]
        if above:
            found: dict[str, list[Row]] = {key: [] for key in above}
            for row in self._run(self._sql["open_below"], (texts(above), _FEW)):
                found[parent_of(row[0])].append(row)
            whole = {key: rows for key, rows in found.items() if len(rows) < _FEW}
            met = self._met([row for rows in whole.values() for row in rows])
            self._below |= {key: [] for key in whole}
            for lane in sorted(met, key=lambda lane: (lane.turn, lane.key)):
                self._below[parent_of(lane.key)].append(lane)
            leaves += [lane for lane in met if lane.is_leaf]
        hosted = [lane.key for lane in leaves if (lane.function, lane.version) in self._targets and not self._is_in_order(lane.key)]
        if len(hosted) > 1:
            self._ahead |= {key: (share, []) for key in hosted}
            for row in self._run(self._sql["heads_below"], (texts(hosted), share)):
                self._ahead[row[_LANE]][1].append(row)

    # --- executions

    def heads(self, lane: str, limit: int, skip: int) -> Sequence[Head | None]:
        """At most `limit` executions of a leaf that were not returned yet, in the order of admission; `skip` is how many were returned
        before. None stands for an execution whose row is damaged. Executions that another process has locked are left out. But in an
        ordered queue the first execution must not be passed over: if another process has locked it, nothing is returned."""
        most, ahead = self._ahead.pop(lane, (0, []))
        if len(ahead) < most or len(ahead) >= limit:
            return self._heads(lane, sorted(ahead, key=lambda row: (row[_ORDER_AT], row[_ID]))[:limit])
        in_order = skip == 0 and self._is_in_order(lane)
        first = self._run(self._sql["first_head"], (lane,)) if in_order else []
        found = self._run(self._sql["heads"], (lane, *self._read.get(lane, _BEFORE_ALL), limit))
        if first and found and found[0][_ID] != first[0][0]:
            return []
        return self._heads(lane, found)

    def _heads(self, lane: str, found: Sequence[Row]) -> list[Head | None]:
        heads: list[Head | None] = []
        for row in found:
            self._read[lane] = (row[_ORDER_AT], row[_ID])
            if row[-1] is not None:
                self.inputs[row[_ID]] = row[-1]
            try:
                header = self._based(row)
            except RowDamaged:
                heads.append(None)
            else:
                heads.append(Head(header.id, 0 if header.place is None else header.place.units))
        return heads

    # --- order

    def is_ordered(self, queue: str) -> bool:
        """Whether a queue is ordered by key."""
        if queue not in self._ordered:
            found = self._run(self._sql["queue"], (queue,))
            self._ordered[queue] = bool(found) and queue_from(found[0]).settings().ordered
        return self._ordered[queue]

    def _is_in_order(self, leaf: str) -> bool:
        return level_of(parent_of(leaf)) == Level.KEY and self.is_ordered(path(leaf)[0])

    def next_of_key(self, key: str) -> str | None:
        """That leaf below a key whose first execution was enqueued before those of the other leaves; None if nothing waits there."""
        found = self._run(self._sql["next_of_key"], {"key": key})
        return found[0][0] if found else None
