"""Signals.

Sinks get a signal whenever an execution begins or ends, and send it on. Give them to `holdfast.open(subscribers=…)`. [How to hear of every
change](../../how-to/signals.md) says what they promise.
"""

import json
import os
import tempfile
import time
from pathlib import Path
from queue import Queue
from typing import Any

import holdfast
from holdfast import DurableContext, Settings, StatusSignal, durable_execution
from holdfast.signals import EventBridge, FunctionMetrics, JsonLines, Observer, Webhook, event_of, new_secret, read_sinks, verify

folder = tempfile.TemporaryDirectory()
secret = new_secret(os.urandom)


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: f"receipt-{event['id']}", name="charge")


# --- JsonLines
lines = Path(folder.name, "all.jsonl")
ended = {"detail": {"status": ["SUCCEEDED", "FAILED", "TIMED_OUT", "STOPPED"]}}
with holdfast.open(":memory:", functions=[order], subscribers={"file": JsonLines(lines, pattern=ended)}) as engine:
    engine.start(order, {"id": 42}, name="order-42").result()
    while not (lines.exists() and lines.read_text()):
        time.sleep(0.01)  # the signal is delivered a moment later
assert json.loads(lines.read_text())["detail"]["durableExecutionName"] == "order-42"

# --- Webhook, new_secret
secret = new_secret(os.urandom)  # the receiver needs it, too
hook = Webhook("https://hooks.example/orders", secret, dead_letters=Path(folder.name, "dead.jsonl"))
assert repr(hook) == "Webhook(https://hooks.example)"  # the path of an address may be a secret


# --- verify
def receive(headers: dict[str, str], body: bytes) -> None:
    """What the receiver of a webhook does with a request."""
    try:
        id = verify(headers, body, secret, int(time.time()))
    except holdfast.HoldfastError as error:
        assert error.code == "access_refused"
    else:
        print("new, if this id was not there before:", id)


receive({"webhook-id": "1"}, b"{}")


# --- EventBridge
class Bus:
    """In a program: nothing, then the sink makes a boto3 client."""

    def put_events(self, **given: Any) -> dict[str, Any]:
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in given["Entries"]]}


bus = EventBridge("orders", region="eu-north-1", client=Bus())
with holdfast.open(":memory:", functions=[order], subscribers={"aws": bus}) as engine:
    engine.start(order, {"id": 43}).result()


# --- read_sinks
description = Path(folder.name, "signals.toml")
description.write_text("""
[failures]
sink = "webhook"
url = "https://hooks.example/orders"
secrets = ["ORDERS_HOOK_SECRET"]
""")
sinks = read_sinks(description, {"ORDERS_HOOK_SECRET": secret})
assert list(sinks) == ["failures"]

# --- event_of
events: Queue[Any] = Queue()


def hear(signal: StatusSignal) -> None:
    events.put(event_of(signal))


with holdfast.open(":memory:", functions=[order], subscribers={"mine": hear}) as engine:
    engine.start(order, {"id": 44}).result()
    assert [events.get()["detail"]["status"], events.get()["detail"]["status"]] == ["RUNNING", "SUCCEEDED"]

# --- FunctionMetrics, Observer
metrics = FunctionMetrics()  # needs holdfast[metrics]
observer: Observer = metrics  # an engine tells an observer what happens
with holdfast.open(":memory:", functions=[order], settings=Settings(observers=(observer,))) as engine:
    engine.start(order, {"id": 45}).result()
assert 'holdfast_executions_closed_total{function="order",status="SUCCEEDED"} 1.0' in metrics.text()
