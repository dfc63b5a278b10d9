"""The response of a child run, read from the operation that waited for it."""

from __future__ import annotations

import msgspec

from holdfast.contract.codes import meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError, response_from
from holdfast.model import json_structs
from holdfast.model.operations import Failure, Operation, Status
from holdfast.pipelines.record.operations import REUSED
from holdfast.pipelines.record.reused import reused_in

_CODES = {Status.STOPPED: "cancelled", Status.TIMED_OUT: "timeout", Status.FAILED: "worker_crashed"}
_NOT_FOUND, _LIMIT = "ResourceNotFoundException", "LimitReached"


def child_response(operation: Operation) -> Response:
    """The response of a child run that has ended. If the request was refused, or if the run ended without a response, this is a response
    with an error and without a run id. If the operation is a step that records a reused response, it is that response."""
    if operation.sub_type == REUSED:
        return reused_in(operation).answer
    if operation.status is Status.SUCCEEDED:
        return response_from(operation.result or "{}")
    error = operation.error or Failure()
    if error.type == _LIMIT:
        return _limited(operation, error)
    if error.data:
        try:
            return response_from(error.data)
        except msgspec.DecodeError:  # a run that ended without a response
            pass
    code = "worker_not_found" if error.type == _NOT_FOUND else _CODES[operation.status]
    return made_response(code, error.message or "The run ended without a response.")


def _limited(operation: Operation, error: Failure) -> Response:
    """The response for a child run whose request was refused because a rate was exceeded."""
    until = json_structs.decoded(error.data or "{}", _Limit).until
    seconds = max(1.0, (until - (operation.ended_at or operation.started_at)) / 1000)
    return made_response("rate_limited", error.message or "The rate limit of the worker is used up.", retry_after_seconds=seconds)


class _Limit(msgspec.Struct):
    until: int = 0


def made_response(code: str, message: str, *, retry_after_seconds: float | None = None) -> Response:
    """Make a response with this error code, for a request that was refused or a run that ended without a response. It has no run id."""
    meaning = meaning_of(code)
    told = ResponseError(error_code=code, message=message, retryable=meaning.retryable, retry_after_seconds=retry_after_seconds)
    return Response(run_id="", worker_id="", version="", status=meaning.status, error=told, observability=Observability(trace_id=""))


def was_refused(response: Response) -> bool:
    """Whether the response has no run id: the request was refused, or the run ended without a response."""
    return not response.run_id
