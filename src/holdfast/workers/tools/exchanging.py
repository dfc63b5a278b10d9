"""Exchanges: how far one request to a model's server came. What a call is booked as follows from that.

not sent, or answered with anything but a 2xx → not billed        sent, and no whole answer → its input, and the text that came
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx

from holdfast.workers.tools.estimating import estimated_tokens

_CONTENT: Final = re.compile(r'"content"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)


class Exchange:
    """One request and as much of its answer as came."""

    def __init__(self) -> None:
        self.sent = False
        """Whether the first byte of the request may have left."""
        self.status: int | None = None
        self._body = bytearray()

    @property
    def billed(self) -> bool:
        """Whether the server may bill the call: it was sent, and it was not refused."""
        return self.sent and (self.status is None or 200 <= self.status < 300)

    async def note(self, event: str, info: Mapping[str, Any]) -> None:
        """What the HTTP client says of its progress."""
        if event.endswith(".send_request_headers.started"):
            self.sent = True
        elif event == "http11.receive_response_headers.complete":
            self.status = int(info["return_value"][1])

    def take(self, piece: bytes) -> None:
        """A piece of the answer."""
        self._body += piece

    def document(self) -> Mapping[str, Any]:
        """The answer, once it is whole; ValueError or RecursionError when it is no JSON object."""
        document = json.loads(bytes(self._body))
        if not isinstance(document, Mapping):
            raise ValueError("the answer is no JSON object")
        return document

    def streamed(self, cap: int | None) -> int:
        """About how many tokens of output came, at most the cap that was sent."""
        found = _CONTENT.search(self._body.decode(errors="replace"))
        tokens = 0 if found is None else estimated_tokens(found[1])
        return tokens if cap is None else min(tokens, cap)


current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange of the call that the task makes."""


async def watched(request: httpx.Request) -> None:
    """Tell the exchange of this task how far its request comes: a hook of the HTTP client."""
    exchange = current.get()
    if exchange is not None:
        request.extensions = {**request.extensions, "trace": exchange.note}
