"""Turns answers and failures of a model's server into results and error codes of a call."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from holdfast.contract.checking import MAX_DEPTH
from holdfast.model.shapes import crowding
from holdfast.workers.tools.model_exchange import Exchange
from holdfast.workers.tools.model_streams import AnswerInvalid
from holdfast.workers.tools.retry_after import USUAL_SECONDS, retry_after
from holdfast.workers.tools.schema_checks import mismatches
from holdfast.workers.tools.seam import ToolFailed

_SHOWN: Final = 500


def answered(data: Mapping[str, Any], cap: int | None) -> str:
    """The text of an answer. Raises ToolFailed if the model refused, if the answer has no text, or if it was cut off at the limit `cap`."""
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping) or not isinstance(first.get("message"), Mapping):
        raise ToolFailed("tool_unavailable", "The answer of the model's server contains no message.")
    message, reason = first["message"], first.get("finish_reason")
    text = message.get("content")
    if message.get("refusal") or reason == "content_filter":
        why = message.get("refusal") or "its content filter stopped the answer"
        raise ToolFailed("tool_failed", f"The model refused: {str(why)[:_SHOWN]}", details={"reason": "refusal"})
    if reason == "length":
        raise ToolFailed(
            "budget_exceeded",
            f"The answer was cut off at its limit of {cap} output tokens. Allow more tokens, or ask for a shorter answer.",
            details={"reason": "truncated"},
        )
    if not isinstance(text, str):
        raise ToolFailed("tool_failed", f"The model gave no text (finish_reason {reason!r}).", details={"reason": "empty"})
    return text


def count_of(reported: Any, name: str) -> int | None:
    """The number that a server reports under this name in its usage; None if the server reports no valid number."""
    value = reported.get(name) if isinstance(reported, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parts_of(reported: Mapping[str, Any], tokens_in: int, tokens_out: int) -> tuple[int, int]:
    """How many of the input tokens were cached, and how many of the output tokens were for reasoning, as the server reports them. A number
    that the server does not report is 0. The first is at most `tokens_in`, the second at most `tokens_out`."""
    cached = count_of(reported.get("prompt_tokens_details"), "cached_tokens") or 0
    reasoning = count_of(reported.get("completion_tokens_details"), "reasoning_tokens") or 0
    return min(cached, tokens_in), min(reasoning, tokens_out)


async def value_of(text: str, schema: Mapping[str, Any], who: str) -> Any:
    """The JSON value of an answer's text. Raises ToolFailed if the text is not JSON, or if the value does not fit the schema or cannot be
    checked now. `who` says for whom this is checked: a tenant and a tool."""
    try:
        if (crowded := crowding(text.encode(errors="replace"), MAX_DEPTH)) is not None:
            raise ValueError(f"it {crowded}")
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _mismatch([{"path": "", "reason": f"not JSON: {error}", "value": text[:_SHOWN]}]) from None
    problems = await mismatches(schema, value, who)
    if problems:
        raise _mismatch([{"path": at.path, "reason": at.reason, "value": at.value} for at in problems])
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a valid number of JSON")


def _mismatch(problems: list[dict[str, str]]) -> ToolFailed:
    first = problems[0]
    message = f"The model's answer does not fit the schema: {first['path'] or 'the answer'}: {first['reason']}"
    return ToolFailed("output_schema_mismatch", message, details={"problems": problems[:10]})


def failed(error: Exception, exchange: Exchange, now: int, seconds: float) -> ToolFailed:
    """The ToolFailed for an exception during a request to the model's server. `exchange` says whether the request was sent and answered;
    `seconds` is the time limit of the request, and `now` the present time."""
    import openai

    status, known = exchange.status, not exchange.billed
    if isinstance(error, openai.APIStatusError):
        wait = _wait(error.response.headers, now)
        return _refused(int(error.status_code), _said(error), wait, code=getattr(error, "code", None))
    if status is not None and not 200 <= status < 300:  # the status arrived, but the body of the answer did not
        return _refused(status, "the connection ended before the reason arrived", None)
    if isinstance(error, TimeoutError | openai.APITimeoutError | httpx.TimeoutException):
        return ToolFailed("tool_timeout", f"The model's answer did not arrive within {seconds:g} seconds.", known=known)
    if isinstance(error, openai.APIConnectionError | httpx.TransportError):
        cause = error.__cause__ or error
        why = str(cause).strip() or type(cause).__name__
        did = "broke off the connection" if exchange.sent else "could not be reached"
        return ToolFailed("tool_unavailable", f"The model's server {did}: {why[:_SHOWN].rstrip('.')}.", known=known)
    if isinstance(error, AnswerInvalid):
        return ToolFailed("tool_unavailable", f"The model's server {error}.", known=known)
    return ToolFailed(
        "tool_unavailable",
        f"The model's server gave an answer that cannot be read: {type(error).__name__}: {str(error)[:_SHOWN]}",
        known=known,
    )


def _refused(status: int, said: str, wait: float | None, code: str | None = None) -> ToolFailed:
    """The error for an answer with an error status, for which the server bills nothing."""
    message = f"The model's server answered {status}: {said}"
    if (status == 429 and code != "insufficient_quota") or (status == 503 and wait is not None):
        seconds = USUAL_SECONDS if wait is None else wait
        return ToolFailed("rate_limited", message, retry_after_seconds=seconds, closes="tool:language_model")
    if status in (401, 403):
        return ToolFailed("access_denied", message)
    if status >= 500 or status in (408, 409):
        return ToolFailed("tool_unavailable", message)
    if "stream" in said:
        message = f"{message.rstrip('.')}. If the server does not support streams, set stream = false under [model]."
    return ToolFailed("tool_failed", message)


def _wait(headers: Mapping[str, str], now: int) -> float | None:
    with contextlib.suppress(ValueError):
        seconds = retry_after(str(float(headers["retry-after-ms"]) / 1000), now) if "retry-after-ms" in headers else None
        if seconds is not None:
            return seconds
    return retry_after(headers.get("retry-after"), now)


def _said(error: Any) -> str:
    body = error.body
    said = body.get("message") if isinstance(body, Mapping) else None
    return str(said or getattr(error, "message", "") or error)[:_SHOWN]
