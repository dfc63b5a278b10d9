"""The web of this example, on this machine: the vendor's pages, the price lists, and a server of reports that counts what it gets.

python local_site.py             serves on port 8765
python local_site.py --hide      the same, but no published report can be read: the pipeline then takes its report back
"""

import html
import json
import sys
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

SITE = Path(__file__).with_name("site")
PAGE = """<!doctype html>
<html lang="en">
<title>{vendor}</title>
<h1>{vendor}</h1>
<p class="summary">{summary}</p>
</html>
"""


class LocalSite(ThreadingHTTPServer):
    """Serves `site/`, and keeps reports by the key that they came with."""

    def __init__(self, port: int = 0, *, hides: bool = False) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.hides = hides
        self.reports: dict[str, Any] = {}
        self.received: list[str] = []
        self.removed: list[str] = []
        self.before_answer: Callable[[], object] = lambda: None
        """Called when a report is kept and its sender does not know it yet: the worst moment for a crash."""
        self.before_removal_answer: Callable[[], object] = lambda: None
        """The same for a report that is taken back."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that has left: the demo kills it while it waits for an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(SimpleHTTPRequestHandler):
    """GET a page, POST a report, GET reports by key, DELETE a report, GET how many reports came and went."""

    server: LocalSite

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(SITE))

    def do_GET(self) -> None:
        """A page, a report, the reports of a key, or what was counted."""
        asked = urlsplit(self.path)
        if asked.path == "/counted":
            self._answer(200, {"received": len(self.server.received), "removed": len(self.server.removed)})
        elif asked.path == "/reports":
            keys = parse_qs(asked.query).get("key", [])
            self._answer(200, [self._made(key) for key in keys if key in self.server.reports])
        elif asked.path.startswith("/reports/"):
            self._report(asked.path.rpartition("/")[2])
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Keep a report. The same key is the same report."""
        key = self.headers["Idempotency-Key"]
        report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append(key)
        self.server.reports.setdefault(key, report)
        self.server.before_answer()
        self._answer(201, self._made(key))

    def do_DELETE(self) -> None:
        """Forget a report."""
        key = self.path.rpartition("/")[2]
        self.server.removed.append(key)
        was_there = self.server.reports.pop(key, None) is not None
        self.server.before_removal_answer()
        self._answer(200 if was_there else 404, {})

    def _report(self, key: str) -> None:
        """A report as a page."""
        report = self.server.reports.get(key)
        if report is None or self.server.hides:
            self._answer(404, {})
            return
        fields = {name: html.escape(str(report.get(name, ""))) for name in ("vendor", "summary")}
        self._send(200, "text/html; charset=utf-8", PAGE.format(**fields))

    def _made(self, key: str) -> dict[str, str]:
        return {"id": key, "url": f"{self.server.url}/reports/{key}"}

    def _answer(self, status: int, value: Any) -> None:
        self._send(status, "application/json", json.dumps(value))

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing: the run is what there is to see."""


if __name__ == "__main__":
    ports = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    LocalSite(ports[0] if ports else 8765, hides="--hide" in sys.argv[1:]).serve_forever()
