"""aws-lambda-worker: answers a request of the worker protocol that is inside its inputs. The response to that inner request is its output.

The run enforces time, budget, retries and isolation. The inner request may only tighten the time, the tokens and the tools, and asks for
one thing: what a model answers to `inputs.prompt`, as text or as JSON by `inputs.schema`. If a tool fails temporarily, the attempt fails
too, and the run makes another one. Every other failure is reported in the inner response, and the run itself is `ok`.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from holdfast import WorkerContext, WorkerError, worker
from holdfast.contract.checking import Mismatch, brief, checker_of
from holdfast.contract.codes import ResponseStatus, meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Constraints, WorkerRequest, request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RunLimits
from holdfast.model import codec
from holdfast.workers.tools.token_estimate import estimated_input

_UNIT: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string", "minLength": 1}, "schema": {"type": "object"}},
}
_KEPT: Final = ("timeout_seconds", "max_tokens", "tools_allowed")
"""The constraints that an inner request may have; this worker enforces them. An inner request with any other constraint is refused: only
the outer request may have it."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Refused(Exception):
    """The inner request failed with the error code `code`. The run itself succeeds: its output is an inner response with this error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@worker("worker.md")
async def answer(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Ask the model what the inner request asks for, and return the inner response. If a tool fails temporarily, raises its WorkerError, so
    that the run makes another attempt. Every other failure is an error in the inner response."""
    envelope = _Envelope(ctx)
    try:
        request = request_from(inputs["request"])
        envelope.of(request)
        limits = _limits(request, ctx.contract.limits)
        outputs = await _asked(request, limits, ctx)
    except InvalidRequest as wrong:
        return envelope.ended(wrong.error_code, str(wrong), wrong.details)
    except _Refused as refused:
        return envelope.ended(refused.code, str(refused), None)
    except WorkerError as failed:
        if meaning_of(failed.error_code).retryable:
            raise  # a temporary failure: the run waits and retries
        return envelope.ended(failed.error_code, failed.message, failed.details)
    return envelope.around(outputs)


def _limits(request: WorkerRequest, limits: RunLimits) -> RunLimits:
    """The limits of the inner request: those of the contract, tightened by the constraints of the request. Raises InvalidRequest if the
    request is not valid, or if a constraint is wider than the contract."""
    problems = list(checker_of(_UNIT).problems(request.inputs))
    told = [Mismatch(f"/inputs{problem.path}", problem.reason, problem.value) for problem in problems]
    if not _ID.fullmatch(request.worker_id):
        told.append(Mismatch("/worker_id", "it must be 1 to 64 letters, digits, - and _", brief(request.worker_id)))
    told += [
        Mismatch(f"/constraints/{name}", "only the outer request can have this constraint", brief(getattr(request.constraints, name)))
        for name in Constraints.__struct_fields__
        if name not in _KEPT and getattr(request.constraints, name) is not None
    ]
    if told:
        shown = "; ".join(f"{problem.path}: {problem.reason}" for problem in told)
        raise InvalidRequest(f"The inner request is not valid: {shown}.", details=told)
    return tighten(limits, request.constraints)


async def _asked(request: WorkerRequest, limits: RunLimits, ctx: WorkerContext) -> dict[str, Any]:
    allowed = {tool.name for tool in limits.tools}
    if "language_model" not in allowed:
        raise _Refused(
            "tool_not_allowed", "The inner request does not allow the tool language_model, which the answer needs. Add it to tools_allowed."
        )
    try:
        async with asyncio.timeout(limits.timeout_seconds):
            system = await _instructions(request.worker_id, ctx) if "parameter_store" in allowed else None
            arguments = {**request.inputs, **({} if system is None else {"system": system})}
            return {"answer": await ctx.tools.language_model(**arguments, **_cap(arguments, request.constraints.max_tokens))}
    except TimeoutError:
        raise _Refused(
            "timeout",
            f"The model did not answer within {limits.timeout_seconds:g} seconds, which include reading its instructions (timeout_seconds)."
            " Allow more seconds, or ask for less.",
        ) from None


async def _instructions(worker_id: str, ctx: WorkerContext) -> str | None:
    """The operator's instructions for the model, from the parameter store. None if the parameter store has none for the `worker_id` of the
    inner request, if this worker may not read the parameter store, or if the runner has no parameter store."""
    try:
        return str(await ctx.tools.parameter_store(name=f"/{worker_id}/instructions"))
    except WorkerError as failed:
        missing = isinstance(failed.details, dict) and failed.details.get("reason") == "not_found"
        if missing or failed.error_code == "tool_not_allowed":
            return None
        raise


def _cap(arguments: dict[str, Any], tokens: int | None) -> dict[str, int]:
    """The argument `max_output_tokens` for the model's tool: what is left of `tokens`, the inner request's limit, after the estimated
    tokens of the input. Empty if the inner request has no limit. Raises _Refused if nothing is left."""
    if tokens is None:
        return {}
    messages = [{"content": arguments[name]} for name in ("system", "prompt") if name in arguments]
    left = tokens - estimated_input(messages, codec.dumps(arguments["schema"]) if "schema" in arguments else "")
    if left < 1:
        raise _Refused(
            "budget_exceeded",
            f"The input has about {tokens - left} tokens, and the inner request allows {tokens} for input and answer (max_tokens)."
            " Allow more tokens, or send a shorter input.",
        )
    return {"max_output_tokens": left}


class _Envelope:
    """Makes the inner response: `status`, `outputs`, `observability`, and `error` if there is one."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx
        self._began = ctx.now()
        self._observability: dict[str, Any] = {"trace_id": ctx.uuid().hex}

    def of(self, request: WorkerRequest) -> None:
        """Copy the ids of the inner request, which is in the run's inputs, into the inner response."""
        trace = request.trace
        seen = {
            "worker_id": request.worker_id,
            "version": request.version,
            "trace_id": trace.trace_id,
            "upstream_request_id": trace.upstream_request_id,
        }
        self._observability |= {name: value for name, value in seen.items() if value is not None}

    def around(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """The inner response (the run's output) for an inner request that succeeded with these outputs."""
        return self._made(ResponseStatus.OK, outputs)

    def ended(self, code: str, message: str, details: Any) -> dict[str, Any]:
        """The inner response (the run's output) for an inner request that failed with this code, message and details."""
        meaning = meaning_of(code)
        error = {"error_code": code, "message": message, "retryable": meaning.retryable, **({"details": details} if details else {})}
        return {**self._made(meaning.status, {}), "error": error}

    def _made(self, status: ResponseStatus, outputs: dict[str, Any]) -> dict[str, Any]:
        took = round((self._ctx.now() - self._began).total_seconds() * 1000)
        self._ctx.log("answered", request_status=status.value, request_worker_id=self._observability.get("worker_id"), duration_ms=took)
        return {"status": status.value, "outputs": outputs, "observability": {**self._observability, "duration_ms": took}}
