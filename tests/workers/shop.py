"""A shop's server: a real one, on this machine. It counts what it really did, by idempotency key, and stands still where a test says so.

It forgives nothing: a second request of the same key is a second effect.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOMENTS = ("before", "received", "done", "answered")
"""Of a call, as the world sees it: not sent yet; here and not done; done and not answered; answered, and the tool has not returned."""
PATIENCE_SECONDS = 240.0


class Shop:
    """What the server did, and where it waits."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.effects: Counter[str] = Counter()
        self.orders: dict[str, str] = {}
        """By idempotency key: the order it was for."""
        self._changed = threading.Condition()
        self._held: dict[str, str] = {}
        self._reached: set[tuple[str, str]] = set()
        self._standing: set[str] = set()
        self._dropped: set[str] = set()

    def hold(self, order: str, moment: str) -> None:
        """Stand still when this order's first call is at this moment; later ones pass."""
        self._held[order] = moment

    def wait_for(self, order: str, moment: str) -> None:
        """Until the call is there."""
        with self._changed:
            assert self._changed.wait_for(lambda: (order, moment) in self._reached, PATIENCE_SECONDS), f"{order} never came to {moment}"

    def let_go(self, order: str, *, lost: bool = False) -> None:
        """Go on with it; a lost one ends where it is, because its caller is gone."""
        with self._changed:
            self._held.pop(order, None)
            if lost:
                self._dropped.add(order)
            self._changed.notify_all()

    def effects_of(self, order: str) -> int:
        """How often something was done for an order, whatever the key."""
        return sum(count for key, count in self.effects.items() if self.orders[key] == order)

    def at(self, order: str, moment: str) -> bool:
        """A call reaches a moment; False if it ends there."""
        with self._changed:
            self._reached.add((order, moment))
            self._changed.notify_all()
            if self._held.get(order) != moment or order in self._standing:
                return True
            self._standing.add(order)
            self._changed.wait_for(lambda: order not in self._held, PATIENCE_SECONDS)
            return order not in self._dropped

    def done(self, key: str, order: str) -> None:
        """The effect."""
        with self._changed:
            self.orders[key] = order
            self.effects[key] += 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop: Shop

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        _, moment, name = self.path.split("/")
        if moment == "effects":
            self._answer(200, {"count": self.shop.effects[name]})
        elif self.shop.at(name, moment):
            self._answer(200, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        _, _, order = self.path.split("/")
        key = self.headers["idempotency-key"]
        if not self.shop.at(order, "received"):
            return
        self.shop.done(key, order)
        if self.shop.at(order, "done"):
            self._answer(200, {"paid": order})

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the client is gone


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the client was killed


@contextmanager
def a_shop() -> Iterator[Shop]:
    """A shop that is open."""

    class Handler(_Handler):
        pass

    server = _Server(("127.0.0.1", 0), Handler)
    shop = Handler.shop = Shop(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shop
    finally:
        for order in list(shop._held):
            shop.let_go(order, lost=True)
        server.shutdown()
        server.server_close()
        thread.join()
