"""Bodies of requests: each is read within limits, and all bodies that the server holds at once stay within another limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.types import Message, Receive, Scope

from holdfast.web.refusals import CLOSE, Gone, Refused, too_large, too_many

T = TypeVar("T")
_DRAINED_BYTES: Final = 64 * 1024 * 1024
"""A body that is too large is still read to its end up to this size: a client that is cut off while it sends never reads why."""
_DIGITS: Final = 18


class HeldBodies:
    """How many bytes of bodies the server holds, over all requests that are not answered yet."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


class Incoming:
    """The body of one request as it arrives. The server counts its bytes until the request is answered."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBodies) -> None:
        self._scope = scope
        self._receive = receive
        self._all = held
        self._held = 0
        self._read: bytes | None = None

    async def receive(self) -> Message:
        """The next message of the client, as ASGI has it."""
        if self._read is not None:
            body, self._read = self._read, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        size = len(message.get("body", b""))
        if size:
            if self._all.bytes + size > self._all.most:
                raise too_many("The bodies of all requests together are too large now. Come back soon.", "CallerRateLimitExceeded")
            self._held += size
            self._all.bytes += size
        return message

    def put_back(self, body: bytes) -> None:
        """Let the next reader receive a body that was read already."""
        self._read = body

    def release(self, size: int) -> None:
        """Note that this many bytes are not in memory any more, because the handler has stored them elsewhere."""
        self._held -= size
        self._all.bytes -= size

    def close(self) -> None:
        """The request is answered."""
        self.release(self._held)

    @property
    def length(self) -> int:
        """The content length that the client declared, else 0. The HTTP parser has checked that it is one number."""
        return next((int(value[:_DIGITS]) for key, value in self._scope["headers"] if key == b"content-length" and value.isdigit()), 0)

    async def read(self, seconds: float, most: int) -> bytes:
        """The whole body, if it is not too large and arrives in time."""
        if self.length > max(most, _DRAINED_BYTES):
            raise too_large(most, close=True)
        try:
            async with asyncio.timeout(seconds):
                return await self._joined(most)
        except TimeoutError:
            raise Refused(408, "RequestTimeoutException", "The request's body did not come in time.", headers=CLOSE) from None

    async def _joined(self, most: int) -> bytes:
        parts, size, more = list[bytes](), 0, True
        while more:
            message: Any = await self.receive()
            if message["type"] != "http.request":
                raise Gone
            body, more = message.get("body", b""), message.get("more_body", False)
            size += len(body)
            if size <= most:
                parts.append(body)
            elif size > _DRAINED_BYTES:
                raise too_large(most, close=True)
            else:
                parts.clear()
        if size > most:
            raise too_large(most)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def left(self) -> None:
        """Return when the client has closed its connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def unless_left(self, answering: Coroutine[Any, Any, T]) -> T:
        """The result of `answering`, which is cancelled when the client leaves."""
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
