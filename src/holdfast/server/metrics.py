"""GET /metrics: the metrics of functions, workers, queues and schedules, in the format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.metrics import CONTENT_TYPE
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route


class MetricsRoutes:
    """The handler of metrics. `text` returns all metrics in Prometheus's text format; it may block."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def routes(self) -> list[Route]:
        """The route of this handler. Metrics are sums over all tenants, so a caller who belongs to one tenant is refused."""
        return [Route("GET", "/metrics", self.get, RoutePolicy("Metrics", Needs.VIEW, Reach.NONE))]

    async def get(self, request: Request) -> Reply:
        """All metrics. A thread makes them, because that reads the store."""
        text = await in_thread(Purpose.STORE, self._text)
        return Reply(200, text.encode(), ((b"content-type", CONTENT_TYPE.encode()),))
