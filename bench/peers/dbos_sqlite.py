# mypy: disable-error-code="untyped-decorator"
"""DBOS on a SQLite file: the workloads as its documentation would write them.

Its settings, and why:
- the file is in WAL mode before DBOS opens it, and `synchronous` stays SQLite's FULL: as durable as ours, and two to three times faster
  than the rollback journal that it would use by itself;
- async workflows with async steps: as fast as `def` ones or faster, and the only ones of which 10,000 can wait in one process;
- 4 connections and 32 threads: SQLite lets one write at a time, so more of them only wait for each other (1 to 20 and 2 to unlimited
  were tried);
- logs at ERROR only.

    python -m bench.peers.dbos_sqlite WORKLOAD FOLDER SIZES
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
async def launched(file: Path) -> AsyncIterator[None]:
    """DBOS over this file, as documented: configure, launch, destroy."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    config = {
        "name": "bench",
        "system_database_url": f"sqlite:///{file}",
        "sys_db_pool_size": 4,
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


async def w1(file: Path, sizes: Sizes) -> Figures:
    async with launched(file):
        await run(in_sequence, 20)
        return {"W1": [await timed(run(in_sequence, sizes.w1_steps)) / sizes.w1_steps for _ in range(sizes.pairs)]}


async def w2(file: Path, sizes: Sizes) -> Figures:
    async def all_of(count: int) -> None:
        await asyncio.gather(*(run(in_sequence, sizes.w2_steps) for _ in range(count)))

    async with launched(file):
        await all_of(min(100, sizes.w2_executions))
        taken = [await timed(all_of(sizes.w2_executions)) for _ in range(sizes.few)]
    return {"W2": [sizes.w2_executions * sizes.w2_steps / seconds for seconds in taken]}


async def w3(file: Path, sizes: Sizes) -> Figures:
    """The 10,000 once: it is a minute, and as many steps as the rest together."""
    async with launched(file):
        await run(side_by_side, 20)
        return {
            "W3 parallel": [await timed(run(side_by_side, sizes.w3_branches)) for _ in range(sizes.few)],
            "W3 map": [await timed(run(side_by_side, sizes.w3_items))],
        }


async def w4(file: Path, sizes: Sizes) -> Figures:
    """Each restart has a file of its own, because DBOS goes on with all workflows at once; the long history is made once."""
    found: Figures = {"W4": [], "W4 many": []}
    for key, steps, times in (("W4", sizes.w4_steps, sizes.few), ("W4 many", sizes.w4_many_steps, 1)):
        for number in range(times):
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
    assert result == [steps, ANSWER], f"after the restart it came to {result}"
    return taken


async def w5(file: Path, sizes: Sizes) -> Figures:
    """DBOS has no clock to move, so all sleep until one moment, far enough away for all to have begun. Once: it is minutes."""
    count, warm = sizes.w5_executions, min(WARM_EXECUTIONS, sizes.w5_executions)
    async with launched(file):
        began = perf_counter()
        await _started(warm, sleeps, time() + 0.1)
        rate = warm / (perf_counter() - began)
        await _become(file, "SUCCESS", warm)
        until = time() + 2 * count / rate + sizes.idle_seconds + 5
        found = await _waiting(file, sizes, warm, sleeps, until)
        in_time = time() < until
        await asyncio.sleep(max(until - time(), 0))
        await _become(file, "SUCCESS", warm + count)
        due = [time() - until] if in_time else []
    asked = asked_elsewhere(file, sizes)
    keys = ("W5 wait", "W5 parked", "W5 idle", "W5 callback", "W5 parked callback", "W5 idle callback")
    return {key: [value] for key, value in zip(keys, (*found, *asked), strict=True)} | {"W5 due": due}


def asked_elsewhere(file: Path, sizes: Sizes) -> list[float]:
    """In a process of its own, where no memory is free already."""
    command = _myself("asks", file.with_name("asks.sqlite"), sizes.to_json())
    asked: list[float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return asked


async def w5_asks(file: Path, sizes: Sizes) -> None:
    async with launched(file):
        warm = min(WARM_EXECUTIONS, sizes.w5_executions)
        await _started(warm, sleeps, time() + 0.1)
        await _become(file, "SUCCESS", warm)
        print(json.dumps(await _waiting(file, sizes, warm, asks)), flush=True)
        os._exit(0)  # 10,000 that wait would be given up one by one


async def _waiting(file: Path, sizes: Sizes, before: int, workflow: Any, *more: float) -> tuple[float, float, float]:
    """Starts per second, bytes each, and the share of a core while they wait. `recv` too writes down a sleep: its timeout."""
    count = sizes.w5_executions
    empty, began = memory(), perf_counter()
    await _started(count, workflow, *more)
    await _slept(file, before + count)
    rate = count / (perf_counter() - began)
    held = memory() - empty
    idle, used = perf_counter(), process_time()
    await asyncio.sleep(sizes.idle_seconds)
    return rate, max(held, 0) / count, (process_time() - used) / (perf_counter() - idle)


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


WORKLOADS: Final = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}


def _myself(role: str, file: Path, terms: str) -> list[str]:
    return [sys.executable, "-m", "bench.peers.dbos_sqlite", role, str(file), terms]


def main() -> None:
    workload, place, terms = sys.argv[1:]
    if workload == "begin":
        asyncio.run(begin(Path(place), int(terms)))
        return
    if workload == "asks":
        asyncio.run(w5_asks(Path(place), Sizes.from_json(terms)))
        return
    with TemporaryDirectory(dir=place, prefix="bench-") as folder:
        print(json.dumps(asyncio.run(WORKLOADS[workload](Path(folder) / "dbos.sqlite", Sizes.from_json(terms)))))


if __name__ == "__main__":
    main()
