"""W4: executions with a long history wait for an answer, their process is killed, and another one goes on with them.

Both are real processes. The first runs every execution up to its wait and is killed there with `kill -9`; the second opens the same
file, delivers the answers one after the other, and measures from each answer (whose write is the claim) to the execution's end.

    python -m bench.restart begin STORE FUNCTION:STEPS...            prints the callback ids, then waits to be killed
    python -m bench.restart end STORE FUNCTION:STEPS:CALLBACK...     prints the seconds each took
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import holdfast
from bench.terms import ANSWER, PAYLOAD
from bench.workloads import blocking_body, body
from holdfast import AsyncDurableContext, DurableContext, durable_execution
from holdfast.model.execution import State
from holdfast.service.engines import OpenEngine

WARM_STEPS = 20


@durable_execution
async def asks_late(event: dict[str, Any], context: AsyncDurableContext) -> list[Any]:
    """Steps, then a question; the result says how many of the steps came back right."""
    right = 0
    for number in range(event["steps"]):
        right += (await context.step(body(number)))["number"] == number
    return [right, await (await context.create_callback()).result()]


@durable_execution
def asks_late_blocking(event: dict[str, Any], context: DurableContext) -> list[Any]:
    right = 0
    for number in range(event["steps"]):
        right += context.step(blocking_body(number))["number"] == number
    return [right, context.create_callback().result()]


FUNCTIONS = [asks_late, asks_late_blocking]


async def asked(opened: OpenEngine, function: str, steps: int) -> str:
    """Start an execution and wait until it waits; the id of its callback."""
    execution = await opened.start(function, {"steps": steps, **PAYLOAD})
    while (header := opened._store.find(execution.id)) is None or header.state is not State.SUSPENDED:
        await asyncio.sleep(0.05)  # `describe` would read all its operations each time
    return str((await execution.describe()).waits_for[0].callback_id)


async def answered(opened: OpenEngine, callback_id: str, steps: int) -> float:
    """Seconds from the answer to the end."""
    execution = await opened.get(opened._store.seal.callback_target(callback_id)[0])
    began = perf_counter()
    await opened.succeed_callback(callback_id, ANSWER)
    result = await execution.result()
    taken = perf_counter() - began
    assert result == [steps, ANSWER], f"after the restart its result is {result}"
    return taken


async def begin(store: str, wanted: list[str]) -> None:
    async with holdfast.open(store, functions=FUNCTIONS) as opened:
        work = [(function, int(steps)) for function, steps in (one.split(":") for one in wanted)]
        print(*await asyncio.gather(*(asked(opened, function, steps) for function, steps in work)), flush=True)
        await asyncio.Event().wait()


async def end(store: str, waiting: list[str]) -> None:
    taken = []
    async with holdfast.open(store, functions=FUNCTIONS) as opened:
        for function in FUNCTIONS:
            await answered(opened, await asked(opened, function.name, WARM_STEPS), WARM_STEPS)
        for one in waiting:
            _, steps, callback_id = one.split(":")
            taken.append(await answered(opened, callback_id, int(steps)))
        print(*taken, flush=True)


def w4(folder: Path, work: Sequence[tuple[str, int]], count: int) -> dict[tuple[str, int], tuple[float, ...]]:
    """Seconds from claim to end of each function after this many steps: of several executions, all killed at once."""
    wanted = [f"{function}:{steps}" for function, steps in work for _ in range(count)]
    with TemporaryDirectory(dir=folder.resolve(), prefix="bench-") as place:
        with _process("begin", f"{place}/bench.db", *wanted) as first:
            waiting = [f"{one}:{callback_id}" for one, callback_id in zip(wanted, said(first), strict=True)]
        with _process("end", f"{place}/bench.db", *waiting) as second:
            taken = [float(word) for word in said(second)]
    return {work[n]: tuple(taken[n * count : (n + 1) * count]) for n in range(len(work))}


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of ours, killed when it has said what it had to say, or when something went wrong."""
    command = [sys.executable, "-m", "bench.restart", *arguments]
    with subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    words = process.stdout.readline().split()
    if not words:
        raise RuntimeError(f"{process.args!r} ended without a word")
    return words


if __name__ == "__main__":
    role, store, *arguments = sys.argv[1:]
    asyncio.run(begin(store, arguments) if role == "begin" else end(store, arguments))
