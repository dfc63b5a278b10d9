"""`holdfast serve` as users start it: a process of its own, reached with boto3."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from holdfast.model.clock import monotonic
from tests.surface import warm

T = TypeVar("T")
DATA = Path(__file__).with_name("data")
PATIENCE_SECONDS = 60.0
_EXPORT = "export AWS_ENDPOINT_URL_LAMBDA="
_SERVING = "serving on "


def until(fact: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS, *, every: float = 0.02) -> T:
    """Wait for a fact of another process."""
    deadline, never = monotonic() + seconds, threading.Event()
    while not (found := fact()):
        assert monotonic() < deadline, f"waited {seconds} s for: {what}"
        never.wait(every)
    return found


class Program:
    """A server that runs."""

    command = "serve"
    credentials = ("nobody", "nothing")
    """What boto3 signs with."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path,
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        umask: int = -1,
    ) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "HOLDFAST_"))}
        known = {**inherited, "PYTHONUNBUFFERED": "1", **(environment or {})}
        words = [self.command, *map(str, arguments)]
        self.process: warm.Talking | subprocess.Popen[str]
        if warm.suits(known) and not under and umask == -1:
            self.process = warm.Talking(words, cwd, known)
        else:
            command = [*under, sys.executable, "-m", "holdfast.cli", *words]
            self.process = subprocess.Popen(
                command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=known, text=True, umask=umask
            )
        self.said: list[str] = []
        self.warned: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._readers = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._listen, daemon=True)]
        for reader in self._readers:
            reader.start()
        self._lambda: Any = None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.warned.append(line.rstrip("\n"))

    def started(self, mark: str = _EXPORT) -> Program:
        """Wait until it says where it is; the line with the mark is the last one."""
        while True:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            assert line is not None, "\n".join(["the server ended:", *self.said, *self.warned])
            self.said.append(line)
            if line.startswith(_SERVING):
                self.url = line.removeprefix(_SERVING).split()[0]
            if mark in line:
                return self

    @property
    def lambda_(self) -> Any:
        """A boto3 client of it."""
        if self._lambda is None:
            keys = dict(zip(("aws_access_key_id", "aws_secret_access_key"), self.credentials, strict=True))
            config = Config(retries={"max_attempts": 0}, read_timeout=PATIENCE_SECONDS)
            self._lambda = boto3.client("lambda", region_name="us-east-1", endpoint_url=self.url, config=config, **keys)
        return self._lambda

    def invoke(self, function: str, payload: object, **asked: Any) -> Any:
        """Invoke, with the payload read."""
        answer = self.lambda_.invoke(FunctionName=function, Payload=json.dumps(payload).encode(), **asked)
        with contextlib.closing(answer["Payload"]) as stream:
            text = stream.read()
        return answer | {"Payload": json.loads(text) if text else None}

    def history(self, arn: str) -> list[dict[str, Any]]:
        """All its events."""
        pages = self.lambda_.get_paginator("get_durable_execution_history")
        return [event for page in pages.paginate(DurableExecutionArn=arn, IncludeExecutionData=True) for event in page["Events"]]

    def callback(self, arn: str) -> str:
        """The id of its callback, once it waits for it."""

        def waits() -> str | None:
            events = self.history(arn)
            kinds = [event["EventType"] for event in events]
            if "CallbackStarted" not in kinds or kinds[-1] != "InvocationCompleted":
                return None
            found: str = events[kinds.index("CallbackStarted")]["CallbackStartedDetails"]["CallbackId"]
            return found

        found = until(waits, f"a callback of {arn}: {self.warned[-20:]}")
        assert found is not None
        return found

    def approve(self, arn: str, result: bytes = b'"yes"') -> None:
        """Answer its callback."""
        self.lambda_.send_durable_execution_callback_success(CallbackId=self.callback(arn), Result=result)

    def ended(self, arn: str) -> Any:
        """How it ended."""

        def over() -> Any:
            found = self.lambda_.get_durable_execution(DurableExecutionArn=arn)
            return None if found["Status"] == "RUNNING" else found

        return until(over, f"the end of {arn}: {self.warned[-20:]}")

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self._ended()

    def leave(self, number: int = signal.SIGTERM) -> int:
        """Ask it to leave; answers its exit code."""
        self.process.send_signal(number)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        if self._lambda is not None:
            self._lambda.close()
            self._lambda = None
        for reader in self._readers:
            reader.join(PATIENCE_SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        self.process.kill()
        self._ended()


class Programs:
    """Starts servers in one folder, on one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[Program] = []

    def __call__(self, *arguments: str | Path, store: str = "orders.db", port: int = 0) -> Program:
        """A server that says it is up."""
        return self.begun(*arguments, store=store, port=port).started()

    def begun(self, *arguments: str | Path, store: str = "orders.db", port: int = 0, under: Sequence[str] = ()) -> Program:
        """A server that may refuse; `under` is a command that starts another."""
        program = Program(*arguments, "--port", str(port), "--store", store, cwd=self.folder, under=under)
        self._all.append(program)
        return program

    def close(self) -> None:
        """End all of them."""
        for program in self._all:
            program.close()


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Programs]:
    """Servers that are ended with the test."""
    made = Programs(folder)
    try:
        yield made
    finally:
        made.close()
