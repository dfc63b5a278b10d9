"""JSON in and out: the only module that knows orjson, and where errors become text.

Loading never runs code: a stored payload is text, and only these functions read it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import orjson

from holdfast.model.errors import PayloadNotJson
from holdfast.model.operations import Failure

_failure_decoder = msgspec.json.Decoder(Failure)
_encoder = msgspec.json.Encoder()


def dumps(value: object) -> str:
    """The stored text of a Python value: compact, keys sorted, so that equal inputs have equal texts."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError) as error:
        raise PayloadNotJson(f"The value cannot be written as JSON: {error}") from None


def loads(text: str | bytes) -> Any:
    """The value of a JSON text; a text that is not JSON is the sender's mistake."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise PayloadNotJson(f"The payload is not JSON: {error}") from None


def payload_hash(text: str) -> str:
    """The identity of an input: sha256 of its stored text."""
    return hashlib.sha256(text.encode()).hexdigest()


def failure_text(failure: Failure) -> str:
    """An error as it is stored."""
    return _encoder.encode(failure).decode()


def failure_from(text: str) -> Failure:
    """The error that `failure_text` stored."""
    return _failure_decoder.decode(text)
