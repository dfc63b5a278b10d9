"""Decides whether a failed call to the Lambda service ends only this invocation or the whole execution. The decision uses only what boto3
says about the failure. The exceptions that use the decision are in exceptions.py, which also exports the names of this module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypedDict

BAD_REQUEST_ERROR = 400
TOO_MANY_REQUESTS_ERROR = 429
SERVICE_ERROR = 500
INVALID_PARAMETER_VALUE_EXCEPTION = "InvalidParameterValueException"
INVALID_CHECKPOINT_TOKEN_PREFIX = "Invalid checkpoint token"

# These have the status 502, but a retry does not help, because a person must repair a key.
_NEEDS_A_PERSON = frozenset({"KMSAccessDeniedException", "KMSDisabledException", "KMSInvalidStateException", "KMSNotFoundException"})


class AwsErrorObj(TypedDict):
    """The `Error` part of a failed AWS call."""

    Code: str | None
    Message: str | None


class AwsErrorMetadata(TypedDict):
    """The `ResponseMetadata` part of a failed AWS call."""

    RequestId: str | None
    HostId: str | None
    HTTPStatusCode: int | None
    HTTPHeaders: str | None
    RetryAttempts: str | None


class DurableApiErrorCategory(Enum):
    """What ends after a failed call. INVOCATION: only this invocation; the service invokes the function again. EXECUTION: the execution,
    which fails."""

    INVOCATION = "INVOCATION"
    EXECUTION = "EXECUTION"


def categorize(error: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> DurableApiErrorCategory:
    """The category of a failed call. `error` and `metadata` are the two parts of boto3's answer; None if they are missing. EXECUTION: a
    problem with a KMS key, or an HTTP status 4xx, with two exceptions: throttling (429), and a checkpoint token that is too old.
    INVOCATION: these two, any other error, and a missing `error`."""
    if not error:
        return DurableApiErrorCategory.INVOCATION
    code, text = error.get("Code") or "", error.get("Message") or ""
    if code in _NEEDS_A_PERSON:
        return DurableApiErrorCategory.EXECUTION
    status = (metadata or {}).get("HTTPStatusCode") or 0
    if not BAD_REQUEST_ERROR <= status < SERVICE_ERROR or status == TOO_MANY_REQUESTS_ERROR:
        return DurableApiErrorCategory.INVOCATION
    # The service has changed the upper and lower case of this text before, so the case is not compared.
    stale_token = code == INVALID_PARAMETER_VALUE_EXCEPTION and text.lower().startswith(INVALID_CHECKPOINT_TOKEN_PREFIX.lower())
    return DurableApiErrorCategory.INVOCATION if stale_token else DurableApiErrorCategory.EXECUTION
