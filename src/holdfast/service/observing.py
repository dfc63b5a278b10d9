"""Where the signals of workers go: the operator's word on logs, metrics and traces, and those who look on because of it."""

from __future__ import annotations

import msgspec

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter
from holdfast.signals.metrics import Metrics
from holdfast.signals.observing import NOBODY, Observer, Observers
from holdfast.signals.tracing import Tracing
from holdfast.signals.worker_logs import LineWriter, WorkerLog


class SignalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out. Nothing, unless somebody says so."""

    log: str = "off"
    """`stderr`, `off`, or the path of a file."""
    metrics: bool = False
    """Count runs, for `metrics_text()` and a server's /metrics."""
    tenants: bool = False
    """A series of metrics for each tenant; where there are many tenants these are many."""
    otel: bool = False
    """Send traces, to where OTEL_EXPORTER_OTLP_ENDPOINT says."""


class Signals:
    """The observers of one worker runtime."""

    def __init__(self, settings: SignalSettings, clock: Clock) -> None:
        self._metrics = Metrics(tenants=settings.tenants) if settings.metrics else None
        self._traces = Tracing() if settings.otel else None
        self._log = None if settings.log == "off" else WorkerLog(LineWriter(settings.log), clock)
        observers: list[Observer] = [each for each in (self._log, self._metrics, self._traces) if each is not None]
        self.observer: Observer = Observers(observers) if observers else NOBODY

    def metrics_text(self) -> str:
        """The metrics in Prometheus's text format."""
        if self._metrics is None:
            raise InvalidParameter("Nobody counts here: set `metrics = true` under [signals] in holdfast.toml.")
        return self._metrics.text()

    def close(self) -> None:
        """Send what is left; blocks for a few seconds at most."""
        for each in (self._log, self._traces):
            if each is not None:
                each.close()
