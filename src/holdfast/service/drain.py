"""Ends a process that runs executions: it starts nothing new, and waits for its live invocations."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from holdfast.engine.engine import Engine

_LOOK_SECONDS: Final = 0.05


async def drained(engine: Engine, seconds: float) -> bool:
    """Start nothing new, and wait until every invocation has suspended or ended. Returns whether all did within `seconds`."""
    engine.registry.shut()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if engine.idle:
                    return True
                await asyncio.sleep(_LOOK_SECONDS)
    return False
