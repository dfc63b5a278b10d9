"""The errors of a body: `WorkerError`, which its author raises, and `ToolError`, which a call of the context raises if the call is refused
or fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.hosts.sandbox.inside.launch import passed_limit
from holdfast.model import codec
from holdfast.model.error_text import frames_of
from holdfast.model.errors import HoldfastError, PayloadTooLarge

ERROR_CODE = r"\A[a-z][a-z0-9_]{0,63}\Z"
"""The form of an error code: a small letter, then at most 63 small letters, digits or `_`. Programs compare the code, so it is a name and
not a sentence."""
_MOST = 1024 * 1024 - 1024
"""The most bytes of an error as JSON. A frame has at most 1 MiB; one KiB of it is left for the text around the error."""


class WorkerError(Exception):
    """An error with a code. A body raises it to end its attempt with that code.

    Whether another attempt follows: Holdfast's table of codes decides if it has the code; else the contract's failure modes, if they have
    it; else `retryable`. The operator's rule for the code (`retry_codes`) can override them.
    """

    def __init__(
        self,
        error_code: str,
        message: str | None = None,
        *,
        retryable: bool | None = None,
        needs_human: bool = False,
        partial: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
        details: Any = None,
    ) -> None:
        if re.search(ERROR_CODE, error_code) is None:
            raise ValueError(f"{error_code!r:.100} is not a valid error code: write 1 to 64 small letters, digits and _, a letter first.")
        super().__init__(message or error_code)
        self.error_code = error_code
        self.message = message or error_code
        self.retryable = retryable
        """Whether another attempt may follow, if neither Holdfast nor the contract has a rule for the code. None means False."""
        self.needs_human = needs_human
        """Whether a person must look first: then the run ends with the status `needs_human`, without another attempt."""
        self.partial = partial
        """Outputs that the caller can use although the run failed; None if there are none."""
        self.retry_after_seconds = retry_after_seconds
        """The least number of seconds until the next attempt, at most a day; None: only the contract's backoff decides."""
        self.details = details
        """Any JSON value for the `details` of the response's error."""


class ToolError(WorkerError):
    """A call of the context was refused or failed: a tool, a step, a question or an artifact. If the body does not catch this error, the
    attempt ends with the error's code."""


def as_frame(error: BaseException) -> dict[str, Any]:
    """The error as a JSON object that the body sends to the runner. A WorkerError keeps its code. For any other exception, the code is that
    of the sandbox's limit that caused it, `artifact_too_large` for a PayloadTooLarge, and `worker_crashed` otherwise. If the `partial` or
    `details` of the error are not JSON or are too large, the object describes that mistake instead of the error."""
    told = _told(error)
    try:
        size = len(codec.dumps(told).encode())
    except HoldfastError as odd:
        return _told(odd)
    if size > _MOST:
        large = f"The error {told['error_code']} has {size:,} bytes as JSON, and at most {_MOST:,} are allowed."
        return _told(PayloadTooLarge(f"{large} Store large values with ctx.artifact, and pass their references."))
    return told


def _told(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, WorkerError):
        return {
            "error_code": passed_limit(error) or ("artifact_too_large" if isinstance(error, PayloadTooLarge) else "worker_crashed"),
            "message": f"{type(error).__name__}: {error}"[:2000].encode(errors="backslashreplace").decode(),
            "type": type(error).__name__,
            "frames": frames_of(error),
        }
    told = {
        "error_code": error.error_code,
        "message": str(error.message)[:4000].encode(errors="backslashreplace").decode(),
        "retryable": error.retryable,
        "needs_human": error.needs_human or None,
        "partial": None if error.partial is None else dict(error.partial),
        "retry_after_seconds": error.retry_after_seconds,
        "details": error.details,
        "frames": frames_of(error),
    }
    return {key: value for key, value in told.items() if value is not None}
