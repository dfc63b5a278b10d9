"""Pipelines of workers without a sandbox, beside the same runs by hand, on the same store.

By hand means `engine.run` of the worker: one after the other for a chain, 50 in flight for a map.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, chdir, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import holdfast
from bench.chains import AT_ONCE, Commits, Where, timed
from bench.terms import Sizes
from bench.workers import FILES, WORKER
from holdfast import Settings
from holdfast.service.engines import OpenEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy

SOURCE: Final = """
from holdfast import Pipeline

p = Pipeline("chain", "1.0", inputs={{"type": "object"}}, outputs={{"type": "object"}})
n = p.inputs.n
for number in range({nodes}):
    n = p.worker(f"node-{{number}}", "{worker}", {{"n": n}}).outputs.n
p.gives({{"n": n}})

one = Pipeline("one", "1.0", inputs={{"type": "object"}}, outputs={{"type": "object"}})
one.gives({{"n": one.worker("node", "{worker}", {{"n": one.inputs.n}}).outputs.n}})

q = Pipeline("items", "1.0", inputs={{"type": "object"}}, outputs={{"type": "object"}})
items = q.map("items", "{worker}", q.inputs.ns, {{"n": q.item}}, at_most={items}, at_once={at_once})
q.gives({{"ok": items.counts.ok}})
"""


@asynccontextmanager
async def engine(where: Where, sizes: Sizes, *observers: Commits) -> AsyncIterator[OpenEngine]:
    """An engine with the worker and both pipelines, on a new file in a folder, or on a store by its address."""
    with TemporaryDirectory(prefix="bench-", dir=where if isinstance(where, Path) else None) as folder:
        written = write(Path(folder), sizes)
        store = f"{folder}/bench.db" if isinstance(where, Path) else where
        worker_settings = WorkerSettings(policy=Policy(isolation="inline"), artifacts=f"{folder}/artifacts")
        settings = Settings(observers=observers)
        # Beside a Postgres store, the packages of workers lie in the current folder.
        with nullcontext() if isinstance(where, Path) else chdir(folder):
            async with holdfast.open(store, workers=[written], worker_settings=worker_settings, settings=settings) as opened:
                yield opened


def write(folder: Path, sizes: Sizes) -> Path:
    """Write the pipelines beside a copy of their worker."""
    for file in FILES.glob(f"{WORKER}.*"):
        shutil.copy(file, folder)
    written = folder / "chained.py"
    written.write_text(SOURCE.format(nodes=sizes.chain_nodes, items=sizes.chain_items, worker=WORKER, at_once=AT_ONCE))
    return written


async def by_hand(opened: OpenEngine, count: int, at_once: int = 1) -> None:
    """Run the worker so many times; `at_once` of the runs are in flight."""
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            response = await opened.run(WORKER, {"n": number})
            assert response.outputs == {"n": number}, response

    await asyncio.gather(*(lane() for _ in range(at_once)))


async def chained(opened: OpenEngine, name: str = "chain") -> None:
    """Run a chain to its end."""
    response = await opened.run(name, {"n": 7})
    assert response.outputs == {"n": 7}, response


async def mapped(opened: OpenEngine, count: int) -> None:
    """Run the map to its end."""
    response = await opened.run("items", {"ns": list(range(count))})
    assert response.outputs == {"ok": count}, response


async def chain_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Seconds of a chain, and of the same runs by hand, on one store."""
    async with engine(where, sizes) as opened:
        return await timed(lambda: chained(opened), lambda: by_hand(opened, sizes.chain_nodes), sizes.chain_rounds)


async def map_pair(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Items per second of a map, and of the same runs by hand, on one store."""
    count = sizes.chain_items
    async with engine(where, sizes) as opened:
        ours, hand = await timed(lambda: mapped(opened, count), lambda: by_hand(opened, count, AT_ONCE), sizes.map_rounds)
        return count / ours, count / hand


async def commits(where: Where, sizes: Sizes) -> tuple[float, float]:
    """Commits that each further node of a chain costs; and those of a run by hand.

    A run with one node has five: its own start and end, the two of the node, and the end of its last node.
    """
    counted, nodes = Commits(), sizes.chain_nodes
    async with engine(where, sizes, counted) as opened:

        async def count(work: Callable[[], Awaitable[None]]) -> int:
            await work()
            await asyncio.sleep(0)  # an observer is told a tick later
            counted.count = 0
            await work()
            await asyncio.sleep(0)
            return counted.count

        further = await count(lambda: chained(opened)) - await count(lambda: chained(opened, "one"))
        return further / (nodes - 1), await count(lambda: by_hand(opened, nodes)) / nodes
