"""The real `holdfast` program in processes of its own, on real files, and functions for it to run."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from holdfast.model.clock import monotonic
from holdfast.operator.trust import TrustBook, configuration_folder
from tests.surface import warm

T = TypeVar("T")
PROGRAM = [sys.executable, "-m", "holdfast.cli"]
PATIENCE_SECONDS = 60.0

FUNCTIONS = """
from pathlib import Path
import threading

from holdfast.durable import durable_execution
from holdfast.durable.config import CallbackConfig, Duration, StepConfig
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy

HERE = Path(__file__).parent


def note(line):
    with (HERE / "log").open("a") as log:
        log.write(line + "\\n")
    return line


def until_told(line):
    note(line)
    while not (HERE / "go").exists():
        threading.Event().wait(0.01)
    return line


@durable_execution
def greet(event, context):
    print("hello from the function")
    return {"greeting": context.step(lambda _: f"hello {event['who']}", name="compose")}


@durable_execution
async def greet_async(event, context):
    async def compose(_):
        return f"hello {event['who']}"

    return {"greeting": await context.step(compose, name="compose")}


@durable_execution
def fail(event, context):
    raise LookupError("no such order")


@durable_execution
def two_steps(event, context):
    first = context.step(lambda _: note("first"), name="first")
    second = context.step(lambda _: until_told("second"), name="second")
    return [first, second]


@durable_execution
def approve(event, context):
    config = CallbackConfig(timeout=Duration.from_hours(2), heartbeat_timeout=Duration.from_hours(1))
    return {"answer": context.create_callback(name="approval", config=config).result()}


@durable_execution
async def approve_async(event, context):
    callback = await context.create_callback(name="approval")
    return {"answer": await callback.result()}


@durable_execution
def nap(event, context):
    context.wait(Duration.from_hours(1), name="long nap")


@durable_execution
def flaky(event, context):
    def call(_):
        raise ConnectionError("no line")

    delay = Duration.from_hours(1)
    strategy = create_retry_strategy(RetryStrategyConfig(max_attempts=3, initial_delay=delay, max_delay=delay))
    context.step(call, name="call", config=StepConfig(retry_strategy=strategy))


@durable_execution
def deadly(event, context):
    return until_told("begun")


def ordinary(event, context):
    return None
"""


class Program:
    """Runs `holdfast` in a folder that holds functions.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "functions.py").write_text(FUNCTIONS)
        self.environment = {**os.environ, "NO_COLOR": "1"}
        self.environment.pop("HOLDFAST_STORE", None)

    def trust(self) -> None:
        """Say that its folder is trusted, as `holdfast trust .` does."""
        TrustBook(configuration_folder(self.environment)).add(self.folder)

    def __call__(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in a process that need not load the program again."""
        if not warm.suits(self.environment):
            return self.cold(*words, given=given)
        code, printed, said = warm.run(words, folder=self.folder, environment=self.environment, given=given or "", seconds=PATIENCE_SECONDS)
        return subprocess.CompletedProcess([*PROGRAM, *words], code, printed, said)

    def cold(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """The same as a shell starts it."""
        return subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.environment,
            input=given if given is not None else "",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def begin(self, *words: str) -> warm.Talking | subprocess.Popen[str]:
        """Start a command and leave it running."""
        if warm.suits(self.environment):
            return warm.Talking(words, self.folder, self.environment)
        return subprocess.Popen(
            [*PROGRAM, *words], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def document(self, *words: str) -> Any:
        """What a command prints with --json."""
        ended = self(*words, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def show(self, execution: str) -> dict[str, Any] | None:
        """What `executions show` knows, or None as long as there is nothing to show."""
        ended = self("executions", "show", execution, "--json")
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    def waiting(self, execution: str) -> dict[str, Any]:
        """What a suspended execution waits for, once it does."""

        def seen() -> dict[str, Any] | None:
            shown = self.show(execution)
            return shown["waits_for"][0] if shown and shown["state"] == "suspended" else None

        return until(seen)

    @property
    def log(self) -> list[str]:
        """What the functions noted."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []


def until(fact: Callable[[], T | None]) -> T:
    """Wait for a fact, with a deadline only for the case that it never comes."""
    deadline = monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while monotonic() < deadline:
        found = fact()
        if found:
            return found
        pause.wait(0.1)
    raise AssertionError("it never happened")
