"""Sender: sends the reply to one request, whole or chunk by chunk. It remembers whether it has begun to send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from starlette.types import Send

from holdfast.web.replies import Reply, Response
from holdfast.web.requests import Request


class Sender:
    """Sends the reply to one request."""

    def __init__(self, request: Request, send: Send, request_id: Callable[[], str]) -> None:
        self._request = request
        self._send = send
        self._request_id = request_id
        self.begun = False
        """Whether the sending has begun, so that no other reply can be sent."""

    async def send(self, reply: Response) -> None:
        self._begin(reply)
        await reply(self._request.scope, self._request.receive, self._send)

    async def streamed(self, reply: Response, seconds: float | None = None) -> Response | None:
        """If the reply has chunks, send it chunk by chunk, and return None. If it has none, send nothing, and return the reply: the caller
        must still send it.

        Raises Gone if the client closes its connection. Raises TimeoutError if the client does not take a chunk within `seconds`; with
        None, there is no such limit.
        """
        if not isinstance(reply, Reply) or reply.chunks is None:
            return reply
        async with contextlib.aclosing(reply.chunks):
            await self._request.incoming.unless_left(self._stream(reply, reply.chunks, seconds))
        return None

    async def _stream(self, reply: Reply, chunks: AsyncGenerator[bytes, None], seconds: float | None) -> None:
        async def put(body: bytes, *, more: bool) -> None:
            async with asyncio.timeout(seconds):
                await self._send({"type": "http.response.body", "body": body, "more_body": more})

        first = await anext(chunks, b"")  # read first: a stream that cannot begin still gets an error with a status
        self._begin(reply)
        await self._send({"type": "http.response.start", "status": reply.status_code, "headers": reply.raw_headers})
        await put(first, more=True)
        async for chunk in chunks:
            await put(chunk, more=True)
        await put(b"", more=False)

    def _begin(self, reply: Response) -> None:
        self.begun = True
        named = getattr(reply, "request_id", None) or self._request_id()
        reply.raw_headers.append((b"x-amzn-requestid", named.encode()))
