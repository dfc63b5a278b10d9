"""Replies: what a handler answers with. A reply is a Starlette response, so a handler may also return any other Starlette response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from holdfast.web.refusals import Header

__all__ = ["Header", "Reply", "Response", "json_reply"]

_encode = msgspec.json.Encoder().encode
_JSON: Final[Header] = (b"content-type", b"application/json")


class Reply(Response):
    """A response whose headers are given as bytes, as ASGI sends them. Starlette's own constructor would encode each header again."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        headers: Sequence[Header] = (),
        *,
        chunks: AsyncGenerator[bytes, None] | None = None,
        request_id: str | None = None,
    ) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [*headers]
        if chunks is None:
            self.raw_headers.append((b"content-length", b"%d" % len(body)))
        self.chunks = chunks
        """A body that is sent chunk by chunk, in place of `body`. Only for routes with the policy Waits.STREAM or Waits.WHEN_ASKED."""
        self.request_id = request_id
        """The id of the request, which the reply has in the header x-amzn-requestid; None: the sender makes an id."""


def json_reply(body: Any, status: int = 200, headers: tuple[Header, ...] = ()) -> Reply:
    """A reply in JSON."""
    return Reply(status, _encode(body), (_JSON, *headers))
