"""The progress of one request to a model's server. What a failed call is charged depends on that progress.

- If the request was not sent, or was answered with a status other than 2xx, nothing is charged.
- If it was sent and the server reported the usage of its whole answer, that usage is charged, also if the connection broke after the
  report. Without such a report, the estimated input and the text that arrived are charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import httpx

from holdfast.workers.tools.model_streams import ModelAnswer, WholeAnswer
from holdfast.workers.tools.token_estimate import estimated_tokens


class Exchange:
    """One request, and the part of its answer that has arrived."""

    def __init__(self) -> None:
        self.sent = False
        """Whether the first byte of the request may have been sent."""
        self.status: int | None = None
        self.answer: ModelAnswer = WholeAnswer()

    @property
    def billed(self) -> bool:
        """Whether the server may demand money for the call: the request was sent, and the server did not answer with a status other than
        2xx."""
        return self.sent and (self.status is None or 200 <= self.status < 300)

    async def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Note what a trace event of the HTTP client says: that the request was sent, or which status the server answered with."""
        if event.endswith(".send_request_headers.started"):
            self.sent = True
        elif event == "http11.receive_response_headers.complete":
            self.status = int(info["return_value"][1])

    def streamed(self, cap: int | None) -> int:
        """About how many tokens of output arrived, at most `cap`, the limit that was sent to the server."""
        tokens = estimated_tokens(self.answer.text)
        return tokens if cap is None else min(tokens, cap)


current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange of the call that this asyncio task makes."""


async def watched(request: httpx.Request) -> None:
    """A hook of the HTTP client: lets the request report its progress to the exchange of this asyncio task."""
    exchange = current.get()
    if exchange is not None:
        request.extensions = {**request.extensions, "trace": exchange.note}
