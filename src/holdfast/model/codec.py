"""JSON in and out, and errors as stored text. No other module uses orjson.

Loading never runs code: a stored payload is text, and only these functions read it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import orjson

from holdfast.model import json_structs
from holdfast.model.errors import InvalidParameter, PayloadNotJson, PayloadTooLarge
from holdfast.model.operations import Failure

MAX_PAYLOAD_BYTES = 6 * 1024 * 1024
_MOST_ERROR = MAX_PAYLOAD_BYTES // 16
"""Each text of an error has at most this many characters, so that all of them together always fit into a payload."""
_MOST_LINES = 1_000
_failure_decoder = json_structs.decoder(Failure)
_encoder = msgspec.json.Encoder()


def dumps(value: object, *, sort: bool = True) -> str:
    """The stored text of a Python value: compact, keys sorted unless told otherwise, so that equal inputs have equal texts."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None).decode()
        if "null" in text:
            json.dumps(value, allow_nan=False, default=lambda _: None)  # orjson would write null for NaN; this refuses NaN
        return text
    except (TypeError, ValueError):
        pass  # for example an integer beyond 64 bits, which the standard library can write
    try:
        return storable(json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadNotJson(f"The value cannot be written as JSON: {error}") from None


def compact(value: object) -> bytes:
    """The value as JSON, by the fast encoder. Raises TypeError for a value that this encoder cannot write."""
    return orjson.dumps(value)


def check(text: str | bytes) -> None:
    """Refuse a text that is not JSON, without building its values."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        loads(text)  # the fast reader refuses some texts that are valid JSON


def loads(text: str | bytes) -> Any:
    """The value of a JSON text that a user wrote, exact for integers of any size. A text that is not JSON is refused."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadNotJson(f"The payload is not JSON: {error}") from None


def too_deep(value: Any, most: int) -> bool:
    """Whether a value is nested in more levels than `most`. It does not recurse, and stops as soon as the answer is known."""
    level: list[Any] = [value]
    for _ in range(most):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(x for x in item.values() if isinstance(x, dict | list | tuple))
            elif isinstance(item, list | tuple):
                below.extend(x for x in item if isinstance(x, dict | list | tuple))
        if not below:
            return False
        level = below
    return True


def at_least(value: Any, most: int) -> int:
    """The least number of characters that a value has as JSON. Counting stops above `most`, and nothing is encoded."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        one = waiting.pop()
        total += 1
        if isinstance(one, str | bytes):
            total += len(one)
        elif isinstance(one, list | tuple | dict):
            total += len(one)
            if total <= most:
                waiting += one
                waiting += one.values() if isinstance(one, dict) else ()
    return total


def payload_hash(text: str) -> str:
    """The identity of an input: sha256 of its stored text."""
    return hashlib.sha256(text.encode()).hexdigest()


def storable(text: str) -> str:
    """The text itself, if it can be encoded. A Python string may hold a lone surrogate, which has no encoding."""
    if not isinstance(text, str):
        raise InvalidParameter(f"The text is of type {type(text).__name__}; it must be a str.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidParameter(f"The text is not valid Unicode: {error.reason} (at {error.start}).") from None
    return text


def fitting(text: str, what: str) -> str:
    """The text itself, if it is not too large to be stored; `what` names it in an error."""
    # A character takes at most four bytes, so short texts need not be encoded to know that they fit.
    if len(text) * 4 > MAX_PAYLOAD_BYTES and len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(f"{what} payload size must be less than or equal to {MAX_PAYLOAD_BYTES} bytes.")
    return text


def text_of(value: object, what: str) -> str:
    """The text that a caller gave as text or as bytes; `what` names it in an error."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise InvalidParameter(f"{what}: the text is not UTF-8 (byte {error.start}).") from None
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be a text, and {value!r:.100} is not one: give a str, JSON for instance.")
    return value


def readable(failure: Failure) -> Failure:
    """The error with texts that can be stored. It is never refused, because its author may not have chosen its texts (a file name, say).

    A member that is not a text becomes one, a stack trace that is not a list of lines is left out, and a very long text is cut.
    """
    stack = failure.stack_trace
    if stack is None or type(stack) is tuple:
        texts = (failure.message, failure.type, failure.data, *(stack or ()))
        if all(text is None or _is_text(text) for text in texts) and sum(len(text or "") for text in texts) <= _MOST_ERROR:
            return failure
    lines = tuple(_escaped(line) or "" for line in stack[:_MOST_LINES]) if isinstance(stack, list | tuple) else None
    if lines is not None and sum(map(len, lines)) > _MOST_ERROR:
        lines = None
    return Failure(_escaped(failure.message), _escaped(failure.type), _escaped(failure.data), lines)


def _is_text(value: object) -> bool:
    """Whether a value is a text. An author may raise an error with any object as its message."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: object) -> str | None:
    if text is None:
        return None
    written = str(text).encode(errors="backslashreplace").decode()
    return written if len(written) <= _MOST_ERROR else f"{written[:_MOST_ERROR]}... (cut: {len(written)} characters)"


def failure_text(failure: Failure) -> str:
    """An error as it is stored."""
    return _encoder.encode(readable(failure)).decode()


def failure_from(text: str) -> Failure:
    """The error that `failure_text` stored."""
    return _failure_decoder.decode(text)
