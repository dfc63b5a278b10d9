"""Bodies of requests: each is read within limits, and all bodies that the server holds at once stay within another limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.types import Message, Receive, Scope

from holdfast.web.refusals import Gone, late_body, too_large, too_many

T = TypeVar("T")
_DRAINED_BYTES: Final = 64 * 1024 * 1024
"""A body that is too large is still read to its end, up to this size, and dropped: a client whose connection is closed while it sends does
not read the error."""
_DIGITS: Final = 18


class HeldBodies:
    """The number of bytes of bodies that the server has in memory, for all requests that are not answered yet; and the limit for it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


class Incoming:
    """The body of one request as it arrives. The server counts its bytes as held until the request is answered, or until they are
    released."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBodies) -> None:
        self._scope = scope
        self._receive = receive
        self._all = held
        self._held = 0
        self._read: bytes | None = None

    async def receive(self) -> Message:
        """The next ASGI message of the client; if a body was put back, a message with that body. Raises Refused if, with this message, the
        bodies of all requests together would be larger than the limit."""
        if self._read is not None:
            body, self._read = self._read, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        size = len(message.get("body", b""))
        if size:
            if self._all.bytes + size > self._all.most:
                raise too_many("The bodies of all requests together are too large now. Try again soon.", "CallerRateLimitExceeded")
            self._held += size
            self._all.bytes += size
        return message

    def put_back(self, body: bytes) -> None:
        """Put back a body that was read already: the next call of `receive` returns it."""
        self._read = body

    def release(self, size: int) -> None:
        """Note that this many bytes are not in memory any more, because the handler has stored them elsewhere."""
        self._held -= size
        self._all.bytes -= size

    def close(self) -> None:
        """Stop counting the bytes of this request, because it is answered."""
        self._all.bytes -= self._held
        self._held = 0

    @property
    def length(self) -> int:
        """The Content-Length of the request; 0 if there is none. The HTTP parser has checked that it is one number."""
        for key, value in self._scope["headers"]:
            if key == b"content-length" and value.isdigit():
                return int(value[:_DIGITS])
        return 0

    async def read(self, seconds: float, most: int) -> bytes:
        """Read the whole body. Raises Refused if it does not arrive within `seconds`, and else what `whole` raises."""
        try:
            async with asyncio.timeout(seconds):
                return await self.whole(most)
        except TimeoutError:
            raise late_body() from None

    async def whole(self, most: int) -> bytes:
        """Read the whole body, however long it takes. Raises Refused if it has more than `most` bytes, or if the bodies of all requests
        together are too large. Raises Gone if the client has closed its connection."""
        if self.length > max(most, _DRAINED_BYTES):
            raise too_large(most, close=True)
        body = await whole_body(self.receive, most, _DRAINED_BYTES)
        if body is None:
            raise too_large(most)
        return body

    async def left(self) -> None:
        """Wait until the client has closed its connection, then return."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def unless_left(self, answering: Coroutine[Any, Any, T]) -> T:
        """Wait for the result of `answering`, and return it. If the client closes its connection first, `answering` is cancelled, and Gone
        is raised."""
        answered = asyncio.create_task(answering)
        left = asyncio.create_task(self.left())
        try:
            await asyncio.wait({answered, left}, return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                raise Gone
            return answered.result()
        finally:
            left.cancel()
            answered.cancel()
            if not answered.done():
                await asyncio.gather(answered, return_exceptions=True)


async def whole_body(receive: Receive, most: int, drained: int | None = None) -> bytes | None:
    """The body of a request. None if it has more than `most` bytes: then it is read to its end and dropped. Raises Refused if it has more
    than `most` and more than `drained` bytes; if `drained` is None, there is no such limit. Raises Gone if the client closes its connection
    before the whole body has arrived."""
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        body, more = message.get("body", b""), message.get("more_body", False)
        size += len(body)
        if size <= most:
            parts.append(body)
        elif drained is not None and size > drained:
            raise too_large(most, close=True)
        else:
            parts.clear()
    if size > most:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)
