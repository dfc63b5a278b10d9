"""A worker whose first attempt hangs with a grandchild that left its family, and one that only waits."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

from holdfast import ToolCall, WorkerContext, tool, worker


@tool(effect="read", secrets=["SHOP"])
def look(call: ToolCall, order: str) -> dict[str, Any]:
    call.http.get(f"{call.secret('SHOP')}/attempt-{call.attempt}/{order}")
    return {"attempt": call.attempt}


@worker("stubborn.md")
def hangs_once(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
    subprocess.run([sys.executable, "-S", "-c", code, inputs["mark"]], check=True)
    seen = ctx.tools.look(order=inputs["order"])
    if seen["attempt"] == 1:
        signal.pause()
    return {"attempt": seen["attempt"]}


@worker("waiting.md")
async def waits(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    await ctx.tools.look(order=inputs["order"])
    signal.pause()
    return {}
