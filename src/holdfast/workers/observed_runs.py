"""Makes the values that observers get about a run (signals.observers) from the header, the request and the response of the run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.contract.codes import CODES
from holdfast.contract.protocol import Response, Trace
from holdfast.model.execution import Execution
from holdfast.signals.observers import EndSeen, RunSeen
from holdfast.workers.accepted_request import AcceptedRequest

_OTHER: Final = "other"


def end_of(response: Response, errors: Collection[str], message: str | None, ended_at: int) -> EndSeen:
    """What observers get about the end of a run, made from its response. `message` is the text of the error, without secrets; None: no
    text. The `code_label`, for metrics, is the error code if Holdfast's table of codes or the contract (`errors`) has that code, `other` if
    not, and None without an error."""
    seen, code = response.observability, None if response.error is None else response.error.error_code
    return EndSeen(
        status=response.status.value,
        error_code=code,
        code_label=code if code is None or code in CODES or code in errors else _OTHER,
        message=message,
        attempt=seen.attempt,
        duration_ms=seen.duration_ms,
        ended_at=ended_at,
        partial=seen.partial,
        isolation=seen.isolation,
        input_tokens=seen.usage.tokens.input,
        output_tokens=seen.usage.tokens.output,
        cost_usd=seen.usage.cost_usd,
        tool_calls=seen.usage.tool_calls,
        log_fields=seen.log_fields,
    )


def seen_of(header: Execution, accepted: AcceptedRequest) -> RunSeen:
    """A run, in the form in which observers get it."""
    return RunSeen(
        run_id=header.id,
        worker_id=accepted.request.worker_id,
        version=accepted.version,
        tenant=accepted.tenant,
        trace_id=accepted.trace_id,
        span_id=accepted.span_id,
        parent_span_id=caller_span(accepted.request.trace),
        upstream_request_id=accepted.request.trace.upstream_request_id,
        sampled=accepted.sampled,
        started_at=header.started_at,
        pipeline=accepted.labels.pipeline,
        node=accepted.labels.node,
    )


def caller_span(trace: Trace) -> str | None:
    """The id of the span that a request comes from: the span that the request names; without one, the parent span that it names; else
    None."""
    return trace.span_id or trace.parent_span_id
