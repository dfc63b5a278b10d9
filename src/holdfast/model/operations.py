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
    """An enum of texts. Its members are hashed as a str is. The hash of an ordinary enum would run Python code at each lookup in a dict."""

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
"""The types of operations that the handler starts and the engine closes: a wait by its timer, a callback by an answer or its timeout, an
invoke by the end of the child."""


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
    """How an operation of one execution enqueues another execution. Each member means the same as in `enqueues.Enqueue`: `key` is that of
    the lane, `head_start_ms` the priority, `units` and `money` the estimated tokens and billionths of a dollar, `rates` the function's
    own."""

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
    """An accepted request for a run or for an enqueue. The write that starts the new execution carries the order. An order has no wire
    form, so no client can send one."""

    kind: Kind
    input: str
    terms: Terms | None = None
    """The limits of the new execution; None: it gets the limits of its function."""
    tenant: str | None = None
    """The tenant of the new execution; None: the tenant of the execution that asks for it."""
    trace: str | None = None
    """The trace header of the new execution; None: the trace header of the execution that asks for it."""
    charges: tuple[Charge, ...] = ()
    """What the new execution adds to shared counters when it starts."""
    graph: GraphText | None = None
    """The graph of a pipeline's run; else None."""
    queued: Queued | None = None
    """How the new execution is enqueued; None if it is invoked, without a queue. To enqueue, the asking operation is a step, and its result
    is the id of the new execution. To invoke, it is a chained invoke."""


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
    """How many attempts of the step have finished. It is 0 until the first attempt ends."""
    due_at: int | None = None
    """When the operation's timer is due. Then a wait ends, a step becomes ready for its next attempt, or a callback times out. None if the
    operation has no timer."""
    timeout_at: int | None = None
    """When a callback times out even if it gets heartbeats; None: no such time."""
    heartbeat_ms: int = 0
    """A callback times out if it gets no heartbeat for this many milliseconds; 0: it needs no heartbeats."""
    callback_id: str | None = None
    replay_children: bool = False
    """For a context that is closed: whether a replay needs the operations inside it."""
    result: str | None = None
    error: Failure | None = None
    place: int = 0
    """The number of the operation's first event in the history. Operations are listed in the order of these numbers."""
    payload_event: int | None = None
    """The number of the event that has this operation's `result` or `error` as its payload; None as long as there is no such event. So the
    store keeps the payload only once, with the event."""
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
    ended_at: int | None = None
    """CONTEXT SUCCEED and FAIL: when the context ended, by the runner's clock, if the code went on before this update was written. None:
    when the update is written. Not on the wire: AWS always takes the time of the write."""
    delay_seconds: int | None = None
    """STEP RETRY: seconds until the next attempt."""
    wait_seconds: int | None = None
    """WAIT START: how long the wait lasts."""
    timeout_seconds: int = 0
    """CALLBACK START: after how many seconds the callback times out; 0: it has no timeout."""
    heartbeat_seconds: int = 0
    """CALLBACK START: after how many seconds without a heartbeat the callback times out; 0: it needs no heartbeats."""
    function_name: str | None = None
    """CHAINED_INVOKE START: the function to invoke, or the worker to run. STEP SUCCEED with an order: what is enqueued. Else None."""
    cascade: bool = True
    """CHAINED_INVOKE START: whether the child is stopped when its parent is stopped or times out. Not on the wire: AWS never stops a
    child."""
    if_open: bool = False
    """What happens if the operation has ended already: True: this update is ignored; False: it is refused. Not on the wire: AWS always
    refuses such an update."""
    tenant_id: str | None = None
    trace_id: str | None = None
    order: Order | None = None
    """CHAINED_INVOKE START: the order of a run, in place of the payload. STEP SUCCEED: the order of an execution to enqueue. Else None. Not
    on the wire: a client cannot make an order.
    """


def served_since(operations: Iterable[Operation], revision: int) -> list[str]:
    """The ids of those operations that changed after `revision` and have a status now that the engine gives: waits, callbacks and invokes
    that are closed, and steps that are ready for their next attempt. A wait that the handler itself cancelled is among them."""
    newer = (operation for operation in operations if operation.revision > revision)
    return [op.id for op in newer if (op.type in SERVED and op.status not in OPEN) or op.status is Status.READY]


def unpruned(operations: Collection[Operation]) -> list[Operation]:
    """Those of the operations that a replay needs. All operations inside a closed context without `replay_children` are left out, at any
    depth. `operations` must be in the order in which they began."""
    replayed = replayed_contexts(operations)
    return [op for op in operations if op.parent_id is None or op.parent_id in replayed]


def replayed_contexts(operations: Iterable[Operation]) -> set[str]:
    """The ids of the contexts whose direct children a replay needs. `operations` must be in the order in which they began: a parent before
    its children."""
    replayed: set[str] = set()
    for op in operations:
        if op.type is Type.CONTEXT and (op.status in OPEN or op.replay_children) and (op.parent_id is None or op.parent_id in replayed):
            replayed.add(op.id)
    return replayed
