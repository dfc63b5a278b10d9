"""Traces of workers by OpenTelemetry: a run, its acceptance, its attempts and their tools, as spans.

    run refund-worker ─┬─ accept
                       ├─ attempt ─┬─ chat gpt-4.1-mini         (the GenAI conventions)
                       │           └─ execute_tool refund_payment ── whatever the tool calls, by its `traceparent`
                       └─ attempt …

The ids follow from what a span is, and a span goes out when what it tells of is on disk: a run may end in another process than it began
in, days later, and is one trace all the same. Where to and how much is the environment's word (OTEL_*). A thread exports; a queue that is
full drops, and nobody waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.errors import ExtraMissing
from holdfast.signals.observing import AttemptSeen, EndSeen, Nobody, Refusal, RunSeen, ToolSeen
from holdfast.signals.traceparent import below, span_hex, trace_hex

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


class Tracing(Nobody):
    """Traces, as an observer."""

    def __init__(self, processor: SpanProcessor | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """`processor` takes the spans; without it they go where OTEL_EXPORTER_OTLP_ENDPOINT says."""
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider

            from holdfast.signals.span_ids import GivenIds
        except ImportError:
            raise ExtraMissing(_NEEDED) from None
        named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._ids = GivenIds()
        self._provider = TracerProvider(
            resource=Resource.create({} if named else {"service.name": "holdfast"}), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor or _exporting(environment))
        self._tracer = self._provider.get_tracer("holdfast")

    def close(self, seconds: float = 3.0) -> None:
        """Send what is left, as far as that is possible in this time."""
        ending = threading.Thread(target=self._provider.shutdown, name="holdfast-traces", daemon=True)
        ending.start()
        ending.join(seconds)

    # --- what is seen

    def refused(self, refusal: Refusal) -> None:
        """All there is of a request that made no run."""
        from opentelemetry.trace import SpanKind

        trace_id, span_id = str(refusal.trace["trace_id"]), str(refusal.trace["span_id"])
        parent = refusal.trace.get("parent_span_id")
        context = self._below(trace_id, parent, sampled=refusal.sampled is not False) if parent else None
        about = {"worker_id": refusal.worker_id, "version": refusal.version, "status": refusal.status, "attempt": 0}
        error = (refusal.error_code, refusal.message)
        times = (refusal.began_at, refusal.at)
        self._span("accept", (trace_id, span_id), context, times, about, error, kind=SpanKind.SERVER)

    def accepted(self, run: RunSeen, at: int) -> None:
        """From the request to the first attempt."""
        span_id = below(run.span_id, "accept")
        self._span("accept", (run.trace_id, span_id), self._in(run), (run.started_at, at), _about(run))

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """One attempt, with what was refused to it."""
        about = {**_about(run), "attempt": attempt.number, "duration_ms": attempt.duration_ms, "status": attempt.status}
        if attempt.isolation is not None:
            about["isolation"] = attempt.isolation
        error = None if attempt.error_code is None else (attempt.error_code, attempt.message or "")
        ids, times = (run.trace_id, attempt.span_id), (attempt.began_at, attempt.ended_at)
        self._span("attempt", ids, self._in(run), times, about, error, events=attempt.refusals)

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """A call that was made; an answer from a receipt is none."""
        if tool.reused:
            return
        from opentelemetry.trace import SpanKind

        about = {**_about(run), "attempt": tool.attempt, "duration_ms": tool.duration_ms, "effect": tool.effect, "lost": tool.lost}
        name, kind = f"execute_tool {tool.tool}", SpanKind.INTERNAL
        about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool.tool, "gen_ai.tool.type": "function"}
        if tool.model is not None:
            name, kind = f"chat {tool.model}", SpanKind.CLIENT
            about |= {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": tool.model}
            about |= {"gen_ai.usage.input_tokens": tool.input_tokens, "gen_ai.usage.output_tokens": tool.output_tokens}
            about["cost_usd"] = float(tool.cost_usd)
        error = None if tool.error_code is None else (tool.error_code, tool.message or "")
        parent = self._below(run.trace_id, tool.parent_span_id, sampled=self._sampled(run))
        times = (tool.began_at, tool.began_at + tool.duration_ms)
        self._span(name, (run.trace_id, tool.span_id), parent, times, about, error, kind=kind)

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """The whole run."""
        from opentelemetry.trace import SpanKind

        about = {**_about(run), "attempt": end.attempt, "duration_ms": end.duration_ms, "status": end.status, "tool_calls": end.tool_calls}
        about |= {"partial": end.partial, "tokens.input": end.input_tokens, "tokens.output": end.output_tokens}
        about["cost_usd"] = float(end.cost_usd)
        error = None if end.error_code is None else (end.error_code, end.message or "")
        times = (run.started_at, max(end.ended_at, run.started_at))
        self._span(f"run {run.worker_id}", (run.trace_id, run.span_id), self._caller(run), times, about, error, kind=SpanKind.SERVER)

    # --- how it is said

    def _span(
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
        """Say a span that is over."""
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

    def _in(self, run: RunSeen) -> Context:
        return self._below(run.trace_id, run.span_id, sampled=self._sampled(run))

    def _caller(self, run: RunSeen) -> Context | None:
        if run.parent_span_id is None:
            return None
        return self._below(run.trace_id, run.parent_span_id, sampled=run.sampled is not False)

    def _sampled(self, run: RunSeen) -> bool:
        """Whether the run's own span is recorded: whoever asks, and whenever, the answer is the same."""
        from opentelemetry.sdk.trace.sampling import Decision

        trace_id = int(trace_hex(run.trace_id), 16)
        answer = self._provider.sampler.should_sample(self._caller(run), trace_id, f"run {run.worker_id}")
        return answer.decision is Decision.RECORD_AND_SAMPLE

    def _below(self, trace_id: str, span_id: str, *, sampled: bool) -> Context:
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        parent = SpanContext(int(trace_hex(trace_id), 16), int(span_hex(span_id), 16), is_remote=True, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(parent), Context())


def _about(run: RunSeen) -> dict[str, Any]:
    about: dict[str, Any] = {"worker_id": run.worker_id, "version": run.version, "run_id": run.run_id, "tenant": run.tenant}
    about["upstream_request_id"] = run.upstream_request_id
    return about | ({} if trace_hex(run.trace_id) == run.trace_id else {"trace_id": run.trace_id})


def _exporting(environment: Mapping[str, str]) -> SpanProcessor:
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if protocol == "grpc":
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
        except ImportError:
            raise ExtraMissing(_GRPC_NEEDED) from None
        return BatchSpanProcessor(GrpcExporter())
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise ExtraMissing(_NEEDED) from None
    return BatchSpanProcessor(OTLPSpanExporter())


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces, as OpenTelemetry says it: an address, and no word against it."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
