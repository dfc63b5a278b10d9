"""Follow-ups: the writes to other executions that a write causes, committed in the same transaction.

A checkpoint that invokes starts the child. A child that ends answers the operation that waits for it. If a parent is stopped or times out,
its children are stopped too, unless `cascade` is off. Children that are runs and have begun are cancelled instead. After every accepted
write the store calls `follow_ups`, and commits the writes that it returns in the same transaction, so that a crash cannot separate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, assert_never

import msgspec

from holdfast.model import codec, life
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import InvalidParameter, LimitReached
from holdfast.model.execution import Change, Execution, ExecutionStatus, State, View
from holdfast.model.operations import Failure, Status
from holdfast.model.outside import Stop
from holdfast.model.queue_errors import QueueFull
from holdfast.model.seal import Seal
from holdfast.model.summary import begun, pipeline_of
from holdfast.model.verbs import Start, VerbDecision, Write

_CASCADING: Final = frozenset({ExecutionStatus.STOPPED, ExecutionStatus.TIMED_OUT})


class Return(msgspec.Struct, frozen=True, gc=False):
    """A child ended: close the operation of its parent that waits for it."""

    execution: str
    operation_id: str
    status: Status
    result: str | None = None
    error: Failure | None = None

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Close the operation. If the operation is closed already, or the parent has ended or is an imported copy, nothing changes."""
        operation = view.get(self.operation_id)
        header = view.header
        waits = header.status is ExecutionStatus.RUNNING and header.state is not State.IMPORTED
        if not waits or operation is None or operation.status is not Status.STARTED:
            return None, header
        draft = WriteDraft(view, now)
        draft.put(life.answered(draft, operation, self.status, self.result, self.error), operation)
        change = life.woken(draft)
        return change, change.header


def follow_ups(write: Write, before: Execution, change: Change, children: Callable[[str], Iterable[str]]) -> Iterator[Write]:
    """The writes that must be committed in the same transaction as `write`. `before` is the execution's header before the write, and
    `change` is what the write does to the execution. `children` is called with the id of an execution, and returns the ids of the open
    executions that it has invoked."""
    if isinstance(write, Start) and before.superseded_by is None and change.header.superseded_by == write.execution:
        yield msgspec.structs.replace(write, again=False)
    for birth in change.births:
        born = _of_pipeline(birth.header, change.header)
        yield Start(born, birth.input, birth.by, birth.charges, kind=birth.kind, graph=birth.graph, enqueue=birth.enqueue)
    header = change.header
    if header.status is before.status:
        return
    if header.parent is not None and header.parent_operation is not None and header.continued_as is None:
        yield _returned(header, header.parent, header.parent_operation, change)
    if header.status in _CASCADING and not (isinstance(write, Stop) and not write.cascade):
        error = Failure(message=f"The execution that invoked this one, {header.name}, was stopped or timed out.")
        for child in children(header.id):
            yield Stop(child, write.error if isinstance(write, Stop) else error, inherited=True)


def _of_pipeline(child: Execution, parent: Execution) -> Execution:
    """The new execution `child`, with the parent's pipeline in its summary. The child is returned unchanged if the parent has no pipeline,
    or if the child has a summary already."""
    pipeline = pipeline_of(parent.summary)
    return child if pipeline is None or child.summary is not None else msgspec.structs.replace(child, summary=begun(pipeline))


def beyond_limit(limit: LimitReached) -> Failure:
    """The failure of an operation that asked for a new execution whose charge would take a counter beyond its limit. The failure's data has
    the counter's key, its limit, and the time at which the counter starts again from 0."""
    return Failure(str(limit), type(limit).__name__, codec.dumps({"key": limit.key, "limit": limit.limit, "until": limit.until}))


def refused_by_queue(refused: QueueFull | InvalidParameter) -> Failure:
    """The failure of an operation that asked to enqueue an execution which the queue refused. If `refused` is a QueueFull, the failure's
    data says after how many seconds to try again."""
    data = codec.dumps({"retry_after_seconds": refused.retry_after_seconds}) if isinstance(refused, QueueFull) else None
    return Failure(str(refused), refused.code, data)


def _returned(header: Execution, parent: str, operation: str, change: Change) -> Return:
    payload = next(event.payload for event in change.events if event.number == header.result_event)
    match header.status:
        case ExecutionStatus.SUCCEEDED:
            return Return(parent, operation, Status.SUCCEEDED, payload)
        case ExecutionStatus.TIMED_OUT:
            message = f"CHAINED_INVOKE timed out after {header.terms.timeout_seconds} seconds."
            return Return(parent, operation, Status.TIMED_OUT, error=Failure(message, "ChainedInvoke.Timeout"))
        case ExecutionStatus.STOPPED:
            return Return(parent, operation, Status.STOPPED, error=codec.failure_from(payload or "{}"))
        case ExecutionStatus.FAILED:
            return Return(parent, operation, Status.FAILED, error=codec.failure_from(payload or "{}"))
        case ExecutionStatus.RUNNING:
            raise AssertionError("a running execution has nothing to return")
        case _:
            assert_never(header.status)
