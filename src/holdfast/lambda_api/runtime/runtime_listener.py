"""RuntimeListener: a private HTTP listener for one process, on loopback, on a port that the kernel chooses.

Only that process and the processes that it starts may use it. The listener closes each connection from a process that is not a descendant
of the guard; a system without `/proc` cannot tell, and accepts every connection. A request whose Host header names another address is
refused: a browser sends such requests after DNS rebinding.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.lambda_api.runtime.peers import is_from_below
from holdfast.web.replies import json_reply
from holdfast.web.single_write import SingleWrite

_KEEP_ALIVE_SECONDS: Final = 3600
"""An idle connection is closed after this time. The time is long, because the client is a process that this server started: if its
connection were closed earlier, the process would only connect again."""
_FORBIDDEN: Final = {"errorType": "Forbidden", "errorMessage": "This listener belongs to a function."}


class RuntimeListener:
    """Serves an ASGI app to one process, on the event loop that made the listener. When a connection ends that the listener had accepted,
    `hung_up` is called with the client's address.

    `guard` is called at each new connection. It returns the guard's pid: only descendants of the guard may connect. If it returns None, no
    process may connect. (A system without `/proc` accepts every connection.)
    """

    def __init__(self, app: ASGIApp, hung_up: Callable[[tuple[str, int] | None], None], guard: Callable[[], int | None]) -> None:
        # The socket is declared as TCP: only then asyncio sets TCP_NODELAY. Without that, each small answer is delayed by 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        host, port = self._socket.getsockname()
        self.address = f"{host}:{port}"
        quiet: dict[str, Any] = {"log_config": None, "lifespan": "off", "ws": "none", "proxy_headers": False}
        config = Config(
            guarded(app, self), interface="asgi3", date_header=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE_SECONDS, **quiet
        )
        config.load()
        self._state = ServerState()
        listener = self

        class GuardedProtocol(HttpToolsProtocol):
            is_let_in = False

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                self.access_log = False  # the access log has only requests to the public server
                # Checked once per connection: another process can get the socket later only if its owner passes it on.
                self.is_let_in = not listener.is_closed and is_from_below(transport, guard())
                if not self.is_let_in:
                    transport.abort()

            def data_received(self, data: bytes) -> None:
                if self.is_let_in:
                    super().data_received(data)

            def on_headers_complete(self) -> None:
                super().on_headers_complete()
                SingleWrite.around(self.cycle)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.is_let_in:
                    hung_up(self.client)

        self._protocol: Callable[[], asyncio.Protocol] = lambda: GuardedProtocol(config, self._state, {})
        self._server: asyncio.Server | None = None
        self.is_closed = False

    async def open(self) -> None:
        """Begin to answer requests. Connections that were made earlier wait in the kernel's queue."""
        server = await asyncio.get_running_loop().create_server(self._protocol, sock=self._socket)
        self._server = server
        if self.is_closed:
            self.close()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self.is_closed = True
        if self._server is None:
            self._socket.close()
        else:
            # A server that is closed now would leave two kinds of connections open. Those in the kernel's queue are closed here. Those that
            # asyncio has just accepted are closed in the next turn of the loop, by `connection_made`; so the server closes after it.
            with contextlib.suppress(OSError):
                while True:
                    self._socket.accept()[0].close()
            asyncio.get_running_loop().call_soon(self._server.close)
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def guarded(app: ASGIApp, listener: RuntimeListener) -> ASGIApp:
    """An app that passes on only requests whose Host header names this listener. Others get status 403: a browser that DNS rebinding sends
    here names another host."""

    own = listener.address.encode()

    def serve(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if [value for name, value in scope["headers"] if name == b"host"] != [own]:
            return json_reply(_FORBIDDEN, 403)(scope, receive, send)
        return app(scope, receive, send)

    return serve
