"""Rows and values: the only place that knows the order of columns.

sqlite3 is fastest with exact `str` and `int`, so enums and booleans are taken apart before they are bound.
"""

from __future__ import annotations

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


def execution_row(x: Execution) -> Row:
    """An execution in the order of its table."""
    return (
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


def execution_from(row: Row) -> Execution:
    """The execution of a row."""
    return Execution(
        id=row[0],
        function=row[1],
        version=row[2],
        name=row[3],
        input_hash=row[4],
        timeout_seconds=row[5],
        retention_days=row[6],
        started_at=row[7],
        deadline=row[8],
        status=ExecutionStatus(row[9]),
        state=State(row[10]),
        epoch=row[11],
        revision=row[12],
        sequence=row[13],
        events=row[14],
        pending=row[15],
        runner=row[16],
        invocation=row[17],
        invoked_at=row[18],
        seen=row[19],
        ended_at=row[20],
        result_event=row[21],
        due_at=row[22],
        ready_at=row[23],
        touched_at=row[24],
        failures=row[25],
        deaths=row[26],
        client=row[27],
        client_revision=row[28],
    )


def operation_row(execution: str, op: Operation) -> Row:
    """An operation in the order of its table; its payload is in its event."""
    return (
        execution,
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


def operation_from(row: Row, seal: Seal) -> Operation:
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
        callback_id=seal.callback(row[0], row[1]) if kind is Type.CALLBACK else None,
        result=None if failed else payload,
        error=codec.failure_from(payload) if failed and payload is not None else None,
    )


def event_row(execution: str, event: Event) -> Row:
    """An event in the order of its table."""
    detail = event.detail
    return (
        execution,
        event.number,
        event.type._value_,
        event.at,
        event.operation_id,
        event.payload,
        None if detail is None else codec.dumps(detail),
    )


def event_from(row: Row) -> Event:
    """The event of a row."""
    number, kind, at, operation_id, payload, detail = row
    return Event(number, _EVENTS[kind], at, operation_id, payload, None if detail is None else codec.loads(detail))
