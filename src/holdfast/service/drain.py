"""Lets a process end: it claims no more executions, and waits for its live invocations."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from holdfast.engine.engine import Engine

_LOOK_SECONDS: Final = 0.05


async def drained(engine: Engine, seconds: float) -> bool:
    """Let the engine claim no more executions, and wait until it is idle: every live invocation has suspended or ended, and nothing is
    being written or delivered. Wait not longer than `seconds`. Returns True if the engine is idle, and False if the time was over first."""
    engine.registry.shut()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if engine.idle:
                    return True
                await asyncio.sleep(_LOOK_SECONDS)
    return False
