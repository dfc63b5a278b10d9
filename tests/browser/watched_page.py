"""Pages in a browser that are watched: an error in a script, a broken policy, or a request to another host is a failure of the test."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route

PATIENCE_MS = 30_000
"""How long a test waits for what a page must show, if the page does not show it."""


class Pages:
    """Opens pages, each in a browser of its own: no cookies, nothing kept."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.trouble: list[str] = []
        """What pages said or did that they must not."""
        self._hosts: set[str] = set()

    def open(self, url: str, *, width: int = 1440, height: int = 900, dark: bool = False, last: str = "", **options: Any) -> Page:
        """A page at this address. The browser gets the file whose name begins with `last` after the scripts before it have run."""
        self._hosts.add(urlsplit(url).netloc)
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce", **options
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("request", self._asked)
        if last:
            page.route(f"**/{last}*", lambda route: _when_others_ran(page, route))
        page.goto(url)
        return page

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        found = urlsplit(request.url)
        if found.scheme in ("http", "https") and found.netloc not in self._hosts:
            self.trouble.append(f"another host: {request.url}")

    def close(self) -> None:
        """Close all pages. What they said is a failure, if it was an error. A test that ends its server itself closes the pages first: an
        open page says that its server has gone."""
        while self._contexts:
            self._contexts.pop().close()
        if self.trouble:
            pytest.fail("\n".join(self.trouble))


def _when_others_ran(page: Page, route: Route) -> None:
    """Let a request go on when htmx is there, and had the time to begin by a timer and to get an answer from the server."""
    while not page.evaluate("'htmx' in window"):
        continue
    page.evaluate("new Promise(fired => setTimeout(fired)).then(() => fetch(location)).then(() => fetch(location)).then(() => 0)")
    route.continue_()
