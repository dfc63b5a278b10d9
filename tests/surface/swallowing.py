"""A proxy between clients and a server that can swallow an answer: the server has done its work, and the client does not hear of it."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Swallowing:
    """Passes everything on to one port of this machine, but for one answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._wanted: str | None = None
        self._then: Callable[[], None] = lambda: None
        self.swallowed = threading.Event()
        self.answers: list[bytes] = []
        """The bodies of what was answered to the wanted request and its repetitions, whether passed on or not."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def swallow(self, wanted: str, then: Callable[[], None]) -> None:
        """Keep the next answer to a request for such a path, do `then`, and hang up on the client."""
        self._wanted, self._then = wanted, then

    def _handler(proxy) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (its own `self` is the request's)
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    answer, text = proxy._ask(self.path, body, dict(self.headers))
                except (OSError, http.client.HTTPException):
                    answer, text = None, b""  # the server is not there: neither are we
                if answer is None or not proxy._pass(self.path, text):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            connection.request("POST", path, body, headers | {"Host": f"127.0.0.1:{self._port}"})
            answer = connection.getresponse()
            return answer, answer.read()

    def _pass(self, path: str, text: bytes) -> bool:
        if self._wanted is None or self._wanted not in path:
            return True
        self.answers.append(text)
        if self.swallowed.is_set():
            return True
        self._then()
        self.swallowed.set()
        return False

    @contextlib.contextmanager
    def running(self) -> Iterator[Swallowing]:
        """Pass on until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
