"""Metrics of workers, as Prometheus reads them."""

from __future__ import annotations

from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.request import ProtocolRoute, RunRequest
from holdfast.signals.metrics import CONTENT_TYPE
from holdfast.web.replies import Reply


class WorkerMetrics:
    """Their handler."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling

    def routes(self) -> list[ProtocolRoute]:
        """Where it is."""
        return [ProtocolRoute("GET", "/metrics", self.get)]

    async def get(self, asked: RunRequest) -> Reply:
        """All of them, over all tenants."""
        text = await in_thread(Purpose.STORE, self._handling.metrics)
        return Reply(200, text.encode(), ((b"content-type", CONTENT_TYPE.encode()),))
