"""Rows and values: the only module that knows the order of columns.

sqlite3 is fastest with plain `str` and `int`, so enums and booleans are converted to these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from holdfast.model import json_structs
from holdfast.model.audit import Note, Noted, NoteFilter, NoteKind
from holdfast.model.codec import failure_from, loads, payload_hash
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.errors import PayloadNotJson, RowDamaged
from holdfast.model.execution import Execution, ExecutionStatus, Place, Quarantine, State, Terms
from holdfast.model.history import Event, EventType, carries_error
from holdfast.model.operations import Operation, Status, Type
from holdfast.model.payloads import PayloadCodec, decoded, decoded_document, encoded, encoded_document
from holdfast.model.schedules import ScheduleState
from holdfast.model.seal import Seal
from holdfast.model.summary import Summary

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
        *("superseded_by", "quarantine", "quarantine_event", "graph"),
        *("queue", "lane", "order_at", "admitted_at", "holds_waiting", "units", "parks", "parked", "money"),
        *("outcome", "error_code", "pipeline", "cost", "attempt", "attempts"),
    ),
    "operation": (
        *("execution", "id", "type", "status", "started_at", "sub_type", "name", "parent_id", "ended_at", "attempt", "due_at"),
        *("timeout_at", "heartbeat_ms", "replay_children", "place", "payload_event", "revision"),
    ),
    "event": ("execution", "number", "type", "at", "place", "payload", "detail"),
    "credential": ("id", "kind", "secret", "roles", "tenant", "note", "created_at", "expires_at", "person"),
    "schedule": ("name", "tenant", "function", "next_at", "waits", "cursor", "revision", "body", "input"),
    "session": ("id", "credential", "csrf", "made_at", "seen_at", "expires_at"),
    "view": ("owner", "name", "query", "made_at"),
}
"""The columns of a row, in the order in which the functions below read and make it. The statements of both backends name their columns, so
this code still works with a table to which a later release has added a column."""

_LISTED: Final = re.compile(r"\{(?:(\w+)\.)?(" + "|".join(COLUMNS) + r")\}")

_STATUSES = {member.value: member for member in Status}
_TYPES = {member.value: member for member in Type}
_EVENTS = {member.value: member for member in EventType}


def with_columns(statement: str) -> str:
    """The statement, in which `{execution}` is replaced by the names of an execution's columns, and `{x.execution}` by the same names with
    the table alias x. The other keys of COLUMNS work in the same way."""

    def names(found: re.Match[str]) -> str:
        table = f"{found[1]}." if found[1] else ""
        return ", ".join(f"{table}{column}" for column in COLUMNS[found[2]])

    return _LISTED.sub(names, statement)


def _undamaged(read: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that reads a row: the function then raises RowDamaged if the row has a value that this code cannot read."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (KeyError, ValueError, TypeError, PayloadNotJson, msgspec.MsgspecError) as error:
            raise RowDamaged(f"A row of the store is damaged: {error!r}. Put a good copy of the store in its place.") from error

    return reading


def execution_row(key: int, x: Execution) -> Row:
    """The row of an execution, in the order of its columns."""
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
        *_course_row(x),
        x.trace,
        x.superseded_by,
        None if x.quarantine is None else x.quarantine._value_,
        x.quarantine_event,
        x.graph,
        *(_NO_PLACE if x.place is None else _place_row(x.place)),
        1 if x.parked else 0,
        None if x.place is None else x.place.money,
        *(_NO_SUMMARY if x.summary is None else msgspec.structs.astuple(x.summary)),
    )


def changed_row(key: int, x: Execution) -> Row:
    """The key of an execution, and the columns that a write may change after its start."""
    quarantine = None if x.quarantine is None else x.quarantine._value_
    admitted_at = None if x.place is None else x.place.admitted_at
    told = x.summary or Summary()
    ended = (told.outcome, told.error_code, told.cost, told.attempt, told.attempts)
    return (key, *_course_row(x), x.superseded_by, quarantine, x.quarantine_event, admitted_at, 1 if x.parked else 0, *ended)


def _course_row(x: Execution) -> Row:
    """The columns from the deadline to the end of the retention, in their order."""
    return (
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
    )


_NO_PLACE: Final = (None, None, None, None, None, None, None)
_NO_SUMMARY: Final = (None, None, None, None, None, None)
"""In place of a summary, whose members stand in the order of its columns."""


def _place_row(place: Place) -> Row:
    who = (place.queue, place.lane, place.order_at, place.admitted_at)
    return (*who, 1 if place.holds_waiting else 0, place.units, 1 if place.parks else 0)


def _summary_from(row: Row) -> Summary | None:
    if row == _NO_SUMMARY:
        return None
    outcome, error_code, pipeline, cost, attempt, attempts = row
    return Summary(outcome=outcome, error_code=error_code, pipeline=pipeline, cost=cost, attempt=attempt, attempts=attempts)


def terms_row(terms: Terms) -> Row:
    """The columns of terms, in the order of the two tables that have them."""
    return (terms.timeout_seconds, terms.retention_days, terms.max_operations, terms.max_bytes)


def touched_row(x: Execution) -> Row:
    """Those columns of an execution that an ordinary checkpoint changes, without `due_at`."""
    return (x.revision, x.sequence, x.events, x.pending, x.touched_at, x.operations, x.stored)


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
        graph=row[44],
        place=None if row[46] is None else Place(row[45], row[46], row[47], row[48], row[49] == 1, row[50], row[51] == 1, row[53] or 0),
        parked=row[52] == 1,
        summary=_summary_from(row[54:60]),
    )


def operation_row(key: int, op: Operation) -> Row:
    """The row of an operation, in the order of its columns; its payload is in its event."""
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
    """The operation of a row that was joined with the event that has its payload. `execution` is the id of its execution, and `seal` makes
    the id of a callback."""
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


def event_row(key: int, event: Event, detail: str | None, place: int | None, execution: str, codec: PayloadCodec | None) -> Row:
    """The row of an event, in the order of its columns. `detail` is the JSON text of its detail. `place` is that of its operation
    (`Operation.place`)."""
    payload = event.payload
    if codec is not None and payload is not None:
        payload = encoded(codec, payload, execution, event.number)
    return (key, event.number, event.type._value_, event.at, place, payload, detail)


@_undamaged
def event_from(row: Row, operations: Mapping[int, Operation], execution: str, codec: PayloadCodec | None) -> tuple[Event, Operation | None]:
    """The event of a row, and the operation that the event is about, found by its place; None if it is about the execution itself."""
    number, kind, at, place, payload, detail = row
    operation = None if place is None else operations[place]
    known = None if detail is None else loads(detail)
    text = payload_from(payload, execution, number, codec)
    return Event(number, _EVENTS[kind], at, operation.id if operation else None, text, known), operation


def payload_from(payload: str | None, execution: str, number: int, codec: PayloadCodec | None) -> str | None:
    """The plain payload of a row of `events`: it is decoded if the store has a codec; None stays None. Every reader of that column must use
    this function."""
    return payload if codec is None or payload is None else decoded(codec, payload, execution, number)


@_undamaged
def graph_from(stored: str, graph: str, codec: PayloadCodec | None) -> str:
    """The text of the graph with the id `graph`. Raises RowDamaged if the stored text does not belong to this id: executions would run a
    wrong graph."""
    text = stored if codec is None else decoded_document(codec, stored, "graph", graph)
    if payload_hash(text) != graph:
        raise RowDamaged(f"The text of graph {graph} is damaged. Put a good copy of the store in its place.")
    return text


def credential_row(credential: Credential) -> Row:
    """The row of a credential."""
    roles = " ".join(role.value for role in credential.roles)
    who = (credential.id, credential.kind.value, credential.secret, roles, credential.tenant, credential.note)
    return (*who, credential.created_at, credential.expires_at, credential.person)


@_undamaged
def credential_from(row: Row) -> Credential:
    """A credential from its row."""
    id, kind, secret, roles, tenant, note, created_at, expires_at, person = row
    return Credential(
        id=id,
        kind=CredentialKind(kind),
        secret=secret,
        roles=tuple(Role(role) for role in roles.split()),
        tenant=tenant,
        note=note,
        created_at=created_at,
        expires_at=expires_at,
        person=person,
    )


def schedule_row(state: ScheduleState, codec: PayloadCodec | None) -> Row:
    """The row of a schedule, in the order of its columns."""
    return (*moved_row(state, codec), _schedule_text(state.input, f"{state.name}/input", codec))


def moved_row(state: ScheduleState, codec: PayloadCodec | None) -> Row:
    """The row of a schedule without its input. No runner changes the input: only a person or a declaration does."""
    body = msgspec.json.encode(msgspec.structs.replace(state, input="")).decode()
    who = (state.name, state.definition.tenant, state.definition.function)
    when = (state.next_at, 1 if state.waits else 0, state.cursor, state.revision)
    return (*who, *when, _schedule_text(body, state.name, codec))


def guard(state: ScheduleState) -> Row:
    """The values that a write of a schedule compares with the stored row. The stored row must have the revision before this state's
    revision, and a cursor that is not later than this state's cursor. Otherwise the statement changes no row."""
    return state.name, state.revision - 1, state.cursor


def _schedule_text(text: str, about: str, codec: PayloadCodec | None) -> str:
    return text if codec is None else encoded_document(codec, text, "schedule", about)


@_undamaged
def schedule_from(row: Row, codec: PayloadCodec | None) -> ScheduleState:
    """A schedule from its row. Its name, next time, cursor, revision and input are those of the columns; the rest comes from the body."""
    name, _, _, next_at, _, cursor, revision, body, text = row
    if codec is not None:
        body = decoded_document(codec, body, "schedule", name)
        text = decoded_document(codec, text, "schedule", f"{name}/input")
    state = json_structs.decoded(body, ScheduleState)
    return msgspec.structs.replace(state, name=name, next_at=next_at, cursor=cursor, revision=revision, input=text)


def note_row(note: Note) -> Row:
    """The row of a note in the order of its table, without its number."""
    told = (note.who, note.what, note.on, note.origin, note.outcome, note.tenant)
    return (note.at, note.kind.value, *told, note.times, note.expires_at)


@_undamaged
def noted_from(row: Row) -> Noted:
    """A note from its row."""
    number, at, kind, who, what, on, origin, outcome, tenant, times, expires_at = row
    told = {"who": who, "what": what, "on": on, "origin": origin, "outcome": outcome, "tenant": tenant}
    return Noted(number, Note(at=at, kind=NoteKind(kind), times=times, expires_at=expires_at, **told))


def note_question(wanted: NoteFilter) -> dict[str, object]:
    """The parameters of the statement `audit`."""
    asked = {"since": wanted.since, "who": wanted.who, "what": wanted.what, "outcome": wanted.outcome, "before": wanted.before}
    return {**asked, "kind": None if wanted.kind is None else wanted.kind.value, "limit": max(wanted.limit, 0)}
