"""Imports: reads an exported document. The document is untrusted input, so all of it is checked before a snapshot is made.

The order: decode it (members and types); check it (numbers, references, order of events); make a snapshot of the execution, either as it
was, or as a copy for a store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.exports.exporting import (
    FORMAT,
    OF_ITS_STORE,
    ExportedEvent,
    ExportedExecution,
    ExportedHeader,
    ExportedOperation,
    remade,
)
from holdfast.model import codec, json_structs
from holdfast.model.draft import is_pending
from holdfast.model.errors import ExportInvalid, InvalidParameter, PayloadTooLarge
from holdfast.model.execution import DAY_SECONDS, Execution, ExecutionStatus, GraphText, State, checked_graph, checked_graph_id
from holdfast.model.history import BY_ACTION, BY_OUTCOME, TERMINAL, Event, EventType, carries_error
from holdfast.model.ids import checked_function, checked_name, checked_version
from holdfast.model.operations import OPEN, Failure, Operation, Status, Type
from holdfast.model.summary import Summary, error_word
from holdfast.model.transitions import MAX_ID, MAX_NAME, MOVES, TIMERS
from holdfast.store.seam import Snapshot

ExportSource = Mapping[str, Any] | str | os.PathLike[str]
"""An exported document as a mapping, or the path of a JSON file that has one. A `str` is a path, never the text of a document."""

MAX_BYTES: Final = 1 << 30
_MOST: Final = 2**53
_LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last year that Python's calendar has."""
_TIMES: Final = {"started_at", "ended_at", "deadline", "due_at", "ready_at", "touched_at", "invoked_at", "expires_at", "timeout_at", "at"}
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STATUSES: Final = (
    {(kind, after) for (kind, _), moves in MOVES.items() for after in moves.values()}
    | {(kind, after) for (kind, _), after in TIMERS.items()}
    | set(BY_OUTCOME)
)
_OF_TYPE: Final = {(event, kind) for (kind, _), event in (*BY_ACTION.items(), *BY_OUTCOME.items())}


_NEEDED: Final[Mapping[EventType, set[str]]] = {
    EventType.INVOCATION_COMPLETED: {"StartTimestamp", "EndTimestamp"},
    EventType.CALLBACK_STARTED: {"CallbackId"},
}
_failure: Final = json_structs.decoder(Failure)


class _Format(msgspec.Struct):
    format: str


Seconds = Annotated[float, msgspec.Meta(ge=0, le=_LATEST / 1000)]


class _Retry(msgspec.Struct):
    CurrentAttempt: int
    NextAttemptDelaySeconds: int = 0


class _Detail(msgspec.Struct):
    """Those details of an event that are checked for their types. An event may have others."""

    RetryDetails: _Retry | msgspec.UnsetType = msgspec.UNSET
    StartTimestamp: Seconds = 0
    EndTimestamp: Seconds = 0
    RequestId: str = ""
    Duration: int = 0
    ScheduledEndTimestamp: Seconds = 0
    CallbackId: str = ""
    Timeout: int = 0
    HeartbeatTimeout: int = 0
    FunctionName: str = ""
    TenantId: str = ""
    ExecutedVersion: str = ""
    DurableExecutionArn: str = ""
    ExecutionTimeout: int = 0
    Place: str = ""


class ImportedExecution(msgspec.Struct, frozen=True):
    """What an import has done: the copy in the store, and whether this import wrote it."""

    header: Execution
    created: bool
    """False if the store had the copy before."""


class Imported(msgspec.Struct, frozen=True):
    """A document that passed all checks."""

    snapshot: Snapshot
    """The execution as it was when it was exported."""
    data: bool
    """Whether the document contains payloads."""


def read(source: ExportSource) -> Imported:
    """Read a document. Raises ExportInvalid, which says what is wrong, if it cannot be read, is damaged, or is not an export of an
    execution."""
    document = _decoded(source)
    header, events = document.execution, document.events
    try:
        _check_header(header, document.arn)
        _check_graph(document)
        _check_numbers("execution", header)
        _check_numbers("execution.terms", header.terms)
        for member, structs in (("operations", document.operations), ("events", events)):
            for place, struct in enumerate(structs):
                _check_numbers(f"{member}[{place}]", struct)
        _check_events(header, events, {op.id: op for op in document.operations})
        _check_ending(header, events)
        _check_payloads(events, data=document.data)
        _check_operations(header, document.operations, events)
    except ExportInvalid as wrong:
        raise ExportInvalid(f"{_called(source)}: {wrong}") from None
    numbered = {event.number: event for event in events}
    operations = tuple(_whole(op, numbered[op.place], numbered.get(op.payload_event or 0)) for op in document.operations)
    snapshot = Snapshot(remade(Execution, header), operations, tuple(remade(Event, event) for event in events), document.graph)
    return Imported(snapshot, document.data)


def copied(snapshot: Snapshot, now: int) -> Snapshot:
    """The copy that a store keeps. A closed execution stays closed; any other gets the state IMPORTED, so that no runner runs it. The copy
    is kept for the retention days of the execution's terms, counted from `now`."""
    header = snapshot.header
    still: dict[str, Any] = {**OF_ITS_STORE, "invocation": None, "due_at": None}
    if header.state is not State.CLOSED:
        still["state"] = State.IMPORTED
    expires_at = now + header.terms.retention_days * DAY_SECONDS * 1000
    return msgspec.structs.replace(snapshot, header=msgspec.structs.replace(header, expires_at=expires_at, **still))


def _whole(recorded: ExportedOperation, began: Event, told: Event | None) -> Operation:
    """The operation, completed with data from its events: the id of its callback, and its result or its error. `told` is the event with the
    payload; None if there is none."""
    callback_id = (began.detail or {}).get("CallbackId") if recorded.type is Type.CALLBACK else None
    payload = None if told is None else told.payload
    error = codec.failure_from(payload) if payload is not None and told is not None and carries_error(told.type) else None
    return remade(Operation, recorded, callback_id=callback_id, result=None if error else payload, error=error)


# --- shape and types


def _called(source: ExportSource) -> str:
    return "The document" if isinstance(source, Mapping) else os.fspath(source)


def _decoded(source: ExportSource) -> ExportedExecution:
    called = _called(source)
    try:
        text = msgspec.json.encode(source) if isinstance(source, Mapping) else _text(Path(source))
        _check_format(json_structs.decoded(text, _Format).format)
        return json_structs.decoded(text, ExportedExecution)
    except msgspec.ValidationError as error:
        raise ExportInvalid(f"{called}: {error}") from None
    except (msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise ExportInvalid(f"{called} is not JSON, or was cut off: {error}") from None
    except RecursionError:
        raise ExportInvalid(f"{called} is nested too deeply.") from None
    except ExportInvalid as wrong:
        raise ExportInvalid(f"{called}: {wrong}") from None


def _text(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ExportInvalid(f"the file has more than {MAX_BYTES:,} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise ExportInvalid(f"could not be read: {error.strerror}.") from None
    except ValueError:  # a NUL character, or a lone surrogate
        raise ExportInvalid("could not be read: this is not the name of a file.") from None


def _check_format(found: str) -> None:
    if found != FORMAT:
        raise ExportInvalid(f"`format` is {found[:40]!r}; this Holdfast reads {FORMAT!r}.")


# --- checks beyond types


def _wrong(member: str, what: str) -> NoReturn:
    raise ExportInvalid(f"`{member}`: {what}.")


def _check_numbers(member: str, struct: msgspec.Struct) -> None:
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, int) and not 0 <= value <= (_LATEST if name in _TIMES else _MOST):
            _wrong(f"{member}.{name}", "out of range (it must be from 0 to 2**53; a time must be before the year 10000)")


def _check_header(header: ExportedHeader, arn: str) -> None:
    if not _ID.fullmatch(header.id):
        _wrong("execution.id", "not the id of an execution")
    # A successor has a larger id, because ids grow with time. So no file can make `continued_as` or `superseded_by` lead in a circle.
    if header.continued_as is not None and not (_ID.fullmatch(header.continued_as) and header.continued_as > header.id):
        _wrong("execution.continued_as", "not the id of a later execution")
    if header.superseded_by is not None and not (_ID.fullmatch(header.superseded_by) and header.superseded_by > header.id):
        _wrong("execution.superseded_by", "not the id of a later execution")
    if header.quarantine_event is not None and header.quarantine_event > header.events:
        _wrong("execution.quarantine_event", "there is no such event")
    checks: tuple[tuple[str, Callable[[], object]], ...] = (
        ("execution.function", lambda: checked_function(header.function)),
        ("execution.version", lambda: checked_version(header.version)),
        ("execution.name", lambda: checked_name(header.name)),
        ("execution.terms", header.terms.checked),
    )
    for member, check in checks:
        try:
            check()
        except InvalidParameter as wrong:
            _wrong(member, str(wrong).rstrip("."))
    if arn != arn_of(header):
        _wrong("arn", "names another execution")
    if header.summary is not None:
        _check_summary(header.summary)


def _check_summary(told: Summary) -> None:
    _check_numbers("execution.summary", told)
    for name, text in (("outcome", told.outcome), ("error_code", told.error_code), ("pipeline", told.pipeline)):
        if text is not None and text != error_word(text):
            _wrong(f"execution.summary.{name}", "empty, too long, or not printable")


def _check_graph(document: ExportedExecution) -> None:
    """Check that the text of the graph fits the hash by which the execution names its graph. A document may have no text: exports without
    payloads, and exports of earlier releases, have none."""
    named, text = document.execution.graph, document.graph
    if text is not None and (named is None or not document.data):
        _wrong("graph", "`data` says that there is none" if named else "the execution names none")
    try:
        if named is not None:
            checked_graph_id(named)
            if text is not None:
                checked_graph(GraphText(named, text))
    except (InvalidParameter, PayloadTooLarge) as wrong:
        _wrong("graph", str(wrong).rstrip("."))


def _check_events(header: ExportedHeader, events: Sequence[ExportedEvent], operations: Mapping[str, Operation]) -> None:
    """Check the numbers of the events, that their times never decrease, and that each event fits the operation that it names. The numbers
    are 1, 2, 3 and so on; only the last event of an execution that was in the state CLOSING leaves one number out."""
    hidden = header.state is State.CLOSING or (header.state is State.IMPORTED and header.status is not ExecutionStatus.RUNNING)
    count = len(events) - hidden  # the number in the document is not trusted
    numbers = [*range(1, count + 1), *([count + 2] if hidden else [])]
    if count < 1 or header.events != count or [event.number for event in events] != numbers:
        _wrong("events", f"they must be numbered from 1 to execution.events, {header.events}")
    latest = 0
    for event in events:
        at = f"events[{event.number - 1 if event.number <= header.events else header.events}]"
        if event.at < latest:
            _wrong(f"{at}.at", "earlier than the event before it")
        latest = event.at
        if (event.type is EventType.EXECUTION_STARTED) is not (event.number == 1):
            _wrong(f"{at}.type", "the first event must be ExecutionStarted, and no later event may be one")
        if event.operation_id is None:
            if any(event.type is known for known, kind in _OF_TYPE if kind is not Type.EXECUTION):
                _wrong(f"{at}.operation_id", f"missing: {event.type} tells of an operation")
        elif event.operation_id not in operations:
            _wrong(f"{at}.operation_id", "no such operation")
        elif (event.type, operations[event.operation_id].type) not in _OF_TYPE:
            _wrong(f"{at}.type", f"{event.type} cannot happen to a {operations[event.operation_id].type}")


def _check_payloads(events: Sequence[ExportedEvent], *, data: bool) -> None:
    for place, event in enumerate(events):
        if event.payload is not None:
            if not data:
                _wrong(f"events[{place}].payload", "`data` says that there is none")
            if carries_error(event.type):
                _check_fits(f"events[{place}].payload", _failure.decode, event.payload)
        known = (event.detail or {}).keys()
        if missing := _NEEDED.get(event.type, set()) - known:
            _wrong(f"events[{place}].detail", f"lacks {', '.join(sorted(missing))}")
        if foreign := known & {"Input", "Result", "Error"}:
            _wrong(f"events[{place}].detail", f"{', '.join(sorted(foreign))} not allowed there")
        _check_fits(f"events[{place}].detail", _detail, event.detail or {})


def _detail(detail: Mapping[str, Any]) -> _Detail:
    return json_structs.converted(detail, _Detail)


def _check_fits(member: str, convert: Callable[[Any], object], value: object) -> None:
    try:
        convert(value)
    except (msgspec.DecodeError, RecursionError) as error:
        _wrong(member, str(error).rstrip("."))


def _check_operations(header: ExportedHeader, operations: Sequence[ExportedOperation], events: Sequence[ExportedEvent]) -> None:
    """Check the operations and the header's counts of them. For example, an id must be unique, a place must be the number of the
    operation's first event, the places must grow, and a parent must be a context before the operation in the list."""
    if header.operations != len(operations):
        _wrong("execution.operations", f"{header.operations}, but there are {len(operations)} operations")
    pending = sum(map(is_pending, operations)) if header.status is ExecutionStatus.RUNNING else 0
    if header.pending != pending:
        _wrong("execution.pending", f"{header.pending}, but {pending} operations are pending")
    before: dict[str, Type] = {}
    told = {event.number: event.operation_id for event in events}
    began: dict[str | None, int] = {}
    for number, operation_id in told.items():
        began.setdefault(operation_id, number)
    last = 0
    for place, op in enumerate(operations):
        at = f"operations[{place}]"
        if not 1 <= len(op.id) <= MAX_ID or op.id in before:
            _wrong(f"{at}.id", f"must be unique in the document, with 1 to {MAX_ID} characters")
        if len(op.name or "") > MAX_NAME or len(op.sub_type or "") > MAX_NAME:
            _wrong(f"{at}.name", f"longer than {MAX_NAME} characters")
        if op.type is Type.EXECUTION or (op.type, op.status) not in _STATUSES:
            _wrong(f"{at}.status", f"a {op.type} cannot be {op.status}")
        if (op.ended_at is None) is not (op.status in OPEN):
            _wrong(f"{at}.ended_at", f"does not fit the status {op.status}")
        if op.place != began.get(op.id) or op.place <= last:
            _wrong(f"{at}.place", "must be the number of its first event, and greater than the place before it")
        if op.parent_id is not None and before.get(op.parent_id) is not Type.CONTEXT:
            _wrong(f"{at}.parent_id", "no context before it in the list has this id")
        if op.payload_event is not None and told.get(op.payload_event) != op.id:
            _wrong(f"{at}.payload_event", "not an event of this operation")
        if not 1 <= op.revision <= header.revision:
            _wrong(f"{at}.revision", "must be from 1 to the execution's revision")
        before[op.id] = op.type
        last = op.place


def _check_ending(header: ExportedHeader, events: Sequence[ExportedEvent]) -> None:
    """Check that an execution that has ended has one terminal event, its last event, and that any other execution has none. Also check that
    the header's members about the end fit."""
    is_open = header.status is ExecutionStatus.RUNNING
    if is_open and header.state in (State.CLOSING, State.CLOSED):
        _wrong("execution.state", f"{header.state} while the status is RUNNING")
    if not is_open and header.state not in (State.CLOSING, State.CLOSED, State.IMPORTED):
        _wrong("execution.state", f"{header.state} while the status is {header.status}")
    terminal = [event.number for event in events if event.type in TERMINAL]
    if terminal != ([] if is_open else [events[-1].number]):
        _wrong("events", "an execution that has ended must end with its only terminal event, and any other execution must have none")
    if not is_open and events[-1].type is not BY_OUTCOME[Type.EXECUTION, Status(header.status.value)]:
        _wrong("execution.status", f"{header.status}, but the last event is {events[-1].type}")
    if header.result_event != (None if is_open else events[-1].number):
        _wrong("execution.result_event", "must be the number of the terminal event")
    if (header.ended_at is None) is not is_open:
        _wrong("execution.ended_at", f"does not fit the status {header.status}")
