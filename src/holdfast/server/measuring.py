"""Metrics of functions, as Prometheus reads them. Where workers are served, the worker protocol answers for both."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.model.threads import Purpose, in_thread
from holdfast.server.replies import Reply
from holdfast.server.requests import Request
from holdfast.server.routing import Route
from holdfast.signals.metrics import CONTENT_TYPE


class Measuring:
    """Their handler."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def routes(self) -> list[Route]:
        """Where it is."""
        return [Route("GET", "/metrics", self.get)]

    async def get(self, request: Request) -> Reply:
        """All of them; off the loop, because the store is asked what waits."""
        text = await in_thread(Purpose.STORE, self._text)
        return Reply(200, text.encode(), ((b"content-type", CONTENT_TYPE.encode()),))
