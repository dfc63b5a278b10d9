"""Replies: a status, headers and a body."""

from __future__ import annotations

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


def json_reply(body: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """A reply in JSON."""
    return Reply(status, _encode(body), (_JSON, *headers))
