"""Where the signals of durable functions go: metrics where prometheus-client is installed, traces where the environment asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType

from holdfast.model.errors import ExtraMissing
from holdfast.model.ports import Observer
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.function_metrics import FunctionMetrics
from holdfast.signals.function_traces import FunctionTraces
from holdfast.signals.spans import Spans, wanted


class FunctionSignals:
    """The observers of one server's functions."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._metrics = FunctionMetrics() if find_spec("prometheus_client") is not None else None
        self._traces = FunctionTraces(Spans(environment=environment)) if wanted(environment) else None
        self.observers: tuple[Observer, ...] = tuple(each for each in (self._metrics, self._traces) if each is not None)

    def text(self) -> str:
        """The metrics in Prometheus's text format; blocks."""
        if self._metrics is None:
            raise ExtraMissing("Metrics need the package `prometheus-client`: pip install 'holdfast[metrics]'.")
        return self._metrics.text()

    async def __aenter__(self) -> FunctionSignals:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Send what is left, once the engine is closed."""
        if self._traces is not None:
            await in_thread(Purpose.HOUSE, self._traces.close)
