"""The bodies of requests: each is read within limits, and all together, which may be held while somebody waits, within another."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.web.asgi import ASGIApp, Message, Receive, Scope, Send
from holdfast.web.errors import CLOSE, Refused, too_many

_DRAINED_BYTES: Final = 64 * 1024 * 1024
"""A body that is too large is still read to its end up to this size: a client that is cut off while it sends never sees why."""
_DIGITS: Final = 18


class Gone(Exception):
    """The client left."""


async def read_body(scope: Scope, receive: Receive, seconds: float, most: int) -> bytes:
    """The body, if it is not too large and comes in time."""
    if _length(scope) > max(most, _DRAINED_BYTES):
        raise _too_large(most, close=True)
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, most)
    except TimeoutError:
        raise Refused(408, "RequestTimeoutException", "The request's body did not come in time.", headers=CLOSE) from None


async def _read(receive: Receive, most: int) -> bytes:
    parts, size, more = list[bytes](), 0, True
    while more:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise Gone
        body, more = message.get("body", b""), message.get("more_body", False)
        size += len(body)
        if size <= most:
            parts.append(body)
        elif size > _DRAINED_BYTES:
            raise _too_large(most, close=True)
        else:
            parts.clear()
    if size > most:
        raise _too_large(most)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _length(scope: Scope) -> int:
    """What a body says that it has; the parser has seen that it is a number, and the only one."""
    return next((int(value[:_DIGITS]) for key, value in scope["headers"] if key == b"content-length" and value.isdigit()), 0)


def _too_large(most: int, *, close: bool = False) -> Refused:
    headers = CLOSE if close else ()
    return Refused(413, "RequestTooLargeException", f"Request must be smaller than {most} bytes.", headers=headers)


class Bodies:
    """An ASGI app around all others. It counts what comes until its request is answered; what there is no room for is refused."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0

        async def counted() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            if self.held + size > self._most:
                raise too_many("The bodies of all requests together are too large now. Come back soon.", "CallerRateLimitExceeded")
            held += size
            self.held += size
            return message

        def released(size: int) -> None:
            """Whoever takes a body as it comes says what is in memory no more."""
            nonlocal held
            held -= size
            self.held -= size

        try:
            await self._app({**scope, "released": released}, counted, send)
        finally:
            self.held -= held
