"""Queues and lanes in one file. No other process writes during a transaction, so a lane does not change between a batch's read and its
write."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import codec
from holdfast.model.audit import Note
from holdfast.model.places import level_of, parent_of, path, shared_rate_of
from holdfast.model.queues import UNLIMITED, Mode, QueueRow
from holdfast.model.rates import COOLING, MAX_SPAN_NS, NS_PER_MS, Rate, RateState
from holdfast.store import rows
from holdfast.store.admission_order import ROOT
from holdfast.store.lane_book import LaneBook
from holdfast.store.lane_rows import LaneRow, charged_rates
from holdfast.store.queue_reads import QueueReads, lane_from, queue_from, rate_from
from holdfast.store.seam import Target
from holdfast.store.sqlite.transactions import Transactions


class SqliteLanes(Transactions, QueueReads):
    """The part of a store that keeps queues."""

    # --- settings of the operator and of the code

    def declare(self, queues: Sequence[QueueRow]) -> None:
        with self._transaction() as writer:
            for row in queues:
                declared = codec.dumps(row.declared)
                if writer.execute(self._sql["declare_queue"], (row.name, declared)).rowcount:
                    self._set_limits(self._queue(row.name))

    def set_queue(self, row: QueueRow, notes: Sequence[Note] = ()) -> bool:
        row.settings()
        with self._transaction() as writer:
            if row.revision == 0:  # a queue that is not there has this revision
                writer.execute(self._sql["make_queue"], (row.name,))
            asked = (codec.dumps(row.operator), row.mode.value, row.name, row.revision)
            if not writer.execute(self._sql["set_queue"], asked).rowcount:
                return False
            self._set_limits(self._queue(row.name))
            self._put_notes(notes)
        return True

    def _set_limits(self, row: QueueRow) -> None:
        """Give the lanes of a queue (all but the leaves, which have none) the limits of its settings. Units that were used up under an old
        rate stay used up."""
        settings = row.settings()
        for level in ("queue", "tenant", "key"):
            limits = settings.at(level)
            paused = 1 if level == "queue" and row.mode is Mode.PAUSED else 0
            at_once = UNLIMITED if limits.at_once is None else limits.at_once
            self._writer.execute(self._sql["set_lanes"], (at_once, paused, row.name, level))
            rates = limits.parsed_rates()
            kinds = codec.dumps([rate.kind for rate in rates])
            self._writer.execute(self._sql["drop_rates"], {"queue": row.name, "level": level, "kinds": kinds})
            for rate in rates:
                asked = {"queue": row.name, "level": level, "kind": rate.kind, "step": rate.step_ns, "burst": rate.burst}
                self._writer.execute(self._sql["set_rates"], asked)

    def set_rate(self, function: str, rate: Rate | None) -> bool:
        asked = {"function": function, "step": None if rate is None else rate.step_ns, "burst": None if rate is None else rate.burst}
        if not self._read("other_rates", asked):
            return False
        with self._transaction() as writer:
            lanes = [key for (key,) in writer.execute(self._sql["other_rates"], asked)]
            asked["lanes"] = codec.dumps(lanes)
            writer.execute(self._sql["drop_own_rate"], asked)
            if rate is None:
                writer.execute(self._sql["drop_shared_rate"], asked)
            else:
                writer.executemany(self._sql["share_rate"], [(shared_rate_of(lane), lane) for lane in lanes])
                writer.execute(self._sql["set_shared_rate"], asked)
            writer.execute(self._sql["open_lanes_again"], asked)
        return bool(lanes)

    def has_open_lane(self, targets: Sequence[Target], now: int) -> bool:
        hosted = codec.dumps([[target.function, target.version] for target in targets])
        return bool(self._read("has_open_lane", {"targets": hosted, "now": now})[0][0])

    # --- what is read inside the transaction

    def _queue(self, queue: str) -> QueueRow:
        found = self._writer.execute(self._sql["queue"], (queue,)).fetchone()
        return QueueRow(name=queue) if found is None else queue_from(found)

    def _lane(self, lane: str) -> LaneRow | None:
        found = self._writer.execute(self._sql["lane"], (lane,)).fetchone()
        return None if found is None else lane_from(found, self._rates([lane]).get(lane, ()))

    def _rates(self, lanes: Sequence[str]) -> dict[str, list[rows.Row]]:
        """By the key of the lane: the rates of these lanes, both their own rates and those that they share with other lanes. Lanes without
        rates are left out."""
        rates: dict[str, list[rows.Row]] = {}
        for lane, *rate in self._writer.execute(self._sql["rates_of"], (codec.dumps(lanes),)):
            rates.setdefault(lane, []).append(tuple(rate))
        return rates

    def _rates_under(self, shared: str | None) -> Sequence[RateState]:
        return [] if shared is None else [rate_from(row) for row in self._writer.execute(self._sql["rates_under"], (shared,))]

    def _oldest(self, queue: str) -> int | None:
        (found,) = self._writer.execute(self._sql["oldest"], (queue,)).fetchone()
        return None if found is None else int(found)

    def _queued_money(self, queue: str) -> int:
        (found,) = self._writer.execute(self._sql["queued_money"], (queue,)).fetchone()
        return int(found)

    def _root(self) -> LaneRow:
        """The lane above all queues."""
        found = self._lane(ROOT)
        assert found is not None  # the schema makes it
        return found

    def _open_lanes(self, parent: str, after: tuple[int, str], limit: int) -> Sequence[LaneRow]:
        """At most `limit` open lanes below a lane: those after the turn and key `after`, in the order of turn and key."""
        found = self._writer.execute(self._sql["open_lanes"], (parent, *after, limit)).fetchall()
        if not found:
            return []
        rates = self._rates([row[0] for row in found])
        return [lane_from(row, rates.get(row[0], ())) for row in found]

    def _is_ordered(self, queue: str) -> bool:
        return self._queue(queue).settings().ordered

    def _next_of_key(self, key: str) -> str | None:
        found = self._writer.execute(self._sql["next_of_key"], {"key": key}).fetchone()
        return None if found is None else str(found[0])

    # --- what a batch writes

    def _put_lanes(self, book: LaneBook, walked: Sequence[LaneRow], now: int) -> None:
        """Write what a batch changes in lanes, inside its transaction. `walked` has the lanes that an admission has changed."""
        run = self._writer.executemany
        new = [lane for lane in book.rows.values() if lane.is_new]
        for lane in new:
            queue = path(lane.key)[0]
            if lane.key == queue:
                self._writer.execute(self._sql["make_queue"], (queue,))
            which = (lane.key, queue, parent_of(lane.key), level_of(lane.key), lane.function, lane.version)
            self._writer.execute(self._sql["make_lane"], (*which, lane.at_once, int(lane.paused), lane.shared_rate))
            run(self._sql["make_rate"], [(rate.shared or lane.key, rate.kind, rate.step_ns, rate.burst) for rate in lane.rates])
        moves = [(*moved, key) for key, moved in book.moves.items() if any(moved)]
        run(self._sql["wake_lane"], [(key,) for _, waiting, _, key in moves if waiting > 0])
        run(self._sql["move_lane"], moves)
        changed = [*(lane for lane in book.rows.values() if lane.is_changed), *walked]
        run(self._sql["drain_lane"], [(x.admitted, x.drain, x.drained_at, x.key) for x in changed])
        run(self._sql["turn_lane"], [(x.turn, x.clock, x.closed_until, x.key) for x in walked])
        run(self._sql["put_rate"], [(tat_ns, *at) for at, tat_ns in charged_rates(changed).items()])
        now_ns = now * NS_PER_MS
        run(self._sql["settle_rate"], [(now_ns, units, now_ns + MAX_SPAN_NS, key) for leaf, units in book.settled for key in path(leaf)])
        run(self._sql["reopen_lane"], [(key,) for leaf, units in book.settled if units < 0 for key in path(leaf)])
        run(self._sql["cool_rate"], [(leaf, COOLING, until * NS_PER_MS) for leaf, until in book.cooled])
        run(self._sql["cool_lane"], [(until, leaf) for leaf, until in book.cooled])
