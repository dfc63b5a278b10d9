"""Metrics and traces of durable functions: metrics if prometheus-client is installed, traces if the environment asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType
from typing import Protocol

from holdfast.model.clock import Clock
from holdfast.model.errors import ExtraMissing
from holdfast.model.ports import Observer
from holdfast.model.threads import Purpose, in_thread
from holdfast.schedules.store_schedules import Schedules
from holdfast.signals.function_metrics import FunctionMetrics
from holdfast.signals.function_traces import FunctionTraces
from holdfast.signals.queue_metrics import QueueMetrics
from holdfast.signals.schedule_metrics import ScheduleMetrics
from holdfast.signals.series import MOST_SERIES
from holdfast.signals.spans import Spans, wanted
from holdfast.store.seam import QueueStore, ScheduleStore


class MetricsStore(QueueStore, ScheduleStore, Protocol):
    """The part of a store that metrics read."""


class FunctionSignals:
    """The observers that make the metrics and traces of one server's functions."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._metrics = FunctionMetrics() if find_spec("prometheus_client") is not None else None
        self._traces = FunctionTraces(Spans(environment=environment)) if wanted(environment) else None
        self.queues = QueueMetrics()
        self.schedules = ScheduleMetrics()
        counted = (self._metrics, self.queues, self.schedules) if self._metrics is not None else ()
        self.observers: tuple[Observer, ...] = (*counted, *((self._traces,) if self._traces is not None else ()))

    def text(self) -> str:
        """The metrics in Prometheus's text format. Reads the store, so it blocks. Raises ExtraMissing if prometheus-client is not
        installed."""
        self.check()
        assert self._metrics is not None
        return self._metrics.text() + self.queues.text() + self.schedules.text()

    def check(self) -> None:
        """Raise ExtraMissing if prometheus-client is not installed, so that there are no metrics."""
        if self._metrics is None:
            raise ExtraMissing("Metrics need the package `prometheus-client`: pip install 'holdfast[metrics]'.")

    def watch(self, store: MetricsStore, clock: Clock) -> None:
        """Add the queues and the schedules of this store to the metrics."""
        self.queues.now = self.schedules.now = clock.now
        self.schedules.states = Schedules(store, clock).list
        self.queues.states = lambda: {row.name: store.queue_state(row.name, clock.now()) for row in store.queues()[:MOST_SERIES]}

    async def __aenter__(self) -> FunctionSignals:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Send the rest of the traces."""
        if self._traces is not None:
            await in_thread(Purpose.HOUSE, self._traces.close)
