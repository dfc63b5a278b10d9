"""What both backends do when they open a store: they read their SQL statements by name, and refuse a payload codec other than the one with
which the store was made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from holdfast.model.errors import CodecFailed, CodecMismatch
from holdfast.model.payloads import PayloadCodec, check

_NAMED: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.M | re.S)


def named_statements(package: str, file: str) -> dict[str, str]:
    """The statements of an SQL file by their names. A line `-- name: word` stands before each statement."""
    text = (resources.files(package) / file).read_text()
    return {name: body.strip() for name, body in _NAMED.findall(text)}


def together(*files: Mapping[str, str]) -> dict[str, str]:
    """The statements of several files together. Raises AssertionError if two files have a statement of the same name."""
    found: dict[str, str] = {}
    for statements in files:
        assert not found.keys() & statements.keys(), sorted(found.keys() & statements.keys())
        found |= statements
    return found


def check_codec(where: str, codec: PayloadCodec | None, name: str | None, text: str | None) -> None:
    """Raise CodecMismatch unless the codec has the name of the codec with which the store was made, and its keys can decode the store's
    check text. If the store was made without a codec, `codec` must be None. `name` and `text` are the codec's name and the check text in
    the store; both are None if the store was made without a codec."""
    if codec is None and name is None:
        return
    if codec is None:
        raise CodecMismatch(
            f"{where} was made with the payload codec {name!r}. Open it with that codec: `codec=`, or --codec or HOLDFAST_CODEC."
        )
    if name is None:
        raise CodecMismatch(
            f"{where} was made without a payload codec: it holds plain text. Open it without {codec.name!r}, or choose a new store."
        )
    if name != codec.name:
        raise CodecMismatch(f"{where} was made with the payload codec {name!r}, not with {codec.name!r}. Open it with the codec {name!r}.")
    try:
        check(codec, text or "")
    except CodecFailed as failed:
        raise CodecMismatch(f"{where} cannot be read with these keys. {failed}") from None
