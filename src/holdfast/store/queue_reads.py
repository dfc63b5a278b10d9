"""Queues and lanes as callers see them, as of the last commit. Both backends have the same named queries (queries.sql)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.model.codec import loads
from holdfast.model.execution import Execution
from holdfast.model.places import level_of, tenant_lane
from holdfast.model.queues import UNLIMITED, LaneState, Mode, QueueRow, QueueState
from holdfast.model.rates import RateState
from holdfast.store import rows
from holdfast.store.lane_rows import LaneRow
from holdfast.store.reads import Reads

_MINUTE_MS: Final = 60_000


def queue_from(row: rows.Row) -> QueueRow:
    """A queue from its row."""
    name, declared, operator, mode, revision = row
    return QueueRow(name=name, declared=loads(declared), operator=loads(operator), mode=Mode(mode), revision=revision)


def lane_from(row: rows.Row, rates: Sequence[rows.Row] = ()) -> LaneRow:
    """A lane from its row, and from the rows of its rates."""
    key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version = row
    return LaneRow(
        key=key,
        held=held,
        waiting=waiting,
        at_once=at_once,
        closed_until=closed_until,
        paused=paused == 1,
        turn=turn,
        clock=clock,
        admitted=admitted,
        drain=drain,
        drained_at=drained_at,
        function=function,
        version=version,
        rates=tuple(rate_from(rate, key) for rate in rates),
    )


def rate_from(row: rows.Row, lane: str = "") -> RateState:
    """A rate from its row. `lane` is the key of the lane for which it was read. The rate is a shared one if it is stored under another
    key."""
    kept_under, kind, step_ns, burst, tat_ns = row
    return RateState(kind, step_ns, burst, tat_ns, "" if kept_under == lane else kept_under)


class QueueReads(Reads):
    """The part of a store that reads queues."""

    def queue(self, name: str) -> QueueRow | None:
        found = self._read("queue", (self._text(name),))
        return queue_from(found[0]) if found else None

    def queues(self) -> Sequence[QueueRow]:
        return [queue_from(row) for row in self._read("queues")]

    def queue_state(self, queue: str, now: int, tenant: str | None = None) -> QueueState:
        """The counts of a queue, or of a tenant in it. Delayed and parked executions, and the time of the longest wait, are read from
        executions. The other numbers come from the lane of the queue, or of the tenant. For a tenant, `oldest_at` is None, `admitted` and
        `money` are 0."""
        name, asked = "queue_state", {"queue": self._text(queue)}
        if tenant is not None:
            name, asked = "queue_state_of", {**asked, "tenant": self._text(tenant), "lane": tenant_lane(queue, tenant)}
        ((waiting, delayed, held, oldest, parked, admitted, drain, drained_at, money),) = self._read(name, asked)
        fresh = max(0.0, 1 - max(now - drained_at, 0) / _MINUTE_MS)
        return QueueState(
            waiting=waiting,
            delayed=delayed,
            held=held,
            oldest_at=oldest,
            parked=parked,
            admitted=admitted,
            per_minute=drain * fresh,
            money=money,
        )

    def waiting_in(self, queues: Sequence[str], tenant: str | None = None) -> Mapping[str, int]:
        names = {queue if tenant is None else tenant_lane(queue, self._text(tenant)): queue for queue in queues}
        return {names[key]: waiting for key, waiting in self._read("waiting_in", (self._array(list(names)),))}

    def lanes(self, queue: str, beyond: str = "", limit: int = 100) -> Sequence[LaneState]:
        found = self._read("lanes", (self._text(queue), self._text(beyond), limit))
        return [
            LaneState(
                key=key,
                level=level_of(key),
                waiting=waiting,
                held=held,
                at_once=None if at_once >= UNLIMITED else at_once,
                closed_until=closed_until or None,
            )
            for key, waiting, held, at_once, closed_until in found
        ]

    def ahead(self, header: Execution, most: int = 10_000) -> int:
        place = header.place
        if place is None:
            return 0
        ((count,),) = self._read("ahead", {"lane": place.lane, "order_at": place.order_at, "id": header.id, "most": most})
        return int(count)

    def parked(self, queue: str | None, beyond: str = "", limit: int = 100, tenant: str | None = None) -> Sequence[Execution]:
        name = "parked" if queue is None else "parked_in"
        asked = {"queue": queue, "beyond": self._text(beyond), "limit": limit, "tenant": None if tenant is None else self._text(tenant)}
        if queue is None:
            del asked["queue"]
        return [rows.execution_from(row) for row in self._read(name, asked)]
