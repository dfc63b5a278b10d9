"""Log lines as JSON objects: the time, the level, the message and the execution of each. Pure.

A line that is a JSON object keeps its members. The time, the level, the request id and the execution are added if it does not have them.
Any other text becomes the message of a new object. So the filter pattern `{ $.executionArn = "…" }` finds all lines of an execution,
whether its function logs JSON or text.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime.process_output import OutputLine
from holdfast.model.credentials import tenant_of
from holdfast.model.ids import ACCOUNT, REGION

PREFIX: Final = "/aws/lambda/"
# The form of a text line in Lambda's runtimes: of Python's logging, and of JavaScript's console.
_PYTHON: Final = re.compile(r"\[(?P<level>[A-Z]{1,10})\]\t(?P<time>[^\t]{1,40})\t(?P<request>[^\t]{0,64})\t(?P<message>.*)", re.S)
_NODE: Final = re.compile(r"(?P<time>\d{4}-[^\t]{1,40})\t(?P<request>[^\t]{0,64})\t(?P<level>[A-Z]{1,10})\t(?P<message>.*)", re.S)


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One kept event of a log: one line of a file."""

    at: int
    stream: str
    text: str
    """The JSON object that readers get."""
    tenant: str | None = None


def record_of(line: OutputLine) -> LogLine:
    """The record that is kept for a line of output."""
    found = _object(line.text)  # for a function that logs JSON, the platform's own lines are JSON too
    told = found or {"timestamp": iso(line.at), "level": line.level or "INFO", **_of_text(line)}
    told.setdefault("timestamp", iso(line.at))
    told.setdefault("level", line.level or "INFO")
    if line.request is not None:
        told.setdefault("requestId", line.request)
    if line.execution is not None:
        told.setdefault("executionArn", line.execution)
    # A line of no request may come from any tenant's code: no tenant reads it.
    return LogLine(line.at, line.stream, encoded(told), line.tenant if line.request is None else tenant_of(line.tenant))


def dropped(stream: str, at: int, count: int, reason: str) -> LogLine:
    """A line that says how many lines of the log before it were dropped, and why."""
    told = {
        "timestamp": iso(at),
        "level": "WARN",
        "message": f"{count} {'line' if count == 1 else 'lines'} of this log dropped: {reason}",
        "type": "platform.logsDropped",
        "record": {"droppedRecords": count, "reason": reason},
    }
    return LogLine(at, stream, encoded(told))


def _object(text: str) -> dict[str, Any]:
    """The JSON object of a line; empty if the line is not a JSON object."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_text(line: OutputLine) -> dict[str, str]:
    """The message of a line that is no JSON object, and its level, if it has one in Lambda's form."""
    if line.platform:
        return {"message": line.text.rstrip(), "type": "platform"}
    begun = _PYTHON.fullmatch(line.text) or _NODE.fullmatch(line.text)
    return {"message": line.text} if begun is None else {"level": begun["level"], "message": begun["message"]}


def encoded(told: dict[str, Any]) -> str:
    """The JSON text of a record, which may contain any Python objects: those that JSON does not have are written as text. If the record
    cannot be written at all, only its time, level, message, request id and execution are written."""
    try:
        return msgspec.json.encode(told, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):  # keys that are not strings, lone surrogates, an object that contains itself
        plain = {name: str(told[name]) for name in ("timestamp", "level", "message", "requestId", "executionArn") if name in told}
        return msgspec.json.encode({name: text.encode(errors="replace").decode() for name, text in plain.items()}).decode()


def iso(at: int) -> str:
    """A time, given in milliseconds since 1970, in the format of Lambda's records: `2026-01-31T12:00:00.000Z`."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def group_arn(function: str) -> str:
    """The ARN of a function's log group."""
    return f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{PREFIX}{function}"
