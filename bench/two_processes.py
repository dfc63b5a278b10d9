"""W2 in two processes on one file: each starts half of the executions, and the process that is free runs them.

python -m bench.two_processes STORE COUNT STEPS      prints "ready"; told "go", runs COUNT executions and prints "done"
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import holdfast
from bench.restart import said
from bench.terms import Sizes
from bench.workloads import in_sequence, many

PROCESSES: Final = 2
ROOT: Final = Path(__file__).resolve().parent.parent


async def half(store: str, count: int, steps: int) -> None:
    """One of the processes."""
    async with holdfast.open(store, functions=[in_sequence]) as opened:
        await many(opened, "in_sequence", min(50, count), steps)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await many(opened, "in_sequence", count, steps)
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # the other process may still need help with its executions


def w2(folder: Path, sizes: Sizes) -> float:
    """Steps per second until all executions of both processes are done."""
    count = sizes.w2_executions // PROCESSES
    with TemporaryDirectory(dir=folder.resolve(), prefix="bench-") as place, ExitStack() as ends:
        command = [sys.executable, "-m", "bench.two_processes", f"{place}/bench.db", str(count), str(sizes.w2_steps)]
        both = [_process(command, ends) for _ in range(PROCESSES)]
        for process in both:
            assert said(process) == ["ready"]
        began = perf_counter()
        for process in both:
            print("go", file=process.stdin, flush=True)
        for process in both:
            assert said(process) == ["done"]
        return PROCESSES * count * sizes.w2_steps / (perf_counter() - began)


def _process(command: list[str], ends: ExitStack) -> subprocess.Popen[str]:
    process = ends.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    ends.callback(process.kill)
    return process


if __name__ == "__main__":
    place, count, steps = sys.argv[1:]
    asyncio.run(half(place, int(count), int(steps)))
