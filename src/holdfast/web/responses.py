"""Answers in the shape of the worker protocol, with HTTP statuses of the one table; also to what never became a run."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.contract.codes import CODES, Status, ending_of, meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError, response_document, response_text
from holdfast.contract.refusals import InvalidRequest
from holdfast.model import errors
from holdfast.model.errors import HoldfastError
from holdfast.signals.traceparent import header_of
from holdfast.web.errors import RETRY_SECONDS, SHAPES, Refused
from holdfast.web.replies import Header, Reply
from holdfast.workers.approvals import ApprovalNotFound, ApprovalRefused, ApproverRefused
from holdfast.workers.artifacts import ArtifactMissing
from holdfast.workers.packages import WorkerMissing

JSON: Final[Header] = (b"content-type", b"application/json")
_OPEN: Final = 202
_encode = msgspec.json.Encoder(decimal_format="number").encode
_HTTP: Final[Mapping[type[HoldfastError], int]] = {
    ApprovalNotFound: 404,
    ApproverRefused: 403,
    ApprovalRefused: 422,
    ArtifactMissing: 404,
    WorkerMissing: 404,
    errors.CallbackClosed: 409,
    errors.ExtraMissing: 501,
}
"""What our errors are here; the others are what they are for clients of AWS."""
_SHAPES: Final = {
    "UnknownOperationException": "route_not_found",
    "MethodNotAllowedException": "method_not_allowed",
    "SerializationException": "schema_mismatch",
    "RequestTooLargeException": "request_too_large",
    "RequestTimeoutException": "request_timeout",
    "TooManyRequestsException": "overloaded",
    "ServiceException": "overloaded",
    "ResourceNotFoundException": "route_not_found",
}
"""The codes of what was not kept of HTTP itself, by AWS's names for it; the rest are refusals at the gate."""


class Subject(msgspec.Struct, frozen=True):
    """What a request is about, for the answer to one that cannot be served."""

    worker_id: str = ""
    run_id: str = ""
    trace_id: str | None = None


def http_status(response: Response) -> int:
    """By the one table; 202 only while there is something to wait for: a run that is over, and still needs a person, is a conflict."""
    known = None if response.error is None else CODES.get(response.error.error_code)
    if known is None or known.status is not response.status or (known.http == _OPEN and not response.approvals):
        return ending_of(response.status).http
    return known.http


def response_reply(response: Response, status: int | None = None) -> Reply:
    """A response that is final, with the status of the table or another."""
    return Reply(status or http_status(response), response_text(response), (JSON, *_headers(response)))


def open_reply(response: Response, state: str) -> Reply:
    """How a run stands that is not over: where it is, and what a person must decide if it waits for one."""
    short = {"run_id": response.run_id, "worker_id": response.worker_id, "version": response.version}
    document = {"state": state, **(response_document(response) if response.approvals else short)}
    return Reply(_OPEN, _encode(document), (JSON, _location(response), _traced(response)))


def document_reply(document: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """Anything else, in JSON."""
    return Reply(status, _encode(document), (JSON, *headers))


def refusal(error: HoldfastError | Refused, place: Subject) -> Reply:
    """What never became a run."""
    if isinstance(error, InvalidRequest):
        return door_reply(error.error_code, str(error), place, details=error.details)
    if isinstance(error, Refused):
        code = _SHAPES.get(error.shape, "access_denied")
        return door_reply(code, str(error), place, error.status, headers=error.headers)
    http = next(_HTTP.get(kind) or SHAPES[kind][0] for kind in type(error).__mro__ if kind in _HTTP or kind in SHAPES)
    if http == 503 and error.code not in CODES:
        return door_reply("overloaded", str(error), place)
    return door_reply(error.code, str(error), place, http)


def door_reply(
    code: str, message: str, place: Subject, http: int | None = None, *, details: Any = None, headers: tuple[Header, ...] = ()
) -> Reply:
    """An error that made no run, as a response. Codes of the one table mean here what they mean there."""
    known = CODES.get(code)
    status, http = (known.status, known.http) if known is not None and http not in (401, 403) else (_status(http or 400), http or 400)
    meaning = meaning_of(code)
    response = Response(
        run_id=place.run_id,
        worker_id=place.worker_id,
        version="",
        status=status,
        error=ResponseError(
            error_code=code,
            message=message,
            retryable=meaning.retryable if known is not None else status is Status.RETRYABLE_ERROR,
            details=details or None,
        ),
        observability=Observability(trace_id=place.trace_id or secrets.token_hex(16), attempt=0),
    )
    again = ((b"retry-after", str(RETRY_SECONDS).encode()),) if http in (429, 503) else ()
    own = tuple(header for header in headers if header[0] != b"retry-after")
    return Reply(http, response_text(response), (JSON, *again, *own))


def _status(http: int) -> Status:
    if http in (401, 403):
        return Status.PERMANENT_ERROR
    return Status.RETRYABLE_ERROR if http in (408, 429) or http >= 500 else Status.INVALID_REQUEST


def _headers(response: Response) -> tuple[Header, ...]:
    headers = [_traced(response)]
    if response.run_id:
        headers.append(_location(response))
    seconds = None if response.error is None else response.error.retry_after_seconds
    if seconds is not None:
        headers.append((b"retry-after", str(math.ceil(seconds)).encode()))
    return tuple(headers)


def _location(response: Response) -> Header:
    return b"location", f"/v1/runs/{response.run_id}".encode()


def _traced(response: Response) -> Header:
    seen = response.observability
    return b"traceparent", header_of(seen.trace_id, seen.span_id or seen.trace_id).encode()
