"""The listener: uvicorn on the event loop of its caller (with an engine: the engine's loop), with limits on connections and on the heads of
requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio import Handle, TimerHandle
from collections.abc import AsyncIterator, Callable, Generator
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.web.app import App
from holdfast.web.connections import Connections
from holdfast.web.error_shapes import shaped
from holdfast.web.limits import WebLimits
from holdfast.web.replies import Reply
from holdfast.web.single_write import SingleWrite

BACKLOG = 2048
_TICK_SECONDS = 1.0
_LATER = (b"retry-after", b"1")
_SLICE = 16 * 1024
"""The server parses at most this many bytes of one connection before other connections get their turn. One slice of this size may hold
hundreds of requests."""
_MOST_HEADERS = 200
_FREE_PIECES = 4096
_BYTES_OF_A_PIECE = 16


class _Flow(FlowControl):
    """uvicorn's flow control reads from the connection again after each answer, even if many requests of the connection still wait for
    their answers. This class reads again only when no request of the connection waits."""

    def __init__(self, transport: asyncio.Transport, is_behind: Callable[[], bool], go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._is_behind = is_behind
        self._go_on = go_on

    def resume_reading(self) -> None:
        if self.read_paused and not self._is_behind():
            self.read_paused = False
            self._go_on()


class _AnswerTransport:
    """What the answers of a connection are written to: `transport`, but its `close` is the given function."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write, self.writelines, self.is_closing = transport.write, transport.writelines, transport.is_closing
        self.close = close


class BoundedProtocol(HttpToolsProtocol):
    """One connection. uvicorn limits neither the size of a request's head, nor the time in which it must arrive, nor how many bytes are
    parsed at once; this class does."""

    limits = WebLimits()
    request_id: Callable[[], str]
    open_connections = Connections()
    head = 0
    in_head = True
    body = 0
    pieces = 0
    ahead = b""
    """Bytes that have arrived and are not parsed yet. While there are any, the server reads no further bytes of the connection."""
    lingers = False
    """Whether the connection has had its last answer, and the server only waits until the client closes it."""
    leaves = False
    """Whether the server shuts down."""
    refusal: bytes | None = None
    """The answer to a refused request, while earlier requests of the connection wait for their answers. The refusal is sent after these."""
    turn: Handle | None = None
    slow: TimerHandle | None = None
    unread: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Count a new connection, or refuse it: with 429 if its address has too many connections, with 503 if the server has too many. The
        client must begin a request within `keep_alive_seconds`."""
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: bool(self.pipeline), self._go_on)
        self.answers = _AnswerTransport(transport, self._answered_last)
        self._hurry(self.limits.keep_alive_seconds)
        full = self.open_connections.open(self)
        if full is not None:
            status, kind = (429, "TooManyRequestsException") if "one address" in full else (503, "ServiceException")
            self._refuse(shaped(status, kind, f"The server cannot accept one more connection: {full}."), _LATER)

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, at most a slice (_SLICE) at a time, so that one client with much data does not delay the others."""
        if self._is_over or self.lingers:
            return
        if self.ahead or self.flow.read_paused or len(data) > _SLICE:
            self.ahead += data
            self.transport.pause_reading()
            self._go_on()
        else:
            self._parse(data)

    def _go_on(self) -> None:
        """Let the event loop call `_take_turn` soon. `_take_turn` parses the next slice of the bytes in `ahead`; if none are left, it reads
        more from the connection."""
        if self.turn is None and not self.flow.read_paused and not self.transport.is_closing():
            self.turn = self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self.turn = None
        if self.transport.is_closing() or self.flow.read_paused:
            return
        data, self.ahead = self.ahead[:_SLICE], self.ahead[_SLICE:]
        if data:
            self._parse(data)
        if self.ahead:
            self._go_on()
        else:
            self._read_more()

    def _read_more(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        """Parse bytes. While a head arrives, count its bytes; a head that is too large is refused."""
        if self.in_head:
            if self.head == 0:
                self._hurry(self.limits.head_seconds)
            self.head += len(data)
        super().data_received(data)
        if self.in_head and self.head > self.limits.head_bytes:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the request. A trailer, which is a header after the body, is dropped: no signature covers it, and a handler
        would read it like a header. Headers above the largest number are dropped too, and `on_headers_complete` refuses the request."""
        if self.in_head and len(self.headers) <= _MOST_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request whose head has arrived; if an earlier request of the connection is not answered yet, the new one waits. A head
        that is too large, or has too many headers, is refused."""
        if self._is_over:
            return
        self.body = self.pieces = 0
        self._in_time()
        self.open_connections.asked(self)
        if (
            len(self.headers) > _MOST_HEADERS
            or len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.head_bytes
        ):
            self._refuse_head()
            return
        super().on_headers_complete()
        self.in_head = False
        if self.cycle is not None:
            self.cycle.transport = self.answers  # type: ignore[assignment]
        SingleWrite.around(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of a body. Each piece costs time, however small it is. So a body in too many small pieces is refused."""
        if self._is_over:
            return
        self.pieces += 1
        self.body += len(body)
        if self.pieces > _FREE_PIECES + self.body // _BYTES_OF_A_PIECE:
            self._refuse(shaped(400, "SerializationException", "The body arrives in too many small chunks. Send larger ones."))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived completely. The next bytes of the connection belong to the head of another request."""
        self.head, self.in_head = 0, True
        self._in_time()
        if not self._is_over:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that a request is answered. If its body has not arrived completely, the server continues to read the body, so that the
        client can read the answer. If the body is not complete after `body_seconds`, the server closes the connection. If a request was
        refused meanwhile, the refusal is sent after the last of the earlier answers."""
        if self.lingers:
            return
        was_last = not self.pipeline
        super().on_response_complete()
        if self.refusal is not None and was_last:
            self._end_with(self.refusal)
        if not self.in_head and self.cycle.response_complete and not self.transport.is_closing():
            self._hurry(self.limits.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a connection that is closed, and stop counting it."""
        self._in_time()
        self._read_on()
        self.open_connections.closed(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """uvicorn calls this when the server shuts down. Close an idle connection at once, and any other as soon as its request is
        answered."""
        self.leaves = True
        super().shutdown()

    @property
    def address(self) -> str:
        """The client's address; empty for a client on a UNIX socket."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request of the connection is being answered now."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def end(self) -> None:
        """Close the connection, to make room for another client."""
        self.transport.close()

    def pause_writing(self) -> None:
        """The transport calls this when the client reads so slowly that the unsent answer fills the buffer. Start a timer: if the client
        has not read enough after `unread_seconds`, the connection is aborted."""
        self._read_on()
        self.unread = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The transport calls this when the client has read enough of the answer. Stop the timer that `pause_writing` started."""
        self._read_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with an error in AWS's format, and close the connection."""
        self._refuse(shaped(400, "SerializationException", msg))

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing. uvicorn would log a warning here when a client asks for another protocol; that client gets its answer in HTTP."""

    def _refuse_head(self) -> None:
        most = f"The headers have more than {self.limits.head_bytes} bytes, or there are more than {_MOST_HEADERS} headers."
        self._refuse(shaped(431, "RequestTooLargeException", most))

    @property
    def _is_over(self) -> bool:
        """Whether the rest of what arrives is dropped, because the connection is closing, or closes after the earlier answers."""
        return self.transport.is_closing() or self.refusal is not None

    def _refuse(self, reply: Reply, *more: tuple[bytes, bytes]) -> None:
        """Refuse the request that arrives now, and close the connection. If earlier requests wait for their answers, these are sent first.
        If the answer to the refused request itself has begun, there is no second one."""
        if self._is_over:
            return
        has_cycle = not self.in_head  # while a head arrives, `cycle` is that of an earlier request
        waits = any(cycle is self.cycle for cycle, _ in self.pipeline) if has_cycle else not self.is_idle
        if has_cycle and not waits and self.cycle.response_started:
            self.transport.close()
            return
        if has_cycle and waits:
            self.pipeline.popleft()
        head = f"HTTP/1.1 {reply.status_code} {HTTPStatus(reply.status_code).phrase}\r\nconnection: close\r\n"
        headers = (*reply.raw_headers, *more, (b"x-amzn-requestid", self.request_id().encode()))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        answer = head.encode() + lines + b"\r\n" + reply.body
        if waits:
            self._in_time()
            self.refusal, self.ahead = answer, b""
        else:
            self._end_with(answer)

    def _end_with(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _answered_last(self) -> None:
        """Close the connection after its last answer. If the body of the request has not arrived completely, close it only for writing,
        and drop what arrives, until the client closes it or `body_seconds` have passed: bytes that arrive at a closed connection reset it,
        and a client whose connection is reset may lose the answer (RFC 9112, section 9.6)."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.in_head or self.leaves or cycle is None or not cycle.response_complete or self.transport.is_closing():
            self.transport.close()
            return
        self.lingers, self.ahead, self.flow.read_paused = True, b"", False
        self.transport.write_eof()
        self.transport.resume_reading()
        self._hurry(self.limits.body_seconds)

    def _hurry(self, seconds: float) -> None:
        self._in_time()
        self.slow = self.loop.call_later(seconds, self.transport.close)

    def _read_on(self) -> None:
        if self.unread is not None:
            self.unread.cancel()
            self.unread = None

    def _in_time(self) -> None:
        if self.slow is not None:
            self.slow.cancel()
            self.slow = None


def protocol_for(app: App) -> type[HttpToolsProtocol]:
    """The protocol class for uvicorn, with the limits and the connections of this app."""
    own = {"limits": app.limits, "open_connections": app.connections, "request_id": staticmethod(app.request_id)}
    return type("Protocol", (BoundedProtocol,), own)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the signals of the operating system to its program. uvicorn wakes ten times a second to renew the Date
    header; this server wakes once a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leaving = asyncio.Event()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.leaving.wait(), _TICK_SECONDS)

    def leave(self) -> None:
        """Tell the server to stop, and wake it."""
        self.should_exit = True
        self.leaving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A non-blocking socket that is bound to an address; port 0 means any free port. Raises OSError if it cannot be bound, for example
    because the address is in use or unknown."""
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def listening(app: App, listener: socket.socket, *, drain_seconds: int = 5) -> AsyncIterator[None]:
    """Serve an app on the socket `listener` while the block runs. When the block ends, the server accepts nothing new, and waits at most
    `drain_seconds` until the requests that have begun are answered. Then it cancels the rest: their clients get 503 if the answer has not
    begun."""
    options: dict[str, Any] = {"http": protocol_for(app), "ws": "none", "lifespan": "off", "loop": "none", "log_config": None}
    config = uvicorn.Config(
        app,
        **options,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=app.limits.keep_alive_seconds,
        timeout_graceful_shutdown=drain_seconds,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve([listener]))
    listening = asyncio.create_task(server.listening.wait())
    try:
        await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield
    finally:
        listening.cancel()
        app.close()
        server.leave()
        await running
