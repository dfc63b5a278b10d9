"""Logs, metrics and traces of workers: the operator's settings, and the observers that these settings switch on."""

from __future__ import annotations

import msgspec

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter
from holdfast.signals.metrics import Metrics
from holdfast.signals.observers import NO_OBSERVER, RunObserver, RunObservers
from holdfast.signals.tracing import Tracing
from holdfast.signals.worker_logs import LineWriter, WorkerLog


class SignalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs, metrics and traces of workers are made. By default none."""

    log: str = "off"
    """Where the log of runs is written: `stderr`, the path of a file, or `off`."""
    metrics: bool = False
    """Whether runs are counted for metrics. `metrics_text()` and a server's /metrics show them."""
    tenants: bool = False
    """Whether each metric has a separate series for each tenant. With many tenants these are many series."""
    otel: bool = False
    """Whether traces are sent to the address that an OTEL variable of the environment names, such as OTEL_EXPORTER_OTLP_ENDPOINT."""


class Signals:
    """The observers of one worker runtime."""

    def __init__(self, settings: SignalSettings, clock: Clock) -> None:
        self._metrics = Metrics(tenants=settings.tenants) if settings.metrics else None
        self._traces = Tracing() if settings.otel else None
        self._log = None if settings.log == "off" else WorkerLog(LineWriter(settings.log), clock)
        observers: list[RunObserver] = [each for each in (self._log, self._metrics, self._traces) if each is not None]
        self.observer: RunObserver = RunObservers(observers) if observers else NO_OBSERVER

    def metrics_text(self) -> str:
        """The metrics in Prometheus's text format. Raises InvalidParameter if metrics are off."""
        if self._metrics is None:
            raise InvalidParameter("Metrics are off: set `metrics = true` under [signals] in holdfast.toml.")
        return self._metrics.text()

    def close(self) -> None:
        """Write the rest of the log, and send the rest of the traces. Blocks for a few seconds at most."""
        for each in (self._log, self._traces):
            if each is not None:
                each.close()
