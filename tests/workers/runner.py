"""A runner in a process of its own, to be killed: requests come as lines of JSON, responses go as lines of JSON.

`python -m tests.workers.runner STORE FILE…`; the operator's file is $HOLDFAST_CONFIG's.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

import holdfast
from holdfast.contract.protocol import response_document
from holdfast.operator.holdfast_toml import read_operator
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings


async def served(engine: OpenEngine, wish: dict[str, Any]) -> None:
    """One request."""
    number, worker, inputs = wish.pop("number"), wish.pop("worker"), wish.pop("inputs")
    told: dict[str, Any]
    try:
        told = {"response": response_document(await engine.run(worker, inputs, **wish))}
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    say({"number": number, **told})


def say(message: dict[str, Any]) -> None:
    """One line out."""
    os.write(1, json.dumps(message).encode() + b"\n")


async def main(store: str, files: list[str]) -> None:
    """Serve until standard input ends."""
    wishes: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(wishes.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(wishes.put_nowait, None)

    async with holdfast.open(store, workers=files, worker_settings=read_operator(), settings=Settings()) as engine:
        say({"ready": True})
        threading.Thread(target=listen, daemon=True).start()
        tasks = set()
        while (wish := await wishes.get()) is not None:
            task = asyncio.create_task(served(engine, wish))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        for task in list(tasks):
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
