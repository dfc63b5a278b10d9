"""A runner of a schedule that is due every second, in a process of its own, until it is killed: `python -m tests.crash.punctual STORE`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import holdfast
from holdfast import AsyncDurableContext, Schedule, durable_execution

EVERY = [Schedule(f"s{n}", "tick", every="1s", overlap=overlap) for n, overlap in enumerate(("allow", "skip", "queue", "replace"))]


@durable_execution
async def tick(event: Any, context: AsyncDurableContext) -> str:
    return "done"


async def main(store: str) -> None:
    async with holdfast.open(store, functions=[tick], schedules=EVERY):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
