"""The desk of this example, on this machine: it takes tickets, one for each key, and counts them.

python local_desk.py             serves on port 8767
"""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class LocalDesk(ThreadingHTTPServer):
    """Keeps tickets by the key that they came with."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.tickets: dict[str, Any] = {}
        self.received: list[str] = []
        self.before_answer: Callable[[], object] = lambda: None
        """Called when a ticket is kept and its sender does not know it yet: the worst moment for a crash."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """POST a ticket, GET tickets by key, GET how many came."""

    server: LocalDesk

    def do_GET(self) -> None:
        """The tickets of a key, a ticket, or what was counted."""
        asked = urlsplit(self.path)
        if asked.path == "/counted":
            self._answer(200, {"received": len(self.server.received)})
        elif asked.path == "/tickets":
            self._answer(200, [self._made(key) for key in parse_qs(asked.query).get("key", []) if key in self.server.tickets])
        else:
            found = self.server.tickets.get(asked.path.rpartition("/")[2])
            self._answer(404 if found is None else 200, found)

    def do_POST(self) -> None:
        """Keep a ticket. The same key is the same ticket."""
        key = self.headers["Idempotency-Key"]
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append(key)
        self.server.tickets.setdefault(key, told)
        self.server.before_answer()
        self._answer(201, self._made(key))

    def _made(self, key: str) -> dict[str, str]:
        return {"id": key, "url": f"{self.server.url}/tickets/{key}"}

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing: the run is what there is to see."""


if __name__ == "__main__":
    LocalDesk(int(sys.argv[1]) if len(sys.argv) > 1 else 8767).serve_forever()
