"""Decides what a failed call to the service ends: only this invocation, or the whole execution.

Pure: it reads what boto3 says about the failure. The exceptions built on it are in exceptions.py, which re-exports these names.
"""

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
    """INVOCATION: the service invokes again. EXECUTION: the execution fails."""

    INVOCATION = "INVOCATION"
    EXECUTION = "EXECUTION"


def categorize(error: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> DurableApiErrorCategory:
    """The category of a failure. A mistake of the caller (4xx) fails the execution; throttling, stale tokens and errors of the service fail
    only this invocation."""
    if not error:
        return DurableApiErrorCategory.INVOCATION
    code, text = error.get("Code") or "", error.get("Message") or ""
    if code in _NEEDS_A_PERSON:
        return DurableApiErrorCategory.EXECUTION
    status = (metadata or {}).get("HTTPStatusCode") or 0
    if not BAD_REQUEST_ERROR <= status < SERVICE_ERROR or status == TOO_MANY_REQUESTS_ERROR:
        return DurableApiErrorCategory.INVOCATION
    # The service has changed the capitals of this text before; comparing them would fail healthy executions.
    stale_token = code == INVALID_PARAMETER_VALUE_EXCEPTION and text.lower().startswith(INVALID_CHECKPOINT_TOKEN_PREFIX.lower())
    return DurableApiErrorCategory.INVOCATION if stale_token else DurableApiErrorCategory.EXECUTION
