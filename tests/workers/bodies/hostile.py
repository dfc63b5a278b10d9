"""Bodies that break the rules of the line, or hand over what is not JSON."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker

ODD: dict[str, Any] = {
    "decimal": Decimal("1.5"),
    "bytes": b"x",
    "nan": float("nan"),
    "surrogate": "\ud800",
    "set": {1},
}


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


FRAMES: dict[str, list[dict[str, Any]]] = {
    "id again": [{"op": "step_begin", "id": 7, "name": "a"}, {"op": "step_begin", "id": 7, "name": "b"}],
    "id below": [{"op": "open", "id": -1, "artifact_id": "x"}],
    "another's step": [{"op": "step_begin", "id": 7, "name": "a"}, {"op": "step_end", "id": 8, "result": 1}],
    "no op": [{"id": 1}],
    "unknown op": [{"op": "receipt", "id": 1, "result": 1}],
    "more fields": [{"op": "ready", "tenant": "bob"}],
    "no file": [{"op": "artifact", "id": 7, "name": "a", "media_type": "b"}],
    "deep": [{"op": "tool", "id": 7, "tool": "look", "arguments": {"at": deep(300)}}],
    "id as text": [{"op": "tool", "id": "1", "tool": "look", "arguments": {}}],
}


@tool(effect="read")
def look(call: ToolCall, at: str = "") -> dict[str, Any]:
    """Look at something."""
    return {"at": at, "large": 2**70}


@worker("hostile.md")
async def hostile(inputs: dict[str, Any], ctx: WorkerContext) -> Any:
    """Do what the input says."""
    do = inputs["do"]
    if do == "frames":
        for frame in FRAMES[inputs["which"]]:
            ctx._asking._link.send(frame)
        await asyncio.sleep(30)
    if do == "odd":
        return {"answer": ODD[inputs["which"]]}
    if do == "names":
        for name in ("a\0b", "x" * 500_000):
            await ctx.step(lambda: 1, name=name)
            try:
                await ctx.tools[name]()
            except Exception as error:
                ctx.log(str(error))
        return {}
    if do == "large":
        return {"answer": inputs["n"] + 1, "looked": (await ctx.tools.look())["large"]}
    if do == "long argument":
        await ctx.tools.look(at="x" * inputs["size"])
    if do == "long error":
        raise WorkerError("broken_part", "it is broken", details="x" * inputs["size"])
    if do == "idle":
        await ctx.step(lambda: threading.Event().wait(30), name="long")
    if do == "deaf":
        for number in (10, 11):
            ctx._asking._link.send({"op": "step_begin", "id": number, "name": "large"})
            ctx._asking._link.receive()
            ctx._asking._link.send({"op": "step_end", "id": number, "result": "x" * 900_000})
        threading.Event().wait(30)
    return {}
