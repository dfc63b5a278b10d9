"""Shows, changes and fills the queues of a store, for a person or a program. It needs no engine, and it runs nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from holdfast.contract.notes import meant
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import enqueue_of
from holdfast.engine.restarts import RestartStore
from holdfast.model import codec
from holdfast.model.audit import Actor, Note
from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, PayloadNotJson
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ids import IdSource
from holdfast.model.places import checked_queue, tenant_lane
from holdfast.model.queue_errors import QueueBusy, QueueNotFound
from holdfast.model.queues import LaneState, Mode, QueueRow, QueueSettings, QueueState
from holdfast.queues.declarations import Queue
from holdfast.queues.pushes import PushedLine, PushOptions, PushTarget, published_target, push
from holdfast.queues.redrives import Redriven, redrive
from holdfast.queues.setting_names import changed
from holdfast.store.seam import AuditStore, FunctionStore, QueueStore

log = logging.getLogger("holdfast.service")

_PAGE: Final = 200
_SIMILAR: Final = 1000
"""A similar name is looked for among at most this many queues."""
_TRIES: Final = 20
"""A change is tried at most this often, if other processes change the queue at the same time."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as a person sees it."""

    row: QueueRow
    settings: QueueSettings
    """The settings in force."""
    state: QueueState
    tenant: str | None = None
    """The tenant whose executions `state` counts; None: it counts those of all tenants. For one tenant, `oldest_at`, `admitted` and `money`
    of `state` are not known: they are None, 0 and 0."""
    lanes: tuple[LaneState, ...] = ()
    more_lanes: bool = False
    """Whether the queue has more lanes than `lanes` lists; False if no lanes were asked for."""
    next_admission: str = ""
    """When the queue admits the next execution, or why it admits none, in words."""


class ParkedRun(msgspec.Struct, frozen=True):
    """An execution that failed and is parked, and why it failed."""

    header: Execution
    error_code: str
    """For a run that ended with a response: the error code of the response. For any other execution: its error type, or its status if it
    has no error type."""
    message: str


class QueuesStore(RestartStore, QueueStore, FunctionStore, AuditStore, Protocol):
    """The part of a store in which queues are shown, changed and filled."""


class StoreQueues:
    """Shows and changes the queues of a store.

    If `list`, `get` or `parked` gets a tenant, the numbers, the lanes and the parked executions are those of this tenant. The name and the
    settings of a queue are the same for all tenants. The methods that change a queue do not check a tenant: the caller must check it.
    `pause`, `resume`, `drain` and `set` return the queue without its lanes, as `list` shows it. They raise QueueBusy if other processes
    change the queue during all their tries.
    """

    def __init__(self, store: QueuesStore, clock: Clock, ids: IdSource, actor: Actor | None = None) -> None:
        self._store, self._clock, self._ids, self._actor = store, clock, ids, actor

    # --- looking

    def list(self, *, tenant: str | None = None, limit: int = 1000) -> Iterator[QueueView]:
        """At most `limit` queues, sorted by name, without their lanes."""
        return (self._view(row, tenant, 0) for row in self._store.queues()[:limit])

    def get(self, queue: str, *, tenant: str | None = None, lanes: int = 100) -> QueueView:
        """One queue, with at most `lanes` of its lanes. Raises QueueNotFound if there is no such queue."""
        return self._view(self._needed(queue), tenant, lanes)

    def parked(
        self, queue: str | None, *, tenant: str | None = None, limit: int = 50, error: str | None = None, beyond: str = ""
    ) -> Iterator[ParkedRun]:
        """At most `limit` parked executions, the oldest first, beginning after the execution with the id `beyond`. `queue`: only those of
        this queue; None: of all queues. `error`: only those with this error code; None: with any. When the caller begins to iterate,
        QueueNotFound is raised if there is no such queue."""
        if queue is not None:
            self._needed(queue)
        left = limit
        while left > 0 and (page := self._store.parked(queue, beyond, _PAGE, tenant)):
            for header in page:
                run = self._explained(header)
                if error in (None, run.error_code):
                    yield run
                    left -= 1
                    if left == 0:
                        return
            beyond = page[-1].id

    def _view(self, row: QueueRow, tenant: str | None, lanes: int) -> QueueView:
        now, settings = self._clock.now(), row.settings()
        state = self._store.queue_state(row.name, now, tenant)
        below = "" if tenant is None else f"{tenant_lane(row.name, tenant)}/"
        found = [lane for lane in self._store.lanes(row.name, below, lanes + 1) if lane.key.startswith(below)] if lanes else []
        head = next(iter(self._store.lanes(row.name, "", 1)), None)
        return QueueView(
            row=row,
            settings=settings,
            state=state,
            tenant=tenant,
            lanes=tuple(found[:lanes]),
            more_lanes=bool(lanes) and len(found) > lanes,
            next_admission=_next_admission(row, state, head, now),
        )

    def _explained(self, header: Execution) -> ParkedRun:
        """A parked execution with the reason why it failed: the error of its response if it is a run that ended with one, else the error of
        the execution."""
        text = self._store.result(header) or "{}"
        try:
            told = codec.loads(text)
        except PayloadNotJson:
            told = {}
        told = told if isinstance(told, dict) else {}
        if header.status is ExecutionStatus.SUCCEEDED:
            error = told.get("error") or {}
            return ParkedRun(header, str(error.get("error_code", "unknown")), str(error.get("message", "")))
        return ParkedRun(header, str(told.get("ErrorType") or header.status.value), str(told.get("ErrorMessage") or ""))

    # --- changing

    def declare(self, queues: Sequence[Queue]) -> Sequence[QueueView]:
        """Write what code and the operator's file declare, as a runner does when it begins. Returns the queues."""
        if queues:
            self._store.declare([queue.row() for queue in queues])
        return [self.get(queue.name, lanes=0) for queue in queues]

    def pause(self, queue: str) -> QueueView:
        """Pause the queue: it accepts executions, and admits none. Raises QueueNotFound if there is no such queue."""
        return self._set_mode(queue, Mode.PAUSED, "pause")

    def resume(self, queue: str) -> QueueView:
        """Resume the queue: it accepts and admits executions again. Raises QueueNotFound if there is no such queue."""
        return self._set_mode(queue, Mode.OPEN, "resume")

    def drain(self, queue: str) -> QueueView:
        """Drain the queue: it admits the executions that wait, and accepts no new ones. Raises QueueNotFound if there is no such queue."""
        return self._set_mode(queue, Mode.DRAINING, "drain")

    def set(self, queue: str, said: Mapping[str, Any], reset: Sequence[str] = ()) -> QueueView:
        """Set settings of a queue; `said` has the values by name. For each name in `reset` the operator's value is removed, so that the
        declared value is in force again. A queue that does not exist yet is made. Raises InvalidParameter if a setting is not allowed, or
        if both `said` and `reset` are empty."""
        if not said and not reset:
            raise InvalidParameter("There is nothing to set: name a setting and its value, or a setting to reset.")
        names = ", ".join([*(f"{name}={value}" for name, value in said.items()), *(f"{name} reset" for name in reset)])

        def change(row: QueueRow) -> QueueRow:
            return msgspec.structs.replace(row, operator=changed(row.operator, said, reset))

        return self._changed(checked_queue(queue), "set", names, change)

    def _set_mode(self, queue: str, mode: Mode, verb: str) -> QueueView:
        self._needed(queue)
        return self._changed(queue, verb, mode.value, lambda row: msgspec.structs.replace(row, mode=mode))

    def _changed(self, queue: str, verb: str, outcome: str, change: Callable[[QueueRow], QueueRow]) -> QueueView:
        """Write a change with its note for the audit log, and return the queue after it. If another process changed the queue first, try
        again with the new state. Raises QueueBusy after _TRIES tries."""
        for _ in range(_TRIES):
            after = change(self._store.queue(queue) or QueueRow(name=queue))
            after.settings()  # raises for a wrong setting, before anything is written
            if self._store.set_queue(after, self._did(verb, queue, outcome)):
                return self.get(queue, lanes=0)
        raise QueueBusy(f"Other processes changed queue {queue} during all {_TRIES} tries. Try again.")

    # --- filling

    def push(
        self,
        target: str | DurableFunction,
        lines: Iterable[tuple[int, bytes]],
        *,
        queue: str,
        key_field: str | None = None,
        lane_field: str | None = None,
        units_field: str | None = None,
        delay: float = 0.0,
        ttl: float | None = None,
        head_start: float = 0.0,
        same: str = "existing",
        tenant: str | None = None,
    ) -> Iterator[Sequence[PushedLine]]:
        """Enqueue an execution of a function for each numbered line of JSON, and report each batch after it is on disk. Lines are enqueued
        only while the caller iterates. `target` is the function, or the name of a function that a process of the store has hosted.

        `key_field`, `lane_field` and `units_field` name the member of each line whose value is the idempotency key, the key of the lane, or
        the estimated number of tokens. The other arguments are as in `OpenEngine.enqueue`. A wrong line is refused, and the others are
        still enqueued. If the queue is full or is drained, the lines of the batch that were enqueued or wrong are still reported; then
        QueueFull is raised. Raises FunctionNotFound if no process has hosted a function of this name, and InvalidParameter if an argument
        is not allowed."""
        asked = enqueue_of(queue, delay=delay, ttl=ttl, head_start=head_start, same=same)
        options = PushOptions(
            queue=asked.queue,
            tenant=tenant,
            key_field=key_field,
            lane_field=lane_field,
            units_field=units_field,
            delay_ms=asked.delay_ms,
            ttl_ms=asked.ttl_ms,
            head_start_ms=asked.head_start_ms,
            same=asked.same,
        )
        meant = published_target(self._store, target) if isinstance(target, str) else PushTarget(target.name, target.version, target.terms)
        return push(self._store, meant, lines, options, self._clock, self._ids)

    def redrive(self, parked: Sequence[Execution]) -> Sequence[Redriven]:
        """Start parked executions again, under the same names and in the same queues. Returns for each of them whether it was started, and
        if not, why."""
        done = redrive(self._store, parked, self._clock, self._ids)
        started = {one.parked for one in done if one.error is None}
        counts = Counter(header.place.queue for header in parked if header.place is not None and header.id in started)
        for queue, count in counts.items():
            note_of_queue(self, "redrive", queue, f"{count} started again")
        return done

    def _did(self, verb: str, queue: str, outcome: str) -> tuple[Note, ...]:
        return () if self._actor is None else self._actor.did(f"queue_{verb}", queue, outcome, self._clock.now())

    def _needed(self, queue: str) -> QueueRow:
        row = self._store.queue(checked_queue(queue))
        if row is None:
            raise QueueNotFound(f"There is no queue {queue!r:.100} here.{meant_queue(self._store, queue)}")
        return row


# --- for the commands and the routes of Holdfast itself


def note_of_queue(queues: StoreQueues, verb: str, queue: str, outcome: str) -> None:
    """Note in the audit log what was done with a queue. Does nothing if no actor is known."""
    notes = queues._did(verb, queue, outcome)
    if notes:
        queues._store.note(notes)


def new_queue(queues: StoreQueues, queue: str) -> str | None:
    """None if the store has a queue with this name; else what `meant_queue` returns."""
    return None if queues._store.queue(checked_queue(queue)) is not None else meant_queue(queues._store, queue)


def warn_of_new_queues(engine: Engine) -> None:
    """Let an engine write a line into the log when an enqueue names a queue that the store does not have."""

    def warn(queue: str) -> None:
        told = "queue %s is new in this store, and has no limits until a program, a runner or an operator declares it.%s"
        log.warning(told, queue, meant_queue(engine.store, queue))

    engine.new_queues.warn = warn


def meant_queue(store: QueueStore, queue: str) -> str:
    """A space and a sentence that names the queue which was probably meant (" Did you mean `emails`?"); empty if no queue of the store has
    a similar name."""
    return meant(queue, (row.name for row in store.queues()[:_SIMILAR]))


def _next_admission(row: QueueRow, state: QueueState, head: LaneState | None, now: int) -> str:
    if row.mode is Mode.PAUSED:
        return "none while the queue is paused"
    if not state.waiting or head is None:
        return "none: nothing waits"
    if head.closed_until is not None and head.closed_until > now:
        return f"in {(head.closed_until - now + 999) // 1000} s: a rate is used up"
    if head.at_once is not None and head.held >= head.at_once:
        return f"when one of {head.held} executions gives its slot back"
    return "as soon as a runner that hosts the function has room"
