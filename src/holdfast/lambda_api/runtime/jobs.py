"""What a process is asked to do, and what came of it, in Lambda's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.model.clock import monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Failure

MAX_RESPONSE: Final = 6 * 1024 * 1024 + 100
"""Bytes that a function may answer with, as Lambda counts."""
TOO_LARGE: Final = "Function.ResponseSizeTooLarge"
TIMED_OUT: Final = "Sandbox.Timedout"
EXITED: Final = "Runtime.ExitError"
NOT_STARTED: Final = "Runtime.InvalidEntrypoint"
OUT_OF_MEMORY: Final = "Runtime.OutOfMemory"
"""What the log calls an exit by which too much memory was given back."""
_PLATFORM: Final = (TIMED_OUT, EXITED, NOT_STARTED)


class InvocationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of one invocation."""

    id: str
    arn: str
    execution: str | None = None
    trace: str | None = None
    tenant: str | None = None
    client_context: str | None = None
    """JSON, as the context object shows it."""


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """What an invocation came to."""

    request: str
    payload: bytes
    """What the function returned, or its error as Lambda shows it."""
    error: Failure | None = None
    tail: bytes = b""
    """The last 4 KB of its log."""


class Job:
    """One invocation on its way through the pool."""

    def __init__(self, request: InvocationRequest, payload: Callable[[], bytes], finished: Callable[[Called | Exception], None]) -> None:
        self.request = request
        self.payload = payload
        """Made when a process is ready for it; what it raises is the job's end."""
        self.finished = finished
        self.since = monotonic()

    def returned(self, payload: bytes, tail: bytes) -> None:
        """The function answered."""
        self.finished(Called(request=self.request.id, payload=payload, tail=tail))

    def failed(self, failure: Failure, tail: bytes, payload: bytes | None = None) -> None:
        """The function raised, or its process failed it; then the payload is what Lambda would say."""
        failure = addressed(failure, self.request.id)
        self.finished(Called(request=self.request.id, payload=payload or _shown(failure), error=failure, tail=tail))


def _shown(failure: Failure) -> bytes:
    return msgspec.json.encode({"errorType": failure.type, "errorMessage": failure.message})


def addressed(failure: Failure, request: str) -> Failure:
    """An error of the platform as Lambda words it, for one request; a function's own error as it is."""
    if failure.type not in _PLATFORM:
        return failure
    return Failure(message=f"RequestId: {request} Error: {failure.message}", type=failure.type)


def is_platforms(failure: Failure | None) -> bool:
    """Whether the platform says so, and not the function."""
    return failure is not None and failure.type in _PLATFORM


def exit_reason(code: int) -> str:
    """Why a runtime is not there any more."""
    if code == 0:
        return "Runtime exited without providing a reason"
    return f"Runtime exited with error: {f'exit status {code}' if code > 0 else f'signal: {_signal_name(-code)}'}"


def _signal_name(number: int) -> str:
    names = {6: "aborted", 9: "killed", 11: "segmentation fault", 15: "terminated"}
    return names.get(number, str(number))


class _Raised(msgspec.Struct):
    error_message: Any = msgspec.field(default=None, name="errorMessage")
    error_type: Any = msgspec.field(default=None, name="errorType")
    stack_trace: Any = msgspec.field(default=None, name="stackTrace")
    trace: Any = None


def raised(body: bytes, kind: str | None) -> Failure:
    """The error that a runtime client posted."""
    try:
        sent = msgspec.json.decode(body, type=_Raised)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Failure(message=body[:4096].decode(errors="replace"), type=kind or "Runtime.UnknownReason")
    stack = sent.stack_trace or sent.trace
    lines = tuple(str(line) for line in stack) if isinstance(stack, list) else None
    return Failure(message=_text(sent.error_message), type=_text(sent.error_type) or kind, stack_trace=lines or None)


def _text(sent: object) -> str | None:
    return None if sent is None else str(sent)


def json_header(text: str | None, what: str) -> str | None:
    """A JSON text as a header's value: on one line, and in letters that every client reads alike."""
    if text is None:
        return None
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{what} is not JSON: {error}") from None


def checked_header(value: str | None, what: str) -> str | None:
    """A text that can be a header's value."""
    if value is not None and not value.isprintable():
        raise InvalidParameter(f"{what} cannot be sent to a function: {value!r:.100}")
    return value
