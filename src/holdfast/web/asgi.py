"""ASGI, as far as it is used here: what an app is, and how a reply leaves one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from holdfast.web.replies import Reply

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


async def send_reply(send: Send, reply: Reply, request_id: str) -> None:
    """A whole answer at once."""
    length = (b"content-length", str(len(reply.body)).encode())
    identity = (b"x-amzn-requestid", (reply.request or request_id).encode())
    await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.headers, identity, length]})
    await send({"type": "http.response.body", "body": reply.body})
