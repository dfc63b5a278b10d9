"""Result: an execution for a test to inspect: its status, its result, its operations by name, its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.descriptions.history import HistoryEvent, events_of
from holdfast.durable.exceptions import SerDesError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.serdes import deserialize
from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.store.seam import Store


class OperationMissing(HoldfastError, LookupError):
    """A test asked for an operation that is not there."""

    code = "test_operation_missing"


class _Named:
    """Finds operations by name among `operations`, not among those inside them. Raises OperationMissing if there is none."""

    operations: Sequence[Seen]

    def get_operation_by_name(self, name: str) -> Seen:
        """The first operation of this name, of any type. Operations inside other operations are not searched. Raises OperationMissing if
        there is none."""
        return self._found(name, None)

    def get_step(self, name: str) -> Seen:
        """The first step of this name among these operations, not inside contexts; `wait_for_condition` and `enqueue` are recorded as
        steps, too. Raises OperationMissing if there is none."""
        return self._found(name, Type.STEP)

    def get_wait(self, name: str) -> Seen:
        """The first wait of this name among these operations, not inside contexts. Raises OperationMissing if there is none."""
        return self._found(name, Type.WAIT)

    def get_callback(self, name: str) -> Seen:
        """The first callback of this name. The callback of a `wait_for_callback` is inside that context: use `get_context(NAME)` and its
        `operations`. Raises OperationMissing if there is none."""
        return self._found(name, Type.CALLBACK)

    def get_context(self, name: str) -> Seen:
        """The first context of this name among these operations, not inside other contexts: a child context, branch, map, parallel or
        `wait_for_callback`. Raises OperationMissing if there is none."""
        return self._found(name, Type.CONTEXT)

    def get_invoke(self, name: str) -> Seen:
        """The first invoke of another function, or run of a worker, of this name among these operations, not inside contexts. Raises
        OperationMissing if there is none."""
        return self._found(name, Type.CHAINED_INVOKE)

    def get_all_operations(self) -> list[Seen]:
        """Every operation at any depth, each before those inside it. Operations of one context are in the order in which they began."""
        return [each for operation in self.operations for each in (operation, *operation.get_all_operations())]

    def _found(self, name: str, kind: Type | None) -> Seen:
        for operation in self.operations:
            if operation.name == name and kind in (None, operation.type):
                return operation
        known = ", ".join(f"{op.sub_type or op.type.value} {op.name!r}" for op in self.operations) or "none"
        raise OperationMissing(
            f"There is no {kind.value if kind else 'operation'} {name!r} among these operations: {known}. "
            f"For an operation inside a context, call get_context(NAME) first."
        )


class Seen(msgspec.Struct, _Named, frozen=True):
    """One operation, with the operations inside it. Times are in milliseconds since 1970, by the runner's clock."""

    id: str
    name: str | None
    type: Type
    sub_type: str | None
    """The sub-type of the operation, such as `RunInChildContext` or `Map`; None if it has none."""
    status: Status
    attempt: int
    """How many attempts of a step have finished; 0 until the first one ends."""
    started_at: int
    ended_at: int | None
    """When the operation ended; None if it has not ended."""
    payload: str | None
    """The result as text, as the history has it; None if there is none."""
    error: Failure | None
    """The error of the operation; None if it has none. A step that waits for its next attempt has the error of its last failed attempt."""
    callback_id: str | None
    """The id with which the callback is answered; None if the operation is not a callback."""
    operations: tuple[Seen, ...] = ()
    """The operations directly inside this one."""

    @property
    def result(self) -> Any:
        """The value of the payload: of a callback the text itself, of an invoke its JSON value, of any other operation the value that the
        default serdes reads. If the default serdes cannot read the text, the text itself. None without a payload."""
        if self.payload is None:
            return None
        if self.type is Type.CALLBACK:
            return self.payload
        if self.type is Type.CHAINED_INVOKE:
            return codec.loads(self.payload)
        try:
            return deserialize(None, self.payload, self.id, "")
        except SerDesError:
            return self.payload


class Result(msgspec.Struct, _Named, frozen=True):
    """An execution as a test sees it."""

    arn: str
    status: ExecutionStatus
    payload: str | None
    """The return value of the handler as JSON text; None unless the execution succeeded."""
    error: Failure | None
    """Why the execution failed, timed out or was stopped; None if it runs or succeeded."""
    operations: tuple[Seen, ...]
    """The operations at the top of the execution, in the order in which they began."""
    history: list[HistoryEvent]
    """All events so far, in order."""
    function: DurableFunction | None = None
    """The function of the execution; None if it is not known."""

    @property
    def result(self) -> Any:
        """The return value of the handler, in the class of its return annotation if it has one that fits; else the JSON value. None unless
        the execution succeeded."""
        result = None if self.payload is None else codec.loads(self.payload)
        return result if self.function is None else self.function.typed(result)


def seen(store: Store, header: Execution, function: DurableFunction | None = None) -> Result:
    """The current state of an execution. `function` is its function, for the class of the result."""
    closed = header.status is not ExecutionStatus.RUNNING
    payload = store.result(header) if closed else None
    failed = closed and header.status is not ExecutionStatus.SUCCEEDED
    return Result(
        arn=arn_of(header),
        status=header.status,
        payload=None if failed else payload,
        error=codec.failure_from(payload or "{}") if failed else None,
        operations=_tree(store.operations(header.id)),
        history=events_of(store, header),
        function=function,
    )


def _tree(operations: Sequence[Operation]) -> tuple[Seen, ...]:
    below: dict[str | None, list[Operation]] = {}
    for operation in operations:
        below.setdefault(operation.parent_id, []).append(operation)

    def grown(at: str | None) -> tuple[Seen, ...]:
        return tuple(_seen(operation, grown(operation.id)) for operation in below.get(at, ()))

    return grown(None)


def _seen(op: Operation, inside: tuple[Seen, ...]) -> Seen:
    return Seen(
        id=op.id,
        name=op.name,
        type=op.type,
        sub_type=op.sub_type,
        status=op.status,
        attempt=op.attempt,
        started_at=op.started_at,
        ended_at=op.ended_at,
        payload=op.result,
        error=op.error,
        callback_id=op.callback_id,
        operations=inside,
    )
