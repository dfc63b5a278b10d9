"""Metrics of workers for Prometheus, under the names that the protocol defines, such as success_count, failure_count, retry_count and
p95_duration_ms.

The process that wrote the end of a run counts the run, when that end is on disk. `Metrics` keeps the counts in dictionaries, because the
counters of `prometheus-client` would add a suffix to every name. `prometheus-client` only makes the text from the counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.errors import ExtraMissing
from holdfast.signals.observers import EndSeen, NodeSeen, RefusalSeen, RunObserver, RunSeen

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
OTHER: Final = "other"
_MOST_SERIES: Final = 10_000
MetricLabels = tuple[str, ...]


class _Durations:
    """How many durations are in each bucket, and the sum of all durations in milliseconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_MS) + 1)
        self.total = 0

    def observe(self, duration_ms: int) -> None:
        self.counts[next((at for at, most in enumerate(BUCKETS_MS) if duration_ms <= most), len(BUCKETS_MS))] += 1
        self.total += duration_ms


def quantile(counts: Iterable[int], share: float) -> float:
    """An estimate of a duration in milliseconds: the part `share` (0 to 1) of all durations is not longer than it. `counts` has the number
    of durations in each bucket. 0 if there are no durations. As in Prometheus, the durations in a bucket are treated as evenly spread, and
    the result is never above the highest bound."""
    counted = list(counts)
    rank, before, lower = share * sum(counted), 0, 0.0
    if not rank:
        return 0.0
    for most, count in zip(BUCKETS_MS, counted, strict=False):
        if count and before + count >= rank:
            return lower + (most - lower) * (rank - before) / count
        before, lower = before + count, float(most)
    return lower


class Metrics(RunObserver):
    """Counts runs, refused requests and nodes of pipelines, as an observer of runs. A program may also register it as a collector of
    prometheus-client: `REGISTRY.register(metrics)`."""

    def __init__(self, *, tenants: bool = False, most_series: int = _MOST_SERIES) -> None:
        """`tenants`: whether the metrics have the label `tenant`; this makes many series. `most_series`: if a metric has this many series,
        everything that would need a further series is counted in one series, whose labels are all `other`. Raises ExtraMissing if
        prometheus-client is not installed."""
        prometheus_client()
        self._names: MetricLabels = ("worker_id", "version", *(("tenant",) if tenants else ()))
        self._node_names: MetricLabels = ("pipeline", "node", "state", *(("tenant",) if tenants else ()))
        self._tenants = tenants
        self._most = most_series
        self._lock = threading.Lock()
        self._successes: dict[MetricLabels, int] = {}
        self._failures: dict[MetricLabels, int] = {}
        self._retries: dict[MetricLabels, int] = {}
        self._durations: dict[MetricLabels, _Durations] = {}
        self._nodes: dict[MetricLabels, int] = {}

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """Count a run that ended: as a success if its status is `ok`, else as a failure, with its retries and its duration."""
        labels = (run.worker_id, run.version, *((run.tenant,) if self._tenants else ()))
        with self._lock:
            labels = self._bounded(self._durations, labels)
            histogram = self._durations.setdefault(labels, _Durations())
            histogram.observe(end.duration_ms)
            self._add(self._retries, labels, max(0, end.attempt - 1))
            self._add(self._successes, labels, end.status == "ok")
            if end.status != "ok":
                self._add(self._failures, (*labels, end.status, end.code_label or ""), 1)

    def node_ended(self, run: RunSeen, node: NodeSeen) -> None:
        """Count a node of a pipeline that ended. A node that runs in several rounds is counted in each of them."""
        labels = (run.worker_id, node.node, node.state, *((run.tenant,) if self._tenants else ()))
        with self._lock:
            self._add(self._nodes, labels, 1)

    def refused(self, refusal: RefusalSeen) -> None:
        """Count a request that started no run as a failure; it has no duration. If no worker with the requested id is known, the labels for
        the worker and its version are empty; if only the version is not known, its label is empty. So callers cannot create series."""
        version = "" if refusal.error_code == "version_not_found" else refusal.version  # else a client could create many series
        worker = (refusal.worker_id, version) if refusal.known else ("", "")
        labels = (*worker, *((refusal.tenant,) if self._tenants else ()))
        with self._lock:
            self._add(self._failures, (*labels, refusal.status, refusal.error_code), 1)

    def _bounded(self, series: dict[MetricLabels, Any], labels: MetricLabels) -> MetricLabels:
        return labels if labels in series or len(series) < self._most else (OTHER,) * len(labels)

    def _add(self, series: dict[MetricLabels, int], labels: MetricLabels, count: int) -> None:
        labels = self._bounded(series, labels)
        series[labels] = series.get(labels, 0) + count

    # --- showing

    def collect(self) -> Iterable[Metric]:
        """All metrics, in the form that prometheus-client expects. `node_count` is left out as long as no node of a pipeline has ended."""
        with self._lock:
            successes, failures, retries = dict(self._successes), dict(self._failures), dict(self._retries)
            nodes = dict(self._nodes)
            durations = {labels: (list(each.counts), each.total) for labels, each in self._durations.items()}
        return [
            self._counts("success_count", "Runs that ended ok.", successes, self._names),
            self._counts(
                "failure_count",
                "Runs that did not end ok, and requests that started no run.",
                failures,
                (*self._names, "status", "error_code"),
            ),
            self._counts("retry_count", "Attempts after the first.", retries, self._names),
            self._spread(durations),
            self._p95(durations),
            *([self._counts("node_count", "Nodes of pipelines that ended.", nodes, self._node_names)] if nodes else []),
        ]

    def text(self) -> str:
        """All metrics in Prometheus's text format. The media type of this text is `CONTENT_TYPE`."""
        return text_of(self)

    def _counts(self, name: str, what: str, series: dict[MetricLabels, int], names: MetricLabels) -> Metric:
        # The type is `unknown` on purpose: prometheus-client adds `_total` to the names of counters, and the protocol promises the plain
        # names.
        from prometheus_client.core import UnknownMetricFamily

        family = UnknownMetricFamily(name, what, labels=names)
        for labels, count in series.items():
            family.add_metric(labels, count)
        return family

    def _spread(self, durations: dict[MetricLabels, tuple[list[int], int]]) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily("duration_ms", "Milliseconds from the acceptance of a run to its end.", labels=self._names)
        for labels, (counts, total) in durations.items():
            sums = [sum(counts[: at + 1]) for at in range(len(counts))]
            bounds = [*(str(float(most)) for most in BUCKETS_MS), "+Inf"]
            family.add_metric(labels, list(zip(bounds, sums, strict=True)), total)
        return family

    def _p95(self, durations: dict[MetricLabels, tuple[list[int], int]]) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily("p95_duration_ms", "The 95th percentile of duration_ms since this process began.", labels=self._names)
        for labels, (counts, _) in durations.items():
            family.add_metric(labels, quantile(counts, 0.95))
        return family


def prometheus_client() -> Any:
    """The package prometheus-client. Raises ExtraMissing if it is not installed."""
    try:
        import prometheus_client
    except ImportError:
        raise ExtraMissing("Metrics need the package `prometheus-client`: pip install 'holdfast[metrics]'.") from None
    return prometheus_client


def text_of(collector: Any) -> str:
    """What a collector of prometheus-client collects, in Prometheus's text format."""
    client = prometheus_client()
    registry = client.CollectorRegistry()
    registry.register(collector)
    return str(client.generate_latest(registry).decode())
