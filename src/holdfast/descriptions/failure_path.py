"""Finds the operation that caused an execution's failure, and shows the path to it with the author's names: for example a step, and the
branch of a map around it.

The result of the execution has only the error that left the handler. The failed operation is found by its error, which has the same
message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import Failure, Operation, Status, SubType
from holdfast.store.seam import ExecutionStore

_OF_OPERATIONS: Final = (
    ".StepError",
    ".InvokeError",
    ".ChildContextError",
    ".WaitForConditionError",
    ".CallbackError",
    ".CallbackExternalError",
    ".CallbackTimeoutError",
    ".CallbackSubmitterError",
    ".SerDesError",
)
_BATCHES: Final = (SubType.MAP.value, SubType.PARALLEL.value)


def failed_in(store: ExecutionStore, header: Execution, error: Failure) -> str | None:
    """The operation that caused the failure, with the contexts around it, the outermost first. None if no such operation is found, or if
    neither it nor a context around it has a name."""
    if header.status is not ExecutionStatus.FAILED or error.message is None or not (error.type or "").endswith(_OF_OPERATIONS):
        return None
    try:
        found = {operation.id: operation for operation in store.operations(header.id)}
    except HoldfastError:  # if the operations cannot be read, the error is shown without the path
        return None
    failed = [op for op in found.values() if op.ended_at is not None and op.error is not None and op.error.message == error.message]
    return _path(found, failed) if failed else None


def _path(operations: Mapping[str, Operation], failed: Sequence[Operation]) -> str | None:
    """The path to the innermost failed operation. If several calls failed, it goes through the one that began last; inside it, through the
    first failed branch. None if no operation of the path has a name."""
    paths = [_ancestry(operations, op) for op in failed]
    last = max(path[0].place for path in paths)
    inside = [path for path in paths if path[0].place == last]
    outermost = next(op for op in inside[0] if op in failed)
    deepest = max((path for path in inside if outermost in path), key=len)
    return " > ".join(described(op) for op in deepest) if any(op.name for op in deepest) else None


def _ancestry(operations: Mapping[str, Operation], op: Operation) -> list[Operation]:
    path = [op]
    while (parent := operations.get(path[0].parent_id or "")) is not None:
        path.insert(0, parent)
    return path


def failed_branches(operations: Sequence[Operation]) -> list[tuple[Operation, list[Operation]]]:
    """Every map and parallel with failures, each with the operations of its failed branches. With FLAT nesting a branch has no operation of
    its own; the list then has the failed operations inside the branches."""
    batches = {op.id: op for op in operations if op.sub_type in _BATCHES}
    found: dict[str, list[Operation]] = {}
    for op in operations:
        if op.status is Status.FAILED and op.parent_id in batches:
            found.setdefault(op.parent_id, []).append(op)
    return [(batches[batch], failed) for batch, failed in found.items()]


def described(op: Operation) -> str:
    """The kind of an operation, and the name that its author gave it: `Step 'charge'`."""
    kind = op.sub_type or op.type.value
    return f"{kind} {op.name!r}" if op.name else kind
