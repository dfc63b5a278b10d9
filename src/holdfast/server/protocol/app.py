"""The worker protocol as an ASGI app around another, which answers everything else.

    room? → route → body → handler → reply

Whatever goes wrong is answered in the protocol's own shape. Streams hold their place until they end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final

from holdfast.model.errors import HoldfastError
from holdfast.server.protocol.approvals import Approvals
from holdfast.server.protocol.artifacts import UPLOADS, Artifacts
from holdfast.server.protocol.capacity import TenantCapacity
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.metrics import WorkerMetrics
from holdfast.server.protocol.request import Capacities, ProtocolRoute, RunRequest
from holdfast.server.protocol.runs import Runs
from holdfast.server.protocol.workers import Workers
from holdfast.signals.traceparent import parent_of
from holdfast.web.asgi import ASGIApp, Message, Receive, Scope, Send, send_reply
from holdfast.web.auth.identity import identity_of
from holdfast.web.bodies import Gone, read_body
from holdfast.web.errors import Refused, unavailable
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.responses import Subject, door_reply, refusal
from holdfast.web.routing import Routes
from holdfast.workers.tools.seam import ToolFailed

log = logging.getLogger("holdfast.server")

_LARGEST_LABEL: Final = 200


def with_workers(app: ASGIApp, handling: Handling, request_id: Callable[[], str]) -> WorkerProtocol:
    """The app with the worker protocol beside it. Close it when the server begins to shut down."""
    parts = (Workers(handling), Runs(handling), Approvals(handling), Artifacts(handling), WorkerMetrics(handling))
    return WorkerProtocol(app, handling, [way for part in parts for way in part.routes()], request_id)


class WorkerProtocol:
    """An ASGI app."""

    def __init__(self, app: ASGIApp, handling: Handling, ways: Sequence[ProtocolRoute], request_id: Callable[[], str]) -> None:
        self._app = app
        self._handling = handling
        self._limits = handling.limits
        self._routes = Routes(ways)
        self._request_id = request_id
        self._rooms = Capacities(TenantCapacity(handling.limits.requests), TenantCapacity(handling.limits.waits), TenantCapacity(UPLOADS))

    def close(self) -> None:
        """Refuse what comes from now on, and let nobody wait any longer: whoever waits for a run is told where it is."""
        self._handling.closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not _is_ours(scope):
            await self._app(scope, receive, send)
            return
        said = _Said(send)
        try:
            await self._answer(scope, receive, said)
            return
        except Gone:
            return
        except (HoldfastError, Refused, ToolFailed) as error:
            reply = _refused(error, scope)
        except TimeoutError:
            reply = _refused(unavailable("The request took too long. It may still be served; ask again with the same key."), scope)
        except asyncio.CancelledError:
            if not self._handling.closing.is_set() or said.begun:
                raise
            reply = _refused(unavailable("The server is shutting down.", close=True), scope)
        except Exception:  # a mistake of ours: its caller learns that it was, and we learn what it was
            log.exception("%s %s could not be answered", scope["method"], "/".join(scope["path"].split("/")[:3]))
            reply = door_reply("internal_error", "The server made a mistake; its log says which.", _place(scope), 500)
        if not said.begun:
            await send_reply(send, reply, self._request_id())

    async def _answer(self, scope: Scope, receive: Receive, said: _Said) -> None:
        if self._handling.closing.is_set():
            raise unavailable("The server is shutting down.", close=True)
        way, labels = self._routes.find(scope["method"], _raw(scope))
        with self._rooms.requests.taken(identity_of(scope).tenant):
            limits = self._limits
            body = b"" if way.takes_body else await read_body(scope, receive, limits.body_seconds, way.most or limits.body_bytes)
            async with asyncio.timeout(limits.request_seconds) as limit:
                asked = RunRequest(scope, labels, body, receive, self._rooms, limit)
                reply = await (way.handler(asked) if way.takes_body else _unless_left(way.handler(asked), receive))
                if reply.chunks is None:
                    await send_reply(said, reply, self._request_id())
                else:
                    await self._stream(reply, reply.chunks, receive, said)

    async def _stream(self, reply: Reply, chunks: AsyncGenerator[bytes, None], receive: Receive, said: _Said) -> None:
        async def stream() -> None:
            first = await anext(chunks, b"")  # what cannot begin is refused, and not cut off
            headers = [*reply.headers, (b"x-amzn-requestid", self._request_id().encode())]
            await said({"type": "http.response.start", "status": reply.status, "headers": headers})
            await said({"type": "http.response.body", "body": first, "more_body": True})
            async for chunk in chunks:
                await said({"type": "http.response.body", "body": chunk, "more_body": True})
            await said({"type": "http.response.body", "body": b""})

        async with contextlib.aclosing(chunks):
            await _unless_left(stream(), receive)


class _Said:
    """What was sent, so that nothing is said twice."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


async def _unless_left(answering: Awaitable[Any], receive: Receive) -> Any:
    """Answer; nobody works for a client that has left."""
    answered = asyncio.ensure_future(answering)
    left = asyncio.create_task(_left(receive))
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


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _raw(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _is_ours(scope: Scope) -> bool:
    path = _raw(scope)
    return path.startswith("/v1/") or path in ("/v1", "/metrics")


def _refused(error: HoldfastError | Refused | ToolFailed, scope: Scope) -> Reply:
    place = _place(scope)
    return door_reply(error.code, str(error), place) if isinstance(error, ToolFailed) else refusal(error, place)


def _place(scope: Scope) -> Subject:
    """What a request is about, as far as its path says."""
    parts = _raw(scope).split("/")
    kind, label = (parts[2], Request(scope, [parts[3]], b"").label[:_LARGEST_LABEL]) if len(parts) > 3 else ("", "")
    parent = parent_of(next((value.decode("latin-1") for key, value in scope["headers"] if key == b"traceparent"), None))
    return Subject(
        worker_id=label if kind == "workers" else "",
        run_id=label if kind == "runs" else "",
        trace_id=None if parent is None else parent.trace_id,
    )
