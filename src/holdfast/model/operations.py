"""Operations: what an execution is made of, and the updates that change them.

An `Operation` is the present record of one durable call (a step, a wait, a callback ...); an `Update` asks for a change. Both are plain
values. What an update may do is in transitions.py; how both are sent is in wire.py.
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
    """An enum of texts. It is hashed like a str, because the hash of an ordinary enum runs Python code at each lookup in a dict."""

    __hash__ = str.__hash__


class Type(Word):
    """The types of operations."""

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
"""The types of operations that the engine closes, not the handler: by a timer, an answer or the end of a child."""


class SubType(StrEnum):
    """The sub-types that the SDK writes for its own operations. On the wire a sub-type may be another text."""

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
    """What an execution runs."""

    FUNCTION = "function"
    """A function. Only this kind can be invoked or started by its name and an input."""
    WORKER = "worker"
    """A worker. The worker service first accepts a request and makes an order; the order starts the execution."""
    PIPELINE = "pipeline"
    """A pipeline. It is started in the same way as a worker."""


class Queued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an operation of one execution enqueues another execution. The members are those of `enqueues.Enqueue`."""

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
    """An accepted request for a run, or for a function that is to be enqueued, in the form that the write which starts the execution
    carries. It has no wire form, so no client can send one."""

    kind: Kind
    input: str
    terms: Terms | None = None
    """The limits of the new execution; None: those of its function."""
    tenant: str | None = None
    """The tenant of the new execution; None: that of the execution that asks for it."""
    trace: str | None = None
    """The trace header of the new execution; None: that of the execution that asks for it."""
    charges: tuple[Charge, ...] = ()
    """What the new execution adds to shared counters when it starts."""
    graph: GraphText | None = None
    """The graph of a pipeline's run; else None."""
    queued: Queued | None = None
    """How the new execution is enqueued; None if it is invoked instead. If it is enqueued, the operation that asks for it is a step, and
    the step's result is the id of the new execution."""


RUN = "Run"
"""The sub-type of a chained invoke that runs a worker."""
ENQUEUE = "Enqueue"
"""The sub-type of a step that enqueues an execution."""
APPROVAL = "Approval"
"""The sub-type of a callback that asks a person for a decision. A caller cannot answer it with the callback's id alone. The run may take
the question back, and the question may expire."""
CANCEL = "Cancel"
"""The sub-type of a callback by which a run learns that it is cancelled. A caller cannot answer it with the callback's id alone."""
CANCEL_ID: Final = blake2b(f"{CANCEL}\0cancel\0".encode()).hexdigest()[:64]
"""The operation id of the callback with sub-type CANCEL: the same in every run (workers.run_operations.CANCEL_AT)."""
KEPT = frozenset({APPROVAL, CANCEL})
"""Sub-types of callbacks that cannot be answered with the callback's id alone: only code that has checked the caller's authority answers
them."""


class Failure(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"message": "ErrorMessage", "type": "ErrorType", "data": "ErrorData", "stack_trace": "StackTrace"},
):
    """An error as it is stored and sent: AWS's ErrorObject. Each member may be None."""

    message: str | None = None
    type: str | None = None
    data: str | None = None
    stack_trace: tuple[str, ...] | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The present record of one durable call. Times are integer milliseconds since 1970-01-01 UTC."""

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
    """When its timer is due: a wait ends, a retry becomes ready, a callback times out. None if it has no timer."""
    timeout_at: int | None = None
    """When a callback times out, whatever heartbeats it gets; None: it has no timeout."""
    heartbeat_ms: int = 0
    """A callback times out if it gets no heartbeat for this many milliseconds; 0: it needs no heartbeats."""
    callback_id: str | None = None
    replay_children: bool = False
    """Whether a replay needs the operations inside this context, although it is closed."""
    result: str | None = None
    error: Failure | None = None
    place: int = 0
    """The number of its first event. Operations are listed in this order."""
    payload_event: int | None = None
    """The number of the event whose payload is `result` or `error`, so that the store keeps the payload once; None if it has neither."""
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
    """FAIL and RETRY: the error. A START of sub-type `Run` may have one too: it says why the run was refused, and the operation fails in
    the same write."""
    frames: tuple[str, ...] = ()
    """FAIL and RETRY: the lines of the author's code that the error passed through, the innermost last. Not on the wire: AWS has no such
    member."""
    replay_children: bool = False
    """CONTEXT SUCCEED: whether a replay needs the operations inside the context."""
    delay_seconds: int | None = None
    """STEP RETRY: seconds until the next attempt."""
    wait_seconds: int | None = None
    """WAIT START: how long the wait lasts."""
    timeout_seconds: int = 0
    """CALLBACK START: after how many seconds it times out; 0: no timeout."""
    heartbeat_seconds: int = 0
    """CALLBACK START: after how many seconds without a heartbeat it times out; 0: it needs no heartbeats."""
    function_name: str | None = None
    """CHAINED_INVOKE START: the function to invoke."""
    cascade: bool = True
    """CHAINED_INVOKE START: whether the child is stopped with its parent. Not on the wire: AWS never stops a child."""
    if_open: bool = False
    """Whether the update is ignored if the operation has ended already. Not on the wire: AWS refuses such an update."""
    tenant_id: str | None = None
    trace_id: str | None = None
    order: Order | None = None
    """CHAINED_INVOKE START: the order of a run, in place of the payload. STEP SUCCEED: the order of an execution to enqueue. Else None. Not
    on the wire: a client cannot make an order.
    """


def is_pending(operation: Operation) -> bool:
    """Whether a handler may wait for this operation: a timer, an answer or the end of a child will change it, or it is a step whose next
    attempt is ready."""
    status = operation.status
    kind = operation.type
    if status is Status.STARTED:
        return kind is Type.WAIT or kind is Type.CALLBACK or kind is Type.CHAINED_INVOKE
    return status is Status.PENDING or status is Status.READY


def served_since(operations: Iterable[Operation], revision: int) -> list[str]:
    """The ids of operations that the engine, not the handler, changed after a revision: it closed them, or made a step ready."""
    newer = (operation for operation in operations if operation.revision > revision)
    return [op.id for op in newer if (op.type in SERVED and op.status not in OPEN) or op.status is Status.READY]


def unpruned(operations: Collection[Operation]) -> list[Operation]:
    """The operations that a replay needs. The children of a closed context, at any depth, are left out unless the context asks for them."""
    replayed = replayed_contexts(operations)
    return [op for op in operations if op.parent_id is None or op.parent_id in replayed]


def replayed_contexts(operations: Iterable[Operation]) -> set[str]:
    """The ids of the contexts whose children a replay needs. `operations` must be in the order in which they began: a parent before its
    children."""
    replayed: set[str] = set()
    for op in operations:
        if op.type is Type.CONTEXT and (op.status in OPEN or op.replay_children) and (op.parent_id is None or op.parent_id in replayed):
            replayed.add(op.id)
    return replayed
