"""Metrics of workers, as Prometheus reads them."""

from __future__ import annotations

from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.desk import Desk
from holdfast.server.protocol.visit import Visit, Way
from holdfast.server.replies import Reply
from holdfast.signals.metrics import CONTENT_TYPE


class WorkerMetrics:
    """Their handler."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Way]:
        """Where it is."""
        return [Way("GET", "/metrics", self.get)]

    async def get(self, visit: Visit) -> Reply:
        """All of them, over all tenants."""
        text = await in_thread(Purpose.STORE, self._desk.metrics)
        return Reply(200, text.encode(), ((b"content-type", CONTENT_TYPE.encode()),))
