"""Reports to observers what commits did to executions of functions. An engine without observers runs nothing of this.

    Start, births → started        Settle → invoked        Checkpoint → operated        any write that ends an execution → closed

Runs of workers and pipelines are executions too, and are left out: the package `workers` reports runs in the words of its protocol. Events
of queues are reported for all executions (`ports.QueueObserver`). An enqueued execution is reported as started when it is admitted for the
first time.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence, Sized
from typing import Any, Final

from holdfast.engine.registry import Registry
from holdfast.engine.unsure_claims import ClaimsStore
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Kind, Type
from holdfast.model.ports import Observer
from holdfast.model.queue_errors import QueueFull
from holdfast.model.verbs import Admit, Answer, Checkpoint, Checkpointed, Settle, Start, Started, Write
from holdfast.store.seam import Committed

log = logging.getLogger("holdfast.signals")
_MOST_ENDED: Final = 10_000
_TOLD_OF: Final = frozenset({Type.STEP, Type.CONTEXT})
_ENDS: Final = frozenset({Action.SUCCEED, Action.FAIL, Action.RETRY})


class EngineSight:
    """What observers may read from the engine."""

    def __init__(self, store: ClaimsStore, registry: Registry, clock: Clock, live: Sized) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._live = live

    def live(self) -> int:
        return len(self._live)

    def find(self, execution: str) -> Execution | None:
        return self._store.find(execution)

    def waiting(self, most: int) -> tuple[int, int]:
        now = self._clock.now()
        return len(self._store.claimable(self._registry.targets(), (), now, most)), len(self._store.due(now, most))


class Observers:
    """Reports to the observers of one engine, on its loop."""

    def __init__(self, observers: Sequence[Observer], sight: EngineSight, registry: Registry, runner: str) -> None:
        self._observers = observers
        self._sight = sight
        self._registry = registry
        self._runner = runner
        self._live: dict[str, Execution] = {}
        """By the id of an execution whose invocation runs here: its header, as this object last saw it."""
        self._written: dict[str, Position] = {}
        """By execution: the position of the last checkpoint that was reported. If a client repeats a request, the answer is repeated, but
        nothing is reported again."""
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._broken: set[Observer] = set()
        for observer in observers:
            observer.attach(sight)

    def saw(self, writes: Sequence[Write], done: Committed, now: int) -> None:
        """Report one commit: its writes, its answers, and its time."""
        self._tell("committed", len(writes))
        for write, answer in zip(writes, done.answers, strict=True):
            if isinstance(answer, HoldfastError):
                if isinstance(write, Settle):
                    self._forget(write.execution, write.invocation)
                elif isinstance(write, Start) and write.enqueue is not None and isinstance(answer, QueueFull):
                    self._tell_if_seen("refused", write.enqueue.queue)
            else:
                self._wrote(write, answer, now)
        for header in done.followed:
            if header.revision == 1 and header.started_at >= now:
                self._born(header)
            self._at(header, now)

    def _wrote(self, write: Write, answer: Answer, now: int) -> None:
        match answer:
            case Started(header, created):
                if created:
                    self._born(header)
                    self._at(header, now)
            case Checkpointed():
                assert isinstance(write, Checkpoint)
                self._checkpointed(write, answer, now)
            case Execution():
                if isinstance(write, Admit):
                    if answer.epoch == 1:
                        self._started(answer)
                    self._tell_if_seen("admitted", answer)
                if isinstance(write, Settle):
                    live = self._forget(write.execution, write.invocation)
                    if live is not None:
                        self._tell("invoked", live, write.outcome, now)
                    now = min(now, answer.ended_at or now)  # a status may be closed before the invocation that closed it ends
                self._at(answer, now)

    def _born(self, header: Execution) -> None:
        """Report that a new execution has started. An execution that waits in a queue is not reported yet."""
        if header.place is None or header.place.admitted_at is not None:
            self._started(header)
            if header.place is not None and header.epoch == 1:
                self._tell_if_seen("admitted", header)

    def _started(self, header: Execution) -> None:
        if self._is_function(header):
            self._tell("started", header)

    def _at(self, header: Execution, now: int) -> None:
        """Take note of an execution after a write. If the write left it claimed by this runner, remember it as live. If the write closed
        it, report that."""
        if header.state is State.RUNNING and header.runner == self._runner:
            if self._is_function(header):
                self._live[header.id] = header
        elif header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED and (header.ended_at or 0) >= now:
            self._closed(header)

    def _closed(self, header: Execution) -> None:
        is_function = self._is_function(header)
        if header.id in self._ended or not (is_function or header.parked):
            return
        self._ended[header.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        self._forget(header.id)
        if is_function:
            self._tell("closed", header)
        if header.parked:
            self._tell_if_seen("parked", header)

    def _checkpointed(self, write: Checkpoint, answer: Checkpointed, now: int) -> None:
        header, before = self._live.get(write.execution), self._written.get(write.execution)
        if header is None:
            self._tried_again(write)
        if header is None or (before is not None and (before.epoch, before.sequence) >= (write.at.epoch, write.at.sequence)):
            return
        self._written[write.execution] = write.at
        told = {update.id for update in write.updates if update.type in _TOLD_OF and update.action in _ENDS}
        queues = {update.id: update.order.queued.queue for update in write.updates if update.order is not None and update.order.queued}
        for operation in answer.operations if queues else ():
            if operation.id in queues and operation.error is not None and operation.error.type == QueueFull.code:
                self._tell_if_seen("refused", queues[operation.id])
        for operation in answer.operations if told else ():
            if operation.id in told:
                self._tell("operated", header, operation)
        if answer.token is None:
            try:
                current = self._sight.find(write.execution)
            except HoldfastError:
                return
            if current is not None:
                self._at(current, now)

    def _tried_again(self, write: Checkpoint) -> None:
        """If this checkpoint of a worker's run starts an operation of the type WAIT, report that the run waits for its next attempt: such a
        run uses this type for nothing else (an approval is a callback)."""
        if not any(update.type is Type.WAIT and update.action is Action.START for update in write.updates):
            return
        try:
            header = self._sight.find(write.execution)
        except HoldfastError:
            return
        known = None if header is None else self._registry.get(header.function, header.version)
        if known is not None and known.kind is Kind.WORKER:
            self._tell_if_seen("tried_again", header)

    def _forget(self, execution: str, invocation: str | None = None) -> Execution | None:
        live = self._live.get(execution)
        if live is None or (invocation is not None and live.invocation != invocation):
            return None
        self._written.pop(execution, None)
        return self._live.pop(execution)

    def _is_function(self, header: Execution) -> bool:
        known = self._registry.get(header.function, header.version)
        return known is None or known.kind is Kind.FUNCTION

    def occurred(self, schedule: str, outcome: str, count: int, late_ms: int | None) -> None:
        self._tell_if_seen("occurred", schedule, outcome, count, late_ms)

    def _tell_if_seen(self, what: str, *about: Any) -> None:
        """Call the method `what` of each observer that has such a method: only observers of queues or schedules have it."""
        self._tell(what, *about, to=[observer for observer in self._observers if hasattr(observer, what)])

    def _tell(self, what: str, *about: Any, to: Sequence[Observer] | None = None) -> None:
        """Call the method `what` of the observers in `to`; if `to` is None, of all observers. If an observer raises, neither the engine nor
        another observer is affected. Only the first error of an observer is logged."""
        for observer in self._observers if to is None else to:
            try:
                getattr(observer, what)(*about)
            except Exception:
                if observer not in self._broken:
                    self._broken.add(observer)
                    log.exception("%s cannot take what it sees", type(observer).__name__)
