"""Workers: what a run costs beside a bare call, in the sandbox and without one, and what a contract's check costs.

Runs are measured on the loop that `holdfast serve` gives them: uvloop's, which the `server` extra brings.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import uvloop

import holdfast
from bench.terms import PAYLOAD, Sizes
from holdfast.contract.checking import checker_of
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy

FILES: Final = Path(__file__).resolve().parent / "workers_files"
WORKER: Final = "echo"
_LANES: Final = 60
_REST_SECONDS: Final = 0.05
"""Between two attempts: the next spare is made meanwhile, as it is where requests do not come one after the other."""


def run(work: Coroutine[Any, Any, float]) -> float:
    """What was measured, on the loop of a server."""
    return uvloop.run(work)


async def _opened(folder: Path, isolation: Any, act: Any) -> Any:
    worker_settings = WorkerSettings(policy=Policy(isolation=isolation))
    with TemporaryDirectory(dir=folder, prefix="bench-") as place:
        async with holdfast.open(f"{place}/bench.db", workers=[FILES / f"{WORKER}.py"], worker_settings=worker_settings) as engine:
            return await act(engine)


async def attempt(folder: Path, sizes: Sizes) -> float:
    """Seconds of a warm run in the sandbox over those of the same run without one, the medians."""

    async def timed(engine: Any) -> float:
        times = []
        for number in range(sizes.worker_attempts):
            began = perf_counter()
            response = await engine.run(WORKER, {"n": number})
            times.append(perf_counter() - began)
            if response.outputs != {"n": number}:
                raise RuntimeError(f"the worker answered {response}")
            await asyncio.sleep(_REST_SECONDS)
        return statistics.median(times[min(2, len(times) - 1) :])

    jailed = await _opened(folder, "all", timed)
    bare: float = await _opened(folder, "inline", timed)
    return max(0.0, float(jailed) - bare)


async def runs(folder: Path, sizes: Sizes) -> float:
    """Runs per second of an inline worker, many at once."""

    async def together(engine: Any) -> float:
        each = max(1, sizes.worker_runs // _LANES)

        async def lane(first: int) -> None:
            for number in range(first, first + each):
                await engine.run(WORKER, {"n": number})

        await lane(0)
        began = perf_counter()
        await asyncio.gather(*(lane(n) for n in range(_LANES)))
        return each * _LANES / (perf_counter() - began)

    found: float = await _opened(folder, "inline", together)
    return found


def check(sizes: Sizes) -> float:
    """Seconds that a document of 10 KB takes against its schema, once that is compiled."""
    item = {"type": "object", "required": list(PAYLOAD), "properties": {name: {} for name in PAYLOAD} | {"order_id": {"type": "string"}}}
    checker = checker_of({"type": "object", "properties": {"orders": {"type": "array", "items": item}}, "required": ["orders"]})
    orders: list[Any] = []
    while len(json.dumps(orders)) < 10_000:
        orders.append(PAYLOAD)
    document = {"orders": orders}
    times = []
    for _ in range(sizes.worker_checks):
        began = perf_counter()
        if not checker.fits(document):
            raise RuntimeError("the document does not fit")
        times.append(perf_counter() - began)
    return statistics.median(times)
