# mypy: disable-error-code="untyped-decorator"
"""DBOS on a SQLite file, and W1, W2 and queues on Postgres: the workloads as its documentation would write them.

Its settings, and why:
- the file is in WAL mode before DBOS opens it, and `synchronous` stays SQLite's FULL: as durable as ours, and two to three times faster
  than the rollback journal that it would use by itself;
- async workflows with async steps: as fast as `def` ones or faster, and the only ones of which 10,000 can wait in one process;
- 4 connections and 32 threads: SQLite lets one write at a time, so more of them only wait for each other (1 to 20 and 2 to unlimited
  were tried);
- a queue with `worker_concurrency` 50, and not `global_concurrency`, which costs a count in every poll; it polls every 10 ms, because it
  fills its free slots only when it polls, so with the one second of its default it would drain 50 per second (2 to 50 ms were tried);
- logs at ERROR only.

    python -m bench.peers.dbos WORKLOAD FOLDER SIZES
    python -m bench.peers.dbos Postgres ADDRESS SIZES
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any, Final

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found, unused-ignore]

from bench.terms import ANSWER, DAY_SECONDS, PAYLOAD, Sizes, memory

Figures = dict[str, list[float]]
STARTERS: Final = 100
QUEUE: Final = "jobs"
AT_ONCE: Final = 50
POLL_SECONDS: Final = 0.01
WARM_EXECUTIONS: Final = 300
RESTARTED: Final = "restarted"
arrived: dict[str, float] = {}
"""When a workflow's function was entered here, and when it had nothing left but to wait."""


@DBOS.step()
async def step(number: int) -> dict[str, Any]:
    return {**PAYLOAD, "number": number}


@DBOS.workflow()
async def in_sequence(event: dict[str, Any]) -> int:
    for number in range(event["steps"]):
        await step(number)
    return int(event["steps"])


@DBOS.workflow()
async def node(event: dict[str, Any]) -> int:
    return int(event["number"])


@DBOS.workflow()
async def side_by_side(event: dict[str, Any]) -> int:
    """Steps gathered, its quickest way: a child workflow for each takes three times as long."""
    return len(await asyncio.gather(*(step(number) for number in range(event["steps"]))))


@DBOS.workflow()
async def asks_late(event: dict[str, Any]) -> list[Any]:
    arrived["entered"] = perf_counter()
    right = 0
    for number in range(event["steps"]):
        right += (await step(number))["number"] == number
    arrived["waits"] = perf_counter()
    return [right, await DBOS.recv_async(timeout_seconds=DAY_SECONDS)]


@DBOS.workflow()
async def sleeps(event: dict[str, Any], until: float) -> str:
    await DBOS.sleep_async(max(until - time(), 0.001))  # one that comes too late is written down like the others
    return "awake"


@DBOS.workflow()
async def asks(event: dict[str, Any]) -> Any:
    return await DBOS.recv_async(timeout_seconds=DAY_SECONDS)


@asynccontextmanager
async def launched(where: Path | str) -> AsyncIterator[None]:
    """DBOS over this file or this Postgres, as documented: configure, launch, destroy."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as db:
            db.execute("PRAGMA journal_mode = WAL")
    config = {
        "name": "bench",
        "system_database_url": f"sqlite:///{where}" if isinstance(where, Path) else where,
        "sys_db_pool_size": 4 if isinstance(where, Path) else 20,
        "max_executor_threads": 32,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()


async def run(workflow: Callable[..., Awaitable[Any]], steps: int) -> None:
    handle = await DBOS.start_workflow_async(workflow, {"steps": steps, **PAYLOAD})
    assert await handle.get_result() == steps


async def timed(work: Awaitable[None]) -> float:
    began = perf_counter()
    await work
    return perf_counter() - began


# --- the workloads ----------------------------------------------------------------------------------------------------------


async def w1(where: Path | str, sizes: Sizes) -> Figures:
    async with launched(where):
        await run(in_sequence, 20)
        return {"W1": [await timed(run(in_sequence, sizes.w1_steps)) / sizes.w1_steps for _ in range(sizes.pairs)]}


async def w2(where: Path | str, sizes: Sizes) -> Figures:
    async def all_of(count: int) -> None:
        await asyncio.gather(*(run(in_sequence, sizes.w2_steps) for _ in range(count)))

    async with launched(where):
        await all_of(min(100, sizes.w2_executions))
        taken = [await timed(all_of(sizes.w2_executions)) for _ in range(sizes.few)]
    return {"W2": [sizes.w2_executions * sizes.w2_steps / seconds for seconds in taken]}


async def w3(file: Path, sizes: Sizes) -> Figures:
    """The 10,000 once: it is a minute, and as many steps as the rest together."""
    async with launched(file):
        await run(side_by_side, 20)
        return {
            "W3 parallel": [await timed(run(side_by_side, sizes.w3_branches)) for _ in range(sizes.few)],
            "W3 map": [await timed(run(side_by_side, sizes.w3_items))] if sizes.w3_items else [],
        }


async def w4(file: Path, sizes: Sizes) -> Figures:
    """Each restart has a file of its own, because DBOS goes on with all workflows at once; the long history is made once."""
    found: Figures = {"W4": [], "W4 many": []}
    for key, steps, times in (("W4", sizes.w4_steps, sizes.few), ("W4 many", sizes.w4_many_steps, 1)):
        for number in range(times if steps else 0):
            fresh = file.with_name(f"{steps}-{number}.sqlite")
            killed_while_it_waits(fresh, steps)
            found[key].append(await goes_on(fresh, steps))
    return found


def killed_while_it_waits(file: Path, steps: int) -> None:
    with subprocess.Popen(_myself("begin", file, str(steps)), stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        word = first.stdout.readline().strip()
        first.kill()
    assert word == "waits", "the first process ended before it waited"


async def begin(file: Path, steps: int) -> None:
    async with launched(file):
        with SetWorkflowID(RESTARTED):
            await DBOS.start_workflow_async(asks_late, {"steps": steps, **PAYLOAD})
        while "waits" not in arrived:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # so that what it waits with is on disk too
        print("waits", flush=True)
        await asyncio.Event().wait()


async def goes_on(file: Path, steps: int) -> float:
    """Seconds from the moment its function is entered again, which is its claim, to its end. Its launch before that is not counted."""
    arrived.clear()
    async with launched(file):
        await DBOS.send_async(RESTARTED, ANSWER)
        handle = await DBOS.retrieve_workflow_async(RESTARTED)
        result = await handle.get_result(polling_interval_sec=0.005)
        taken = perf_counter() - arrived["entered"]
    assert result == [steps, ANSWER], f"after the restart its result is {result}"
    return taken


async def w5(file: Path, sizes: Sizes) -> Figures:
    """Once each: it is minutes. In processes of their own, where no memory is free already."""
    keys = {"sleeps": ("W5 wait", "W5 resting", "W5 idle", "W5 due"), "asks": ("W5 callback", "W5 resting callback")}
    found: Figures = {}
    for scene, names in keys.items():
        found |= {key: [value] for key, value in zip(names, played(scene, file, sizes), strict=False)}
    return found


def played(scene: str, file: Path, sizes: Sizes) -> list[float]:
    command = _myself(scene, file.with_name(f"{scene}.sqlite"), sizes.to_json())
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(ended.stderr)
    said: list[float] = json.loads(ended.stdout)
    return said


async def w5_scene(scene: str, file: Path, sizes: Sizes) -> None:
    """Starts per second, bytes each, the share of a core while they wait, and, if asked, seconds from all timers due to all ended."""
    async with launched(file):
        count, warm = sizes.w5_executions, min(WARM_EXECUTIONS, sizes.w5_executions)
        began = perf_counter()
        await _started(warm, sleeps, time() + 0.1)
        rate = warm / (perf_counter() - began)
        await _become(file, "SUCCESS", warm)
        # It has no clock to move, so all sleep until one moment, far enough away for all to have begun.
        until = time() + (2 * count / rate + sizes.idle_seconds + 5 if sizes.w5_due else DAY_SECONDS)
        found = await (_waiting(file, sizes, warm, asks) if scene == "asks" else _waiting(file, sizes, warm, sleeps, until))
        if scene == "sleeps" and sizes.w5_due and time() < until:
            await asyncio.sleep(until - time())
            await _become(file, "SUCCESS", warm + count)
            found.append(time() - until)
        print(json.dumps(found), flush=True)
        os._exit(0)  # those that wait would be given up one by one


async def _waiting(file: Path, sizes: Sizes, before: int, workflow: Any, *more: float) -> list[float]:
    """The first three. `recv` too writes down a sleep: its timeout."""
    count = sizes.w5_executions
    empty, began = memory(), perf_counter()
    await _started(count, workflow, *more)
    await _slept(file, before + count)
    rate = count / (perf_counter() - began)
    held = memory() - empty
    idle, used = perf_counter(), process_time()
    await asyncio.sleep(sizes.idle_seconds)
    return [rate, max(held, 0) / count, (process_time() - used) / (perf_counter() - idle)]


async def _started(count: int, workflow: Any, *more: float) -> None:
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await DBOS.start_workflow_async(workflow, PAYLOAD, *more)

    await asyncio.gather(*(some() for _ in range(min(STARTERS, count))))


async def _slept(file: Path, count: int) -> None:
    await _counted(file, "SELECT count(*) FROM operation_outputs WHERE function_name = ?", "DBOS.sleep", count)


async def _become(file: Path, status: str, count: int) -> None:
    await _counted(file, "SELECT count(*) FROM workflow_status WHERE status = ?", status, count)


async def _counted(file: Path, question: str, word: str, count: int) -> None:
    with closing(sqlite3.connect(file)) as db:
        while db.execute(question, (word,)).fetchone()[0] < count:
            await asyncio.sleep(0.02)


async def w6(file: Path, sizes: Sizes) -> Figures:
    found: Figures = {"W6": [], "W6 p99": []}
    async with launched(file):
        for _ in range(10):
            await run(in_sequence, 1)
        for _ in range(sizes.few):
            times = [await timed(run(in_sequence, 1)) for _ in range(sizes.w6_rounds)]
            found["W6"].append(statistics.median(times))
            found["W6 p99"].append(statistics.quantiles(times, n=100)[98])
    return found


async def queues(where: Path | str, sizes: Sizes) -> Figures:
    """Workflows per second of a queue that is drained. All are enqueued while its concurrency is none."""

    async def one(number: int) -> Any:
        return await DBOS.enqueue_workflow_async(QUEUE, node, {**PAYLOAD, "number": number})

    async def drained(count: int) -> float:
        await queue.set_worker_concurrency_async(0)
        await asyncio.sleep(10 * POLL_SECONDS)
        handles = []
        for first in range(0, count, STARTERS):
            handles += await asyncio.gather(*(one(number) for number in range(first, min(first + STARTERS, count))))
        began = perf_counter()
        await queue.set_worker_concurrency_async(AT_ONCE)
        while await DBOS.list_workflows_async(
            queue_name=QUEUE, status=["ENQUEUED", "PENDING"], limit=1, load_input=False, load_output=False
        ):
            await asyncio.sleep(0.02)
        taken = perf_counter() - began
        assert await handles[-1].get_result() == count - 1
        return taken

    async with launched(where):
        queue = await DBOS.register_queue_async(QUEUE, worker_concurrency=0, polling_interval_sec=POLL_SECONDS)
        await drained(min(100, sizes.queue_jobs))
        return {"queue drain": [sizes.queue_jobs / await drained(sizes.queue_jobs) for _ in range(sizes.few)]}


async def on_postgres(where: str, sizes: Sizes) -> Figures:
    found = await w1(where, sizes) | await w2(where, sizes) | await queues(where, sizes)
    return {f"{key} Postgres": samples for key, samples in found.items()}


WORKLOADS: Final = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "queues": queues}


def _myself(role: str, file: Path, terms: str) -> list[str]:
    return [sys.executable, "-m", "bench.peers.dbos", role, str(file), terms]


def main() -> None:
    role, place, terms = sys.argv[1:]
    if role == "begin":
        asyncio.run(begin(Path(place), int(terms)))
    elif role in ("sleeps", "asks"):
        asyncio.run(w5_scene(role, Path(place), Sizes.from_json(terms)))
    elif role == "Postgres":
        print(json.dumps(asyncio.run(on_postgres(place, Sizes.from_json(terms)))))
    else:
        with TemporaryDirectory(dir=place, prefix="bench-") as folder:
            print(json.dumps(asyncio.run(WORKLOADS[role](Path(folder) / "dbos.sqlite", Sizes.from_json(terms)))))


if __name__ == "__main__":
    main()
