"""Replies of the worker protocol, with the HTTP statuses of its one table; also to a request that started no run."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from holdfast.contract.codes import CODES, Status, ending_of, meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError, response_document, response_text
from holdfast.contract.refusals import InvalidRequest
from holdfast.model import errors
from holdfast.model.errors import HoldfastError
from holdfast.model.queue_errors import QueueFull
from holdfast.model.restart_errors import NodeNotFound, RestartRefused
from holdfast.model.schedule_errors import ScheduleChanged, ScheduleNotFound
from holdfast.service.queue_desk import QueueNotFound
from holdfast.signals.traceparent import header_of, parent_of
from holdfast.web.aws_errors import SHAPES
from holdfast.web.refusals import RETRY_SECONDS, Header, Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import path_of
from holdfast.workers.approvals import ApprovalNotFound, ApprovalRefused, ApproverRefused, VotedBefore
from holdfast.workers.artifacts import ArtifactMissing
from holdfast.workers.packages import WorkerMissing

JSON: Final[Header] = (b"content-type", b"application/json")
_OPEN: Final = 202
_LARGEST_LABEL: Final = 200
_encode = msgspec.json.Encoder(decimal_format="number").encode
_HTTP: Final[Mapping[type[HoldfastError], int]] = {
    ApprovalNotFound: 404,
    QueueNotFound: 404,
    ApproverRefused: 403,
    VotedBefore: 409,
    ApprovalRefused: 422,
    ArtifactMissing: 404,
    WorkerMissing: 404,
    errors.CallbackClosed: 409,
    ScheduleNotFound: 404,
    ScheduleChanged: 409,
    NodeNotFound: 422,
    RestartRefused: 409,
    errors.ExtraMissing: 501,
}
"""The HTTP statuses of Holdfast's errors in the worker protocol. Errors that are not listed have the status that AWS's clients get."""
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
"""The codes of errors of HTTP itself, by AWS's names for them. All other refusals are the gate's."""


class Subject(msgspec.Struct, frozen=True):
    """The worker, run and trace that a request names, for the reply to a request that cannot be served."""

    worker_id: str = ""
    run_id: str = ""
    trace_id: str | None = None


def subject_of(request: Request) -> Subject:
    """What a request is about, as far as its path and its `traceparent` tell."""
    parts = path_of(request.scope).split("/")
    kind, label = (parts[2], unquote(parts[3])[:_LARGEST_LABEL]) if len(parts) > 3 else ("", "")
    parent = parent_of(request.header(b"traceparent"))
    return Subject(
        worker_id=label if kind == "workers" else "",
        run_id=label if kind == "runs" else "",
        trace_id=None if parent is None else parent.trace_id,
    )


def http_status(response: Response) -> int:
    """The status of a response, by the one table. A run that is over and needs a person gets the status of a conflict, not 202."""
    known = None if response.error is None else CODES.get(response.error.error_code)
    if known is None or known.status is not response.status or (known.http == _OPEN and not response.approvals):
        return ending_of(response.status).http
    return known.http


def response_reply(response: Response, status: int | None = None) -> Reply:
    """A reply with a final response, and the status of the table or another."""
    return Reply(status or http_status(response), response_text(response), (JSON, *_headers(response)))


def open_reply(response: Response, state: str, place: Mapping[str, Any] | None = None) -> Reply:
    """A reply about a run that is not over: its state, its place in a queue, its address, and the decisions that it waits for."""
    short = {"run_id": response.run_id, "worker_id": response.worker_id, "version": response.version}
    placed = {} if place is None else {"place": place}
    document = {"state": state, **placed, **(response_document(response) if response.approvals else short)}
    return Reply(_OPEN, _encode(document), (JSON, _location(response), _traced(response)))


def document_reply(document: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """A reply with any other document, in JSON."""
    return Reply(status, _encode(document), (JSON, *headers))


def reply_to(error: HoldfastError | Refused, subject: Subject) -> Reply:
    """The reply to a request that started no run."""
    if isinstance(error, InvalidRequest):
        return error_reply(error.error_code, str(error), subject, details=error.details)
    if isinstance(error, Refused):
        code = _SHAPES.get(error.shape, "access_denied")
        return error_reply(code, str(error), subject, error.status, headers=error.headers)
    if isinstance(error, QueueFull):
        return error_reply(error.code, str(error), subject, again_seconds=error.retry_after_seconds)
    http = next(_HTTP.get(kind) or SHAPES[kind][0] for kind in type(error).__mro__ if kind in _HTTP or kind in SHAPES)
    if http == 503 and error.code not in CODES:
        return error_reply("overloaded", str(error), subject)
    return error_reply(error.code, str(error), subject, http)


def error_reply(
    code: str,
    message: str,
    subject: Subject,
    http: int | None = None,
    *,
    details: Any = None,
    headers: tuple[Header, ...] = (),
    again_seconds: int | None = None,
) -> Reply:
    """An error without a run, as a response. A code of the one table has the meaning that the table gives it."""
    known = CODES.get(code)
    status, http = (known.status, known.http) if known is not None and http not in (401, 403) else (_status(http or 400), http or 400)
    meaning = meaning_of(code)
    response = Response(
        run_id=subject.run_id,
        worker_id=subject.worker_id,
        version="",
        status=status,
        error=ResponseError(
            error_code=code,
            message=message,
            retryable=meaning.retryable if known is not None else status is Status.RETRYABLE_ERROR,
            retry_after_seconds=again_seconds,
            details=details or None,
        ),
        observability=Observability(trace_id=subject.trace_id or secrets.token_hex(16), attempt=0),
    )
    again = ((b"retry-after", str(again_seconds or RETRY_SECONDS).encode()),) if http in (429, 503) else ()
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
