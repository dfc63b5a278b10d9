"""What the pictures show beside the sample: queues with something in them, schedules, orders that wait and that failed, and keys."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import holdfast
from holdfast import DurableContext, Duration, Limits, Queue, Schedule, StepContext, durable_execution, durable_step
from holdfast.durable.config import CallbackConfig, StepConfig
from holdfast.durable.retries import RetryPresets
from holdfast.model.errors import HoldfastError

_ONCE = StepConfig(retry_strategy=RetryPresets.none())


@durable_step
def validate(step: StepContext, order_id: str) -> dict[str, Any]:
    step.logger.info("checking the stock of %s", order_id)
    return {"order_id": order_id, "status": "validated"}


@durable_execution
def order(event: dict[str, Any], context: DurableContext) -> Any:
    """An order that a person approves."""
    context.step(validate(event["order_id"]))
    asked = context.create_callback(name="awaiting-approval", config=CallbackConfig(timeout=Duration.from_hours(6)))
    return asked.result()


@durable_execution
def charge(event: dict[str, Any], context: DurableContext) -> Any:
    """A charge; some cards are declined."""

    def pay(_: StepContext) -> str:
        if event["cents"] > 9_000:
            raise ValueError("the card was declined")
        return f"receipt-{event['cents']}"

    return context.step(pay, name="pay", config=_ONCE)


@durable_execution
def send(event: dict[str, Any], context: DurableContext) -> Any:
    """A letter; an address may be none."""
    if "@" not in event["to"]:
        raise ValueError(f"{event['to']} is no address")
    return context.step(lambda _: f"sent to {event['to']}", name="send")


@durable_execution
def report(event: dict[str, Any], context: DurableContext) -> str:
    """A report for a team."""
    return f"a report for {event['team']}"


def fill(store: Path) -> None:
    """Put it all into a store that others may work on meanwhile."""
    queues = [Queue("emails", at_once=20, rates="600/m", per_tenant=Limits(at_once=5)), Queue("reports", at_once=2)]
    schedules = [
        Schedule("nightly", report, cron="0 2 * * *", zone="Europe/Berlin", input={"team": "sales"}),
        Schedule("stock-count", report, every="15m", input={"team": "stores"}),
        Schedule("weekly", report, cron="30 6 * * MON", zone="America/New_York", input={"team": "support"}),
    ]
    with holdfast.open(str(store), functions=[order, charge, send, report], queues=queues, schedules=schedules) as engine:
        runs = [engine.start(charge, {"cents": 100 * number + 990}, name=f"charge-{number}") for number in range(1, 90, 8)]
        runs += engine.enqueue_many(send, [{"to": f"user{n}@shop.example" if n % 9 else f"user{n}"} for n in range(40)], queue="emails")
        for run in runs:
            with contextlib.suppress(HoldfastError):
                run.result()
        for number in ("41", "42"):
            engine.start(order, {"order_id": number}, name=f"order-{number}")
    command(store, "queues", "pause", "reports")
    with holdfast.open(str(store), functions=[report], queues=queues) as engine:
        engine.enqueue_many(report, [{"team": f"team-{n}"} for n in range(6)], queue="reports")


def with_keys(store: Path) -> str:
    """A store with a few keys; the token of an admin."""
    command(store, "keys", "create", "--token", "--role", "operator", "--role", "approver", "--tenant", "acme", "--person", "ann")
    command(store, "keys", "create", "--token", "--role", "viewer", "--tenant", "skerry", "--person", "bob")
    command(store, "keys", "create", "--role", "operator")
    made = command(store, "keys", "create", "--token", "--role", "admin", "--person", "cem")
    return made.partition("HOLDFAST_TOKEN=")[2].split()[0]


def command(store: Path, *words: str) -> str:
    """What a command of `holdfast` prints."""
    whole = [sys.executable, "-m", "holdfast.cli", *words, "--store", str(store)]
    return subprocess.run(whole, capture_output=True, text=True, check=True, cwd=store.parent).stdout
