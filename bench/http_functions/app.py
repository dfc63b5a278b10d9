"""Functions that run in processes, here and on the official emulator alike: the official SDK, as its documentation writes it.

A folder of its own, because it is deployed as it is; it imports nothing of ours.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, StepContext, durable_execution, durable_step


@durable_step
def step(context: StepContext, payload: dict[str, Any], number: int) -> dict[str, Any]:
    return {**payload, "number": number}


@durable_execution
def in_sequence(event: dict[str, Any], context: DurableContext) -> int:
    for number in range(event["steps"]):
        context.step(step(event["payload"], number))
    return int(event["steps"])


def plain(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return event


def lends(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Without an SDK: it gives its token to the bench, which writes checkpoints with it, and waits until the bench is done."""
    (execution, *_) = event["InitialExecutionState"]["Operations"]
    place = json.loads(execution["ExecutionDetails"]["InputPayload"])["place"]
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(place)
        asking.sendall(json.dumps([event["DurableExecutionArn"], event["CheckpointToken"]]).encode() + b"\n")
        asking.recv(1)
    return {"Status": "SUCCEEDED", "Result": "1"}
