"""Load for a durable service behind HTTP, ours or the official emulator, by requests that both answer: the same driver for both.

The standard library alone, because the peer's program imports it too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from itertools import count
from time import perf_counter, sleep
from typing import Any, Final
from urllib.parse import quote

from bench.terms import PAYLOAD

FUNCTIONS: Final = ("in_sequence", "in_sequence_too")
"""Two equal functions, because in Holdfast one function may have eight processes and all functions sixteen."""
WORKERS: Final = 16
"""The number of handler processes of both systems: enough to keep two cores busy while some processes wait for the disk."""
_LOOK_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 600
_numbers = count()


def asked(port: int, method: str, path: str, body: Any = None) -> Any:
    """One request, on a connection of its own."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status < 300, f"{method} {path}: {answer.status} {said[:200]!r}"
        return json.loads(said)


def steps_per_second(port: int, executions: int, steps: int) -> float:
    """Steps per second of executions that start together, in wall time from the first start to the last end."""
    began = perf_counter()
    started = [started_one(port, FUNCTIONS[number % len(FUNCTIONS)], steps) for number in range(executions)]
    ended(port, started, steps)
    return executions * steps / (perf_counter() - began)


def started_one(port: int, function: str, steps: int) -> str:
    """SAM's hook, which has everything that an emulator needs."""
    number = next(_numbers)
    start = {
        "AccountId": "000000000000",
        "FunctionName": function,
        "FunctionQualifier": "$LATEST",
        "ExecutionName": f"bench-{number}",
        "ExecutionTimeoutSeconds": _PATIENCE_SECONDS,
        "ExecutionRetentionPeriodDays": 1,
        "InvocationId": f"bench-{number}",
        "Input": json.dumps({"steps": steps, "payload": PAYLOAD}),
    }
    return str(asked(port, "POST", "/start-durable-execution", start)["ExecutionArn"])


def ended(port: int, executions: Sequence[str], steps: int) -> None:
    """Wait for each in turn. It polls rarely, because polling takes time from what is measured."""
    for arn in executions:
        while (found := asked(port, "GET", f"/2025-12-01/durable-executions/{quote(arn, safe='')}"))["Status"] == "RUNNING":
            sleep(_LOOK_SECONDS)
        assert (found["Status"], found.get("Result")) == ("SUCCEEDED", str(steps)), f"it ended with {found}"
