"""Writes and reads JSON, and errors as stored text. No other module uses orjson.

A stored payload is text, and reading it never runs code.
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
"""The most characters of an error's message, of its type, of its data, and of all lines of its stack trace together. So the whole error
fits into a payload. A text that is cut also gets a note of its full length."""
_MOST_LINES = 1_000
_failure_decoder = json_structs.decoder(Failure)
_encoder = msgspec.json.Encoder()


def dumps(value: object, *, sort: bool = True) -> str:
    """A Python value as the JSON text that is stored. The text has no spaces between its parts. Its keys are sorted, so that the order of
    the keys in a dict does not change the text; with `sort=False` they keep their order. Raises PayloadNotJson if the value cannot be
    written as JSON, NaN for example, and InvalidParameter if a text in it contains a lone surrogate."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None).decode()
        if "null" in text:
            json.dumps(value, allow_nan=False, default=lambda _: None)  # orjson would write null for NaN; this refuses NaN
        return text
    except (TypeError, ValueError):
        pass  # for example an integer beyond 64 bits, which `json` can write
    try:
        return storable(json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadNotJson(f"The value cannot be written as JSON: {error}") from None


def compact(value: object) -> bytes:
    """The value as JSON bytes, written by orjson. Raises TypeError for a value that orjson cannot write."""
    return orjson.dumps(value)


def check(text: str | bytes, *, stored: bool = False) -> None:
    """Raise PayloadNotJson if a text is not JSON. With `stored`, `NaN` and `Infinity` are accepted too. For most texts this builds no
    Python values."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        (loads if stored else parsed)(text)  # msgspec refuses some texts that are valid JSON


def loads(text: str | bytes) -> Any:
    """The value of a stored text, with exact integers. `NaN` and `Infinity` are read as floats, because AWS's SDK writes results with them.
    Raises PayloadNotJson if the text cannot be read."""
    try:
        return value_of(text)
    except (ValueError, RecursionError) as error:
        raise PayloadNotJson(f"The payload is not JSON: {error}") from None


def value_of(text: str | bytes) -> Any:
    """The value of a JSON text, equal to what `json.loads` gives. Raises ValueError or RecursionError if the text cannot be read. msgspec
    reads a text in less than half the time, and keeps a short key only once, however many values have it."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return json.loads(text)  # reads NaN, numbers that become infinite and lone surrogates, which msgspec refuses


def parsed(text: str | bytes) -> Any:
    """The value of a text that a caller gave, with exact integers. Raises PayloadNotJson if the text is not JSON; `NaN` and `Infinity` are
    not JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        pass  # it may be a text that only the standard library reads
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise PayloadNotJson(f"The payload is not JSON: {error}") from None


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not a value of JSON")


def too_deep(value: Any, most: int) -> bool:
    """Whether a value has more than `most` levels of dicts, lists and tuples inside each other. This function does not recurse, so a value
    of any depth is safe."""
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
    """A number of characters that the JSON text of a value has at least; the text may be longer. Counting stops when the number is above
    `most`. Nothing is encoded, so this is fast."""
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
    """The SHA-256 of a stored text, in hexadecimal. Two inputs, or two graphs, are the same if their hashes are equal."""
    return hashlib.sha256(text.encode()).hexdigest()


def storable(text: str) -> str:
    """The text itself. Raises InvalidParameter if it is not a str, or if it contains a lone surrogate, which UTF-8 cannot encode."""
    if not isinstance(text, str):
        raise InvalidParameter(f"The text is of type {type(text).__name__}; it must be a str.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidParameter(f"The text is not valid Unicode: {error.reason} (at index {error.start}).") from None
    return text


def fitting(text: str, what: str) -> str:
    """The text itself. Raises PayloadTooLarge if it has more than MAX_PAYLOAD_BYTES bytes; `what` names the text in that error."""
    # A character takes at most four bytes, so short texts need not be encoded to know that they fit.
    if len(text) * 4 > MAX_PAYLOAD_BYTES and len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(f"{what} payload size must be less than or equal to {MAX_PAYLOAD_BYTES} bytes.")
    return text


def text_of(value: object, what: str) -> str:
    """The text that a caller gave as a str or as UTF-8 bytes. Raises InvalidParameter for anything else; `what` names the value in that
    error."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise InvalidParameter(f"{what}: the text is not UTF-8 (byte {error.start}).") from None
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be a str or bytes, for example JSON text; {value!r:.100} is neither.")
    return value


def readable(failure: Failure) -> Failure:
    """The error, with texts that can be stored. This function refuses no error, because an author may have no influence on the texts of an
    error: one may contain a file name, for example.

    A member that is not a str is converted to a str, characters that UTF-8 cannot encode are escaped, and a very long text is cut. A stack
    trace that is not a list or tuple of lines, or whose lines are very long together, is left out; of a stack trace that must be changed,
    at most 1,000 lines stay.
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
    """Whether a value is a str that UTF-8 can encode. An author may raise an error with any object as its message."""
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
    """An error as the JSON text that is stored."""
    return _encoder.encode(readable(failure)).decode()


def failure_from(text: str) -> Failure:
    """The error that a text of `failure_text` describes."""
    return _failure_decoder.decode(text)
