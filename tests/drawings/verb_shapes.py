"""What each kind of verb returns: one shape for like things. The index of the reference has this table, and a test compares it with the
annotations of the verbs."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.drawings.public_names import HOLDERS, methods, verb_owners

OWNERS: Final = ("Client", "OpenEngine", "OpenExecution", *HOLDERS)
"""The classes each of whose verbs is in the table, except `Client.open`, which makes the client."""


@dataclass(frozen=True)
class Shape:
    """One row: a kind of verb, what such a verb returns in words and as a pattern of its annotation, and the verbs."""

    kind: str
    returns: str
    pattern: str
    verbs: tuple[str, ...]


SHAPES: Final = (
    Shape(
        "many things of a store; events of a run",
        "an iterator of objects, read page by page while the caller iterates; of `OpenEngine` an async one, for `async for`",
        r"Iterator\[.+\]",
        (
            *("Client.list", "OpenEngine.list", "Schedules.list", "StoreApprovals.list", "StoreQueues.list", "StoreRuns.list"),
            *("Client.callbacks", "Client.audit", "StoreQueues.parked", "Client.follow", "OpenEngine.follow", "StoreQueues.push"),
        ),
    ),
    Shape(
        "all parts of one thing; one result for each argument",
        "a sequence of objects, to count and to index. A store may have any number of executions, but the history of one is bounded",
        r"Sequence\[\w+\]",
        (
            *("Client.history", "OpenExecution.history", "Client.operations", "Client.spent_today", "OpenEngine.enqueue_many"),
            *("StoreApprovals.decide_many", "StoreQueues.declare", "StoreQueues.redrive"),
        ),
    ),
    Shape(
        "one thing by its name or id",
        "the object; raises an error if there is none. `OpenEngine.get` returns an `OpenExecution`, `Client.get` its record",
        r"Execution|OpenExecution|ScheduleState|Approval|QueueView|RunView",
        ("Client.get", "OpenEngine.get", "Schedules.get", "StoreApprovals.get", "StoreQueues.get", "StoreRuns.get"),
    ),
    Shape(
        "change of a schedule, a queue or an approval",
        "the object after the change, of the type that `get` returns",
        r"ScheduleState|QueueView|Approval",
        (
            *("Schedules.add", "Schedules.declare", "Schedules.pause", "Schedules.resume", "Schedules.run_now"),
            *("StoreQueues.pause", "StoreQueues.resume", "StoreQueues.drain", "StoreQueues.set", "StoreApprovals.decide"),
        ),
    ),
    Shape(
        "change of an execution",
        "its record, an `Execution`",
        r"Execution",
        (
            *("Client.succeed_callback", "Client.fail_callback", "Client.heartbeat_callback", "Client.release"),
            *("OpenEngine.succeed_callback", "OpenEngine.fail_callback", "OpenEngine.heartbeat_callback", "OpenExecution.release"),
            *("StoreRestarts.restart", "StoreRestarts.restart_execution"),
        ),
    ),
    Shape(
        "change that may find it done already, or counts",
        "an object with the record, and whether or how much this call did: `Stopped`, `CancelledRun`, `Started` and others",
        r"Stopped|CancelledRun|Started|ImportedExecution|Backfilled",
        ("Client.stop", "OpenExecution.stop", "StoreRuns.cancel", "Client.start", "Client.import_execution", "Schedules.backfill"),
    ),
    Shape(
        "start by an engine",
        "an `OpenExecution`, which can wait for the result",
        r"OpenExecution",
        ("OpenEngine.start", "OpenEngine.enqueue", "OpenEngine.redrive", "OpenEngine.restart_execution"),
    ),
    Shape("run of a worker by an engine", "its `Response`", r"Response", ("OpenEngine.run", "OpenEngine.retry", "OpenEngine.restart")),
    Shape(
        "report about one thing",
        "an object; None if there is nothing to report",
        r"[A-Z]\w+( \| None)?",
        (
            *("Client.describe", "OpenExecution.describe", "Client.trouble", "Client.place", "Client.view", "OpenEngine.view"),
            *("Client.cost", "OpenEngine.cost", "OpenEngine.estimate", "OpenEngine.estimate_rest", "OpenEngine.compare"),
            *("OpenEngine.plan_restart", "StoreApprovals.link", "StoreRestarts.compare", "StoreRestarts.prepare"),
            *("StoreRestarts.prepare_execution", "StoreRuns.finished"),
        ),
    ),
    Shape(
        "one value",
        "the value",
        r"bool|int|ExecutionStatus|Any",
        ("Client.is_hosted", "Client.release_all", "OpenEngine.release_all", "OpenExecution.status", "OpenExecution.result"),
    ),
    Shape("document for a file", "a dict, to write as JSON", r"dict\[str, Any\]", ("Client.export", "OpenExecution.export")),
    Shape("end of something", "None", r"None", ("Client.close", "OpenEngine.close", "OpenEngine.unsubscribe", "Schedules.remove")),
    Shape(
        "time that is left", "a `timedelta`", r"timedelta", ("DurableContext.remaining", "WorkerContext.remaining", "ToolCall.remaining")
    ),
)


def annotation(verb: str) -> str:
    """What a verb returns, from its annotation. An async iterator is written as an iterator."""
    owner, _, name = verb.partition(".")
    told = str(inspect.unwrap(getattr(verb_owners()[owner], name)).__annotations__["return"])
    return re.sub(r"^AsyncGenerator\[(.+), None\]$", r"Iterator[\1]", told)


def verbs() -> list[str]:
    """Every verb that the table must have, once for each class."""
    return [f"{owner}.{name}" for owner in OWNERS for name in methods(verb_owners()[owner]) if name != "open"]


def rows() -> list[tuple[str, str, str]]:
    """The table for the page. A verb is written with its class if verbs of several rows have its name."""
    short = Counter(name for shape in SHAPES for name in {verb.partition(".")[2] for verb in shape.verbs})
    return [
        (
            shape.kind,
            shape.returns,
            ", ".join(dict.fromkeys(f"`{verb if short[verb.partition('.')[2]] > 1 else verb.partition('.')[2]}`" for verb in shape.verbs)),
        )
        for shape in SHAPES
    ]
