"""A language model's server that counts: what it was asked, what it charged for, and what it has in hand at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.tools.servers import Asked, head, site


class Meter:
    """Its books, by prompt."""

    def __init__(self) -> None:
        self.url = ""
        self.begun: list[str] = []
        self.charged: list[tuple[str, int, int]] = []
        """Prompt, tokens of input, tokens of output."""
        self.answered: list[str] = []
        self.holds: Callable[[str], bool] = lambda prompt: False
        """Whether an answer is kept back; it is charged for all the same."""
        self.went_on = asyncio.Event()

    @property
    def tokens(self) -> int:
        return sum(read + written for _, read, written in self.charged)

    def cost(self, price_in: Any, price_out: Any) -> Any:
        return sum((read * price_in + written * price_out for _, read, written in self.charged), 0 * price_in)

    async def serve(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        order = json.loads(asked.body)
        prompt = order["messages"][-1]["content"]
        self.begun.append(prompt)
        read, written = 3 + len(prompt) % 5, order["max_tokens"] - len(prompt) % 3
        self.charged.append((prompt, read, written))
        if self.holds(prompt):
            await self.went_on.wait()
            return  # the client is gone
        message = {"role": "assistant", "content": f"yes to {prompt}"}
        told = {
            "id": "c", "object": "chat.completion", "created": 1, "model": order["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }  # fmt: skip
        data = json.dumps(told).encode()
        writer.write(head(200, {"content-type": "application/json", "content-length": str(len(data))}) + data)
        self.answered.append(prompt)


@asynccontextmanager
async def a_meter() -> AsyncIterator[Meter]:
    """A server that counts."""
    async with site() as web:
        meter = Meter()
        meter.url = f"{web.url}/v1"
        web.pages["/v1/chat/completions"] = meter.serve
        yield meter
        meter.went_on.set()
