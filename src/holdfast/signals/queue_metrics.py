"""Metrics of queues for Prometheus, by queue: depth, age of the oldest run, drain rate, held slots, parked, admitted, refused, retries.

The refusals and the retries are counted by each process, only for what it did itself. The other numbers are read from the store each time
the metrics are asked for, so all processes of a store show the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Operation, Status, Type
from holdfast.model.queues import QueueState
from holdfast.signals.series import MOST_SERIES, Onlooker, Series, family

QueueStates = Callable[[], Mapping[str, QueueState]]
_GAUGES: Final = (
    ("queue_depth", "Runs that wait in the queue, delayed ones included."),
    ("queue_oldest_seconds", "For how many seconds the oldest waiting run has waited."),
    ("queue_drain_rate", "About how many runs the queue admitted in the last minute."),
    ("queue_held", "Slots that admitted runs hold now."),
    ("queue_parked_count", "Failed runs that are parked."),
)
_AGAIN: Final = frozenset({Status.PENDING, Status.READY})


class QueueMetrics(Onlooker):
    """Counts the refusals and retries of one process, as an observer of its engine, and reads the other numbers from the store."""

    def __init__(self) -> None:
        self._refused = Series()
        self._retries = Series()
        self.states: QueueStates = dict
        """Reads the counts of all queues from the store."""
        self.now: Callable[[], int] = lambda: 0

    # --- the reports of the engine

    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """Count an invocation that crashed as a retry, if its execution came from a queue."""
        if header.place is not None and outcome.status is OutcomeStatus.CRASHED:
            self._retries.add(header.place.queue)

    def operated(self, header: Execution, operation: Operation) -> None:
        """Count a step that failed and will be tried again, if its execution came from a queue."""
        has_failed = operation.error is not None  # without an error it is a check of `wait_for_condition`, after which another one follows
        if header.place is not None and operation.type is Type.STEP and operation.status in _AGAIN and has_failed:
            self._retries.add(header.place.queue)

    def tried_again(self, header: Execution) -> None:
        """Count a failed attempt of a worker's run after which another attempt follows, if the run came from a queue."""
        if header.place is not None:
            self._retries.add(header.place.queue)

    def refused(self, queue: str) -> None:
        """Count an enqueue that a queue refused: too many executions wait in the queue, one has waited too long, they may cost too much, or
        an operator drains the queue."""
        self._refused.add(queue)

    # --- showing

    def text(self) -> str:
        """All metrics of this class in Prometheus's text format. Blocks, because it reads the store. If the store cannot be read, only the
        refusals and the retries have values."""
        try:
            found = dict(list(self.states().items())[:MOST_SERIES])
        except HoldfastError:  # if the store cannot be read now, the series read from it are left out
            found = {}
        return "".join(line + "\n" for line in self._lines(found))

    def _lines(self, found: Mapping[str, QueueState]) -> Iterator[str]:
        now = self.now()
        values = {queue: _values(state, now) for queue, state in found.items()}
        for at, (name, what) in enumerate(_GAUGES):
            yield from family(name, what, "gauge", "queue", {queue: value[at] for queue, value in values.items()})
        admitted = {queue: float(state.admitted) for queue, state in found.items()}
        yield from family("queue_admitted_count", "Runs that were admitted since the queue was made.", "counter", "queue", admitted)
        refused = "Enqueues that this process refused, because the queue was full, was drained, or had reached its limit of cost."
        yield from family("queue_refused_count", refused, "counter", "queue", self._refused.values())
        yield from family(
            "queue_retry_count", "Retries of steps and of crashed invocations in this process.", "counter", "queue", self._retries.values()
        )


def _values(state: QueueState, now: int) -> Sequence[float]:
    oldest = 0.0 if state.oldest_at is None else max(now - state.oldest_at, 0) / 1000
    return state.waiting + state.delayed, oldest, round(state.per_minute, 3), state.held, state.parked
