"""A private HTTP listener on loopback, on a port that the kernel picks, for one process alone.

No other process may use it: the listener hangs up on a process that is not below the guard, and refuses a web page that was lured here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from holdfast.lambda_api.runtime.peers import is_from_below
from holdfast.model.errors import ExtraMissing
from holdfast.web.whole import Whole

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEEP_ALIVE_SECONDS: Final = 3600
"""The other side is ours and lives as long as we say; closing its connections would only make it try twice."""
_JSON: Final = [(b"content-type", b"application/json")]
_NO_SERVER: Final = "Processes that speak the Lambda Runtime API need an HTTP server: pip install 'holdfast[server]'."


class Lost(Exception):
    """Who sent a request hung up before all of it was here."""


class Listener:
    """Serves an ASGI app to one process, on the loop it was made on; `hung_up` hears of each connection of it that ends.

    `guard` is asked at each new connection: the process that all who may connect are below; None as long as there is none.
    """

    def __init__(self, app: App, hung_up: Callable[[tuple[str, int] | None], None], guard: Callable[[], int | None]) -> None:
        try:
            from uvicorn import Config
            from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
            from uvicorn.server import ServerState
        except ImportError:
            raise ExtraMissing(_NO_SERVER) from None
        quiet: dict[str, Any] = {"log_config": None, "lifespan": "off", "ws": "none", "proxy_headers": False}
        config = Config(
            guarded(app, self), interface="asgi3", date_header=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE_SECONDS, **quiet
        )
        config.load()
        self._state = ServerState()
        listener = self

        class Private(HttpToolsProtocol):
            is_let_in = False

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                self.access_log = False  # the public server's access log is about the public
                # Once for the connection: no descriptor of it can leave the process later unless that process hands it on.
                self.is_let_in = not listener.is_closed and is_from_below(transport, guard())
                if not self.is_let_in:
                    transport.abort()

            def data_received(self, data: bytes) -> None:
                if self.is_let_in:
                    super().data_received(data)

            def on_headers_complete(self) -> None:
                super().on_headers_complete()
                Whole.around(self.cycle)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.is_let_in:
                    hung_up(self.client)

        self._protocol: Callable[[], asyncio.Protocol] = lambda: Private(config, self._state, {})
        # It says that it is TCP: asyncio sends small answers at once only where it is told so; else each waits 40 ms for the other side.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self._server: asyncio.Server | None = None
        self.is_closed = False
        host, port = self._socket.getsockname()
        self.address = f"{host}:{port}"

    async def open(self) -> None:
        """Begin to answer; who came earlier was kept waiting by the kernel."""
        server = await asyncio.get_running_loop().create_server(self._protocol, sock=self._socket)
        self._server = server
        if self.is_closed:
            self.close()

    def close(self) -> None:
        """Answer nobody any more."""
        self.is_closed = True
        if self._server is None:
            self._socket.close()
        else:
            # Who knocks is sent away now, and who was let in just now is met in the next turn of the loop: a server that is gone would
            # leave either lying, open.
            with contextlib.suppress(OSError):
                while True:
                    self._socket.accept()[0].close()
            asyncio.get_running_loop().call_soon(self._server.close)
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def guarded(app: App, listener: Listener) -> App:
    """An app for requests that were meant for this very listener: a web page that was lured here names another host."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        named = [value for name, value in scope["headers"] if name == b"host"]
        if named != [listener.address.encode()]:
            await answer(send, 403, b'{"errorType":"Forbidden","errorMessage":"This listener belongs to a function."}')
            return
        await app(scope, receive, send)

    return serve


async def answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """Send a whole answer."""
    sent = [*(_JSON if headers is None else headers), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive: Receive, most: int) -> bytes | None:
    """A request's body; None when it is larger than `most`, after all of it was read and thrown away. `Lost` when it never came whole."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Lost
        part = message.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        else:
            parts.clear()
        if not message.get("more_body", False):
            return b"".join(parts) if size <= most else None
