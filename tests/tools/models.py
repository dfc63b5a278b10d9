"""A server that speaks the OpenAI protocol and counts what it charges for; each answer is decided by the test."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.tools.servers import Asked, Site, head, site


@dataclass
class Model:
    """The model behind the server."""

    web: Site
    answer: str = "Hello."
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    refusal: str | None = None
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14})
    error: dict[str, Any] = field(default_factory=lambda: {"message": "something"})
    body: bytes | None = None
    silent: bool = False
    dribbles: float | None = None
    """Seconds between two bytes of its answer."""
    feed: asyncio.Queue[str | bytes | None] | None = None
    """What it streams: texts of its answer, bytes as they are, None for the end. Without it the server knows no streams."""
    counted: int = 0
    """All tokens the server has charged for."""

    @property
    def url(self) -> str:
        return f"{self.web.url}/v1"

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(asked.body) for asked in self.web.asked]

    async def serve(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if self.silent:
            await asyncio.Event().wait()
        if self.feed is not None:
            await self._stream(self.feed, writer)
            return
        message = {"role": "assistant", "content": None if self.refusal else self.answer, "refusal": self.refusal}
        made: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        made["choices"] = [{"index": 0, "message": message, "finish_reason": self.finish_reason}]
        if self.usage is not None:
            made["usage"] = self.usage
        data = json.dumps(made if self.status == 200 else {"error": self.error}).encode() if self.body is None else self.body
        if self.status == 200 and self.usage is not None:
            self.counted += self.usage["prompt_tokens"] + self.usage["completion_tokens"]
        writer.write(head(self.status, {"content-type": "application/json", "content-length": str(len(data)), **self.headers}))
        for piece in [data] if self.dribbles is None else [data[at : at + 1] for at in range(len(data))]:
            writer.write(piece)
            if self.dribbles is not None:
                await writer.drain()
                await asyncio.sleep(self.dribbles)

    def streams(self, *pieces: str | bytes | None) -> None:
        """Stream these from now on."""
        self.feed = self.feed or asyncio.Queue()
        for piece in pieces:
            self.feed.put_nowait(piece)

    async def _stream(self, feed: "asyncio.Queue[str | bytes | None]", writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"content-type": "text/event-stream; charset=utf-8"}))
        while (piece := await feed.get()) is not None:
            writer.write(piece if isinstance(piece, bytes) else event_of({"delta": {"content": piece}}))
            await writer.drain()
        writer.write(event_of({"delta": {}, "finish_reason": self.finish_reason}))
        if self.usage is not None:
            self.counted += self.usage["prompt_tokens"] + self.usage["completion_tokens"]
            writer.write(b"data: " + json.dumps({"choices": [], "usage": self.usage}).encode() + b"\n\n")
        writer.write(b"data: [DONE]\n\n")


def event_of(choice: dict[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps({"id": "c", "choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


@asynccontextmanager
async def a_model() -> AsyncIterator[Model]:
    async with site() as web:
        model = Model(web)
        web.pages["/v1/chat/completions"] = model.serve
        yield model
