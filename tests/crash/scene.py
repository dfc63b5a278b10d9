"""The scene of a crash test: a store, worker processes over it, the outside world's log, and facts to wait for."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import CallbackClosed
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.service.client import Client
from tests.conftest import ROOT

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.005
_STRAYS = (
    "SELECT 'event', e.* FROM events e LEFT JOIN executions x ON x.key = e.execution WHERE x.key IS NULL OR e.number > x.events",
    "SELECT 'operation', o.* FROM operations o LEFT JOIN executions x ON x.key = o.execution WHERE x.key IS NULL",
    "SELECT 'count', id FROM executions WHERE operations <> (SELECT count(*) FROM operations WHERE execution = key)",
)


def until(fact: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Wait for a fact; no fact in good time is a failure."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(POLL_SECONDS)
    return found


class Worker:
    """A worker process."""

    def __init__(self, scene: Scene, how: str) -> None:
        command = [sys.executable, "-m", "tests.crash.worker", scene.store, str(scene.log), str(scene.hold), how]
        with scene.errors.open("ab") as errors:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.pid = self._process.pid
        self._ready = False

    def wait_until_ready(self) -> Worker:
        """It has joined the store."""
        assert self._process.stdout is not None
        if not self._ready:
            said = self._process.stdout.readline()
            assert said == "ready\n", f"the worker said {said!r}"
            self._ready = True
        return self

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def wait_until_dead(self) -> None:
        """It ended by itself."""
        self._process.wait(PATIENCE_SECONDS)

    def pause(self) -> None:
        """Stop its time. Returns when it stands still, all threads of it."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def go_on(self) -> None:
        """Let its time run again."""
        os.kill(self.pid, signal.SIGCONT)


class Scene:
    """One store and everything around it."""

    def __init__(self, folder: Path, disk: Path | None = None) -> None:
        """`disk` is where the store lies, if it has a disk of its own."""
        self.store = str((disk or folder) / "store.db")
        self.log = folder / "outside.log"
        self.hold = folder / "hold"
        self.errors = folder / "errors.log"
        self.log.touch()
        self.client = Client.open(self.store, create=True)
        self._workers: list[Worker] = []
        self._lines: list[dict[str, Any]] = []
        self._read = 0

    def worker(self, *, how: str = "new", awake: bool = False) -> Worker:
        """A new worker process; it need not be ready yet. One that is `awake` calls silent runners dead at once."""
        made = Worker(self, "awake" if awake else how)
        self._workers.append(made)
        return made

    def kill(self, worker: Worker) -> None:
        """`kill -9`."""
        worker.kill()
        self._workers.remove(worker)

    def close(self) -> None:
        """End all processes that are still alive."""
        for worker in self._workers:
            worker.go_on()
            worker.kill()
        self.client.close()

    # --- facts

    def lines(self) -> list[dict[str, Any]]:
        """What the outside world was told so far."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read += whole
        self._lines += [json.loads(line) for line in text[:whole].splitlines()]
        return self._lines

    def told(self, execution: str, step: str) -> list[dict[str, Any]]:
        """The bodies of one step."""
        return [line for line in self.lines() if line["x"] == execution and line["step"] == step]

    def start(self, function: DurableFunction, name: str, **event: Any) -> str:
        """Write an execution; some worker will take it."""
        return self.client.start(function, {"x": name, **event}, name=name).header.id

    def closed(self, execution: str) -> Execution:
        """Wait until it is over."""
        until(lambda: self.client.get(execution).state is State.CLOSED, f"{execution} to be closed")
        return self.client.get(execution)

    def result(self, execution: str) -> Any:
        """What it came to."""
        told = self.client.describe(execution)
        assert told.status == ExecutionStatus.SUCCEEDED, (told, self.errors.read_text())
        return told.result

    def answer(self, callback_id: str, text: str) -> None:
        """Answer a callback from this process; one that was announced twice is answered once."""
        try:
            self.client.succeed_callback(callback_id, text)
        except CallbackClosed:
            return

    def leases(self) -> dict[str, int]:
        """Until when each runner's lease lasts, as the store says."""
        with self._database() as rows:
            return dict(rows.execute("SELECT id, lease_until FROM runners").fetchall())

    def end_lease(self, runner: str) -> None:
        """Let a runner's lease be over, as if it had been silent for long."""
        with self._database() as rows:
            rows.execute("UPDATE runners SET lease_until = 1 WHERE id = ?", (runner,))

    def strays(self) -> list[Any]:
        """What is wrong with the file itself: rows beyond the last event or without an execution, operations that are not counted,
        broken pages."""
        with self._database() as rows:
            found = [row for question in _STRAYS for row in rows.execute(question)]
            (sound,) = rows.execute("PRAGMA integrity_check").fetchall()
            return found if sound == ("ok",) else [*found, sound]

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        rows = sqlite3.connect(self.store, timeout=10, isolation_level=None)
        try:
            yield rows
        finally:
            rows.close()
