"""A process that hosts functions, to be killed: `python -m tests.flow.runtime.parent FOLDER plain|fork|durable`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading

from tests.flow.runtime.running import durable, hosting, plain, serving


async def call_plain(folder: str, *, forks: bool) -> None:
    """Call a function that leaves processes behind, twice: one is done, one is at work."""
    async with hosting(plain("breeds", timeout_seconds=600)) as (host, _):
        done = {"tell": f"{folder}/done", "stays": False}
        await host.call("breeds", "$LATEST", json.dumps(done).encode())
        stays = {"tell": f"{folder}/stays", "stays": True}
        if forks and os.fork() == 0:  # a child of ours has all our sockets, and outlives us
            _live_on(folder)
        await host.call("breeds", "$LATEST", json.dumps(stays).encode())


def _live_on(folder: str) -> None:
    with open(f"{folder}/forked", "w") as file:
        file.write(str(os.getpid()))
    threading.Event().wait()


async def run_durable(folder: str) -> None:
    """Run an execution whose second step hangs."""
    async with serving(durable("hangs"), where=f"{folder}/test.db") as service:
        await service.ending(await service.start("hangs", json.dumps({"folder": folder}), name="hanging"))


if __name__ == "__main__":
    where, what = sys.argv[1:]
    asyncio.run(run_durable(where) if what == "durable" else call_plain(where, forks=what == "fork"))
