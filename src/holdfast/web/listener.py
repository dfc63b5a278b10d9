"""The listener: uvicorn on the engine's own loop, with limits on connections and on the heads of requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio import Handle, TimerHandle
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.web.app import App
from holdfast.web.aws_errors import shaped
from holdfast.web.connections import Connections
from holdfast.web.limits import Limits
from holdfast.web.replies import Reply
from holdfast.web.single_write import SingleWrite

BACKLOG = 2048
_TICK_SECONDS = 1.0
_REASONS = {400: "Bad Request", 429: "Too Many Requests", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}
_LATER = (b"retry-after", b"1")
_SLICE = 16 * 1024
"""Bytes of one connection that the server parses before other connections get their turn: they may be hundreds of requests."""
_MOST_HEADERS = 200
_FREE_PIECES = 4096
_BYTES_OF_A_PIECE = 16


class _Flow(FlowControl):
    """uvicorn's flow control reads more after each answer, even if many requests of the same connection wait. This class does not."""

    def __init__(self, transport: asyncio.Transport, is_behind: Callable[[], bool], go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._is_behind = is_behind
        self._go_on = go_on

    def resume_reading(self) -> None:
        if self.read_paused and not self._is_behind():
            self.read_paused = False
            self._go_on()


class BoundedProtocol(HttpToolsProtocol):
    """One connection. uvicorn limits neither the size of a head, nor its time, nor how much it parses at once; this class does."""

    limits = Limits()
    request_id: Callable[[], str]
    open_connections = Connections()
    head = 0
    in_head = True
    body = 0
    pieces = 0
    ahead = b""
    """Bytes that have arrived and are not parsed yet; the server reads no more of the connection meanwhile."""
    turn: Handle | None = None
    slow: TimerHandle | None = None
    unread: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """A client has connected. It must send a request in time."""
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: bool(self.pipeline), self._go_on)
        self._hurry(self.limits.keep_alive_seconds)
        full = self.open_connections.open(self)
        if full is not None:
            status, kind = (429, "TooManyRequestsException") if "one address" in full else (503, "ServiceException")
            self._refuse(shaped(status, kind, f"There is no place for one more connection: {full}."), _LATER)

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, a slice at a time: the bytes of one client may take as long to parse as the requests of all others."""
        if self.transport.is_closing():
            return
        if self.ahead or self.flow.read_paused or len(data) > _SLICE:
            self.ahead += data
            self.transport.pause_reading()
            self._go_on()
        else:
            self._parse(data)

    def _go_on(self) -> None:
        """Parse the next slice at the next turn of this connection, and then read more."""
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
        """Parse bytes, and count those that belong to a head."""
        if self.in_head:
            if self.head == 0:
                self._hurry(self.limits.head_seconds)
            self.head += len(data)
        super().data_received(data)
        if self.in_head and self.head > self.limits.head_bytes:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. A trailer, after the body, is dropped: no signature covers it, and a handler would read it as a header."""
        if self.in_head and len(self.headers) <= _MOST_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head has arrived."""
        self.in_head = False
        self.body = self.pieces = 0
        self._in_time()
        self.open_connections.asked(self)
        if (
            len(self.headers) > _MOST_HEADERS
            or len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.head_bytes
        ):
            self._refuse_head()
        else:
            super().on_headers_complete()
            SingleWrite.around(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body. Each piece costs time, however small it is, so their number is limited."""
        if self.transport.is_closing():
            return
        self.pieces += 1
        self.body += len(body)
        if self.pieces > _FREE_PIECES + self.body // _BYTES_OF_A_PIECE:
            self._refuse(shaped(400, "SerializationException", "The body comes in too many small chunks. Send larger ones."))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The next head may begin."""
        self.head, self.in_head = 0, True
        self._in_time()
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered. The server reads the rest of its body for a while, so that the client reads the answer."""
        super().on_response_complete()
        if not self.in_head and self.cycle.response_complete and not self.transport.is_closing():
            self._hurry(self.limits.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._in_time()
        self._read_on()
        self.open_connections.closed(self)
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """The client's address; clients on a UNIX socket have none."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def end(self) -> None:
        """Close the connection, to make room for another client."""
        self.transport.close()

    def pause_writing(self) -> None:
        """The client reads too slowly: the rest of the answer fills the server's memory, so the connection is cut after a while."""
        self._read_on()
        self.unread = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has read the answer so far."""
        self._read_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with an error of the usual shape."""
        self._refuse(shaped(400, "SerializationException", msg))

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a client that asks for another protocol gets an answer in HTTP."""

    def _refuse_head(self) -> None:
        most = f"The headers have more than {self.limits.head_bytes} bytes, or are more than {_MOST_HEADERS}."
        self._refuse(shaped(431, "RequestTooLargeException", most))

    def _refuse(self, reply: Reply, *more: tuple[bytes, bytes]) -> None:
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.response_started and not self.in_head:  # the answer is sent, or is being sent
            self.transport.close()
            return
        head = f"HTTP/1.1 {reply.status_code} {_REASONS[reply.status_code]}\r\nconnection: close\r\n"
        headers = (*reply.raw_headers, *more, (b"x-amzn-requestid", self.request_id().encode()))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(head.encode() + lines + b"\r\n" + reply.body)
        self.transport.close()

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
    """The protocol of a server of this app, with its limits."""
    own = {"limits": app.limits, "open_connections": app.connections, "request_id": staticmethod(app.request_id)}
    return type("Protocol", (BoundedProtocol,), own)


class _Server(uvicorn.Server):
    """A server that leaves signals of the operating system to its program, and wakes once a second for its Date header, not ten times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leaving = asyncio.Event()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.leaving.wait(), _TICK_SECONDS)

    def leave(self) -> None:
        """Stop soon."""
        self.should_exit = True
        self.leaving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address; port 0 is any free port."""
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
    """Serve an app until the block ends. Requests that are under way then get their answers first, within `drain_seconds`."""
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
