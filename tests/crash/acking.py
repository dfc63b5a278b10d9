"""A process that says what it was told is done, each time in one write, and is cut off in the middle of more.

    python -m tests.crash.acking STORE plain|carrying|handing|unsynced

`carrying` carries the WAL over to the file all the time, `handing` leaves every write to the writer thread, and `unsynced` does what
must never be done: it acknowledges before the disk has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import holdfast
from holdfast.engine import writer
from holdfast.model.ids import Arn
from holdfast.service.engines import OpenEngine
from holdfast.store.sqlite import connection as opening
from holdfast.store.sqlite import store as sqlite_store

STEPS = 3
ROUNDS = 4


def say(x: str, **what: Any) -> None:
    """Report an acknowledgement. The test relies on it, whatever happens to this process and its machine."""
    os.write(1, json.dumps({"x": x, **what}).encode() + b"\n")


def _id(context: Any) -> str:
    return Arn.parse(context.execution_context.durable_execution_arn).id


@holdfast.durable_execution
async def walk(event: Any, context: Any) -> Any:
    """Steps one after the other, each said when it is done."""
    for number in range(event["steps"]):
        done = await context.step(lambda _, number=number: f"{number} {'x' * 300}", name=f"step-{number}")
        if event["says"]:
            say(_id(context), step=f"step-{number}", value=done)
    return event["steps"]


@holdfast.durable_execution
def march(event: Any, context: Any) -> Any:
    """The same in a `def` handler."""
    for number in range(event["steps"]):
        done = context.step(lambda _, number=number: f"{number} {'y' * 300}", name=f"step-{number}")
        if event["says"]:
            say(_id(context), step=f"step-{number}", value=done)
    return event["steps"]


@holdfast.durable_execution
async def asks(event: Any, context: Any) -> Any:
    """Waits for an answer."""
    return await (await context.create_callback("answer")).result()


async def _run(engine: OpenEngine, function: str, event: dict[str, Any]) -> None:
    execution = await engine.start(function, event)
    say(execution.id, started=function)
    say(execution.id, result=await execution.result())


async def _answer(engine: OpenEngine) -> None:
    execution = await engine.start(asks)
    say(execution.id, started="asks")
    while not (waits := (await execution.describe()).waits_for):
        await asyncio.sleep(0)
    await engine.succeed_callback(str(waits[0].callback_id), "yes")
    say(execution.id, answered="answer")
    say(execution.id, result=await execution.result())


async def main(where: str) -> None:
    event = {"steps": STEPS, "says": True}
    async with holdfast.open(where, functions=[walk, march, asks]) as engine:
        for _ in range(ROUNDS):
            await _run(engine, "walk", event)  # alone: the coroutine itself commits
            await asyncio.gather(*(_run(engine, name, event) for name in ("walk", "march", "walk", "march")), _answer(engine))
        last = await engine.start("walk", {"steps": STEPS, "says": False})
        await last.result()
        os.kill(os.getpid(), signal.SIGKILL)


def _unsynced(connect: Callable[[str], sqlite3.Connection]) -> Callable[[str], sqlite3.Connection]:
    def connected(where: str) -> sqlite3.Connection:
        connection = connect(where)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    return connected


HOW: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "carrying": lambda: mock.patch.object(opening, "_WAL_PAGES", 40),
    "handing": lambda: mock.patch.object(writer, "_SLOW_SECONDS", -1),
    "unsynced": lambda: mock.patch.object(sqlite_store, "connect", _unsynced(opening.connect)),
}

if __name__ == "__main__":
    with HOW[sys.argv[2]]():
        asyncio.run(main(sys.argv[1]))
