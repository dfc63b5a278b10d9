"""Errors in the form that AWS's clients read: the name of the error in `x-amzn-errortype`, an HTTP status, and a body with Type and
message. All routes have errors of this form, unless their group has another (route_groups.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model import deploy_errors, errors
from holdfast.model.errors import HoldfastError
from holdfast.web.refusals import RETRY_SECONDS, Header, Refused, retry_after
from holdfast.web.replies import Reply, json_reply

SHAPES: Final[Mapping[type[HoldfastError], tuple[int, str]]] = {
    errors.Rejected: (400, "InvalidParameterValueException"),
    errors.PayloadNotJson: (400, "InvalidRequestContentException"),
    errors.PayloadTooLarge: (413, "RequestTooLargeException"),
    errors.FunctionNotFound: (404, "ResourceNotFoundException"),
    errors.ExecutionNotFound: (404, "ResourceNotFoundException"),
    errors.CallbackNotFound: (404, "ResourceNotFoundException"),
    errors.CallbackClosed: (400, "CallbackTimeoutException"),
    errors.ExecutionAlreadyStarted: (409, "DurableExecutionAlreadyStartedException"),
    errors.CredentialsNeeded: (403, "AccessDeniedException"),
    errors.AccessRefused: (403, "AccessDeniedException"),
    deploy_errors.ResourceConflict: (409, "ResourceConflictException"),
    deploy_errors.RevisionMismatch: (412, "PreconditionFailedException"),
    errors.EngineClosed: (503, "ServiceException"),
    errors.Retryable: (503, "ServiceException"),
    errors.TooManyRequests: (429, "TooManyRequestsException"),
    errors.LeaseLost: (400, "InvalidParameterValueException"),
    HoldfastError: (500, "ServiceException"),
}
"""The HTTP status and AWS's name for each of Holdfast's errors. A class that is not listed has those of its nearest parent."""


def reply_to(error: HoldfastError | Refused, message: str = "") -> Reply:
    """The reply to a request that failed with `error`. `message` replaces the message of the error, unless it is empty."""
    if isinstance(error, Refused):
        return shaped(error.status, error.shape, message or str(error), headers=error.headers, reason=error.reason)
    status, shape = next(SHAPES[cls] for cls in type(error).__mro__ if cls in SHAPES)
    reason = "ConcurrentInvocationLimitExceeded" if status == 429 else None
    return shaped(status, shape, message or str(error), headers=retry_after() if status in (429, 503) else (), reason=reason)


def shaped(status: int, shape: str, message: str, *, headers: tuple[Header, ...] = (), reason: str | None = None) -> Reply:
    """A reply with an error. `shape` is AWS's name of the error. Some of AWS's clients read `message`, others `Message`, so the body has
    both; clients of CloudWatch Logs read `__type`. If `reason` is given, the body has it as `Reason`, and says after how many seconds the
    client may try again."""
    body: dict[str, Any] = {"__type": shape, "Type": "User" if status < 500 else "Service", "message": message, "Message": message}
    if reason is not None:
        body |= {"Reason": reason, "retryAfterSeconds": str(RETRY_SECONDS)}
    return json_reply(body, status, (*headers, (b"x-amzn-errortype", shape.encode())))
