"""What people want to know of an execution: its data, its history, and why it waits."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model import codec
from holdfast.model.cures import with_cure
from holdfast.model.errors import (
    ExecutionFailed,
    ExecutionNotFound,
    ExecutionStopped,
    ExecutionTimedOut,
    InvalidParameter,
    Unsuccessful,
)
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import event_to_wire
from holdfast.model.ids import Arn
from holdfast.model.life import MAX_DEATHS
from holdfast.model.operations import Operation, Status, Type, is_pending
from holdfast.store.seam import Filter, Store

_ENDINGS: dict[ExecutionStatus, type[Unsuccessful]] = {
    ExecutionStatus.FAILED: ExecutionFailed,
    ExecutionStatus.TIMED_OUT: ExecutionTimedOut,
    ExecutionStatus.STOPPED: ExecutionStopped,
}


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """Something an execution waits for."""

    operation: str
    name: str | None
    kind: str
    due_at: int | None
    woken_by: str
    callback_id: str | None = None
    attempt: int = 0
    last_error: str | None = None
    last_error_type: str | None = None


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """An execution as it stands."""

    arn: str
    function: str
    version: str
    name: str
    status: str
    state: str
    started_at: int
    ended_at: int | None
    input: Any
    result: Any
    error: dict[str, Any] | None
    waits_for: tuple[Pending, ...]
    why: str
    parent: str | None = None
    """The id of the execution that invoked it."""
    continued_as: str | None = None
    """The id of the execution that goes on for it."""


def arn_of(header: Execution) -> str:
    """The ARN of an execution."""
    return str(Arn(header.function, header.version, header.name, header.id))


def result_of(header: Execution, payload: str | None) -> Any:
    """The value a closed execution came to, or its ending raised."""
    if header.status is ExecutionStatus.SUCCEEDED:
        return None if payload is None else codec.loads(payload)
    failure = codec.failure_from(payload or "{}")
    raise _ENDINGS[header.status](with_cure(failure.message), failure.type, failure.data)


def check_will_end(store: Store, header: Execution) -> None:
    """Refuse to wait for what cannot end here: a copy that does not run, or one that went on as an execution which is not in this store."""
    if header.state is State.IMPORTED and header.status is ExecutionStatus.RUNNING:
        raise InvalidParameter(f"Execution {header.name!r} is an imported copy: nothing runs it, so it will not end here.")
    found: Execution | None = header
    while found is not None and found.continued_as is not None:
        heir = found.continued_as
        found = store.find(heir)
        if found is None:
            raise ExecutionNotFound(f"Execution {header.name!r} went on as {heir}, which is not in this store.")


def history_of(store: Store, header: Execution, *, include_data: bool = True) -> list[dict[str, Any]]:
    """All events, as the history API shows them."""
    events: list[dict[str, Any]] = []
    while page := store.history(header.id, len(events)):
        who = (header.id, header.name)
        events += [event_to_wire(line.event, who, line.operation, include_data=include_data) for line in page]
    return events


def describe(store: Store, header: Execution, hosted: bool | None = None) -> Description:
    """Everything about one execution; `hosted` says whether a runner here has its function."""
    closed = header.status is not ExecutionStatus.RUNNING
    payload = store.result(header) if closed else None
    succeeded = header.status is ExecutionStatus.SUCCEEDED
    pending = () if closed else _all_pending(store, header)
    if header.state is State.IMPORTED:
        pending = tuple(msgspec.structs.replace(p, woken_by="nobody: this is a copy", due_at=None, callback_id=None) for p in pending)
    given = store.input(header.id)
    return Description(
        arn=arn_of(header),
        function=header.function,
        version=header.version,
        name=header.name,
        status=header.status.value,
        state=header.state.value,
        started_at=header.started_at,
        ended_at=header.ended_at,
        input=None if given is None else codec.loads(given),
        result=codec.loads(payload) if succeeded and payload else None,
        error=codec.loads(payload) if closed and not succeeded and payload else None,
        waits_for=pending,
        why=_why(header, pending, hosted),
        parent=header.parent,
        continued_as=header.continued_as,
    )


def _all_pending(store: Store, header: Execution) -> tuple[Pending, ...]:
    found = [op for op in store.operations(header.id) if is_pending(op)]
    children: dict[str | None, Execution] = {}
    if any(op.type is Type.CHAINED_INVOKE for op in found):
        invoked = store.list(Filter(parent=header.id, statuses=(ExecutionStatus.RUNNING,), limit=len(found)))
        children = {child.parent_operation: child for child in invoked}
    return tuple(_pending(op, children.get(op.id)) for op in found)


def _pending(op: Operation, child: Execution | None) -> Pending:
    return Pending(
        operation=op.id,
        name=op.name,
        kind=op.sub_type or op.type.value,
        due_at=op.due_at,
        woken_by=_woken_by(op, child),
        callback_id=op.callback_id,
        attempt=op.attempt,
        last_error=op.error.message if op.error else None,
        last_error_type=op.error.type if op.error else None,
    )


def _woken_by(op: Operation, child: Execution | None) -> str:
    if op.type is Type.WAIT:
        return "the clock"
    if op.type is Type.CALLBACK:
        return "an answer to its callback" + (", or its timeout" if op.due_at is not None else "")
    if op.type is Type.CHAINED_INVOKE:
        return f"the end of {child.function}/{child.name}" if child else "the end of the invoked function"
    return "a free runner" if op.status is Status.READY else "the clock (next attempt)"


def _why(header: Execution, pending: tuple[Pending, ...], hosted: bool | None) -> str:
    if header.status is not ExecutionStatus.RUNNING:
        return f"It is over: {header.status.value}." if header.continued_as is None else f"It goes on as {header.continued_as}."
    if header.state is State.IMPORTED:
        return "It is an imported copy, to be looked at: nothing runs it here."
    if header.state is State.QUARANTINED:
        if header.deaths < MAX_DEATHS:
            return "Quarantined: its payloads could not be read. Release it when the payload codec has the keys they need."
        return f"Quarantined: its runner died {header.deaths} times in a row. Release it when the cause is mended."
    if header.state is State.RUNNING:
        return f"It is running, on {header.runner}."
    if header.state is State.READY:
        if header.failures:
            return f"Its last {header.failures} invocations failed; the next try comes by the clock."
        if hosted is False:
            return f"It is ready, but no runner here has function {header.function!r} in version {header.version}."
        return "It is ready and waits for a free runner that has its function."
    names = ", ".join(f"{p.kind} {p.name!r}" if p.name else p.kind for p in pending)
    return f"It waits for {names}." if names else "It is suspended."
