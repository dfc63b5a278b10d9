"""A worker that ends in whatever way it is told to, and the tools it needs for that."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker


@tool(effect="read")
def look(call: ToolCall) -> str:
    return "seen"


@tool(effect="read", timeout_seconds=0.2)
def slow(call: ToolCall) -> str:
    signal.pause()
    return "never"


@tool(effect="read", secrets=["NO_SERVER"])
def far(call: ToolCall) -> str:
    return call.http.get(call.secret("NO_SERVER")).text


@tool(effect="read")
def broken(call: ToolCall) -> str:
    raise ValueError("this cannot be")


@tool(effect="read", timeout_seconds=2)
def held(call: ToolCall) -> str:
    signal.pause()
    return "never"


@tool(effect="read", timeout_seconds=0.3)
def late(call: ToolCall) -> str:
    return "in time"


@tool
def vanishing(call: ToolCall) -> str:
    os._exit(3)


@tool
def pay(call: ToolCall, cents: int) -> int:
    return cents


@tool(approval=True)
def pay_asked(call: ToolCall, cents: int) -> int:
    return cents


def _scribble() -> None:
    for number in range(100):
        Path(f"page-{number}").write_bytes(bytes(1 << 20))


@worker("reaching.md")
async def reach(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    what = inputs["do"]
    if what == "raise":
        raise WorkerError(inputs["code"])
    if what == "tool":
        await ctx.tools[inputs["tool"]](**inputs.get("arguments", {}))
    if what == "twice":
        for arguments in inputs["calls"]:
            await ctx.tools[inputs["tool"]](**arguments)
    if what == "crowd":
        crowd = [asyncio.ensure_future(ctx.tools.held(key=str(number))) for number in range(inputs["many"])]
        await asyncio.sleep(0)
        await ctx.tools.late()
        await asyncio.gather(*crowd)
    if what == "sleep":
        signal.pause()
    if what == "die":
        os._exit(9)
    if what == "remember":
        kept = []
        while True:
            kept.append(bytearray(1 << 20))
    if what == "spin":
        while True:
            pass
    if what == "scribble":
        _scribble()
    if what == "fork":
        os.fork()
    if what == "open":
        await ctx.open({"artifact_id": "0" * 32})
    if what == "keep":
        await ctx.artifact("large", bytes(inputs["bytes"]))
    if what == "growing":
        file = Path("growing").open("w+b", buffering=0)
        file.write(b"short")
        threading.Timer(0.2, lambda: file.write(b", and then longer")).start()
        await ctx._value({"op": "artifact", "name": "growing", "media_type": "text/plain", "fd": True}, os.dup(file.fileno()))
    if what == "steps":
        for _ in range(inputs["many"]):
            await ctx.step(lambda: 1, name="again")
    if what == "large":
        return {"answer": "x" * inputs["bytes"]}
    if what == "wrong":
        return {"answer": 7}
    return {"answer": what}


@worker("seldom.md")
def seldom(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    return {}
