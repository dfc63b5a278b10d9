"""The app: one request in, one reply out.

    room? → route → body → handler → reply

Handlers are thin: they parse, call a service, and shape what it answers. Everything runs on the engine's loop, so that checkpoints that
come together share one commit, without a thread in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from holdfast.model.errors import HoldfastError
from holdfast.web.asgi import Receive, Scope, Send, send_reply
from holdfast.web.bodies import Gone, read_body
from holdfast.web.connections import Connections
from holdfast.web.errors import Refused, refusal, shaped, too_many, unavailable
from holdfast.web.limits import Limits
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Handler, Route, Routes

log = logging.getLogger("holdfast.server")


class App:
    """An ASGI app. Several listeners may share it, and then its limits."""

    def __init__(self, routes: Routes[Route], limits: Limits, request_id: Callable[[], str]) -> None:
        self._routes = routes
        self.limits = limits
        self.connections = Connections(limits.connections, limits.connections_of_one)
        self.request_id = request_id
        self._busy = 0
        self._waiting = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Refuse what comes from now on, and let nobody wait any longer."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await _other(scope, receive, send)
            return
        try:
            reply = await self._reply(scope, receive)
        except Gone:
            return
        await send_reply(send, reply, self.request_id())

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        try:
            return await self._answer(scope, receive)
        except (HoldfastError, Refused) as error:
            return refusal(error, _agent(scope) if isinstance(error, HoldfastError) else "")
        except Gone:
            raise
        except asyncio.CancelledError:
            if not self._closing.is_set():
                raise
            return refusal(unavailable("The server is shutting down.", close=True))
        except Exception:  # a mistake of ours: its caller learns that it was, and we learn what it was
            log.exception("%s %s could not be answered", scope["method"], _place(scope))
            return shaped(500, "ServiceException", "The service made a mistake; its log says which.")

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        if self._closing.is_set():
            raise unavailable("The server is shutting down.", close=True)
        raw = scope.get("raw_path") or scope["path"].encode()
        route, labels = self._routes.find(scope["method"], raw.decode("latin-1"))
        if route.waits and _waits(scope):
            return await self._wait(route, labels, scope, receive)
        if self._busy >= self.limits.requests:
            raise too_many("Too many requests at once. Come back soon.", "CallerRateLimitExceeded")
        self._busy += 1
        try:
            body = await read_body(scope, receive, self.limits.body_seconds, route.most or self.limits.body_bytes)
            async with asyncio.timeout(self.limits.request_seconds):
                return await route.handler(Request(scope, labels, body))
        except TimeoutError:
            raise unavailable("The request took too long. It may still be served; ask again with the same ClientToken.") from None
        finally:
            self._busy -= 1

    async def _wait(self, route: Route, labels: tuple[str, ...], scope: Scope, receive: Receive) -> Reply:
        """Answer as soon as the handler has the answer; nobody waits for a client that left, and no client for a server that leaves."""
        if self._waiting >= self.limits.waits:
            raise too_many("Too many synchronous invocations at once.", "ConcurrentInvocationLimitExceeded")
        self._waiting += 1
        try:
            body = await read_body(scope, receive, self.limits.body_seconds, route.most or self.limits.body_bytes)
            return await self._first(route.handler, Request(scope, labels, body), receive)
        finally:
            self._waiting -= 1

    async def _first(self, handler: Handler, request: Request, receive: Receive) -> Reply:
        async def answer() -> Reply:
            return await handler(request)

        answered = asyncio.create_task(answer())
        left = asyncio.create_task(_left(receive))
        closing = asyncio.create_task(self._closing.wait())
        tasks: set[asyncio.Task[Any]] = {answered, left, closing}
        try:
            await asyncio.wait(tasks, timeout=self.limits.wait_seconds, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            if left.done():
                raise Gone
            if closing.done():
                # A plain function that is nearly done shall not be cut off, and called again by a client that tries again.
                await asyncio.wait({answered}, timeout=self.limits.leave_seconds)
                if answered.done():
                    return answered.result()
                raise unavailable("The server is shutting down. What is durable goes on; ask for it by its name.", close=True)
            raise Refused(408, "ServiceException", "The execution takes longer than an invocation may wait; it goes on.")
        finally:
            for task in tasks:
                task.cancel()


def _waits(scope: Scope) -> bool:
    kind = next((value for key, value in scope["headers"] if key == b"x-amz-invocation-type"), b"RequestResponse")
    return kind in (b"RequestResponse", b"")


def _place(scope: Scope) -> str:
    """The beginning of the path. What follows may be the id of a callback, which is a capability, and nothing for a log."""
    return "/".join(scope["path"].split("/")[:3])


def _agent(scope: Scope) -> str:
    """What a client says it is; browsers and Node put it beside."""
    return " ".join(value.decode("latin-1") for key, value in scope["headers"] if key in (b"user-agent", b"x-amz-user-agent"))


async def _left(receive: Receive) -> None:
    with contextlib.suppress(Gone):
        while (await receive())["type"] != "http.disconnect":
            pass


async def _other(scope: Scope, receive: Receive, send: Send) -> None:
    """What is no HTTP request: a server's own beginning and end, and WebSockets, which nobody serves here."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
