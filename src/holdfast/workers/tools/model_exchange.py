"""The progress of one request to a model's server. What a failed call is charged depends on that progress.

- If the request was not sent, or was answered with a status other than 2xx, nothing is charged.
- If it was sent and the server reported the usage of its whole answer, that usage is charged, also if the connection broke after the
  report. Without such a report, the estimated input and the text that arrived are charged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx

from holdfast.workers.tools.model_streams import AnswerInvalid, ModelAnswer, WholeAnswer
from holdfast.workers.tools.response_bodies import read_body
from holdfast.workers.tools.seam import ToolFailed
from holdfast.workers.tools.token_estimate import estimated_tokens

MOST_REASON: Final = 64 * 1024
"""The most bytes of an answer with an error status that are read. They say why the server refuses the request."""
HEADERS: Final[Mapping[str, str]] = {"accept-encoding": "identity"}
"""The headers of every request. A compressed answer is not accepted, because a few kilobytes may become gigabytes."""


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


async def limited(response: httpx.Response) -> None:
    """A hook of the HTTP client: reads at most `MOST_REASON` bytes of an answer with an error status. The client would read the whole
    answer before it raises the error."""
    if response.is_success:
        return
    body, encoding = b"", response.headers.get("content-encoding", "")
    async with contextlib.aclosing(response.aiter_raw()) as parts:  # type: ignore[type-var]  # an async generator
        with contextlib.suppress(ToolFailed):  # the compression is broken or unknown: then the status says enough
            body = await read_body(parts, encoding, MOST_REASON, truncate=True)
    await response.aclose()
    response._content = body


def check_plain(headers: Mapping[str, str]) -> None:
    """Raises AnswerInvalid if an answer with these headers is compressed."""
    if not _is_plain(headers):
        raise AnswerInvalid("sent a compressed answer, although the request did not allow it")


def _is_plain(headers: Mapping[str, str]) -> bool:
    return headers.get("content-encoding", "identity").strip().lower() in ("", "identity")
