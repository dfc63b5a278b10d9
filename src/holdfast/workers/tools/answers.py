"""Answers of a model's server, and its failures, as what they mean to a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from holdfast.contract.checking import MAX_DEPTH
from holdfast.model.shapes import crowding
from holdfast.workers.tools.fitting import mismatches
from holdfast.workers.tools.retry_after import LONGEST_SECONDS, USUAL_SECONDS, retry_after
from holdfast.workers.tools.seam import ToolFailed

_SHOWN: Final = 500


def answered(data: Mapping[str, Any], cap: int | None) -> str:
    """The text of an answer; raises ToolFailed when it is not whole."""
    choices = data.get("choices") or []
    if not choices or not isinstance(choices[0], Mapping) or not isinstance(choices[0].get("message"), Mapping):
        raise ToolFailed("tool_unavailable", "The model's server answered without a message.")
    message, reason = choices[0]["message"], choices[0].get("finish_reason")
    text = message.get("content")
    if message.get("refusal") or reason == "content_filter":
        why = message.get("refusal") or "its content filter stopped the answer"
        raise ToolFailed("tool_failed", f"The model refused: {str(why)[:_SHOWN]}", details={"reason": "refusal"})
    if reason == "length":
        raise ToolFailed("budget_exceeded", f"The answer was cut off at its cap of {cap} output tokens.", details={"reason": "truncated"})
    if not isinstance(text, str):
        raise ToolFailed("tool_failed", f"The model gave no text (finish_reason {reason!r}).", details={"reason": "empty"})
    return text


async def value_of(text: str, schema: Mapping[str, Any], who: str) -> Any:
    """The value that an answer's text holds; raises ToolFailed when it does not fit."""
    try:
        if (crowded := crowding(text.encode(errors="replace"), MAX_DEPTH)) is not None:
            raise ValueError(f"it {crowded}")
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _mismatch([{"path": "", "reason": f"no JSON: {error}", "value": text[:_SHOWN]}]) from None
    problems = await mismatches(schema, value, who)
    if problems:
        raise _mismatch([{"path": at.path, "reason": at.reason, "value": at.value} for at in problems])
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _mismatch(problems: list[dict[str, str]]) -> ToolFailed:
    first = problems[0]
    message = f"The model's answer does not fit the schema: {first['path'] or 'the answer'}: {first['reason']}"
    return ToolFailed("output_schema_mismatch", message, details={"problems": problems[:10]})


def failed(error: Exception, now: int) -> ToolFailed:
    """What an exception of the `openai` package means."""
    import openai

    match error:
        case openai.APITimeoutError():
            return ToolFailed("tool_timeout", "The model did not answer in time.", known=False)
        case openai.APIConnectionError():
            cause = error.__cause__
            begun = type(cause).__name__ not in ("ConnectError", "ConnectTimeout", "PoolTimeout")
            why = str(cause or "").strip() or type(cause or error).__name__
            return ToolFailed("tool_unavailable", f"The model's server could not be asked: {why[:_SHOWN]}.", known=not begun)
        case openai.APIStatusError():
            return _refused(error, now)
        case _:
            return ToolFailed(
                "tool_unavailable", f"The model's server answered nonsense: {type(error).__name__}: {str(error)[:_SHOWN]}", known=False
            )


def _refused(error: Any, now: int) -> ToolFailed:
    status = int(error.status_code)
    message = f"The model's server answered {status}: {_said(error)}"
    if status == 429 and getattr(error, "code", None) != "insufficient_quota":
        wait = _wait(error.response.headers, now)
        return ToolFailed("rate_limited", message, retry_after_seconds=wait, closes="tool:language_model")
    if status == 503 and error.response.headers.get("retry-after"):
        return ToolFailed("rate_limited", message, retry_after_seconds=_wait(error.response.headers, now), closes="tool:language_model")
    if status in (401, 403):
        return ToolFailed("access_denied", message)
    if status >= 500 or status in (408, 409):
        return ToolFailed("tool_unavailable", message, known=status == 503)
    return ToolFailed("tool_failed", message)


def _wait(headers: Mapping[str, str], now: int) -> float:
    milliseconds = retry_after(headers.get("retry-after-ms"), now)
    if milliseconds is not None:
        return min(milliseconds / 1000, LONGEST_SECONDS)
    said = retry_after(headers.get("retry-after"), now)
    return USUAL_SECONDS if said is None else said


def _said(error: Any) -> str:
    body = error.body
    said = body.get("message") if isinstance(body, Mapping) else None
    return str(said or getattr(error, "message", "") or error)[:_SHOWN]
