"""Trace context: what a header says, the ids that follow from what a span is, and what the environment decides."""

from __future__ import annotations

import gzip
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.model.errors import ExtraMissing, InvalidParameter
from holdfast.operator.holdfast_toml import read_operator
from holdfast.signals.observers import EndSeen, RunSeen
from holdfast.signals.spans import wanted
from holdfast.signals.traceparent import below, header_of, parent_of, span_hex, trace_hex
from holdfast.signals.tracing import Tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header, sampled",
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"cc-{TRACE}-{SPAN}-03-later", True),
        (f" 00-{TRACE}-{SPAN}-01 ", True),
    ],
)
def test_a_header_names_its_trace(header: str, sampled: bool) -> None:
    assert parent_of(header) == (TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "header",
    [None, "", "x", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-01-more", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
     f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{SPAN}-01"],
)  # fmt: skip
def test_a_broken_header_is_as_good_as_none(header: str | None) -> None:
    assert parent_of(header) is None


def test_any_id_can_travel_and_always_as_the_same_one() -> None:
    assert (trace_hex(TRACE), span_hex(SPAN)) == (TRACE, SPAN)
    assert parent_of(header_of("order 7", "step 1")) == (trace_hex("order 7"), span_hex("step 1"), True)
    assert len({below(SPAN, "attempt", 1), below(SPAN, "attempt", 2), below(SPAN, "attempt"), SPAN}) == 4


@pytest.mark.parametrize("sampler, share, spans", [("always_on", "", 50), ("always_off", "", 0), ("traceidratio", "0.5", None)])
def test_the_environments_sampler_decides_on_whole_traces(
    monkeypatch: pytest.MonkeyPatch, sampler: str, share: str, spans: int | None
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", share)
    exporter = InMemorySpanExporter()
    tracing = Tracing(SimpleSpanProcessor(exporter), {})
    for number in range(50):
        run = RunSeen(run_id="r", worker_id="w", version="1", tenant="t", trace_id=trace_hex(str(number)), span_id=SPAN, started_at=1)
        tracing.accepted(run, 2)
        tracing.ended(run, EndSeen(status="ok", error_code=None, code_label=None, message=None, attempt=1, duration_ms=1, ended_at=3))
    traces = [span.context.trace_id for span in exporter.get_finished_spans() if span.context is not None]
    assert all(traces.count(trace) == 2 for trace in traces)
    assert 10 < len(set(traces)) < 40 if spans is None else len(set(traces)) == spans


@pytest.mark.parametrize(
    "environment, on",
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_asks_for_traces(environment: dict[str, str], on: bool) -> None:
    assert wanted(environment) is on


def test_a_missing_package_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[otel\]'"):
        Tracing(None, {})


def test_an_exporter_over_grpc_that_is_not_there_is_told_of() -> None:
    with pytest.raises(ExtraMissing, match="opentelemetry-exporter-otlp-proto-grpc"):
        Tracing(None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


def test_an_exporter_over_grpc_gets_the_endpoint_of_the_environment_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str | None]()

    class Grpc(InMemorySpanExporter):
        def __init__(self, endpoint: str | None = None) -> None:
            super().__init__()
            made.append(endpoint)

    module = types.ModuleType("trace_exporter")
    module.OTLPSpanExporter = Grpc  # type: ignore[attr-defined]
    for name in ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"):
        monkeypatch.setitem(sys.modules, name, module)
    grpc = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    for given in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b:4317"}):
        Tracing(None, grpc | given).close()
    assert made == [None, "http://a:4317", "http://b:4317"]


class Collector(BaseHTTPRequestHandler):
    """The other side: takes what is posted, and remembers it."""

    def do_POST(self) -> None:
        asked = ExportTraceServiceRequest()
        asked.ParseFromString(unpacked(self.headers.get("content-encoding"), self.rfile.read(int(self.headers["content-length"]))))
        self.server.got.append((self.path, self.headers.get("x-team"), asked))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def unpacked(encoding: str | None, body: bytes) -> bytes:
    return gzip.decompress(body) if encoding == "gzip" else body


@pytest.mark.parametrize("variable, path", [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")])
def test_the_endpoint_and_the_name_of_the_service_come_from_the_environment_that_is_given(
    monkeypatch: pytest.MonkeyPatch, variable: str, path: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9/of-this-process")
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.got = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tracing = Tracing(None, {variable: f"http://127.0.0.1:{server.server_port}{path}", "OTEL_SERVICE_NAME": "orders"})
        run = RunSeen(run_id="r", worker_id="w", version="1", tenant="t", trace_id=TRACE, span_id=SPAN, started_at=1_000)
        tracing.ended(run, EndSeen(status="ok", error_code=None, code_label=None, message=None, attempt=1, duration_ms=5, ended_at=1_005))
        tracing.close()
        server.shutdown()
        ((asked_at, _, asked),) = server.got  # type: ignore[attr-defined]
    (resource,) = asked.resource_spans
    assert asked_at == "/v1/traces"
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "orders"


def test_spans_reach_a_collector_at_the_address_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.got = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
        tracing = Tracing()
        run = RunSeen(run_id="r", worker_id="w", version="1", tenant="t", trace_id=TRACE, span_id=SPAN, started_at=1_000)
        tracing.ended(run, EndSeen(status="ok", error_code=None, code_label=None, message=None, attempt=1, duration_ms=5, ended_at=1_005))
        tracing.close()
        server.shutdown()
        ((path, team, asked),) = server.got  # type: ignore[attr-defined]
    (resource,) = asked.resource_spans
    (span,) = resource.scope_spans[0].spans
    assert (path, team, span.name) == ("/v1/traces", "blue", "run w")
    assert (span.trace_id.hex(), span.span_id.hex()) == (TRACE, SPAN)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_000_000_000, 1_005_000_000)
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "holdfast"


# --- the operator's table


def operator(folder: Path, text: str, environment: dict[str, str] | None = None) -> Any:
    file = folder / "holdfast.toml"
    file.write_text(text)
    return read_operator(file=file, environment=environment or {}).signals


def test_the_operator_says_what_goes_out(tmp_path: Path) -> None:
    plain = operator(tmp_path, "")
    assert (plain.log, plain.metrics, plain.otel) == ("off", False, False)
    told = operator(tmp_path, '[signals]\nlog = "logs/w.jsonl"\nmetrics = true\ntenants = true\notel = true\n')
    assert (told.log, told.metrics, told.tenants, told.otel) == (str(tmp_path / "logs/w.jsonl"), True, True, True)
    assert operator(tmp_path, '[signals]\nlog = "stderr"\n').log == "stderr"
    with pytest.raises(InvalidParameter, match="logs"):
        operator(tmp_path, '[signals]\nlogs = "stderr"\n')


def test_the_environment_switches_traces_on_and_the_operator_off_again(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
    assert operator(tmp_path, "", environment).otel is True
    assert operator(tmp_path, "[signals]\notel = false\n", environment).otel is False
