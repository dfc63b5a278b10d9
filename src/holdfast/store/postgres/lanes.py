"""Queues and lanes on a database that other processes write at the same time.

A batch that only gives slots back adds differences, in the one statement that writes it. A batch that enqueues reads the lanes, so it locks
them first, in the order of their keys. A batch that makes lanes locks the rows of their queues before it locks any lane, and so does a
change of a queue's settings: so lanes always have the limits of their queue. An admission (admissions.py) skips what is locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast.model import codec
from holdfast.model.admission import Enqueue
from holdfast.model.audit import Note
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Birth, Execution
from holdfast.model.places import Level, level_of, parent_of, path, shared_rate_of
from holdfast.model.queues import UNLIMITED, Mode, QueueRow
from holdfast.model.rates import COOLING, NS_PER_MS, TOKENS, Rate, RateState
from holdfast.model.verbs import Checkpoint, Start, Write
from holdfast.store import rows
from holdfast.store.admission_order import ROOT
from holdfast.store.lane_book import LaneBook
from holdfast.store.lane_rows import LaneRow, charged_rates, new_lane
from holdfast.store.postgres.changes import PostgresChanges
from holdfast.store.postgres.columns import arguments, texts
from holdfast.store.postgres.older_code import QUEUES, SHARED_RATES, OlderCode
from holdfast.store.postgres.rates import Rates, kept_under
from holdfast.store.postgres.reads import hosted
from holdfast.store.queue_reads import QueueReads, lane_from, queue_from
from holdfast.store.seam import Target

_MOST_KNOWN: Final = 100_000
_LEVELS: Final = (Level.QUEUE, Level.TENANT, Level.KEY)


class Moved(Exception):
    """Raised if something that the batch was decided on has changed, or needs a lock: the batch must be decided again, on locked rows."""


class Entrant(NamedTuple):
    """An execution that a batch enqueues."""

    enqueue: Enqueue
    header: Execution
    claims: bool
    """Whether a runner claims the execution in the same write if it is admitted at once. If so, the rates of its lanes must be read."""


class Made(NamedTuple):
    """The lanes and queues that a batch has made."""

    lanes: set[str]
    queues: set[str]


class PostgresLanes(PostgresChanges, OlderCode, QueueReads):
    """The part of a store that keeps queues."""

    _known: set[str]
    """The keys of lanes of which this process knows that they exist."""

    def has_open_lane(self, targets: Sequence[Target], now: int) -> bool:
        return bool(self._read("has_open_lane", {**hosted(targets), "now": now})[0][0])

    # --- settings of the operator and of the code

    def declare(self, queues: Sequence[QueueRow]) -> None:
        """A queue that has the same declaration already is not locked."""
        for row in queues:
            declared = codec.dumps(row.declared)
            if self._read("is_declared", (row.name, declared)):
                continue
            with self._side.explained_transaction():
                if self._side.change(self._sql["declare_queue"], (row.name, declared)):
                    self._set_limits(row.name)

    def set_queue(self, row: QueueRow, notes: Sequence[Note] = ()) -> bool:
        row.settings()
        asked = (codec.dumps(row.operator), row.mode.value, row.name, row.revision)
        with self._side.explained_transaction():
            if row.revision == 0:  # a queue that is not there has this revision
                self._read("make_queue", (row.name,))
            changed = self._side.change(self._sql["set_queue"], asked) == 1
            if changed:
                self._set_limits(row.name)
                self._put_notes(notes)
        return changed

    def set_rate(self, function: str, rate: Rate | None) -> bool:
        """The other processes are notified."""
        asked = {"function": function, "step": None if rate is None else rate.step_ns, "burst": None if rate is None else rate.burst}
        lanes = sorted(key for (key,) in self._read("other_rates", asked))
        if not lanes or self._read("least")[0][0] < SHARED_RATES:
            return False
        keys = {"lanes": texts(lanes)}
        with self._side.explained_transaction():
            self._read("locked_lanes", (texts(lanes),))
            self._read("drop_own_rate", keys)
            if rate is None:
                self._read("drop_shared_rate", keys)
            else:
                self._read("share_rate", {**keys, "shared": texts(shared_rate_of(lane) for lane in lanes)})
                self._read("set_shared_rate", {**keys, "step": rate.step_ns, "burst": rate.burst})
            self._read("open_lanes_again", keys)
            self._notify()
        return True

    def _set_limits(self, name: str) -> None:
        """Give the lanes of a queue (all but the leaves, which have none) the limits of its settings, and notify the other processes. Units
        that were used up under an old rate stay used up."""
        self._read("lock_lanes", (name,))
        (found,) = self._read("queue", (name,))
        row = queue_from(found)
        settings = row.settings()
        for level in _LEVELS:
            limits = settings.at(level)
            paused = 1 if level == Level.QUEUE and row.mode is Mode.PAUSED else 0
            at_once = UNLIMITED if limits.at_once is None else limits.at_once
            which = {"queue": name, "level": level}
            self._read("set_lanes", {**which, "at_once": at_once, "paused": paused})
            rates = limits.parsed_rates()
            self._read("drop_rates", (name, level, texts(rate.kind for rate in rates)))
            for rate in rates:
                self._read("set_rates", {**which, "kind": rate.kind, "step": rate.step_ns, "burst": rate.burst})
        self._notify()

    # --- what a batch that enqueues reads and locks

    def _queue(self, queue: str) -> QueueRow:
        """If the transaction has locked lanes of the queue, the settings cannot change before the transaction ends."""
        found = self._writer.run(self._sql["queue"], (queue,))
        return queue_from(found[0]) if found else QueueRow(name=queue)

    def _lane(self, lane: str) -> LaneRow | None:
        """Always None. `_lock_lanes` has put all lanes that the batch needs into its book; only the lanes of an entry that is refused are
        missing there."""
        return None

    def _oldest(self, queue: str) -> int | None:
        found = self._writer.run(self._sql["oldest"], (queue,))
        return int(found[0][0]) if found else None

    def _queued_money(self, queue: str) -> int:
        ((found,),) = self._writer.run(self._sql["queued_money"], (queue,))
        return int(found)

    def _lock_lanes(self, entrants: Sequence[Entrant], book: LaneBook, made: Made) -> None:
        """Lock the lanes of executions that a batch enqueues, make those that are missing, and put all of them into `book`. `made` gets the
        lanes and queues that were made. Raises Moved if a lane was removed before it was locked."""
        wanted: dict[str, Entrant] = {}
        for entrant in entrants:
            with suppress(InvalidParameter):  # this entry will be refused
                wanted |= dict.fromkeys(path(entrant.enqueue.lane(entrant.header)), entrant)
        if not wanted or not self._is_least(QUEUES):
            return
        if not wanted.keys() <= self._known:
            self._make_lanes(wanted, book, made)
        found = {row[0]: row for row in self._writer.run(self._sql["locked_lanes"], (texts(sorted(wanted)),))}
        if len(found) < len(wanted):
            self._known -= wanted.keys()
            raise Moved  # `expire` has removed an empty lane before it was locked
        rates = Rates(())
        if any(entrant.claims for entrant in entrants):
            rates = Rates(self._writer.run(self._sql["rates"], (texts(kept_under(found.values())),)))
        book.rows = {key: lane_from(row[:-1], rates.of(row)) for key, row in found.items()}

    def _make_lanes(self, wanted: dict[str, Entrant], book: LaneBook, made: Made) -> None:
        """Lock the queues of these lanes, and make the lanes that are missing, with the limits of the queues' settings."""
        for name in sorted({entrant.enqueue.queue for entrant in wanted.values()}):
            try:
                book.queue(name, lambda queue: self._kept_queue(queue, made))
            except InvalidParameter:  # settings that this code cannot read: the entries will be refused
                for key in [key for key, entrant in wanted.items() if entrant.enqueue.queue == name]:
                    del wanted[key]
        there = {key for (key,) in self._writer.run(self._sql["lanes_there"], (texts(sorted(wanted)),))}
        new: list[LaneRow] = []
        for key in sorted(wanted.keys() - there):
            asked, header, _ = wanted[key]
            row, settings = book.queue(asked.queue, self._queue)
            new.append(new_lane(key, settings, header, asked, paused=row.mode is Mode.PAUSED, shares=self._is_least(SHARED_RATES)))
        if new:
            ours = {key for (key,) in self._writer.run(self._sql["make_lanes"], arguments("new_lanes", [_new_row(x) for x in new]))}
            made.lanes.update(ours)
            rates = [
                (rate.shared or lane.key, rate.kind, rate.step_ns, rate.burst) for lane in new if lane.key in ours for rate in lane.rates
            ]
            if rates:
                self._writer.run(self._sql["make_rates"], arguments("new_rates", rates))

    def _kept_queue(self, name: str, made: Made) -> QueueRow:
        if self._writer.run(self._sql["make_queue"], (name,)):
            made.queues.add(name)
        return queue_from(self._writer.run(self._sql["kept_queue"], (name,))[0])

    def _know_lanes(self, book: LaneBook) -> None:
        """Remember that the lanes of a batch exist, so that the next batch need not make them."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(book.rows)

    def _unmake(self, made: Made, headers: Iterable[Execution]) -> None:
        """Remove the lanes and queues that this batch made for executions that were then refused. `headers` are the executions that were
        not refused."""
        places = [header.place for header in headers if header.place is not None]
        lanes = made.lanes - {key for place in places for key in path(place.lane)}
        if lanes:
            for name in ("unmake_rates", "unmake_lanes"):
                self._writer.run(self._sql[name], (texts(sorted(lanes)),))
        queues = made.queues - {place.queue for place in places}
        if queues:
            self._writer.run(self._sql["unmake_queues"], (texts(sorted(queues)),))

    def _rates_under(self, shared: str | None) -> Sequence[RateState]:
        """Always empty: `_lock_lanes` has already made all lanes of the batch, so no lane is missing in the database."""
        return ()


def entrants(batch: Iterable[Write]) -> Iterator[Entrant]:
    """The executions that a batch enqueues, by a start or by a checkpoint."""
    for write in batch:
        if isinstance(write, Start) and write.enqueue is not None:
            yield Entrant(write.enqueue, write.header, write.by is not None)
        elif isinstance(write, Checkpoint) and write.children:
            for child in write.children.values():
                if isinstance(child, Birth) and child.enqueue is not None:
                    yield Entrant(child.enqueue, child.header, child.by is not None)


def lane_writes(book: LaneBook, walked: Sequence[LaneRow]) -> dict[str, Sequence[rows.Row]]:
    """The rows that the batch statement gets, for lanes and their rates. `book` has what the batch changes in lanes, `walked` the lanes
    that an admission has changed."""
    if not walked and not book.is_used:
        return {}
    assert not any(lane.is_new for lane in book.rows.values()), "a lane is made before it is read"
    cooled: dict[str, int] = {}
    for leaf, until in book.cooled:
        cooled[leaf] = max(until, cooled.get(leaf, 0))
    settled = _settled(book.settled)
    reopened = {key for leaf, units in book.settled if units < 0 for key in path(leaf)}
    turned = {lane.key: lane for lane in walked if lane.key != ROOT}
    changed = {key: lane for key, lane in book.rows.items() if lane.is_changed} | turned
    moves = {key: move for key, move in book.moves.items() if any(move)}
    lanes = []
    for key in sorted({*moves, *cooled, *settled, *changed}):
        turns: rows.Row = (None, None, 0 if key in reopened else None)
        if (lane := turned.get(key)) is not None:
            turns = (lane.turn, lane.clock, lane.closed_until)
        drain: rows.Row = (None, None, None)
        if (lane := changed.get(key)) is not None:
            drain = (lane.admitted, lane.drain, lane.drained_at)
        lanes.append((key, *moves.get(key, (0, 0, 0)), cooled.get(key, 0), *turns, *drain))
    tats: dict[tuple[str, str], int] = charged_rates(changed.values())
    colds = [(leaf, max(until * NS_PER_MS, tats.pop((leaf, COOLING), 0))) for leaf, until in sorted(cooled.items())]
    used = {(key, TOKENS): units for key, units in settled.items()}
    rates = [(*key, tats.get(key), *used.get(key, (None, None))) for key in sorted({*tats, *used})]
    return {"lanes": lanes, "rates": rates, "cooled": colds}


def _settled(settled: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """By lane: by how many tokens the executions below it missed their estimates, summed up. `settled` has the leaf lane of each execution,
    and the tokens that it used beyond its estimate (negative if it used fewer). The result has two numbers for each lane on the paths to
    these leaves. The first is the sum of all differences. The second is the sum of all but the first difference; whenever this sum falls
    below 0, it is set to 0."""
    found: dict[str, tuple[int, int]] = {}
    for leaf, units in settled:
        for key in path(leaf):
            before = found.get(key)
            found[key] = (units, 0) if before is None else (before[0] + units, max(0, before[1] + units))
    return found


def _new_row(lane: LaneRow) -> rows.Row:
    key = lane.key
    return (key, path(key)[0], parent_of(key), level_of(key), lane.function, lane.version, lane.at_once, int(lane.paused), lane.shared_rate)
