"""The raw limit: the best that this disk and this Python can do, without any code of Holdfast.

`bare_commit` is the floor of one durable step: a small row, on disk. `sketch` is the ceiling of many: asyncio tasks that each encode
a result, hand two lines of history (with the members the history API must show) and one fenced update to a single writer thread, and
wait until the group's commit is on disk. It does what any engine must and nothing else: no replay, no tokens, no retries, no checks.
`recall` is the floor of a restart: read what was done, decode it, go on.

    python -m bench.limit [FOLDER]      the database goes into FOLDER (default: here), because the disk is what is measured
"""

import argparse
import asyncio
import os
import sqlite3
import statistics
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter, time
from typing import Final, NamedTuple

import orjson

from bench.table import aligned, figure
from bench.terms import PAYLOAD

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
SYNCHRONOUS: Final = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}

TABLES: Final = """
CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE execution (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, revision INTEGER NOT NULL) STRICT;
CREATE TABLE event (
    execution INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;
"""
INSERT_BARE: Final = "INSERT INTO bare (body) VALUES (?)"
INSERT_EVENT: Final = "INSERT INTO event (execution, number, body) VALUES (?, ?, ?)"
SELECT_EVENTS: Final = "SELECT body FROM event WHERE execution = ? ORDER BY number"
UPDATE_EXECUTION: Final = "UPDATE execution SET revision = revision + 1 WHERE id = ? AND epoch = ? AND revision = ?"


class NotADisk(Exception):
    """The folder is in memory: a commit there does not reach a disk, and every figure would be wrong."""


# --- where we measure --------------------------------------------------------------------------------------------------------


def filesystem(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The type of the filesystem that holds `path`, or "unknown" where the kernel does not list its mounts (macOS)."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    wanted = path.resolve()
    here = [(Path(point.replace("\\040", " ")), kind) for _, point, kind, *_ in map(str.split, lines)]
    # The longest mount point wins, and of two on the same point the later one hides the earlier.
    over = [(len(point.parts), order, kind) for order, (point, kind) in enumerate(here) if wanted.is_relative_to(point)]
    return max(over)[-1] if over else "unknown"


def require_disk(path: Path, kind: str | None = None) -> str:
    """The filesystem's type; refuses one that lives in memory."""
    found = kind or filesystem(path)
    if found in IN_MEMORY:
        raise NotADisk(
            f"{path} is on {found}, which lives in memory: a commit there costs nothing and proves nothing. Name a folder on a disk."
        )
    return found


def connect(path: Path) -> sqlite3.Connection:
    """A connection as Holdfast's store opens it: WAL, and every commit on disk before it returns."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")  # macOS: without it "on disk" means "in the drive's cache"; elsewhere it means nothing
    return db


def synchronous(db: sqlite3.Connection) -> str:
    (level,) = db.execute("PRAGMA synchronous").fetchone()
    return SYNCHRONOUS[level]


@contextmanager
def fresh(folder: Path) -> Iterator[sqlite3.Connection]:
    """An empty database in `folder`, gone afterwards: a file that grew in one run would slow down the next."""
    require_disk(folder)
    with tempfile.TemporaryDirectory(prefix="holdfast-limit-", dir=folder) as inside, closing(connect(Path(inside) / "limit.db")) as db:
        db.executescript(TABLES)
        yield db


# --- (a) bare commits --------------------------------------------------------------------------------------------------------


def bare_commit(path: Path, *, commits: int = 500, runs: int = 5) -> float:
    """Seconds for one commit of one row of about 150 bytes: the median of several runs, in the folder `path`."""
    return statistics.median(_commits(path, commits) for _ in range(runs))


def _commits(path: Path, commits: int) -> float:
    body = orjson.dumps(PAYLOAD).ljust(150)
    with fresh(path) as db:
        started = perf_counter()
        for _ in range(commits):
            db.execute(INSERT_BARE, (body,))  # no BEGIN: each statement is its own transaction
        return (perf_counter() - started) / commits


# --- (b) the group-commit sketch ---------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One durable step on its way to disk: two events, the fenced update, and the future of the waiting task."""

    execution: int
    epoch: int
    revision: int
    events: tuple[tuple[int, int, bytes], tuple[int, int, bytes]]
    waiter: asyncio.Future[None]


class Writer:
    """One thread that commits all waiting steps in one transaction, and then wakes their tasks with one call into the loop."""

    def __init__(self, db: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._db = db
        self._loop = loop
        self._waiting: deque[Step] = deque()  # append and popleft are atomic: two threads need no lock
        self._some = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="limit-writer")

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._some.set()
        self._thread.join()

    def write(self, step: Step) -> None:
        self._waiting.append(step)
        if not self._some.is_set():
            self._some.set()

    def _run(self) -> None:
        while not self._closed:
            self._some.wait()
            self._some.clear()  # before taking: what arrives in between is either taken now or sets it again
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if batch:
                outcome = self._commit(batch)
                self._loop.call_soon_threadsafe(_wake, batch, outcome)

    def _commit(self, batch: list[Step]) -> Exception | None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(INSERT_EVENT, [event for step in batch for event in step.events])
            fenced = self._db.executemany(UPDATE_EXECUTION, [(step.execution, step.epoch, step.revision) for step in batch])
            if fenced.rowcount != len(batch):
                raise RuntimeError("a fenced update missed its row")
            self._db.execute("COMMIT")
        except Exception as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            return error
        return None


def _wake(batch: list[Step], error: Exception | None) -> None:
    for step in batch:
        if step.waiter.done():
            continue  # its task was cancelled
        if error is None:
            step.waiter.set_result(None)
        else:
            step.waiter.set_exception(error)


def sketch(path: Path, *, tasks: int = 1_000, steps: int = 5, runs: int = 3) -> float:
    """Durable steps per second of `tasks` executions with `steps` sequential steps each: the median of several runs."""
    return statistics.median(_steps_per_second(path, tasks, steps) for _ in range(runs))


def _steps_per_second(path: Path, tasks: int, steps: int) -> float:
    with fresh(path) as db:
        db.execute("BEGIN")
        db.executemany("INSERT INTO execution (id, epoch, revision) VALUES (?, 1, 0)", [(task,) for task in range(tasks)])
        db.execute("COMMIT")
        seconds = asyncio.run(_all(db, tasks, steps))
        _prove(db, tasks, steps)
        return tasks * steps / seconds


async def _all(db: sqlite3.Connection, tasks: int, steps: int) -> float:
    with Writer(db, asyncio.get_running_loop()) as writer:
        started = perf_counter()
        async with asyncio.TaskGroup() as group:
            for task in range(tasks):
                group.create_task(_execution(writer, task, steps))
        return perf_counter() - started


async def _execution(writer: Writer, execution: int, steps: int) -> None:
    """What a function with trivial steps costs at least: encode, write, wait, decode (the first run returns what a replay returns)."""
    new_future: Callable[[], asyncio.Future[None]] = asyncio.get_running_loop().create_future
    for revision in range(steps):
        number = 2 * revision
        line = {"Id": f"{execution:032x}{revision:032x}", "Name": "step", "SubType": "Step", "EventTimestamp": time()}
        payload = orjson.dumps(PAYLOAD).decode()
        begun = orjson.dumps({"EventType": "StepStarted", "EventId": number, **line, "StepStartedDetails": {}})
        ended = orjson.dumps(
            {"EventType": "StepSucceeded", "EventId": number + 1, **line, "StepSucceededDetails": {"Result": {"Payload": payload}}}
        )
        waiter = new_future()
        writer.write(Step(execution, 1, revision, ((execution, number, begun), (execution, number + 1, ended)), waiter))
        await waiter
        orjson.loads(payload)


def _prove(db: sqlite3.Connection, tasks: int, steps: int) -> None:
    """Check that the sketch wrote all rows: a limit that did not do the work would be wrong."""
    counted = (*db.execute("SELECT count(*) FROM event").fetchone(), *db.execute("SELECT sum(revision) FROM execution").fetchone())
    if counted != (2 * tasks * steps, tasks * steps):
        raise RuntimeError(f"the sketch lost rows: {counted}")


# --- (c) going on after a restart ---------------------------------------------------------------------------------------------


def recall(path: Path, *, steps: int, runs: int = 3) -> float:
    """Seconds to go on after a restart, at best: read every result from a file just opened, decode it, and commit twice (claim and end)."""
    return statistics.median(_recalled(path, steps) for _ in range(runs))


def _recalled(path: Path, steps: int) -> float:
    with fresh(path) as db:
        (place,) = (row[2] for row in db.execute("PRAGMA database_list"))
        db.execute("BEGIN")
        db.executemany(INSERT_EVENT, [(1, number, orjson.dumps(PAYLOAD)) for number in range(steps)])
        db.execute("COMMIT")
        with closing(connect(Path(place))) as reopened:
            started = perf_counter()
            reopened.execute(INSERT_BARE, (b"claim",))
            found = [orjson.loads(text) for (text,) in reopened.execute(SELECT_EVENTS, (1,))]
            reopened.execute(INSERT_BARE, (b"end",))
            taken = perf_counter() - started
    if found != [PAYLOAD] * steps:
        raise RuntimeError(f"{len(found)} of {steps} results came back")
    return taken


# --- the table ---------------------------------------------------------------------------------------------------------------


def conditions(path: Path) -> str:
    """Where and how, in one line: the filesystem, and what SQLite itself says about synchronous."""
    kind = require_disk(path)
    with fresh(path) as db:
        return f"filesystem {kind} · SQLite {sqlite3.sqlite_version}, WAL, synchronous={synchronous(db)} · {os.cpu_count()} cores"


def rows(path: Path) -> list[tuple[str, str, str]]:
    """What, how much, and how that compares with a bare commit."""
    commit = bare_commit(path)
    w1 = 1 / sketch(path, tasks=1, steps=200)
    w2 = sketch(path)
    return [
        ("bare commit", f"{figure(commit * 1e3)} ms", ""),
        ("bare commits", f"{figure(1 / commit)} /s", ""),
        ("sketch W1 (1 × 200 steps)", f"{figure(w1 * 1e3)} ms/step", f"{w1 / commit:.2f} × a bare commit"),
        ("sketch W2 (1,000 × 5 steps)", f"{figure(w2)} steps/s", f"{w2 * commit:.2f} × bare commits"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.limit", description="The raw limit of this machine, on the disk of FOLDER.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the databases go (default: here)")
    folder: Path = parser.parse_args().folder
    try:
        print(conditions(folder))
        print(aligned(("what", "measured", "ratio"), rows(folder), (1, 2)))
    except NotADisk as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
