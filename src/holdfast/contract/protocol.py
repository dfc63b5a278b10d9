"""The request and the response of a worker: the same over HTTP, on the command line and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec

from holdfast.contract.checking import MAX_DEPTH, Checker, Mismatch, brief, checker_of
from holdfast.contract.codes import ResponseStatus as ResponseStatus
from holdfast.contract.refusals import InvalidRequest
from holdfast.model import codec, json_structs
from holdfast.model.errors import PayloadNotJson
from holdfast.model.shapes import crowding


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trace to which the request belongs. If `trace_id` is None, the runner or server that accepts the request makes one."""

    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    upstream_request_id: str | None = None


class Constraints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tighter limits that a caller sets for one run, under the names of the contract's limits. None: the contract's limit applies."""

    timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    max_tokens: int | None = None
    max_cost_usd: Decimal | None = None
    max_tool_calls: int | None = None
    tool_quotas: dict[str, int] | None = None
    max_cpu_seconds: float | None = None
    max_memory_mb: int | None = None
    allow_subprocess: bool | None = None
    tools_allowed: tuple[str, ...] | None = None


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a worker. It does not contain the tenant: over HTTP the tenant comes from the credential, in a program from an
    argument."""

    worker_id: str
    version: str | None = None
    """The version as text, because 1.10 is not 1.1. None: of the versions that are served, the one that was added last."""
    inputs: dict[str, Any]
    constraints: Constraints = Constraints()
    trace: Trace = Trace()
    idempotency_key: str | None = None
    run_timeout_seconds: float | None = None
    user: str | None = None


class ResponseError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of a run. `retry_after_seconds` is None if no time is known; `details` depends on the code."""

    error_code: str
    message: str
    retryable: bool
    retry_after_seconds: float | None = None
    details: Any = None


class Tokens(msgspec.Struct, frozen=True):
    """The tokens that language models read and wrote."""

    input: int = 0
    output: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has used, all its attempts together."""

    tokens: Tokens = Tokens()
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    cached_tokens: int = 0
    """How many of the input tokens the model's server had in its cache."""
    reasoning_tokens: int = 0
    """How many of the output tokens the model used for reasoning."""


class Observability(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a run for operators: its trace, its number of attempts, its duration and what it used."""

    trace_id: str
    span_id: str | None = None
    attempt: int = 1
    duration_ms: int = 0
    usage: ResponseUsage = ResponseUsage()
    isolation: str | None = None
    partial: bool = False
    """For a worker: whether the response has both outputs and an error. For a pipeline: whether it succeeded although a result that its
    author wanted is missing or partial."""
    log_fields: dict[str, Any] = {}


class ArtifactRef(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to a large value that is stored outside the response."""

    artifact_id: str
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    uri: str


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a worker's or pipeline's run. Also the answer to a refused request, and the answer about a run that has not ended: then
    `error` says why there are no outputs, and `approvals` has the questions that the run waits for."""

    run_id: str
    worker_id: str
    version: str
    status: ResponseStatus
    outputs: dict[str, Any] | None = None
    error: ResponseError | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    approvals: tuple[dict[str, Any], ...] = ()
    logs: tuple[dict[str, Any], ...] = ()
    observability: Observability


_TEXT = {"type": "string", "minLength": 1, "maxLength": 512}
_SECONDS = {"type": "number", "exclusiveMinimum": 0}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**62}
_TRACE = dict.fromkeys(Trace.__struct_fields__, _TEXT)
_CONSTRAINTS: dict[str, Any] = {
    "timeout_seconds": _SECONDS,
    "idle_timeout_seconds": _SECONDS,
    "max_tokens": _COUNT,
    "max_cost_usd": {"type": "number", "minimum": 0},
    "max_tool_calls": _COUNT,
    "tool_quotas": {"type": "object", "additionalProperties": _COUNT},
    "max_cpu_seconds": _SECONDS,
    "max_memory_mb": {**_COUNT, "minimum": 1},
    "allow_subprocess": {"type": "boolean"},
    "tools_allowed": {"type": "array", "items": _TEXT},
}
REQUEST_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Request",
    "type": "object",
    "additionalProperties": False,
    "required": ["worker_id", "inputs"],
    "properties": {
        "worker_id": _TEXT,
        "version": _TEXT,
        "inputs": {"type": "object", "x-redact": True},  # only the worker's schema says which values may be shown
        "constraints": {"type": "object", "additionalProperties": False, "properties": _CONSTRAINTS},
        "trace": {"type": "object", "additionalProperties": False, "properties": _TRACE},
        "idempotency_key": _TEXT,
        "run_timeout_seconds": _SECONDS,
        "user": _TEXT,
    },
}
_encoder = msgspec.json.Encoder(decimal_format="number")


def request_from(document: str | bytes | Mapping[str, Any], *, worker_id: str | None = None) -> WorkerRequest:
    """The request in a JSON text or a document. Raises InvalidRequest (`schema_mismatch`) if a text is not JSON, has too many values or is
    nested too deep, or if the value does not fit the form of a request; the error then lists the places that do not fit.

    `worker_id` is the worker that the URL names, if it names one. The document may then leave `worker_id` out. The same error is raised if
    the document names another worker.
    """
    value = _loaded(document)
    if worker_id is not None and isinstance(value, dict):
        value = {"worker_id": worker_id, **value}
    problems = list(_checker().problems(value))
    if not problems and worker_id is not None and value["worker_id"] != worker_id:
        problems = [Mismatch("/worker_id", f"the request was sent to {brief(worker_id)}", brief(value["worker_id"]))]
    if problems:
        told = "; ".join(_told(problem) for problem in problems)
        raise InvalidRequest(f"The request does not fit: {told}.", details=problems)
    return json_structs.converted(value, WorkerRequest, strict=False)


def response_text(response: Response) -> bytes:
    """The response as JSON."""
    return _encoder.encode(response)


def response_document(response: Response) -> dict[str, Any]:
    """The response as a dictionary of JSON values."""
    document: dict[str, Any] = msgspec.json.decode(response_text(response))
    return document


def response_from(text: str | bytes) -> Response:
    """The response in a JSON text that `response_text` made."""
    return json_structs.decoded(text, Response)


@cache
def _checker() -> Checker:
    return checker_of(REQUEST_SCHEMA)


def _loaded(document: str | bytes | Mapping[str, Any]) -> Any:
    if isinstance(document, Mapping):
        return dict(document)
    try:
        text = document.encode(errors="surrogatepass") if isinstance(document, str) else document
        if (crowded := crowding(text, MAX_DEPTH)) is not None:
            raise InvalidRequest(f"The request {crowded}.")
        return codec.parsed(document)
    except PayloadNotJson as error:
        raise InvalidRequest(str(error)) from None


def _told(problem: Mismatch) -> str:
    hint = ' (write it as text, "1.0")' if problem.path == "/version" and problem.value[:1] != '"' else ""
    return f"{problem.path or 'the request'}: {problem.reason}{hint}"
