"""Spans: how the traces of workers and functions use OpenTelemetry. The code that reports a span does so after the span has ended, and
computes its ids.

Environment variables (OTEL_*) say where spans are sent and which part of the traces is recorded. A thread sends the spans. If too many
spans wait to be sent, further spans are dropped, so that the code that reports a span never waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.errors import ExtraMissing
from holdfast.signals.traceparent import span_hex, trace_hex

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import SpanKind

_NEEDED: Final = "Traces need OpenTelemetry: pip install 'holdfast[otel]'."
_GRPC_NEEDED: Final = (
    "OTLP over gRPC needs the package `opentelemetry-exporter-otlp-proto-grpc`; or set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf."
)
_NANO: Final = 1_000_000
Attributes = Mapping[str, Any]


class Spans:
    """Reports spans that have ended. Only one thread may use it."""

    def __init__(self, processor: SpanProcessor | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """`processor` gets the spans. None: they are sent to the address in the variable OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
        OTEL_EXPORTER_OTLP_ENDPOINT. `environment` has these variables, and those for the protocol and the name of the service.
        OpenTelemetry reads all other variables, for example that of the sampler, from the environment of the process. Raises ExtraMissing
        if a package of OpenTelemetry that is needed is not installed."""
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider

            from holdfast.signals.span_ids import GivenIds
        except ImportError:
            raise ExtraMissing(_NEEDED) from None
        named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        service = environment.get("OTEL_SERVICE_NAME") or ("" if named else "holdfast")
        self._ids = GivenIds()
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service} if service else {}), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor or _exporting(environment))
        self._tracer = self._provider.get_tracer("holdfast")

    def close(self, seconds: float = 3.0) -> None:
        """Send the spans that are not sent yet. Returns after at most `seconds`, also if some spans are not sent."""
        ending = threading.Thread(target=self._provider.shutdown, name="holdfast-traces", daemon=True)
        ending.start()
        ending.join(seconds)

    def say(
        self,
        name: str,
        ids: tuple[str, str],
        parent: Context | None,
        times: tuple[float, float],
        about: Attributes,
        error: tuple[str, str] | None = None,
        *,
        events: tuple[Attributes, ...] = (),
        kind: SpanKind | None = None,
    ) -> None:
        """Report a span that has ended. `ids`: the id of the trace, then the id of the span. `parent`: the context of the span above it;
        None if no span is above it. `times`: its start and its end, in milliseconds since the epoch. `about`: its attributes; those that
        are None are left out. `error`: a code and a message; None if there was no error. `events`: the refused calls of tools, each with
        its time in `at`. `kind` None means INTERNAL."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._ids.next(int(trace_hex(ids[0]), 16), int(span_hex(ids[1]), 16))
        began, ended = (int(at * _NANO) for at in times)
        told = {key: value for key, value in about.items() if value is not None}
        if error is not None:
            told |= {"error_code": error[0], "error.type": error[0]}
        span = self._tracer.start_span(
            name, context=parent if parent is not None else Context(), kind=kind or SpanKind.INTERNAL, attributes=told, start_time=began
        )
        for event in events:
            known = {key: value for key, value in event.items() if key != "at" and value is not None}
            span.add_event("tool_refused", known, timestamp=int(event.get("at", times[1]) * _NANO))
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error[1]))
        span.end(end_time=max(began, ended))

    def sampled(self, caller: Context | None, trace_id: str, name: str) -> bool:
        """Whether the sampler records a span of this trace with this name. `caller` is the context of the span above it; None if no span is
        above it. Processes with the same settings give the same answer."""
        from opentelemetry.sdk.trace.sampling import Decision

        answer = self._provider.sampler.should_sample(caller, int(trace_hex(trace_id), 16), name)
        return answer.decision is Decision.RECORD_AND_SAMPLE

    def below(self, trace_id: str, span_id: str, *, sampled: bool) -> Context:
        """The context to give to a span whose parent is the span with these ids. The parent may belong to another process. `sampled`:
        whether the parent is recorded."""
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        parent = SpanContext(int(trace_hex(trace_id), 16), int(span_hex(span_id), 16), is_remote=True, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(parent), Context())


def _exporting(environment: Mapping[str, str]) -> SpanProcessor:
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    traces, base = (environment.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("TRACES_ENDPOINT", "ENDPOINT"))
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if protocol == "grpc":
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
        except ImportError:
            raise ExtraMissing(_GRPC_NEEDED) from None
        return BatchSpanProcessor(GrpcExporter(endpoint=traces or base))
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise ExtraMissing(_NEEDED) from None
    below_base = f"{base.removesuffix('/')}/v1/traces" if base else None  # the same address that OpenTelemetry makes of the variable
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=traces or below_base))


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces: an OTEL variable names the endpoint, and no OTEL variable switches the SDK or the traces
    off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
