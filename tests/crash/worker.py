"""A worker process that may be killed at any moment: it runs what the store holds and tells the outside world of every step body.

    python -m tests.crash.worker STORE LOG HOLD new|awake|brisk

LOG is the outside world: one line for each body that ran, written at its beginning. While the file HOLD exists, bodies that are
asked to hold do not come back. A worker that is `awake` behaves as if it had watched the others for long: it need not wait to see
whether a silent runner has only slept. One that is `brisk` has a short lease.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any
from unittest import mock

import holdfast
from holdfast.engine import runner_leases
from tests.crash import trips
from tests.crash.orders import ONCE, aorder, order
from tests.crash.outside import outside


@holdfast.durable_execution
def holding(event: Any, context: Any) -> Any:
    """One step, of the kind asked for, that does not come back while it is held."""

    def held(step: Any) -> int:
        outside.tell(event["x"], "held", step.attempt)
        outside.hold(event.get("seconds", 3600))
        outside.tell(event["x"], "let go", step.attempt)
        return os.getpid()

    pid = context.step(held, name="held", config=ONCE if event.get("once") else None)
    return [pid, context.step(lambda step: outside.tell(event["x"], "after", step.attempt), name="after")]


@holdfast.durable_execution
def deadly(event: Any, context: Any) -> Any:
    """A step that kills its process, after everything else that was claimed with it has begun."""

    def body(step: Any) -> None:
        outside.tell(event["x"], "deadly", step.attempt)
        outside.hold(event.get("seconds", 0.3))
        os.kill(os.getpid(), signal.SIGKILL)

    context.step(body, name="deadly")


@holdfast.durable_execution
async def endless(event: Any, context: Any) -> Any:
    """A step that ends only by being cancelled, and says so."""

    async def body(step: Any) -> None:
        outside.tell(event["x"], "endless", step.attempt)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            outside.tell(event["x"], "cancelled", step.attempt)
            raise

    await context.step(body, name="endless")


@holdfast.durable_execution
async def asking(event: Any, context: Any) -> Any:
    """Waits for an answer, then says that it has it."""
    callback = await context.create_callback("answer")
    answer = await callback.result()
    await context.step(lambda step: outside.tell(event["x"], "answered", step.attempt), name="answered")
    return answer


@holdfast.durable_execution
async def tree(event: Any, context: Any) -> Any:
    """Invokes itself, level by level; at the lowest some wait and some are at work."""
    level = int(event["level"])
    if level == 0:
        return await (await context.create_callback("for ever")).result()

    async def branch(child: Any, index: int, _: int, indexes: Any) -> Any:
        at_work = level == 1 and index == 0
        return await child.invoke("endless" if at_work else "tree", {**event, "level": level - 1})

    return (await context.map(range(event["width"]), branch)).get_results()


FUNCTIONS = [order, aorder, *trips.FUNCTIONS, holding, deadly, endless, asking, tree]


def _leave_with_parent() -> None:
    """No worker outlives its test: standard input ends with it."""
    sys.stdin.buffer.read()
    os._exit(0)


TEMPERS: dict[str, dict[str, Any]] = {
    "new": {"AWAKE_SECONDS": runner_leases.AWAKE_SECONDS},  # as it is
    "awake": {"AWAKE_SECONDS": 0},
    "brisk": {"LEASE_MS": 2_000, "RENEWAL_SECONDS": 0.5, "LOOK_SECONDS": 0.25, "ASLEEP_MS": 1_000, "AWAKE_SECONDS": 1.5},
}


async def main(store: str, how: str) -> None:
    with mock.patch.multiple(runner_leases, **TEMPERS[how]):
        async with holdfast.open(store, functions=FUNCTIONS):
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    outside.open(sys.argv[2], sys.argv[3])
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    asyncio.run(main(sys.argv[1], sys.argv[4]))
