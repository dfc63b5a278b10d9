"""Operations: what an execution is made of, and the updates that change them.

An `Operation` is one durable call (a step, a wait, a callback ...) as it stands now; an `Update` asks for a change.
Both are plain values. What an update may do is in transitions.py; how they look on the wire is in wire.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.graphs import GraphText
from holdfast.model.rates import Rate
from holdfast.model.terms import Terms


class Word(StrEnum):
    """A word of the wire. It is hashed as plain text, because a table lookup with an ordinary enum runs Python code each time."""

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
    """The status of an operation."""

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
"""Operations that the service closes, not the handler."""


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
    """The kind of a function. Only a plain function can be invoked or started by its name and an input."""

    FUNCTION = "function"
    WORKER = "worker"
    """A worker: its service first accepts a request and makes an order, and the order starts the execution."""
    PIPELINE = "pipeline"


class Queued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an execution is enqueued by an operation of another one; as `admission.Enqueue`."""

    queue: str
    key: str | None = None
    delay_ms: int = 0
    ttl_ms: int | None = None
    head_start_ms: int = 0
    units: int = 0
    money: int = 0
    rates: tuple[Rate, ...] = ()
    user: str | None = None


class Order(msgspec.Struct, frozen=True, gc=False):
    """The order of a worker's run, made when its request was accepted. It has no wire form, so no client can send one."""

    kind: Kind
    input: str
    terms: Terms | None = None
    """The limits of the run; None for those of its function."""
    tenant: str | None = None
    """The tenant of the run; None for that of the execution that invokes."""
    trace: str | None = None
    """The trace header of the run; None for that of the execution that invokes."""
    charges: tuple[Charge, ...] = ()
    """What the run adds to shared counters when it starts."""
    graph: GraphText | None = None
    """The graph of a pipeline's run, which the store keeps with it."""
    queued: Queued | None = None
    """How the execution is enqueued, if it is. Then the operation that asks for it is a step whose result is the execution's id. Also used
    for plain functions."""


RUN = "Run"
"""The sub-type of a chained invoke that runs a worker."""
ENQUEUE = "Enqueue"
"""The sub-type of a step that enqueues an execution."""
APPROVAL = "Approval"
"""The sub-type of a callback that only a person's decision answers."""
CANCEL = "Cancel"
"""The sub-type of a callback that only the cancel of a run answers."""
CANCEL_ID: Final = blake2b(f"{CANCEL}\0cancel\0".encode()).hexdigest()[:64]
"""The id of that callback, the same in every run (workers.run_operations.CANCEL_AT)."""
KEPT = frozenset({APPROVAL, CANCEL})
"""Sub-types of callbacks that take no answer by their id alone: the authority of the caller must have been checked."""


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
    """How many attempts of a step have finished: 0 until the first one ends."""
    due_at: int | None = None
    """When the service acts on it: a wait ends, a retry becomes ready, a callback times out."""
    timeout_at: int | None = None
    heartbeat_ms: int = 0
    callback_id: str | None = None
    replay_children: bool = False
    result: str | None = None
    error: Failure | None = None
    place: int = 0
    """The number of the event that began it. Operations are listed in this order."""
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
    """The error. A START of sub-type `Run` may have one too: it says why the run was refused, and the operation fails in the same write."""
    frames: tuple[str, ...] = ()
    """FAIL and RETRY: the lines of the author's code that the error passed through, the innermost last. Not on the wire: AWS keeps none."""
    replay_children: bool = False
    delay_seconds: int | None = None
    """STEP RETRY: seconds until the next attempt."""
    wait_seconds: int | None = None
    timeout_seconds: int = 0
    heartbeat_seconds: int = 0
    function_name: str | None = None
    cascade: bool = True
    """CHAINED_INVOKE START: whether the child is stopped with its parent. Not on the wire: AWS never stops a child."""
    if_open: bool = False
    """Whether the update is ignored if the operation is already over. Not on the wire: AWS refuses such an update."""
    tenant_id: str | None = None
    trace_id: str | None = None
    order: Order | None = None
    """CHAINED_INVOKE START: the order of a run, in place of the payload. STEP SUCCEED: the order of an execution to enqueue. Not on the
    wire: a client cannot make an order.
    """


def is_pending(operation: Operation) -> bool:
    """Whether the service will act on this operation by itself, so that a handler may wait for it."""
    status = operation.status
    kind = operation.type
    if status is Status.STARTED:
        return kind is Type.WAIT or kind is Type.CALLBACK or kind is Type.CHAINED_INVOKE
    return status is Status.PENDING or status is Status.READY


def served_since(operations: Iterable[Operation], revision: int) -> list[str]:
    """The ids of operations that the service itself changed after a revision: it closed them, or made a step ready."""
    newer = (operation for operation in operations if operation.revision > revision)
    return [op.id for op in newer if (op.type in SERVED and op.status not in OPEN) or op.status is Status.READY]


def unpruned(operations: Collection[Operation]) -> list[Operation]:
    """The operations that a replay needs. The children of a closed context, at any depth, are left out unless the context asks for them."""
    replayed = replayed_contexts(operations)
    return [op for op in operations if op.parent_id is None or op.parent_id in replayed]


def replayed_contexts(operations: Iterable[Operation]) -> set[str]:
    """The contexts whose children a replay needs. Operations come in the order they began, so a parent is met before its children."""
    replayed: set[str] = set()
    for op in operations:
        if op.type is Type.CONTEXT and (op.status in OPEN or op.replay_children) and (op.parent_id is None or op.parent_id in replayed):
            replayed.add(op.id)
    return replayed
