"""The demo: an order on a SQLite file survives a flaky step, waits for an approval, and a `kill -9` in the middle of its work.

    make demo-durable        or        python examples/order_demo.py

Two processes take part. This one is the world outside: it watches the history, gives the approval, and kills. The other one (the same
file, called with `worker`) runs the order workflow.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import order_workflow

import holdfast
from holdfast import Client, StepConfig, StepContext, durable_execution, durable_step
from holdfast.durable.config import CallbackConfig, Duration
from holdfast.durable.retries import RetryPresets

T = TypeVar("T")
STORE = "orders.db"
NAME = "order-42"
HERE = Path(__file__).resolve()


# --- the worker process: the workflow, with a step that is flaky and slow on purpose so that there is something to see


@durable_step
def process_order(step: StepContext, order_id: str) -> dict[str, str]:
    """Fails at first, then takes its time: long enough to be killed in the middle."""
    if step.attempt == 1:
        raise ConnectionError("payment service unavailable")
    if not Path("killed").exists():
        Path("processing").touch()
        time.sleep(60)
    return {"order_id": order_id, "status": "processed"}


@durable_execution(name="process_order")
def handler(event: dict[str, str], context: holdfast.DurableContext) -> dict[str, str]:
    """The order workflow, shortened to what the demo shows."""
    context.step(order_workflow.validate_order(event["order_id"]))
    callback = context.create_callback(name="awaiting-approval", config=CallbackConfig(timeout=Duration.from_minutes(3)))
    context.step(order_workflow.send_for_approval(callback.callback_id, event["order_id"]))
    callback.result()
    retry = StepConfig(retry_strategy=RetryPresets.fixed(Duration.from_seconds(1)))
    return context.step(process_order(event["order_id"]), config=retry)


def worker() -> None:
    """Run the order to its end; started again after a crash, this very code finds what is there and goes on."""
    with holdfast.open(STORE, functions=[handler]) as engine:
        engine.start("process_order", {"order_id": "42"}, name=NAME).result()


# --- this process: the world outside


class Demo:
    """Prints the history as it grows, and steps in where the story says so."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.shown = 0

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.3f} s  {text}", flush=True)

    def spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, str(HERE), "worker"])
        self.say(f"-- worker process {process.pid} started")
        return process

    def follow(self, client: Client, until: str) -> None:
        """Show new events until one of this type has come."""
        while True:
            for event in client.history(NAME)[self.shown :]:
                self.shown += 1
                error = event.details.get("Error", {}).get("Payload", {})
                note = f"   {error['ErrorType']}: {error['ErrorMessage']}" if error else ""
                self.say(f"   {event.number:>2} {event.type:<20} {event.name or ''}{note}")
                if event.type == until:
                    return
            time.sleep(0.005)

    def run(self) -> None:
        first = self.spawn()
        client = wait_for(started)
        self.follow(client, "InvocationCompleted")
        (approval,) = [p for p in client.describe(NAME).waits_for if p.callback_id]
        self.say("-- suspended: it waits for an approval, using no thread. We approve, as a person would.")
        client.succeed_callback(str(approval.callback_id), "approved")
        self.follow(client, "StepFailed")
        self.say("-- the flaky step failed; its strategy tries again in a second")
        wait_for(Path("processing").exists)
        self.follow(client, "StepStarted")
        self.say(f"-- kill -9 {first.pid}, in the middle of the step")
        Path("killed").touch()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        killed = time.monotonic()
        second = self.spawn()
        self.follow(client, "StepSucceeded")
        self.say(f"-- taken over and resumed {(time.monotonic() - killed) * 1000:.0f} ms after the kill, Python's start included")
        self.follow(client, "ExecutionSucceeded")
        second.wait()
        self.say(f"-- result: {client.describe(NAME).result}")
        bodies = [str(e.name) for e in client.history(NAME) if e.type == "StepSucceeded"]
        self.say(f"-- every step completed once: {', '.join(bodies)}")


def started() -> Client | None:
    try:
        client = Client.open(STORE)
        client.get(NAME)
    except holdfast.HoldfastError:
        return None
    return client


def wait_for(fact: Callable[[], T | None], seconds: float = 30) -> T:
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        if time.monotonic() > deadline:
            sys.exit("The demo got stuck; please report this.")
        time.sleep(0.005)
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            os.chdir(folder)
            Demo().run()
