"""The app: one request in, one reply out. It is the only ASGI app between the listener and the handlers.

    match the route → admit the caller → count the request → read the body → call the handler → send the reply

Handlers are thin: a handler reads the request, calls a service, and makes a reply from the result. The app and its handlers run on one
event loop. In a server with an engine it is the engine's loop, so that checkpoints that arrive together share one commit, without a thread
in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import Receive, Scope, Send

from holdfast.model.errors import HoldfastError
from holdfast.web.auth.gate import Gate
from holdfast.web.bodies import HeldBodies, Incoming
from holdfast.web.capacity import INVOKED, Capacities
from holdfast.web.connections import Connections
from holdfast.web.identity import WITHOUT_GATE
from holdfast.web.limits import WebLimits
from holdfast.web.policy import RoutePolicy, Waits
from holdfast.web.refusals import Gone, Refused, late_body, unavailable
from holdfast.web.replies import Response
from holdfast.web.requests import Request
from holdfast.web.routing import Handler, Match, Route, Router, path_of, target_of
from holdfast.web.sender import Sender

log = logging.getLogger("holdfast.server")


class App:
    """An ASGI app. Several listeners may share it; then its limits hold for all of them together."""

    def __init__(self, routes: Sequence[Route], limits: WebLimits, request_id: Callable[[], str], gate: Gate | None = None) -> None:
        self.router = Router(routes)
        self.limits = limits
        self.request_id = request_id
        self.gate = gate
        """Admits callers. None if only processes of this server can connect."""
        self.connections = Connections(limits.connections, limits.connections_of_one)
        self._bodies = HeldBodies(limits.bodies_bytes)
        made = {group.capacity: Capacities.of(group.capacity, limits) for group in self.router.groups}
        self._capacities = {group: made[group.capacity] for group in self.router.groups}
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Refuse all further requests, and tell the requests that wait for a result to end soon."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await _not_http(scope, receive, send)
            return
        incoming = Incoming(scope, receive, self._bodies)
        path = path_of(scope)
        match = self.router.find(scope["method"].upper(), path, target_of(scope, path))
        request = Request(scope, incoming, match.policy, match.labels, self._capacities[match.group], self._closing)
        sender = Sender(request, send, self.request_id)
        try:
            reply = await self._reply(request, match, sender)
            if reply is not None:
                await sender.send(reply)
        except Gone:
            return
        finally:
            incoming.close()

    async def _reply(self, request: Request, match: Match, sender: Sender) -> Response | None:
        """The reply to a request. An error becomes a reply too; the group of the match makes it. Raises Gone if the client closes its
        connection. None if the reply is a stream: then it has been sent, or at least begun."""
        try:
            if self.gate is None:
                request.caller = WITHOUT_GATE
            else:
                await self.gate.admit(request)
        except Refused as why:
            return match.group.denial(why, request)
        try:
            reply = await self._answer(request, match, sender)
        except (HoldfastError, Refused, TimeoutError) as error:
            reply = match.group.failure(error, request)
        except Gone:
            raise
        except asyncio.CancelledError:
            if not self._closing.is_set() or sender.begun:
                raise
            reply = match.group.failure(_shutting_down(), request)
        except Exception as error:  # a bug in Holdfast: the caller learns that there was an error, and the log has its traceback
            log.exception("%s %s could not be answered", request.method, "/".join(match.path.split("/")[:3]))
            reply = match.group.failure(error, request)
        if sender.begun:
            return None
        if self.gate is not None and reply is not None:
            self.gate.note_reply(request, reply)
        return reply

    async def _answer(self, request: Request, match: Match, sender: Sender) -> Response | None:
        if self._closing.is_set():
            raise _shutting_down()
        if match.handler is None:
            raise match.refusal(request.method)
        waits = request.policy.waits
        if waits is Waits.STREAM:
            return await sender.streamed(await match.handler(request), self.limits.stream_seconds)
        if waits is Waits.INVOCATION and (request.policy.wants_result is None or request.policy.wants_result(request.header)):
            return await self._invoke(request, match.handler)
        return await self._count(request, match.handler, sender)

    async def _count(self, request: Request, handler: Handler, sender: Sender) -> Response | None:
        """Count the request, and answer it. Returns None if the reply was streamed. Raises Refused if too many requests are being answered,
        or if the body is too large or arrives too late. Raises TimeoutError if the handler takes longer than `WebLimits.request_seconds`,
        unless the handler has called `Request.waiting` or `Request.uploading`; on a route with `Waits.WHEN_ASKED`, the time to send a
        stream counts too. Raises Gone if the caller closes its connection while the body is read, or, on a route with `Waits.WHEN_ASKED`,
        at any time."""
        requests, tenant, policy = request.capacities.requests, request.tenant, request.policy
        requests.take(tenant)
        arrived = policy.reads_body
        try:
            # One block for both time limits, because such a block takes a tenth of the time of an ordinary request.
            async with asyncio.timeout(self.limits.body_seconds) as request.timer:
                if not arrived:
                    request.content = await request.incoming.whole(self._most_bytes(policy))
                    arrived = True
                request.timer.reschedule(asyncio.get_running_loop().time() + self.limits.request_seconds)
                if policy.waits is not Waits.WHEN_ASKED:
                    return await handler(request)
                return await sender.streamed(await request.incoming.unless_left(handler(request)))
        except TimeoutError:
            if arrived:
                raise
            raise late_body() from None
        finally:
            requests.free(tenant)

    def _most_bytes(self, policy: RoutePolicy) -> int:
        return policy.body_bytes or self.limits.body_bytes

    async def _invoke(self, request: Request, handler: Handler) -> Response:
        """Wait for the result of an invocation, and answer with it. Raises Refused, and invokes nothing, if too many requests wait, or if
        the body is too large or arrives too late.

        Raises Gone if the caller closes its connection before there is a result. Raises Refused if there is no result after
        `WebLimits.wait_seconds`, or `WebLimits.leave_seconds` after the server began to shut down. In these three cases a durable execution
        that has started continues; a plain function is cancelled.
        """
        with request.capacities.waits.taken(request.tenant, INVOKED):
            request.content = await request.incoming.read(self.limits.body_seconds, self._most_bytes(request.policy))
            answered = asyncio.create_task(handler(request))
            left = asyncio.create_task(request.incoming.left())
            closing = asyncio.create_task(self._closing.wait())
            tasks: set[asyncio.Future[Any]] = {answered, left, closing}
            try:
                await asyncio.wait(tasks, timeout=self.limits.wait_seconds, return_when=asyncio.FIRST_COMPLETED)
                if closing.done() and not answered.done() and not left.done():
                    # Let a plain function finish if it is nearly done, because a caller that is cut off would call it again.
                    await asyncio.wait({answered}, timeout=self.limits.leave_seconds)
                if answered.done():
                    return answered.result()
                if left.done():
                    raise Gone
                if closing.done():
                    raise unavailable(
                        "The server is shutting down. A durable execution continues: ask for its result later, by its name.", close=True
                    )
                raise Refused(
                    408,
                    "ServiceException",
                    "There is no result in the time that a synchronous invocation may wait. A durable execution continues: ask for its "
                    "result later, by its name.",
                )
            finally:
                for task in tasks:
                    task.cancel()


def _shutting_down() -> Refused:
    return unavailable("The server is shutting down.", close=True)


async def _not_http(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an ASGI connection that is not HTTP: confirm the start and the end of a server, and close a WebSocket, because no route
    accepts one."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
