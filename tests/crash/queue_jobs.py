"""A runner of queued jobs that may be killed at any moment. Each job tells the outside world when it begins and when it ends.

    python -m tests.crash.queue_jobs STORE new|brisk
    holdfast runner tests/crash/queue_jobs.py --store STORE

The log is the file of the environment variable JOB_LOG. How the first runner behaves is as in tests.crash.worker; the second one behaves as
users have it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from functools import cache
from typing import Any
from unittest import mock

import holdfast
from holdfast.engine import runner_leases
from tests.crash.worker import TEMPERS

JOB_SECONDS = 0.03


@cache
def _log() -> int:
    return os.open(os.environ["JOB_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def tell(job: str, what: str) -> None:
    """One line, in one write. The monotonic clock is the same for all processes of a machine."""
    os.write(_log(), f"{time.monotonic_ns()} {os.getpid()} {job} {what}\n".encode())


@holdfast.durable_execution
async def job(event: Any, context: holdfast.AsyncDurableContext) -> Any:
    """Takes a moment; one that is poisoned fails, whenever it is tried."""
    name = event["job"]
    tell(name, "begins")
    try:
        await asyncio.sleep(JOB_SECONDS)
        if event.get("poison"):
            raise ValueError("poison")
    finally:
        tell(name, "ends")
    return name


def _leave_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def main(store: str, how: str) -> None:
    """Run what the queues of a store hold."""
    with mock.patch.multiple(runner_leases, **TEMPERS[how]):
        async with holdfast.open(store, functions=[job]):
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    asyncio.run(main(sys.argv[1], sys.argv[2]))
