"""The console: how long the list of runs and its counts take among many executions, and what open pages cost those that run.

python -m bench.console URL COUNT      opens so many streams of the console, prints "open", and reads them until its input ends
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import holdfast
from bench.restart import said
from bench.terms import Sizes
from bench.workloads import in_sequence, many
from holdfast.console.console import open_console
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.model.shown_status import ShownStatus
from holdfast.store.backends import open_store
from holdfast.store.browse import Browse
from holdfast.store.rows import COLUMNS
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from holdfast.web.listener import bound, listening

ROOT: Final = Path(__file__).resolve().parent.parent
SECONDS: Final = 60.0
STREAMS: Final = 10
LOOKS: Final[dict[str, Browse]] = {
    "list": Browse(),
    "failed": Browse(statuses=(ShownStatus.FAILED,)),
    "nothing": Browse(versions=("no-such-version",)),
}
"""The questions that are timed: everything, what failed, and what is not there. No index finds a version, so the last one looks at as many
executions as a look may."""
_VARIED: Final = {
    "key": "(SELECT max(key) FROM executions) + n",
    "id": "id || '-' || n",
    "name": "name || '-' || n",
    "function": "'function-' || (n % 20)",
    "tenant": "'tenant-' || (n % 50)",
    "status": "CASE WHEN n % 100 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END",
    "error_code": "CASE WHEN n % 100 = 0 THEN 'E' || (n % 7) END",
    "expires_at": "NULL",
}


def looks(where: Callable[[], Path | str], sizes: Sizes, fill: Callable[[str, int], None]) -> dict[str, list[float]]:
    """Seconds of each look at the list, and of the counts beside it."""
    with ExitStack() as ends:
        place = where()
        if isinstance(place, Path):
            place = f"{ends.enter_context(TemporaryDirectory(dir=place, prefix='bench-'))}/bench.db"
        asyncio.run(_one(place))
        fill(place, sizes.console_executions)
        found: dict[str, list[float]] = {key: [] for key in (*LOOKS, "facets")}
        with closing(open_store(place, id_at(SystemClock().now()))) as store:
            for _ in range(sizes.pairs):
                for key, wanted in LOOKS.items():
                    found[key].append(_timed(lambda wanted=wanted: store.browse(wanted, SECONDS)))  # type: ignore[misc]
                found["facets"].append(_timed(lambda: store.facets(Browse(), SECONDS)))
        return found


async def _one(where: str) -> None:
    """A store with one execution that is over."""
    async with holdfast.open(where, functions=[in_sequence]) as opened:
        await many(opened, "in_sequence", 1, 1)


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def copies(numbers: str) -> str:
    """The statement that makes an execution for each number."""
    columns = COLUMNS["execution"]
    values = ", ".join(_VARIED.get(column, column) for column in columns)
    return f"INSERT INTO executions ({', '.join(columns)}) SELECT {values} FROM {numbers}, (SELECT * FROM executions LIMIT 1) AS one"


def fill_file(where: str, count: int) -> None:
    """Let a file have so many executions that are over."""
    numbers = f"(WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) SELECT n FROM numbers)"
    with closing(sqlite3.connect(where)) as connection:
        connection.execute(copies(numbers))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- pages that are open while others work


async def watched(folder: Path, sizes: Sizes, streams: int) -> float:
    """W2, as steps per second, in a process that also serves so many pages of the console that are open."""
    with TemporaryDirectory(dir=folder, prefix="bench-") as place:
        where = f"{place}/bench.db"
        async with holdfast.open(where, functions=[in_sequence]) as opened, _console(where) as url, _pages(url, streams):
            await many(opened, "in_sequence", min(50, sizes.w2_executions), sizes.w2_steps)
            began = perf_counter()
            await many(opened, "in_sequence", sizes.w2_executions, sizes.w2_steps)
            return sizes.w2_executions * sizes.w2_steps / (perf_counter() - began)


@asynccontextmanager
async def _console(where: str) -> AsyncIterator[str]:
    clock = SystemClock()
    with closing(open_store(where, id_at(clock.now()))) as store, closing(bound("127.0.0.1", 0)) as listener:
        gate = open_gate(store, host="127.0.0.1", clock=clock)
        async with open_console(where, gate, clock=clock, ids=id_at) as console:
            app = App(console.routes(), WebLimits(), lambda: id_at(clock.now()), gate)
            async with listening(app, listener, drain_seconds=1):
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
                app.close()
        await gate.close()


@asynccontextmanager
async def _pages(url: str, streams: int) -> AsyncIterator[None]:
    """Streams that another process reads: a browser is another process, too."""
    if not streams:
        yield
        return
    command = [sys.executable, "-m", "bench.console", url, str(streams)]
    with await asyncio.to_thread(subprocess.Popen, command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert await asyncio.to_thread(said, process) == ["open"]
            yield
        finally:
            process.kill()


def _read_streams(url: str, count: int) -> None:
    import http.client

    place = urlsplit(url).netloc

    def read(answer: http.client.HTTPResponse) -> None:
        while answer.read1(65_536):
            continue

    for _ in range(count):
        connection = http.client.HTTPConnection(place)
        connection.request("GET", "/console/ticks")
        threading.Thread(target=read, args=(connection.getresponse(),), daemon=True).start()
    print("open", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _read_streams(sys.argv[1], int(sys.argv[2]))
