"""The shop of this example, on this machine: it is busy at first, keeps orders by their keys, and accepts each after a while.

python local_shop.py             serves on port 8766
python local_shop.py --never     the same, but it accepts no order: the pipeline then cancels its order
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class LocalShop(ThreadingHTTPServer):
    """Keeps orders by the key that they came with."""

    def __init__(self, port: int = 0, *, never: bool = False, busy: int = 1) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.never = never
        self.busy = busy
        """How many orders it turns away before it takes one."""
        self.orders: dict[str, Any] = {}
        self.received: list[str] = []
        self.cancelled: list[str] = []
        self.looks: Counter[str] = Counter()
        self.before_answer: Callable[[], object] = lambda: None
        """Called when an order is kept and its sender does not know it yet: the worst moment for a crash."""
        self.before_cancel_answer: Callable[[], object] = lambda: None
        """The same for an order that is cancelled."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """POST an order, GET orders by key, GET an order, DELETE an order, GET how many orders came and went."""

    server: LocalShop

    def do_GET(self) -> None:
        """An order, the orders of a key, or what was counted."""
        asked, shop = urlsplit(self.path), self.server
        key = asked.path.rpartition("/")[2]
        if asked.path == "/counted":
            self._answer(200, {"received": len(shop.received), "cancelled": len(shop.cancelled)})
        elif asked.path == "/orders":
            self._answer(200, [self._made(one) for one in parse_qs(asked.query).get("key", []) if one in shop.orders])
        elif key in shop.orders:
            shop.looks[key] += 1
            is_accepted = shop.looks[key] > 1 and not shop.never
            self._answer(200, {"state": "accepted" if is_accepted else "received"})
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        """Keep an order, unless the shop is busy. The same key is the same order."""
        key, shop = self.headers["Idempotency-Key"], self.server
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if shop.busy:
            shop.busy -= 1
            self._answer(503, {})
            return
        shop.received.append(key)
        shop.orders.setdefault(key, order)
        shop.before_answer()
        self._answer(201, self._made(key))

    def do_DELETE(self) -> None:
        """Forget an order."""
        key = self.path.rpartition("/")[2]
        self.server.cancelled.append(key)
        was_there = self.server.orders.pop(key, None) is not None
        self.server.before_cancel_answer()
        self._answer(200 if was_there else 404, {})

    def _made(self, key: str) -> dict[str, str]:
        return {"id": key, "url": f"{self.server.url}/orders/{key}"}

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
    ports = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    LocalShop(ports[0] if ports else 8766, never="--never" in sys.argv[1:]).serve_forever()
