"""A process with a subscriber that may be killed at any moment: it runs `work` and writes down each signal it is told of.

    python -m tests.crash.listener STORE LOG

LOG is the receiver: one line for each signal, in one write, so that lines of two processes do not mix.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

import holdfast

NAME = "billing"
LONG = 0.001
"""How long a signal is in hand, so that most kills find one there."""


@holdfast.durable_execution
async def work(event: Any, context: Any) -> Any:
    """Two steps, so that there is something between the beginning and the end."""
    first = await context.step(lambda _: 1)
    return first + await context.step(lambda _: 1)


class Receiver:
    """Takes signals and writes them down."""

    def __init__(self, log: str) -> None:
        self._file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, signal: holdfast.StatusSignal) -> None:
        line = {"number": signal.number, "name": signal.name, "status": signal.status, "pid": os.getpid()}
        os.write(self._file, json.dumps(line).encode() + b"\n")
        time.sleep(LONG)


def _leave_with_parent() -> None:
    """No process outlives its test: standard input ends with it."""
    sys.stdin.buffer.read()
    os._exit(0)


async def main(store: str, log: str) -> None:
    async with holdfast.open(store, functions=[work], subscribers={NAME: Receiver(log)}):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    asyncio.run(main(sys.argv[1], sys.argv[2]))
