"""Records: a line that a function logged, as a JSON object that says when, how grave, what, and in which execution. Pure.

A line that is a JSON object stays what it is, with what is missing added to it; any other text becomes the message of one. So
`{ $.executionArn = "…" }` finds what an execution logged, however its functions log.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime.output import Line
from holdfast.model.ids import ACCOUNT, REGION

PREFIX: Final = "/aws/lambda/"
# How Lambda's runtimes begin a line of text: Python's logging, and JavaScript's console.
_PYTHON: Final = re.compile(r"\[(?P<level>[A-Z]{1,10})\]\t(?P<time>[^\t]{1,40})\t(?P<request>[^\t]{0,64})\t(?P<message>.*)", re.S)
_NODE: Final = re.compile(r"(?P<time>\d{4}-[^\t]{1,40})\t(?P<request>[^\t]{0,64})\t(?P<level>[A-Z]{1,10})\t(?P<message>.*)", re.S)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a log, as it is kept: one line of a file."""

    at: int
    stream: str
    text: str
    """The JSON object that readers get."""
    tenant: str | None = None


def record_of(line: Line) -> Record:
    """The record of a line."""
    found = _object(line.text)  # a function that logs JSON hears of the platform in JSON too
    told = found or _of_text(line)
    told.setdefault("timestamp", iso(line.at))
    told.setdefault("level", line.level or "INFO")
    if line.request is not None:
        told.setdefault("requestId", line.request)
    if line.execution is not None:
        told.setdefault("executionArn", line.execution)
    return Record(line.at, line.stream, encoded(told), line.tenant)


def dropped(stream: str, at: int, count: int, reason: str) -> Record:
    """What stands for lines that could not be kept."""
    told = {
        "timestamp": iso(at),
        "level": "WARN",
        "message": f"{count} {'line' if count == 1 else 'lines'} of this log dropped: {reason}",
        "type": "platform.logsDropped",
        "record": {"droppedRecords": count, "reason": reason},
    }
    return Record(at, stream, encoded(told))


def _object(text: str) -> dict[str, Any]:
    """The JSON object that a line is, if it is one."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_text(line: Line) -> dict[str, Any]:
    if line.platform:
        return {"timestamp": iso(line.at), "level": line.level or "INFO", "message": line.text.rstrip(), "type": "platform"}
    begun = _PYTHON.fullmatch(line.text) or _NODE.fullmatch(line.text)
    if begun is None:
        return {"timestamp": iso(line.at), "level": line.level or "INFO", "message": line.text}
    return {"timestamp": iso(line.at), "level": begun["level"], "message": begun["message"]}


def encoded(told: dict[str, Any]) -> str:
    """JSON, whatever a logger was given."""
    try:
        return msgspec.json.encode(told, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, halves of letters, what holds itself
        plain = {name: str(told[name]) for name in ("timestamp", "level", "message", "requestId", "executionArn") if name in told}
        return msgspec.json.encode({name: text.encode(errors="replace").decode() for name, text in plain.items()}).decode()


def iso(at: int) -> str:
    """A time as Lambda's records have it."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def group_arn(function: str) -> str:
    """The ARN of a function's log group."""
    return f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{PREFIX}{function}"
