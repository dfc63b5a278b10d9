"""Rows and values: the only place that knows the order of columns.

sqlite3 is fastest with exact `str` and `int`, so enums and booleans are taken apart before they are bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.model import codec
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import Event, EventType, carries_error
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation, Status, Type

Row = tuple[Any, ...]

_STATUSES = {member.value: member for member in Status}
_TYPES = {member.value: member for member in Type}
_EVENTS = {member.value: member for member in EventType}


def execution_row(key: int, x: Execution) -> Row:
    """An execution in the order of its table."""
    return (
        key,
        x.id,
        x.function,
        x.version,
        x.name,
        x.input_hash,
        x.timeout_seconds,
        x.retention_days,
        x.started_at,
        x.deadline,
        x.status._value_,
        x.state._value_,
        x.epoch,
        x.revision,
        x.sequence,
        x.events,
        x.pending,
        x.runner,
        x.invocation,
        x.invoked_at,
        x.seen,
        x.ended_at,
        x.result_event,
        x.due_at,
        x.ready_at,
        x.touched_at,
        x.failures,
        x.deaths,
        x.client,
        x.client_revision,
    )


def touched_row(key: int, x: Execution) -> Row:
    """What an ordinary checkpoint changes of an execution."""
    return (key, x.revision, x.sequence, x.events, x.pending, x.due_at, x.touched_at)


def execution_from(row: Row) -> Execution:
    """The execution of a row; column 0 is its key."""
    return Execution(
        id=row[1],
        function=row[2],
        version=row[3],
        name=row[4],
        input_hash=row[5],
        timeout_seconds=row[6],
        retention_days=row[7],
        started_at=row[8],
        deadline=row[9],
        status=ExecutionStatus(row[10]),
        state=State(row[11]),
        epoch=row[12],
        revision=row[13],
        sequence=row[14],
        events=row[15],
        pending=row[16],
        runner=row[17],
        invocation=row[18],
        invoked_at=row[19],
        seen=row[20],
        ended_at=row[21],
        result_event=row[22],
        due_at=row[23],
        ready_at=row[24],
        touched_at=row[25],
        failures=row[26],
        deaths=row[27],
        client=row[28],
        client_revision=row[29],
    )


def operation_row(key: int, op: Operation) -> Row:
    """An operation in the order of its table; its payload is in its event."""
    return (
        key,
        op.id,
        op.type._value_,
        op.status._value_,
        op.started_at,
        op.sub_type,
        op.name,
        op.parent_id,
        op.ended_at,
        op.attempt,
        op.due_at,
        op.timeout_at,
        op.heartbeat_ms,
        1 if op.replay_children else 0,
        op.place,
        op.payload_event,
        op.revision,
    )


def operation_from(row: Row, execution: str, seal: Seal) -> Operation:
    """The operation of a row that was joined with its payload's event."""
    kind = _TYPES[row[2]]
    payload, event = row[17], row[18]
    failed = event is not None and carries_error(_EVENTS[event])
    return Operation(
        id=row[1],
        type=kind,
        status=_STATUSES[row[3]],
        started_at=row[4],
        sub_type=row[5],
        name=row[6],
        parent_id=row[7],
        ended_at=row[8],
        attempt=row[9],
        due_at=row[10],
        timeout_at=row[11],
        heartbeat_ms=row[12],
        replay_children=row[13] == 1,
        place=row[14],
        payload_event=row[15],
        revision=row[16],
        callback_id=seal.callback(execution, row[1]) if kind is Type.CALLBACK else None,
        result=None if failed else payload,
        error=codec.failure_from(payload) if failed and payload is not None else None,
    )


def event_row(key: int, event: Event, place: int | None) -> Row:
    """An event in the order of its table."""
    detail = event.detail
    return (key, event.number, event.type._value_, event.at, place, event.payload, None if detail is None else codec.dumps(detail))


def event_from(row: Row, operations: Mapping[int, Operation]) -> tuple[Event, Operation | None]:
    """The event of a row and the operation it tells of, found by its place."""
    number, kind, at, place, payload, detail = row
    operation = None if place is None else operations[place]
    known = None if detail is None else codec.loads(detail)
    return Event(number, _EVENTS[kind], at, operation.id if operation else None, payload, known), operation
