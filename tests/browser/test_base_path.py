"""The console behind a proxy that adds a path of its own, in a real browser."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.test_stories import ORDER
from tests.browser.watched_page import Pages
from tests.surface.serve_program import Programs

BASE = b"/tools/holdfast"


class Proxy:
    """Takes the path away and passes everything on, also streams. Each connection has one request."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.to = ("127.0.0.1", 0)

    def serve(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.to) as server:
            asked = b""
            while b"\r\n\r\n" not in asked:
                if not (part := client.recv(65_536)):
                    return
                asked += part
            head, _, body = asked.partition(b"\r\n\r\n")
            first, *fields = head.split(b"\r\n")
            verb, path, version = first.split(b" ")
            if not path.startswith(BASE):
                client.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
            kept = [field for field in fields if not field.lower().startswith((b"host:", b"connection:"))]
            host = f"host: {self.to[0]}:{self.to[1]}".encode()
            lines = [b" ".join([verb, path.removeprefix(BASE) or b"/", version]), host, b"connection: close", *kept]
            server.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()
            _copy(server, client)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)


@contextmanager
def proxying() -> Iterator[Proxy]:
    proxy = Proxy()
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    with closing(proxy.listener):
        yield proxy


@pytest.mark.long
def test_behind_a_proxy_with_a_path_of_its_own_an_order_is_started_watched_and_answered(
    serve: Programs, pages: Pages, tmp_path: Path
) -> None:
    (tmp_path / "orders.py").write_text(ORDER)
    with proxying() as proxy, closing(pages):
        server = serve("orders.py", "--allow-origin", f"http://{proxy.place}")
        proxy.to = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        page = pages.open(f"http://{proxy.place}{BASE.decode()}/console/workers/order")
        page.get_by_label("Input JSON").fill('{"order_id": "42"}')
        page.get_by_role("button", name="Start").click()
        page.wait_for_url(re.compile(r"/tools/holdfast/console/runs/[0-9a-f-]{36}"))
        page.get_by_role("link", name="Answer…").click()
        watching = pages.open(page.url.partition("?")[0])
        expect(watching.locator("#timeline")).to_contain_text("awaiting-approval")
        page.get_by_label("Result, as JSON").fill('{"approved": true}')
        page.get_by_role("button", name="Send success").click()
        expect(watching.locator("#run-head .status").first).to_have_text("ok")
        for name in ("Home", "Runs", "Approvals", "Workers", "Queues", "Schedules", "Cost", "Runners", "Signals", "Audit", "Keys"):
            page.get_by_role("navigation", name="Console").get_by_role("link", name=name, exact=True).click()
            expect(page.locator("main")).to_be_visible()
            assert "/tools/holdfast/console/" in page.url
