"""Metrics of durable functions for Prometheus, all under names that begin with `holdfast_`.

Each process counts only what it wrote itself, after the write is on disk. Labels have only names of functions and fixed words. If there are
too many functions, the further ones are counted together as `other`, so that no caller can create many series.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Operation, Status, Type
from holdfast.model.ports import Sight
from holdfast.signals.metrics import OTHER, MetricLabels, prometheus_client, text_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_MOST_FUNCTIONS: Final = 1000
_MOST_WAITING: Final = 1000
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 86_400.0)
_WRITES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_RESULTS: Final = {
    OutcomeStatus.SUCCEEDED: "ok",
    OutcomeStatus.CONTINUED: "ok",
    OutcomeStatus.PENDING: "ok",
    OutcomeStatus.FAILED: "failed",
    OutcomeStatus.CRASHED: "failed",
    OutcomeStatus.MISMATCHED: "mismatched",
    OutcomeStatus.INTERRUPTED: "interrupted",
}


class _Counter:
    """One count for each combination of label values."""

    def __init__(self, name: str, what: str, labels: MetricLabels) -> None:
        self._about = name, what, labels
        self._series: dict[MetricLabels, int] = {}

    def add(self, *labels: str) -> None:
        self._series[labels] = self._series.get(labels, 0) + 1

    def family(self) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        name, what, labels = self._about
        family = CounterMetricFamily(name, what, labels=labels)
        for series, count in self._series.items():
            family.add_metric(series, count)
        return family


class _Histogram:
    """How many values fell into each bucket, for each combination of label values."""

    def __init__(self, name: str, what: str, bounds: Sequence[float], labels: MetricLabels = ()) -> None:
        self._about = name, what, labels
        self._bounds = bounds
        self._series: dict[MetricLabels, tuple[list[int], float]] = {}

    def observe(self, value: float, *labels: str) -> None:
        counts, total = self._series.get(labels) or ([0] * (len(self._bounds) + 1), 0.0)
        counts[bisect_left(self._bounds, value)] += 1
        self._series[labels] = (counts, total + value)

    def family(self) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        name, what, labels = self._about
        family = HistogramMetricFamily(name, what, labels=labels)
        bounds = [*map(str, self._bounds), "+Inf"]
        for series, (counts, total) in self._series.items():
            sums = [sum(counts[: at + 1]) for at in range(len(counts))]
            family.add_metric(series, list(zip(bounds, sums, strict=True)), total)
        return family


class FunctionMetrics:
    """Counts executions, invocations, steps and commits, as an observer of an engine. A program may also register it as a collector of
    prometheus-client: `REGISTRY.register(metrics)`."""

    def __init__(self, *, most_functions: int = _MOST_FUNCTIONS) -> None:
        prometheus_client()
        self._most = most_functions
        self._functions: set[str] = set()
        self._lock = threading.Lock()
        self._sight: Sight | None = None
        one = ("function",)
        self._started = _Counter("holdfast_executions_started", "Executions that began.", one)
        self._closed = _Counter("holdfast_executions_closed", "Executions that ended, by their status.", ("function", "status"))
        self._durations = _Histogram(
            "holdfast_execution_duration_seconds", "Seconds from the start of an execution to its end.", _SECONDS, one
        )
        self._invocations = _Counter(
            "holdfast_invocations", "Invocations that ended: ok, failed, mismatched or interrupted.", ("function", "result")
        )
        self._took = _Histogram("holdfast_invocation_duration_seconds", "How many seconds an invocation took.", _SECONDS, one)
        self._steps = _Counter("holdfast_steps", "Steps that ended: succeeded or failed.", ("function", "result"))
        self._retries = _Counter("holdfast_step_retries", "Attempts of steps that failed and after which another attempt follows.", one)
        self._writes = _Histogram("holdfast_commit_writes", "How many writes one commit contained.", _WRITES)

    # --- the reports of the engine

    def attach(self, sight: Sight) -> None:
        """Remember `sight`, which tells how many invocations run, and how many executions wait, in the engine that opens."""
        self._sight = sight

    def started(self, header: Execution) -> None:
        """Count an execution that began. An execution that waits in a queue begins when it is admitted."""
        with self._lock:
            self._started.add(self._name(header))

    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """Count an invocation that ended, and its duration. The result is `ok` also for an invocation that ended because its execution must
        wait."""
        with self._lock:
            name = self._name(header)
            self._invocations.add(name, _RESULTS[outcome.status])
            self._took.observe(max(0, ended_at - (header.invoked_at or ended_at)) / 1000, name)

    def operated(self, header: Execution, operation: Operation) -> None:
        """Count a step that ended, or a step that failed and will be tried again. A `wait_for_condition` is a step, too; it is counted when
        it ends, but not when its condition will be checked again."""
        if operation.type is not Type.STEP:
            return
        with self._lock:
            if operation.status in (Status.SUCCEEDED, Status.FAILED):
                self._steps.add(self._name(header), operation.status.value.lower())
            elif operation.error is not None:  # without an error it is a check of `wait_for_condition`, after which another one follows
                self._retries.add(self._name(header))

    def closed(self, header: Execution) -> None:
        """Count an execution that ended, and its duration."""
        with self._lock:
            name = self._name(header)
            self._closed.add(name, header.status.value)
            self._durations.observe(max(0, (header.ended_at or header.started_at) - header.started_at) / 1000, name)

    def committed(self, writes: int) -> None:
        """Count a commit in the histogram of writes per commit. `writes` is how many writes it contained."""
        with self._lock:
            self._writes.observe(writes)

    def _name(self, header: Execution) -> str:
        if header.function not in self._functions:
            if len(self._functions) >= self._most:
                return OTHER
            self._functions.add(header.function)
        return header.function

    # --- showing

    def collect(self) -> Iterable[Metric]:
        """All metrics, in the form that prometheus-client expects. If the store cannot be read, the metrics that count waiting executions
        are left out. Before an engine opens, these and the number of live invocations are left out. Blocks, because it reads from the store
        how many executions wait."""
        shown = (self._started, self._closed, self._durations, self._invocations, self._took, self._steps, self._retries, self._writes)
        with self._lock:
            families = [each.family() for each in shown]
        return [*families, *self._now()]

    def text(self) -> str:
        """All metrics in Prometheus's text format. Blocks, because it reads from the store how many executions wait."""
        return text_of(self)

    def _now(self) -> Sequence[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        if self._sight is None:
            return []
        found = [GaugeMetricFamily("holdfast_invocations_live", "Invocations that run in this process.", self._sight.live())]
        try:
            ready, due = self._sight.waiting(_MOST_WAITING)
        except HoldfastError:  # if the store cannot be read now, the series of waiting executions are left out
            return found
        upto = f"counted up to {_MOST_WAITING}."
        found.append(GaugeMetricFamily("holdfast_executions_ready", f"Executions that wait for a runner here, {upto}", ready))
        found.append(GaugeMetricFamily("holdfast_executions_due", f"Executions with a timer that is due, {upto}", due))
        return found
