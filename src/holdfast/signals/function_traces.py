"""Traces of durable functions by OpenTelemetry: spans for an execution, its invocations, its steps and its contexts.

    execution order ─┬─ invocation
                     ├─ step reserve
                     ├─ context map ── step charge
                     └─ invocation

The ids of the spans are computed from the execution's id, so an execution that ends in another process is still one trace. A caller's trace
(X-Amzn-Trace-Id, or a traceparent) is continued, and an invoked execution is below the one that invoked it. No input, result or message is
in a span.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.operations import Operation, Status, Type
from holdfast.model.ports import Sight
from holdfast.signals.spans import Spans
from holdfast.signals.traceparent import below, parent_of, trace_hex

if TYPE_CHECKING:
    from opentelemetry.context import Context

_ROOT: Final = re.compile(r"(?:^|;)\s*Root=1-([0-9a-f]{8})-([0-9a-f]{24})")
_PARENT: Final = re.compile(r"(?:^|;)\s*Parent=([0-9a-f]{16})(?:;|$)")
_UNSAMPLED: Final = re.compile(r"(?:^|;)\s*Sampled=0(?:;|$)")
_DEEPEST: Final = 32
_MOST_KEPT: Final = 10_000


class TraceParent(NamedTuple):
    """The trace of an execution, the span above the span of the execution, and whether the caller records the trace."""

    trace_id: str
    parent: str | None
    """The id of the span above the execution's span; None if there is none."""
    sampled: bool


class FunctionTraces:
    """An observer of an engine. It reports spans. If the caller does not record its trace, no spans are reported for that trace."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._sight: Sight | None = None
        self._traces: OrderedDict[str, TraceParent] = OrderedDict()

    def close(self) -> None:
        """Send the spans that are not sent yet. Returns after at most 3 seconds, also if some spans are not sent."""
        self._spans.close()

    def attach(self, sight: Sight) -> None:
        """Called when an engine opens. This observer then uses `sight` to find, in the engine's store, the execution that invoked another
        one: both get the same trace."""
        self._sight = sight

    def started(self, header: Execution) -> None:
        """Do nothing: a span is reported when it has ended, not when it begins."""

    def committed(self, writes: int) -> None:
        """Do nothing: a commit has no span."""

    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """Report the span of an invocation. It is below the span of its execution."""
        bad = outcome.status in (OutcomeStatus.FAILED, OutcomeStatus.CRASHED, OutcomeStatus.MISMATCHED)
        error = ((outcome.error.type if outcome.error else None) or outcome.status.value, "") if bad else None
        span_id = below(span_of(header.id), "invocation", header.invocation)
        about = {**_about(header), "holdfast.invocation": header.invocation, "holdfast.outcome": outcome.status.value}
        times = (header.invoked_at or ended_at, ended_at)
        self._say(header, "invocation", span_id, span_of(header.id), times, about, error)

    def operated(self, header: Execution, operation: Operation) -> None:
        """Report the span of a step or a child context that has ended. A step has one span for all its attempts together."""
        if operation.status not in (Status.SUCCEEDED, Status.FAILED):
            return
        kind = "step" if operation.type is Type.STEP else "context"
        error = None
        if operation.status is Status.FAILED:
            error = ((operation.error.type if operation.error else None) or "failed", "")
        about = {**_about(header), "holdfast.operation": operation.id, "holdfast.sub_type": operation.sub_type}
        about |= {"holdfast.attempts": operation.attempt} if operation.type is Type.STEP else {}
        parent = span_of(header.id, operation.parent_id)
        times = (operation.started_at, operation.ended_at or operation.started_at)
        self._say(header, f"{kind} {operation.name or operation.id}", span_of(header.id, operation.id), parent, times, about, error)

    def closed(self, header: Execution) -> None:
        """Report the span of the whole execution."""
        trace = self._trace(header)
        self._traces.pop(header.id, None)
        if not trace.sampled:
            return
        context = self._below(trace.trace_id, trace.parent, trace.sampled)
        bad = header.status is not ExecutionStatus.SUCCEEDED
        about = {**_about(header), "holdfast.status": header.status.value}
        times = (header.started_at, header.ended_at or header.started_at)
        ids = (trace.trace_id, span_of(header.id))
        self._spans.say(_named(header), ids, context, times, about, (header.status.value, "") if bad else None, kind=_server())

    # --- the span above another span

    def _say(
        self, header: Execution, name: str, span_id: str, parent: str, times: tuple[int, int], about: dict[str, Any], error: Any
    ) -> None:
        trace = self._trace(header)
        if not trace.sampled:
            return
        above = self._below(trace.trace_id, trace.parent, trace.sampled)
        sampled = self._spans.sampled(above, trace.trace_id, _named(header))
        self._spans.say(name, (trace.trace_id, span_id), self._below(trace.trace_id, parent, sampled), times, about, error)

    def _below(self, trace_id: str, span_id: str | None, sampled: bool) -> Context | None:
        return None if span_id is None else self._spans.below(trace_id, span_id, sampled=sampled)

    def _trace(self, header: Execution) -> TraceParent:
        found = self._traces.get(header.id)
        if found is None:
            found = self._traces[header.id] = execution_trace(header, lambda id: None if self._sight is None else self._sight.find(id))
            if len(self._traces) > _MOST_KEPT:
                self._traces.popitem(last=False)
        return found


def execution_trace(header: Execution, find: Callable[[str], Execution | None]) -> TraceParent:
    """The trace of an execution, and the span above it. If another execution invoked it, the trace is that of the first execution in the
    chain of invokes (as far as `find` finds that chain, at most 32 executions up), and the span above it is the span of the execution that
    invoked it. For any other execution both come from the caller's trace header; without a header the trace is new, and no span is above
    it. `find` returns an execution by its id."""
    root = [header, *invokers(header, find)][-1]
    said = trace_of(root.trace)
    trace_id = trace_hex(root.id) if said is None else said.trace_id
    sampled = said is None or said.sampled
    if header.parent is not None:
        return TraceParent(trace_id, span_of(header.parent), sampled)
    return TraceParent(trace_id, None if said is None else said.parent, sampled)


def invokers(header: Execution, find: Callable[[str], Execution | None]) -> list[Execution]:
    """The executions above an execution: the one that invoked it, then the one that invoked that one, and so on, at most 32. The list ends
    where `find`, which returns an execution by its id, finds none or raises a HoldfastError."""
    found: list[Execution] = []
    try:
        while header.parent is not None and len(found) < _DEEPEST and (above := find(header.parent)) is not None:
            found.append(above)
            header = above
    except HoldfastError:
        return found
    return found


def trace_of(header: str | None) -> TraceParent | None:
    """The trace that a trace header names. `header` is a header of AWS (X-Amzn-Trace-Id) or of W3C (traceparent). None if `header` is None
    or not valid."""
    if header is None:
        return None
    w3c = parent_of(header)
    if w3c is not None:
        return TraceParent(w3c.trace_id, w3c.span_id, w3c.sampled)
    root, parent = _ROOT.search(header), _PARENT.search(header)
    if root is None or not int(root[1] + root[2], 16):
        return None
    return TraceParent(root[1] + root[2], parent[1] if parent is not None else None, _UNSAMPLED.search(header) is None)


def span_of(execution: str, operation: str | None = None) -> str:
    """The id of the span of an execution, if `operation` is None; else the id of the span of that operation of the execution."""
    return below(execution, "execution") if operation is None else below(execution, "operation", operation)


def _named(header: Execution) -> str:
    return f"execution {header.function}"


def _about(header: Execution) -> dict[str, Any]:
    return {
        "holdfast.function": header.function,
        "holdfast.version": header.version,
        "holdfast.execution": header.id,
        "holdfast.execution_name": header.name,
        "holdfast.tenant": header.tenant,
    }


def _server() -> Any:
    from opentelemetry.trace import SpanKind

    return SpanKind.SERVER
