"""A runner of a schedule that is due every second, in a process of its own, until it is killed: `python -m tests.crash.punctual STORE`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import holdfast
from holdfast import AsyncDurableContext, Schedule, durable_execution

EVERY = [
    Schedule("allow", "tick", every="1s", overlap="allow", catch_up="all:100"),
    Schedule("queue", "tick", every="1s", overlap="queue", catch_up="all:100"),
    Schedule("skip", "tick", every="1s", overlap="skip"),
    Schedule("replace", "tick", every="1s", overlap="replace"),
]


@durable_execution
async def tick(event: Any, context: AsyncDurableContext) -> str:
    return "done"


async def main(store: str) -> None:
    async with holdfast.open(store, functions=[tick], schedules=EVERY):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
