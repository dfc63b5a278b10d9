"""Metrics: percentiles as Prometheus works them out, series that stay few, and one sentence where the package is missing."""

from __future__ import annotations

import sys

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from holdfast.model.errors import ExtraMissing
from holdfast.signals.metrics import BUCKETS_MS, Metrics, quantile
from holdfast.signals.observers import EndSeen, RefusalSeen, RunSeen


def run(worker_id: str = "w", tenant: str = "ann") -> RunSeen:
    return RunSeen(run_id="r", worker_id=worker_id, version="1.10", tenant=tenant, trace_id="t", span_id="s")


def end(duration_ms: int = 20, status: str = "ok", code: str | None = None, attempt: int = 1) -> EndSeen:
    return EndSeen(status=status, error_code=code, code_label=code, message=None, attempt=attempt, duration_ms=duration_ms, ended_at=0)


@pytest.mark.parametrize(
    "durations, wanted",
    [
        ([], 0.0),
        ([20] * 100, 10 + 15 * 0.95),
        ([5] * 90 + [100] * 10, 50 + 50 * 0.5),
        ([10_000_000], 3_600_000.0),
    ],
)
def test_the_percentile_lies_where_prometheus_puts_it(durations: list[int], wanted: float) -> None:
    counts = [0] * (len(BUCKETS_MS) + 1)
    for each in durations:
        counts[next((at for at, most in enumerate(BUCKETS_MS) if each <= most), len(BUCKETS_MS))] += 1
    assert quantile(counts, 0.95) == pytest.approx(wanted)


def test_the_text_is_prometheuss_and_the_names_are_the_protocols() -> None:
    metrics = Metrics()
    metrics.ended(run(), end(20))
    metrics.ended(run(), end(700, "permanent_error", "access_denied", attempt=3))
    found = {sample.name: sample for family in text_string_to_metric_families(metrics.text()) for sample in family.samples}
    labels = {"worker_id": "w", "version": "1.10"}
    assert (found["success_count"].labels, found["success_count"].value) == (labels, 1)
    assert found["failure_count"].labels == {**labels, "status": "permanent_error", "error_code": "access_denied"}
    assert (found["failure_count"].value, found["retry_count"].value) == (1, 2)
    assert found["p95_duration_ms"].value == pytest.approx(500 + 500 * 0.9)
    assert (found["duration_ms_count"].value, found["duration_ms_sum"].value) == (2, 720)


def test_tenants_have_series_only_where_the_operator_wants_them() -> None:
    for tenants, wanted in ((False, {"worker_id", "version"}), (True, {"worker_id", "version", "tenant"})):
        metrics = Metrics(tenants=tenants)
        metrics.ended(run(), end())
        (sample,) = [s for f in text_string_to_metric_families(metrics.text()) for s in f.samples if s.name == "success_count"]
        assert set(sample.labels) == wanted


def test_beyond_a_number_of_series_everything_is_other() -> None:
    metrics = Metrics(tenants=True, most_series=3)
    for number in range(10):
        metrics.ended(run(tenant=f"t{number}"), end())
    samples = [s for f in text_string_to_metric_families(metrics.text()) for s in f.samples if s.name == "success_count"]
    assert {sample.labels["tenant"]: sample.value for sample in samples} == {"t0": 1, "t1": 1, "t2": 1, "other": 7}


def test_a_version_that_somebody_made_up_is_no_series() -> None:
    metrics = Metrics()
    for number in range(3):
        refused = RefusalSeen(
            worker_id="w", known=True, version=f"9.{number}", tenant="ann", status="invalid_request", error_code="version_not_found",
            message="no", at=0, began_at=0, trace={}, sampled=None,
        )  # fmt: skip
        metrics.refused(refused)
    (sample,) = [s for f in text_string_to_metric_families(metrics.text()) for s in f.samples if s.name == "failure_count"]
    assert (sample.labels["worker_id"], sample.labels["version"], sample.value) == ("w", "", 3)


def test_they_can_stand_in_somebody_elses_registry() -> None:
    registry = CollectorRegistry()
    metrics = Metrics()
    registry.register(metrics)
    metrics.ended(run(), end())
    assert registry.get_sample_value("success_count", {"worker_id": "w", "version": "1.10"}) == 1


def test_a_missing_package_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[metrics\]'"):
        Metrics()
