"""Rows and values: the only place that knows the order of columns.

sqlite3 is fastest with exact `str` and `int`, so enums and booleans are taken apart before they are bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from holdfast.model.auditing import Note, Noted, NoteFilter, NoteKind
from holdfast.model.codec import dumps, failure_from, loads
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.errors import PayloadNotJson, RowDamaged
from holdfast.model.execution import Execution, ExecutionStatus, Quarantine, State, Terms
from holdfast.model.history import Event, EventType, carries_error
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation, Status, Type
from holdfast.model.payloads import PayloadCodec, decoded, encoded

P = ParamSpec("P")
T = TypeVar("T")
Row = tuple[Any, ...]

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "execution": (
        *("key", "id", "function", "version", "name", "input_hash"),
        *("timeout_seconds", "retention_days", "max_operations", "max_bytes"),
        *("parent", "parent_operation", "cascade", "tenant", "started_at", "deadline", "status", "state"),
        *("epoch", "revision", "sequence", "events", "pending", "runner", "invocation", "invoked_at", "seen", "ended_at", "result_event"),
        *("due_at", "ready_at", "touched_at", "failures", "deaths", "client", "client_revision"),
        *("operations", "stored", "continued_as", "expires_at", "trace"),
        *("superseded_by", "quarantine", "quarantine_event"),
    ),
    "operation": (
        *("execution", "id", "type", "status", "started_at", "sub_type", "name", "parent_id", "ended_at", "attempt", "due_at"),
        *("timeout_at", "heartbeat_ms", "replay_children", "place", "payload_event", "revision"),
    ),
    "event": ("execution", "number", "type", "at", "place", "payload", "detail"),
    "credential": ("id", "kind", "secret", "roles", "tenant", "note", "created_at", "expires_at"),
}
"""The columns of a row, in the order in which the functions below read and make it. The statements of both backends name them, so that code
can go on working with a table to which a later release has added a column."""

_LISTED: Final = re.compile(r"\{(?:(\w+)\.)?(" + "|".join(COLUMNS) + r")\}")

_STATUSES = {member.value: member for member in Status}
_TYPES = {member.value: member for member in Type}
_EVENTS = {member.value: member for member in EventType}


def with_columns(statement: str) -> str:
    """A statement in which `{execution}` stands for the names of an execution's columns, and `{x.execution}` for those of the table x."""

    def names(found: re.Match[str]) -> str:
        table = f"{found[1]}." if found[1] else ""
        return ", ".join(f"{table}{column}" for column in COLUMNS[found[2]])

    return _LISTED.sub(names, statement)


def _undamaged(read: Callable[P, T]) -> Callable[P, T]:
    """A row that nobody can have written is a damaged file, which is said in these words."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (KeyError, ValueError, TypeError, PayloadNotJson, msgspec.MsgspecError) as error:
            raise RowDamaged(f"A row of the store is damaged: {error!r}. Put a good copy of the store in its place.") from error

    return reading


def execution_row(key: int, x: Execution) -> Row:
    """An execution in the order of its columns."""
    return (
        key,
        x.id,
        x.function,
        x.version,
        x.name,
        x.input_hash,
        *terms_row(x.terms),
        x.parent,
        x.parent_operation,
        1 if x.cascade else 0,
        x.tenant,
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
        x.operations,
        x.stored,
        x.continued_as,
        x.expires_at,
        x.trace,
        x.superseded_by,
        None if x.quarantine is None else x.quarantine._value_,
        x.quarantine_event,
    )


def terms_row(terms: Terms) -> Row:
    """Terms in the order of both tables that have them."""
    return (terms.timeout_seconds, terms.retention_days, terms.max_operations, terms.max_bytes)


def touched_row(key: int, x: Execution) -> Row:
    """What an ordinary checkpoint changes of an execution."""
    return (key, x.revision, x.sequence, x.events, x.pending, x.touched_at, x.operations, x.stored)


@_undamaged
def execution_from(row: Row) -> Execution:
    """The execution of a row; column 0 is its key."""
    return Execution(
        id=row[1],
        function=row[2],
        version=row[3],
        name=row[4],
        input_hash=row[5],
        terms=Terms(*row[6:10]),
        parent=row[10],
        parent_operation=row[11],
        cascade=row[12] == 1,
        tenant=row[13],
        started_at=row[14],
        deadline=row[15],
        status=ExecutionStatus(row[16]),
        state=State(row[17]),
        epoch=row[18],
        revision=row[19],
        sequence=row[20],
        events=row[21],
        pending=row[22],
        runner=row[23],
        invocation=row[24],
        invoked_at=row[25],
        seen=row[26],
        ended_at=row[27],
        result_event=row[28],
        due_at=row[29],
        ready_at=row[30],
        touched_at=row[31],
        failures=row[32],
        deaths=row[33],
        client=row[34],
        client_revision=row[35],
        operations=row[36],
        stored=row[37],
        continued_as=row[38],
        expires_at=row[39],
        trace=row[40],
        superseded_by=row[41],
        quarantine=None if row[42] is None else Quarantine(row[42]),
        quarantine_event=row[43],
    )


def operation_row(key: int, op: Operation) -> Row:
    """An operation in the order of its columns; its payload is in its event."""
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


@_undamaged
def operation_from(row: Row, execution: str, seal: Seal, codec: PayloadCodec | None) -> Operation:
    """The operation of a row that was joined with its payload's event."""
    kind = _TYPES[row[2]]
    payload, event = row[17], row[18]
    if codec is not None:
        payload = payload_from(payload, execution, row[15], codec)
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
        error=failure_from(payload) if failed and payload is not None else None,
    )


def event_row(key: int, event: Event, place: int | None, execution: str, codec: PayloadCodec | None) -> Row:
    """An event in the order of its columns."""
    payload, detail = event.payload, event.detail
    if codec is not None and payload is not None:
        payload = encoded(codec, payload, execution, event.number)
    return (key, event.number, event.type._value_, event.at, place, payload, None if detail is None else dumps(detail))


@_undamaged
def event_from(row: Row, operations: Mapping[int, Operation], execution: str, codec: PayloadCodec | None) -> tuple[Event, Operation | None]:
    """The event of a row and the operation it tells of, found by its place."""
    number, kind, at, place, payload, detail = row
    operation = None if place is None else operations[place]
    known = None if detail is None else loads(detail)
    text = payload_from(payload, execution, number, codec)
    return Event(number, _EVENTS[kind], at, operation.id if operation else None, text, known), operation


def payload_from(payload: str | None, execution: str, number: int, codec: PayloadCodec | None) -> str | None:
    """The payload that a row of `events` holds: whoever selects it reads it with this."""
    return payload if codec is None or payload is None else decoded(codec, payload, execution, number)


def credential_row(credential: Credential) -> Row:
    """The row of a credential."""
    roles = " ".join(role.value for role in credential.roles)
    who = (credential.id, credential.kind.value, credential.secret, roles, credential.tenant, credential.note)
    return (*who, credential.created_at, credential.expires_at)


@_undamaged
def credential_from(row: Row) -> Credential:
    """A credential from its row."""
    id, kind, secret, roles, tenant, note, created_at, expires_at = row
    return Credential(
        id=id,
        kind=CredentialKind(kind),
        secret=secret,
        roles=tuple(Role(role) for role in roles.split()),
        tenant=tenant,
        note=note,
        created_at=created_at,
        expires_at=expires_at,
    )


def note_row(note: Note) -> Row:
    """A note in the order of its table, without its number."""
    told = (note.who, note.what, note.on, note.origin, note.outcome, note.tenant)
    return (note.at, note.kind.value, *told, note.times, note.expires_at)


@_undamaged
def noted_from(row: Row) -> Noted:
    """A note from its row."""
    number, at, kind, who, what, on, origin, outcome, tenant, times, expires_at = row
    told = {"who": who, "what": what, "on": on, "origin": origin, "outcome": outcome, "tenant": tenant}
    return Noted(number, Note(at=at, kind=NoteKind(kind), times=times, expires_at=expires_at, **told))


def note_question(wanted: NoteFilter) -> dict[str, object]:
    """What the statement `audit` is asked with."""
    asked = {"since": wanted.since, "who": wanted.who, "what": wanted.what, "outcome": wanted.outcome, "before": wanted.before}
    return {**asked, "kind": None if wanted.kind is None else wanted.kind.value, "limit": max(wanted.limit, 0)}
