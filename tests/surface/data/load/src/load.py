"""Functions that write down what they were told is done. The first two are written for the official SDK, the others speak to the
service with nothing but boto3."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import boto3
from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration


def note(event: dict[str, Any], *what: Any) -> None:
    """One line of the journal, in one write, so that it stays when a process is killed."""
    journal = os.open(event["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(journal, json.dumps([event["name"], *what]).encode() + b"\n")
    finally:
        os.close(journal)


def _steps(context: DurableContext, event: dict[str, Any], first: int, count: int, before: str) -> list[str]:
    """Each step makes a value that no other run of it would make, and tells which value of the step before it was given."""
    made = []
    for number in range(first, first + count):

        def work(_: Any, number: int = number, before: str = before) -> str:
            value = os.urandom(8).hex()
            note(event, f"step-{number}", value, before)
            threading.Event().wait(event["work"])
            return value

        before = context.step(work, name=f"step-{number}")
        made.append(before)
    return made


@durable_execution
def walk(event: dict[str, Any], context: DurableContext) -> list[str]:
    """Steps, a wait, steps."""
    first = _steps(context, event, 0, 3, "")
    context.wait(Duration.from_seconds(1), name="nap")
    return first + _steps(context, event, 3, 3, first[-1])


@durable_execution
def ask(event: dict[str, Any], context: DurableContext) -> list[str]:
    """Steps, an answer from outside, steps."""
    callback: Any = context.create_callback(name="answer")
    first = _steps(context, event, 0, 2, "")
    answer = callback.result()
    return [*first, *_steps(context, event, 2, 2, answer), answer]


def _asked(event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """What the execution was started with, and the results of its steps so far."""
    first, *operations = event["InitialExecutionState"]["Operations"]
    done = {operation["Name"]: operation["StepDetails"]["Result"] for operation in operations}
    return json.loads(first["ExecutionDetails"]["InputPayload"]), done


def raw(event: dict[str, Any], context: Any) -> dict[str, str]:
    """A handler without an SDK, which notes each checkpoint that was acknowledged."""
    asked, done = _asked(event)
    client, token = boto3.client("lambda"), event["CheckpointToken"]
    for name in (f"raw-{number}" for number in range(asked["count"])):
        if name in done:
            continue
        done[name] = os.urandom(8).hex()
        update = {"Id": name, "Name": name, "Type": "STEP", "Action": "SUCCEED", "Payload": done[name]}
        arn = event["DurableExecutionArn"]
        token = client.checkpoint_durable_execution(DurableExecutionArn=arn, CheckpointToken=token, Updates=[update])["CheckpointToken"]
        note(asked, name, done[name])
        threading.Event().wait(asked["work"])
    return {"Status": "SUCCEEDED", "Result": json.dumps(list(done.values()))}


def held(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Hands its event out to a client elsewhere, and holds still until that one has ended the execution."""
    asked, _ = _asked(event)
    place = Path(asked["place"])
    half = place / f"{context.aws_request_id}.half"
    half.write_text(json.dumps(event))
    half.rename(half.with_suffix(".json"))
    never = threading.Event()
    while not (place / "done").exists():
        never.wait(0.02)
    return {"Status": "PENDING"}
