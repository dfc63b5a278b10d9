"""Jobs: one invocation for a process, its result, and Lambda's names for errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.model import json_structs
from holdfast.model.clock import monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Failure

MAX_RESPONSE: Final = 6 * 1024 * 1024 + 100
"""The largest response of a function, in bytes. Lambda has the same limit."""
TOO_LARGE: Final = "Function.ResponseSizeTooLarge"
TIMED_OUT: Final = "Sandbox.Timedout"
EXITED: Final = "Runtime.ExitError"
NOT_STARTED: Final = "Runtime.InvalidEntrypoint"
OUT_OF_MEMORY: Final = "Runtime.OutOfMemory"
"""The log's name for a process that was ended because it used too much memory."""
_PLATFORM: Final = (TIMED_OUT, EXITED, NOT_STARTED)


class InvocationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One invocation without its payload. The runtime client gets all but `execution` as headers."""

    id: str
    arn: str
    execution: str | None = None
    """The ARN of the durable execution, for the log; None if the function is not durable."""
    trace: str | None = None
    tenant: str | None = None
    client_context: str | None = None
    """JSON about the client, which the function sees as `client_context`; None if the caller sent none."""


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an invocation."""

    request: str
    payload: bytes
    """The function's return value, or its error in Lambda's form."""
    error: Failure | None = None
    tail: bytes = b""
    """The last 4 KB of the log of this invocation."""


class Job:
    """One invocation that waits for a process, or that a process runs. At its end `finished` is called with its result; or with an
    exception if the function could not be invoked, or if the pool closes first (EngineClosed). `finished` is not called for a cancelled
    job."""

    def __init__(self, request: InvocationRequest, payload: Callable[[], bytes], finished: Callable[[JobResult | Exception], None]) -> None:
        self.request = request
        self.payload = payload
        """Makes the payload when a process is ready for the job. If it raises, the job ends with that error."""
        self.finished = finished
        self.since = monotonic()

    def returned(self, payload: bytes, tail: bytes) -> None:
        """End the job with what the function returned. `tail` is the end of its log."""
        self.finished(JobResult(request=self.request.id, payload=payload, tail=tail))

    def failed(self, failure: Failure, tail: bytes, payload: bytes | None = None) -> None:
        """End the job with an error of the function or of its process. Without `payload`, the caller gets the error in Lambda's form."""
        failure = addressed(failure, self.request.id)
        self.finished(JobResult(request=self.request.id, payload=payload or _shown(failure), error=failure, tail=tail))


def _shown(failure: Failure) -> bytes:
    return msgspec.json.encode({"errorType": failure.type, "errorMessage": failure.message})


def addressed(failure: Failure, request: str) -> Failure:
    """An error of the platform with the request id in its message, in Lambda's wording. A function's own error is returned unchanged."""
    if not is_platforms(failure):
        return failure
    return Failure(message=f"RequestId: {request} Error: {failure.message}", type=failure.type)


def is_platforms(failure: Failure) -> bool:
    """Whether the platform made this failure: the process did not start, exited, or reached the timeout. False for an error of the
    function, and for an answer that is too large."""
    return failure.type in _PLATFORM


def exit_reason(code: int) -> str:
    """Lambda's words for the end of a runtime. `code` is its exit code; a negative one is the number of a signal."""
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
    """The error that a runtime client posted as `body`. `kind` is the error type in the request's header; it is used if the body has none.
    If the body is not a JSON object, its first 4,096 bytes are the message."""
    try:
        sent = json_structs.decoded(body, _Raised)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Failure(message=body[:4096].decode(errors="replace"), type=kind or "Runtime.UnknownReason")
    stack = sent.stack_trace or sent.trace
    lines = tuple(str(line) for line in stack) if isinstance(stack, list) else None
    return Failure(message=_text(sent.error_message), type=_text(sent.error_type) or kind, stack_trace=lines or None)


def _text(sent: object) -> str | None:
    return None if sent is None else str(sent)


def json_header(text: str | None, what: str) -> str | None:
    """A JSON text as a header value: on one line and in ASCII, which every client reads the same way. None stays None. Raises
    InvalidParameter if the text is not JSON; `what` names the text in the error."""
    if text is None:
        return None
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(f"{what} is not JSON: {error}") from None


def checked_header(value: str | None, what: str) -> str | None:
    """Return `value`. Raises InvalidParameter if it has a character that is not printable; `what` names the value in the error."""
    if value is not None and not value.isprintable():
        raise InvalidParameter(f"{what} has a character that is not printable, so it cannot be sent to a function: {value!r:.100}")
    return value
