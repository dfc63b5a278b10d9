"""Operations: what an execution is made of, and the updates that change them.

An `Operation` is one durable call (a step, a wait, a callback ...) as it stands now; an `Update` asks for a change.
Both are plain values. What an update may do is in transitions.py; how they look on the wire is in wire.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec


class Word(StrEnum):
    """A word of the wire. It is hashed as the text it is: looking up a table by an ordinary enum runs Python code each time."""

    __hash__ = str.__hash__


class Type(Word):
    """The kinds of operation the service knows."""

    EXECUTION = "EXECUTION"
    CONTEXT = "CONTEXT"
    STEP = "STEP"
    WAIT = "WAIT"
    CALLBACK = "CALLBACK"
    CHAINED_INVOKE = "CHAINED_INVOKE"


class Action(Word):
    """What an update asks for."""

    START = "START"
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    RETRY = "RETRY"
    CANCEL = "CANCEL"


class Status(Word):
    """Where an operation stands; an operation without a status is absent."""

    STARTED = "STARTED"
    PENDING = "PENDING"
    READY = "READY"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    STOPPED = "STOPPED"


OPEN = frozenset({Status.STARTED, Status.PENDING, Status.READY})

SERVED = frozenset({Type.WAIT, Type.CALLBACK, Type.CHAINED_INVOKE})
"""What the service closes, not the handler."""


class SubType(StrEnum):
    """The labels the SDK writes for its own operations; on the wire a sub-type is free text."""

    STEP = "Step"
    WAIT = "Wait"
    CALLBACK = "Callback"
    RUN_IN_CHILD_CONTEXT = "RunInChildContext"
    MAP = "Map"
    MAP_ITERATION = "MapIteration"
    PARALLEL = "Parallel"
    PARALLEL_BRANCH = "ParallelBranch"
    WAIT_FOR_CALLBACK = "WaitForCallback"
    WAIT_FOR_CONDITION = "WaitForCondition"
    CHAINED_INVOKE = "ChainedInvoke"


class Kind(Word):
    """What a function of the store is. Only a plain one can be invoked or started by its name and an input."""

    FUNCTION = "function"
    WORKER = "worker"
    """A request is accepted first, and its order is what an execution begins with."""
    PIPELINE = "pipeline"


class Order(msgspec.Struct, frozen=True, gc=False):
    """What accept has made of a request for a run: the mark of its execution. No wire form has one, so only accept can hand one over."""

    kind: Kind
    input: str


APPROVAL = "Approval"
"""The sub-type of a callback that a person's decision answers, and nothing else does."""
CANCEL = "Cancel"
"""The sub-type of a callback that the cancel of a run answers, and nothing else does."""
KEPT = frozenset({APPROVAL, CANCEL})
"""Callbacks that take no answer by their id alone: each takes the one answer whose authority was looked at."""


_AWS_PACKAGE = "aws_durable_execution_sdk_python."


class Failure(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"message": "ErrorMessage", "type": "ErrorType", "data": "ErrorData", "stack_trace": "StackTrace"},
):
    """An error as it is kept and sent: the service's ErrorObject, every member optional."""

    message: str | None = None
    type: str | None = None
    data: str | None = None
    stack_trace: tuple[str, ...] | None = None


def shown_type(kind: str | None) -> str | None:
    """The class of an error as people read it. What is kept and sent has AWS's package in the place of ours."""
    if kind is None or not kind.startswith(_AWS_PACKAGE):
        return kind
    return f"holdfast.durable.{kind.removeprefix(_AWS_PACKAGE)}"


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One durable call as it stands. Times are integer milliseconds since the epoch."""

    id: str
    type: Type
    status: Status
    started_at: int
    sub_type: str | None = None
    name: str | None = None
    parent_id: str | None = None
    ended_at: int | None = None
    attempt: int = 0
    """Finished attempts of a step: 0 until the first one ends."""
    due_at: int | None = None
    """The service acts at this time: a wait ends, a retry becomes ready, a callback times out."""
    timeout_at: int | None = None
    heartbeat_ms: int = 0
    callback_id: str | None = None
    replay_children: bool = False
    result: str | None = None
    error: Failure | None = None
    place: int = 0
    """The event that began it; operations are listed in this order."""
    payload_event: int | None = None
    """The event that carries `result` or `error`: each payload is stored once."""
    revision: int = 0
    """The execution's revision at the last change of this operation."""


class Update(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change that a handler asks for."""

    id: str
    type: Type
    action: Action
    sub_type: str | None = None
    name: str | None = None
    parent_id: str | None = None
    payload: str | None = None
    error: Failure | None = None
    replay_children: bool = False
    delay_seconds: int | None = None
    """STEP RETRY: seconds until the next attempt."""
    wait_seconds: int | None = None
    timeout_seconds: int = 0
    heartbeat_seconds: int = 0
    function_name: str | None = None
    cascade: bool = True
    """CHAINED_INVOKE START: the child is stopped with its parent. Not on the wire: on AWS it never is."""
    if_open: bool = False
    """Nothing is asked for if the operation is over by then. Not on the wire: AWS refuses such an update."""
    tenant_id: str | None = None
    trace_id: str | None = None
    order: Order | None = None
    """CHAINED_INVOKE START: the order of a run, in place of the payload. Not on the wire: what a caller writes is no order."""


def is_pending(operation: Operation) -> bool:
    """Whether the service will act on this operation by itself, so that a handler may wait for it."""
    status = operation.status
    kind = operation.type
    if status is Status.STARTED:
        return kind is Type.WAIT or kind is Type.CALLBACK or kind is Type.CHAINED_INVOKE
    return status is Status.PENDING or status is Status.READY


def served_since(operations: Iterable[Operation], revision: int) -> list[str]:
    """The ids of what the service itself changed after a revision: closed what a handler waits for, made a step ready."""
    newer = (operation for operation in operations if operation.revision > revision)
    return [op.id for op in newer if (op.type in SERVED and op.status not in OPEN) or op.status is Status.READY]


def unpruned(operations: Collection[Operation]) -> list[Operation]:
    """What a replay needs: the children, at any depth, of a closed context are left out unless it asks for them."""
    replayed = replayed_contexts(operations)
    return [op for op in operations if op.parent_id is None or op.parent_id in replayed]


def replayed_contexts(operations: Iterable[Operation]) -> set[str]:
    """The contexts whose children a replay needs. Operations come in the order they began, so a parent is met before its children."""
    replayed: set[str] = set()
    for op in operations:
        if op.type is Type.CONTEXT and (op.status in OPEN or op.replay_children) and (op.parent_id is None or op.parent_id in replayed):
            replayed.add(op.id)
    return replayed
