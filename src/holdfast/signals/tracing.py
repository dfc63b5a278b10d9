"""Traces of workers by OpenTelemetry: spans for a run, its acceptance, its attempts and their calls of tools, and the nodes of a pipeline.

    run refund-worker ─┬─ accept
                       ├─ attempt ─┬─ chat gpt-4.1-mini         (the GenAI conventions)
                       │           └─ execute_tool refund_payment ── spans of the servers that the tool calls, by `traceparent`
                       └─ attempt …

The id of a span is computed from the run's span and from what the span describes. A span is reported when the part of the run that it
describes is on disk. So a run that ends in another process, days later, is still one trace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.signals.observers import AttemptSeen, EndSeen, NodeSeen, RefusalSeen, RunObserver, RunSeen, ToolSeen
from holdfast.signals.spans import Spans
from holdfast.signals.traceparent import below, trace_hex

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor


class Tracing(RunObserver):
    """An observer of runs. It reports their spans."""

    def __init__(self, processor: SpanProcessor | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """`processor` gets the spans. None: they are sent to the address in the variable OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
        OTEL_EXPORTER_OTLP_ENDPOINT. `environment` has these variables, and those for the protocol and the name of the service.
        OpenTelemetry reads all other variables, for example that of the sampler, from the environment of the process. Raises ExtraMissing
        if a package of OpenTelemetry that is needed is not installed."""
        self._spans = Spans(processor, environment)

    def close(self, seconds: float = 3.0) -> None:
        """Send the spans that are not sent yet. Returns after at most `seconds`, also if some spans are not sent."""
        self._spans.close(seconds)

    # --- the reports about runs

    def refused(self, refusal: RefusalSeen) -> None:
        """Report a span for a request that started no run. Such a request has no other span."""
        from opentelemetry.trace import SpanKind

        trace_id, span_id = str(refusal.trace["trace_id"]), str(refusal.trace["span_id"])
        parent = refusal.trace.get("parent_span_id")
        context = self._spans.below(trace_id, parent, sampled=refusal.sampled is not False) if parent else None
        about = {"worker_id": refusal.worker_id, "version": refusal.version, "status": refusal.status, "attempt": 0}
        error = (refusal.error_code, refusal.message)
        times = (refusal.began_at, refusal.at)
        self._spans.say("accept", (trace_id, span_id), context, times, about, error, kind=SpanKind.SERVER)

    def accepted(self, run: RunSeen, at: int) -> None:
        """Report the span of the acceptance: it begins when the run is started or queued, and ends when its first invocation begins, at the
        time `at`."""
        span_id = below(run.span_id, "accept")
        self._spans.say("accept", (run.trace_id, span_id), self._in(run), (run.started_at, at), _about(run))

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """Report the span of an attempt. Each call of a tool that the gateway refused is an event in this span."""
        about = {**_about(run), "attempt": attempt.number, "duration_ms": attempt.duration_ms, "status": attempt.status}
        if attempt.isolation is not None:
            about["isolation"] = attempt.isolation
        error = None if attempt.error_code is None else (attempt.error_code, attempt.message or "")
        ids, times = (run.trace_id, attempt.span_id), (attempt.began_at, attempt.ended_at)
        self._spans.say("attempt", ids, self._in(run), times, about, error, events=attempt.refusals)

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """Report the span of a call of a tool. If the receipt of an earlier call had the answer, there is no span, because the tool was not
        called."""
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
        parent = self._spans.below(run.trace_id, tool.parent_span_id, sampled=self._sampled(run))
        times = (tool.began_at, tool.began_at + tool.duration_ms)
        self._spans.say(name, (run.trace_id, tool.span_id), parent, times, about, error, kind=kind)

    def node_ended(self, run: RunSeen, node: NodeSeen) -> None:
        """Report the span of a node of a pipeline. It is below the span of the pipeline's run; the spans of the runs that the node started
        are below the span of the node."""
        about = {**_about(run), "pipeline": run.worker_id, "node": node.node, "round": node.round, "state": node.state}
        error = None if node.error_code is None else (node.error_code, node.message or "")
        times = (node.began_at, max(node.began_at, node.ended_at))
        self._spans.say(f"node {node.node}", (run.trace_id, node.span_id), self._in(run), times, about, error)

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """Report the span of the whole run, from its start to its end."""
        from opentelemetry.trace import SpanKind

        about = {**_about(run), "attempt": end.attempt, "duration_ms": end.duration_ms, "status": end.status, "tool_calls": end.tool_calls}
        about |= {"partial": end.partial, "tokens.input": end.input_tokens, "tokens.output": end.output_tokens}
        about["cost_usd"] = float(end.cost_usd)
        error = None if end.error_code is None else (end.error_code, end.message or "")
        times = (run.started_at, max(end.ended_at, run.started_at))
        self._spans.say(f"run {run.worker_id}", (run.trace_id, run.span_id), self._caller(run), times, about, error, kind=SpanKind.SERVER)

    # --- the span above another span

    def _in(self, run: RunSeen) -> Context:
        return self._spans.below(run.trace_id, run.span_id, sampled=self._sampled(run))

    def _caller(self, run: RunSeen) -> Context | None:
        if run.parent_span_id is None:
            return None
        return self._spans.below(run.trace_id, run.parent_span_id, sampled=run.sampled is not False)

    def _sampled(self, run: RunSeen) -> bool:
        """Whether the sampler records the span of the run itself. The spans below it follow this decision."""
        return self._spans.sampled(self._caller(run), run.trace_id, f"run {run.worker_id}")


def _about(run: RunSeen) -> dict[str, Any]:
    about: dict[str, Any] = {"worker_id": run.worker_id, "version": run.version, "run_id": run.run_id, "tenant": run.tenant}
    about["upstream_request_id"] = run.upstream_request_id
    if run.pipeline is not None:
        about |= {"pipeline": run.pipeline, "node": run.node}
    return about | ({} if trace_hex(run.trace_id) == run.trace_id else {"trace_id": run.trace_id})
