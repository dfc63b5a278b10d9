"""Replies: a status, headers and a body."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

import msgspec

Header = tuple[bytes, bytes]
_encode = msgspec.json.Encoder().encode
_JSON: Final[Header] = (b"content-type", b"application/json")


class Reply(NamedTuple):
    """What a client gets."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    chunks: AsyncGenerator[bytes, None] | None = None
    """A body that comes bit by bit, in place of the other; only some apps send it."""
    request: str | None = None
    """What the request is called in logs, if it has a name already."""


def json_reply(body: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """A reply in JSON."""
    return Reply(status, _encode(body), (_JSON, *headers))
