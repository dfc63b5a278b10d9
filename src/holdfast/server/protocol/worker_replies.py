"""Replies of the worker protocol, also to requests that started no run. Most HTTP statuses come from the table of codes
(contract.codes)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from holdfast.contract.codes import CODES, ResponseStatus, ending_of, meaning_of, output_http
from holdfast.contract.protocol import Observability, Response, ResponseError, response_document, response_text
from holdfast.contract.refusals import InvalidRequest
from holdfast.model import errors
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import new_trace_id
from holdfast.model.queue_errors import QueueFull, QueueNotFound
from holdfast.model.restart_errors import NodeNotFound, RestartRefused
from holdfast.model.schedule_errors import ScheduleChanged, ScheduleNotFound
from holdfast.signals.traceparent import header_of, parent_of
from holdfast.web.auth.denials import Denial, Denied
from holdfast.web.capacity import ApiCapacity
from holdfast.web.error_shapes import SHAPES
from holdfast.web.refusals import RETRY_SECONDS, Header, Refused, unavailable
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.route_groups import RouteGroup, challenge
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
"""The HTTP statuses of some of Holdfast's errors in the worker protocol. An error that is not listed has the status that AWS's clients get
(error_shapes.SHAPES). If the table of codes has the code of the error, the status of that table replaces it, unless it is 401 or 403. A 503
whose code is not in the table is sent as `overloaded`."""
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
"""The error codes for refusals of HTTP requests, by AWS's names for them. A name that is not here gets `access_denied`."""


class RequestSubject(msgspec.Struct, frozen=True):
    """The worker, the run and the trace that a request names. An error reply repeats them."""

    worker_id: str = ""
    run_id: str = ""
    trace_id: str | None = None


def subject_of(request: Request) -> RequestSubject:
    """The worker or the run that the path of a request names (else empty), and the id of the trace in its header `traceparent` (else
    None)."""
    parts = path_of(request.scope).split("/")
    kind, label = (parts[2], unquote(parts[3])[:_LARGEST_LABEL]) if len(parts) > 3 else ("", "")
    parent = parent_of(request.header(b"traceparent"))
    return RequestSubject(
        worker_id=label if kind == "workers" else "",
        run_id=label if kind == "runs" else "",
        trace_id=None if parent is None else parent.trace_id,
    )


class WorkerGroup(RouteGroup):
    """The routes of the worker protocol. An error has the form of a run's response."""

    prefix = "/v1"
    capacity = ApiCapacity("worker protocol", share=4)
    """One tenant may use at most a quarter, so that other tenants have room too."""

    def denial(self, refused: Refused, request: Request) -> Reply:
        if not isinstance(refused, Denied):
            return reply_to(refused, RequestSubject())
        code, status = "overloaded" if refused.why is Denial.TROUBLE else "access_denied", refused.why.plain_status
        return error_reply(code, str(refused), RequestSubject(), status, headers=challenge(status))

    def failure(self, error: Exception, request: Request) -> Reply:
        if isinstance(error, TimeoutError):
            error = unavailable(
                "The request took too long. It may still be carried out. Send it again, with the same idempotency key if it has one."
            )
        if isinstance(error, HoldfastError | Refused):
            return reply_to(error, subject_of(request))
        return error_reply("internal_error", "The server had an internal error. Its log has the details.", subject_of(request), 500)


WORKERS: Final = WorkerGroup()


def http_status(response: Response) -> int:
    """The HTTP status for a response. If the table of codes has the response's error code, and under the same `status` as the response has:
    the HTTP status of that code. Else: the usual HTTP status for the response's `status`. The result is 202, which means that the run is
    open, only if the response names approvals that wait. For outputs that do not fit (INVALID_OUTPUT): 502, or 422 if the error is not
    retryable; a rule of the operator may have changed whether it is."""
    if response.status is ResponseStatus.INVALID_OUTPUT and response.error is not None:
        return output_http(response.error.retryable)
    known = None if response.error is None else CODES.get(response.error.error_code)
    if known is None or known.status is not response.status or (known.http == _OPEN and not response.approvals):
        return ending_of(response.status).http
    return known.http


def response_reply(response: Response, status: int | None = None) -> Reply:
    """A reply with a response: that of a run which has ended or is quarantined, or one that refuses a request. `status`: the HTTP status;
    if it is None, `http_status` chooses it."""
    return Reply(status or http_status(response), response_text(response), (JSON, *_headers(response)))


def open_reply(response: Response, state: str, place: Mapping[str, Any] | None = None) -> Reply:
    """A reply (202) about a run that has not ended: its state, its place in a queue, its address, and the decisions for which it waits.
    `place` is None if the run does not wait in a queue."""
    short = {"run_id": response.run_id, "worker_id": response.worker_id, "version": response.version}
    placed = {} if place is None else {"place": place}
    document = {"state": state, **placed, **(response_document(response) if response.approvals else short)}
    return Reply(_OPEN, _encode(document), (JSON, _location(response), _traced(response)))


def document_reply(document: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """A reply with a document that is not the response of a run, in JSON."""
    return Reply(status, _encode(document), (JSON, *headers))


def reply_to(error: HoldfastError | Refused, subject: RequestSubject) -> Reply:
    """The reply, in the form of the worker protocol, to a request that was refused or that failed with `error`."""
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
    subject: RequestSubject,
    http: int | None = None,
    *,
    details: Any = None,
    headers: tuple[Header, ...] = (),
    again_seconds: int | None = None,
) -> Reply:
    """A reply with an error that is not the response of a run, in the form of a run's response. If `code` is in the table of codes and
    `http` is neither 401 nor 403, the HTTP status and the status of the response are those of the table, and `http` is ignored. Else the
    HTTP status is `http`, or 400 if `http` is None; the status of the response is PERMANENT_ERROR for 401 and 403, RETRYABLE_ERROR for 408,
    429 and 500 or more, and INVALID_REQUEST for others. `again_seconds`: after how many seconds the caller may try again; None if no time
    is known."""
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
            retryable=meaning.retryable if known is not None else status is ResponseStatus.RETRYABLE_ERROR,
            retry_after_seconds=again_seconds,
            details=details or None,
        ),
        observability=Observability(trace_id=subject.trace_id or new_trace_id(), attempt=0),
    )
    again = ((b"retry-after", str(again_seconds or RETRY_SECONDS).encode()),) if http in (429, 503) else ()
    own = tuple(header for header in headers if header[0] != b"retry-after")
    return Reply(http, response_text(response), (JSON, *again, *own))


def _status(http: int) -> ResponseStatus:
    if http in (401, 403):
        return ResponseStatus.PERMANENT_ERROR
    return ResponseStatus.RETRYABLE_ERROR if http in (408, 429) or http >= 500 else ResponseStatus.INVALID_REQUEST


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
