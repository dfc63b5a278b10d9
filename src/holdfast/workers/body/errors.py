"""The errors of a body: `WorkerError`, which its author raises, and `ToolError`, which a refused or failed call raises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.hosts.sandbox.inside.launch import passed_limit
from holdfast.model import codec
from holdfast.model.error_text import frames_of
from holdfast.model.errors import HoldfastError

ERROR_CODE = r"\A[a-z][a-z0-9_]{0,63}\Z"
"""The form of an error code. Callers decide by the code, so it is a name and not a sentence."""


class WorkerError(Exception):
    """The worker failed for a reason with a code. The contract's error table, or these flags, say whether the run is retried."""

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
            raise ValueError(f"{error_code!r:.100} is not a valid error code: at most 64 small letters, digits and _, as in out_of_stock.")
        super().__init__(message or error_code)
        self.error_code = error_code
        self.message = message or error_code
        self.retryable = retryable
        self.needs_human = needs_human
        self.partial = partial
        """Outputs that are good although the run failed."""
        self.retry_after_seconds = retry_after_seconds
        self.details = details


class ToolError(WorkerError):
    """A tool was refused or failed. A worker that does not catch it ends with its code."""


def as_frame(error: BaseException) -> dict[str, Any]:
    """The error as the body sends it to the runner: the author's own error, or the type of an unexpected one; always JSON."""
    told = _told(error)
    try:
        codec.dumps(told)
    except HoldfastError as odd:
        return _told(odd)
    return told


def _told(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, WorkerError):
        return {
            "error_code": passed_limit(error) or "worker_crashed",
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
