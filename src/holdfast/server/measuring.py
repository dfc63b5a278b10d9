"""Metrics of functions, as Prometheus reads them. Where workers are served, the worker protocol answers for both."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.metrics import CONTENT_TYPE
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route


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
