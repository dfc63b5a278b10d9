"""The response of a run, as `context.run` gives it to a durable function, and the error for a response that is not `ok`.

The response has the fields of the response that `engine.run` gives outside a durable function. The classes are dataclasses, so a durable
function may return a response, or use it in a step. A replay makes an equal response from the recorded text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from holdfast.durable.exceptions import DurableOperationError, register_operation_error
from holdfast.model import json_structs


@dataclass(frozen=True, kw_only=True)
class RunError:
    """The error of a run, or of a request that started no run. `retryable`: whether the same request may succeed later.
    `retry_after_seconds` is None if the response does not say when. What is in `details` depends on the error code."""

    error_code: str
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None
    details: Any = None


@dataclass(frozen=True, kw_only=True)
class RunTokens:
    """The tokens that language models read and wrote."""

    input: int = 0
    output: int = 0


@dataclass(frozen=True, kw_only=True)
class RunUsage:
    """The tokens, the money and the tool calls that all attempts of a run have used together."""

    tokens: RunTokens = field(default_factory=RunTokens)
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    cached_tokens: int = 0
    """How many of the input tokens the model's server had in its cache."""
    reasoning_tokens: int = 0
    """How many of the output tokens the model used for reasoning."""


@dataclass(frozen=True, kw_only=True)
class RunObservability:
    """Facts about a run for operators: its trace, its number of attempts, its duration and what it used."""

    trace_id: str = ""
    span_id: str | None = None
    attempt: int = 0
    duration_ms: int = 0
    usage: RunUsage = field(default_factory=RunUsage)
    isolation: str | None = None
    partial: bool = False
    """Whether the response has both outputs and an error."""
    log_fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunArtifact:
    """A reference to a large value that is stored outside the response."""

    artifact_id: str
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class RunResponse:
    """The response of a worker's run: how the run ended, its outputs and its error. `outputs` and `error` are None if the run has none."""

    run_id: str
    """The id of the run, for `holdfast runs show`. Empty if no run began, or if the run ended without a response."""
    worker_id: str
    version: str
    status: str
    """`ok`, `retryable_error`, `invalid_request`, `invalid_output`, `needs_human` or `permanent_error`."""
    outputs: dict[str, Any] | None = None
    error: RunError | None = None
    artifacts: tuple[RunArtifact, ...] = ()
    approvals: tuple[dict[str, Any], ...] = ()
    logs: tuple[dict[str, Any], ...] = ()
    observability: RunObservability = field(default_factory=RunObservability)

    @property
    def usage(self) -> RunUsage:
        """What the run has used: tokens, money and tool calls."""
        return self.observability.usage


_decoder: Final = json_structs.decoder(RunResponse)
_WITHOUT_RESPONSE: Final = {
    "timeout": ("retryable_error", True),
    "cancelled": ("permanent_error", False),
    "worker_crashed": ("retryable_error", True),
    "worker_not_found": ("invalid_request", False),
    "rate_limited": ("retryable_error", True),
}
"""For each error code of a run that did not begin, or that ended without a response: the status, and whether the error is retryable."""


def response_from(text: str) -> RunResponse:
    """The response in a JSON text. Raises msgspec.DecodeError if the text is not the JSON of a response."""
    return _decoder.decode(text)


def without_response(worker_id: str, version: str | None, code: str, message: str) -> RunResponse:
    """A response with this error code and message, for a run that did not begin, or that ended without a response. `code` is `timeout`,
    `cancelled`, `worker_crashed`, `worker_not_found` or `rate_limited`; any other raises KeyError. The `run_id` of the response is
    empty."""
    status, retryable = _WITHOUT_RESPONSE[code]
    error = RunError(error_code=code, message=message, retryable=retryable)
    return RunResponse(run_id="", worker_id=worker_id, version=version or "", status=status, error=error)


class WorkerFailed(DurableOperationError):
    """The run of a worker did not end with the status `ok`."""

    code = "worker_failed"

    @property
    def response(self) -> RunResponse:
        """The whole response of the run: its status, its error, and partial outputs if it has some."""
        return response_from(self.data or "{}")

    @property
    def error_code(self) -> str:
        """The code of the response's error, for example `access_denied`. If the response has no error, its status."""
        response = self.response
        return response.status if response.error is None else response.error.error_code


register_operation_error(WorkerFailed)
