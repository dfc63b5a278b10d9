"""A worker process that may be killed at any moment: it runs what the store holds and tells the outside world of every step body.

    python -m tests.crash.worker STORE LOG HOLD

LOG is the outside world: one line for each body that ran, written at its beginning. While the file HOLD exists, bodies that are
asked to hold do not come back.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast.durable.config import Duration, StepConfig, StepSemantics, WaitForCallbackConfig
from holdfast.durable.retries import RetryDecision

POLL = 0.002


class Outside:
    """The world outside: what is written here has happened, whatever becomes of the process."""

    def __init__(self, log: str, hold: str) -> None:
        self._file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._hold = Path(hold)

    def tell(self, event: dict[str, Any], step: str, attempt: int = 1, **more: Any) -> None:
        """One line, in one write: lines of two processes do not mix."""
        line = {"x": event["x"], "step": step, "attempt": attempt, "pid": os.getpid(), "at": time.time_ns() // 1_000_000, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def hold(self, seconds: float) -> None:
        """Come back when the file is gone, or after so many seconds."""
        until = time.monotonic() + seconds
        while self._hold.exists() and time.monotonic() < until:
            time.sleep(POLL)


outside: Outside


def _again_in_a_second(error: Exception, attempt: int) -> RetryDecision:
    return RetryDecision(should_retry=attempt < 1000, delay=Duration.from_seconds(1))


ONCE = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY, retry_strategy=_again_in_a_second)
SUBMIT = WaitForCallbackConfig(retry_strategy=_again_in_a_second)


@holdfast.durable_execution
def order(event: Any, context: Any) -> Any:
    """Steps of both kinds, a wait and a callback, in a `def` handler."""

    def reserve(step: Any) -> int:
        outside.tell(event, "reserve", step.attempt)
        return int(event["n"])

    def charge(step: Any) -> int:
        outside.tell(event, "charge", step.attempt)
        return int(event["n"]) * 10

    def announce(callback_id: str, _: Any) -> None:
        outside.tell(event, "announce", callback=callback_id)

    def ship(step: Any) -> str:
        outside.tell(event, "ship", step.attempt)
        return f"shipped {event['n']}"

    reserved = context.step(reserve, name="reserve")
    charged = context.step(charge, name="charge", config=ONCE)
    context.wait(Duration.from_seconds(1))
    approved = context.wait_for_callback(announce, name="approval", config=SUBMIT)
    shipped = context.run_in_child_context(lambda child: child.step(ship, name="ship"), name="delivery")
    return [reserved, charged, approved, shipped]


@holdfast.durable_execution
async def aorder(event: Any, context: Any) -> Any:
    """The same, in an `async def` handler; the callback is made first, so that its answer may come early."""

    async def reserve(step: Any) -> int:
        outside.tell(event, "reserve", step.attempt)
        return int(event["n"])

    async def charge(step: Any) -> int:
        outside.tell(event, "charge", step.attempt)
        await asyncio.sleep(0)
        return int(event["n"]) * 10

    callback = await context.create_callback("approval")

    def announce(step: Any) -> None:
        outside.tell(event, "announce", step.attempt, callback=callback.callback_id)

    async def ship(child: Any) -> Any:
        def body(step: Any) -> str:
            outside.tell(event, "ship", step.attempt)
            return f"shipped {event['n']}"

        return await child.step(body, name="ship")

    reserved = await context.step(reserve, name="reserve")
    charged = await context.step(charge, name="charge", config=ONCE)
    await context.step(announce, name="announce")
    await context.wait(Duration.from_seconds(1))
    approved = await callback.result()
    shipped = await context.run_in_child_context(ship, name="delivery")
    return [reserved, charged, approved, shipped]


@holdfast.durable_execution
def holding(event: Any, context: Any) -> Any:
    """One step, of the kind asked for, that does not come back while it is held."""

    def held(step: Any) -> int:
        outside.tell(event, "held", step.attempt)
        outside.hold(event.get("seconds", 3600))
        outside.tell(event, "let go", step.attempt)
        return os.getpid()

    pid = context.step(held, name="held", config=ONCE if event.get("once") else None)
    return [pid, context.step(lambda step: outside.tell(event, "after", step.attempt), name="after")]


@holdfast.durable_execution
def deadly(event: Any, context: Any) -> Any:
    """A step that kills its process, after everything else that was claimed with it has begun."""

    def body(step: Any) -> None:
        outside.tell(event, "deadly", step.attempt)
        outside.hold(event.get("seconds", 0.3))
        os.kill(os.getpid(), signal.SIGKILL)

    context.step(body, name="deadly")


@holdfast.durable_execution
async def endless(event: Any, context: Any) -> Any:
    """A step that ends only by being cancelled, and says so."""

    async def body(step: Any) -> None:
        outside.tell(event, "endless", step.attempt)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            outside.tell(event, "cancelled", step.attempt)
            raise

    await context.step(body, name="endless")


@holdfast.durable_execution
async def asking(event: Any, context: Any) -> Any:
    """Waits for an answer, then says that it has it."""
    callback = await context.create_callback("answer")
    answer = await callback.result()
    await context.step(lambda step: outside.tell(event, "answered", step.attempt), name="answered")
    return answer


FUNCTIONS = [order, aorder, holding, deadly, endless, asking]


def _leave_with_parent() -> None:
    """No worker outlives its test: standard input ends with it."""
    sys.stdin.buffer.read()
    os._exit(0)


async def main(store: str) -> None:
    async with holdfast.open(store, functions=FUNCTIONS):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    outside = Outside(sys.argv[2], sys.argv[3])
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    asyncio.run(main(sys.argv[1]))
