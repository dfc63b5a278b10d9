"""History: the numbered events of an execution, and their wire form.

An event has only what its operation does not have: type, time, payload and details. The name, the sub-type and the parent of an operation
never change, so they are taken from the operation when an event is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.model.operations import Action, Operation, Status, Type, Word


class EventType(Word):
    """The types of events in a history."""

    EXECUTION_STARTED = "ExecutionStarted"
    EXECUTION_SUCCEEDED = "ExecutionSucceeded"
    EXECUTION_FAILED = "ExecutionFailed"
    EXECUTION_TIMED_OUT = "ExecutionTimedOut"
    EXECUTION_STOPPED = "ExecutionStopped"
    CONTEXT_STARTED = "ContextStarted"
    CONTEXT_SUCCEEDED = "ContextSucceeded"
    CONTEXT_FAILED = "ContextFailed"
    WAIT_STARTED = "WaitStarted"
    WAIT_SUCCEEDED = "WaitSucceeded"
    WAIT_CANCELLED = "WaitCancelled"
    STEP_STARTED = "StepStarted"
    STEP_SUCCEEDED = "StepSucceeded"
    STEP_FAILED = "StepFailed"
    CHAINED_INVOKE_STARTED = "ChainedInvokeStarted"
    CHAINED_INVOKE_SUCCEEDED = "ChainedInvokeSucceeded"
    CHAINED_INVOKE_FAILED = "ChainedInvokeFailed"
    CHAINED_INVOKE_TIMED_OUT = "ChainedInvokeTimedOut"
    CHAINED_INVOKE_STOPPED = "ChainedInvokeStopped"
    CALLBACK_STARTED = "CallbackStarted"
    CALLBACK_SUCCEEDED = "CallbackSucceeded"
    CALLBACK_FAILED = "CallbackFailed"
    CALLBACK_TIMED_OUT = "CallbackTimedOut"
    INVOCATION_COMPLETED = "InvocationCompleted"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One line of a history."""

    number: int
    """Its number in the history, from 1 on."""
    type: EventType
    at: int
    """When it happened, in milliseconds since 1970-01-01 UTC."""
    operation_id: str | None = None
    """The operation that it belongs to; None for an event of the execution or of an invocation."""
    payload: str | None = None
    """The text of an input or a result, or the JSON of an error; None if the event has no payload. The function `carries_error` says for
    which types of events it is an error."""
    detail: dict[str, Any] | None = None
    """Further members of the event, by name; None if it has none. The names are those that AWS uses, or the constants below."""


E = EventType
KIND: Final = "Kind"
"""The detail of ExecutionStarted with the kind of a worker's or a pipeline's run. AWS has no such detail, so it is never on the wire."""
PLACE: Final = "Place"
"""The detail of InvocationCompleted with the line of the author's code that failed. AWS has no such detail; it is never on the wire."""
FRAMES: Final = "Frames"
"""The detail of a failed operation with the lines of the author's code that the error passed through, the innermost last. AWS has no such
detail; it is never on the wire."""
SCHEDULE: Final = "Schedule"
"""The detail of ExecutionStarted that names the occurrence which started the execution. AWS has no such detail; it is never on the wire."""
RESTART: Final = "Restart"
"""The detail of ExecutionStarted that names the execution which this one restarts. AWS has no such detail; it is never on the wire."""
_OUR_OWN: Final = frozenset({KIND, PLACE, FRAMES, SCHEDULE, RESTART})

BY_ACTION: Final[Mapping[tuple[Type, Action], EventType]] = {
    (Type.CONTEXT, Action.START): E.CONTEXT_STARTED,
    (Type.CONTEXT, Action.SUCCEED): E.CONTEXT_SUCCEEDED,
    (Type.CONTEXT, Action.FAIL): E.CONTEXT_FAILED,
    (Type.STEP, Action.START): E.STEP_STARTED,
    (Type.STEP, Action.SUCCEED): E.STEP_SUCCEEDED,
    (Type.STEP, Action.FAIL): E.STEP_FAILED,
    (Type.WAIT, Action.START): E.WAIT_STARTED,
    (Type.WAIT, Action.CANCEL): E.WAIT_CANCELLED,
    (Type.CALLBACK, Action.START): E.CALLBACK_STARTED,
    (Type.CHAINED_INVOKE, Action.START): E.CHAINED_INVOKE_STARTED,
}

BY_OUTCOME: Final[Mapping[tuple[Type, Status], EventType]] = {
    (Type.EXECUTION, Status.SUCCEEDED): E.EXECUTION_SUCCEEDED,
    (Type.EXECUTION, Status.FAILED): E.EXECUTION_FAILED,
    (Type.EXECUTION, Status.TIMED_OUT): E.EXECUTION_TIMED_OUT,
    (Type.EXECUTION, Status.STOPPED): E.EXECUTION_STOPPED,
    (Type.WAIT, Status.SUCCEEDED): E.WAIT_SUCCEEDED,
    (Type.CALLBACK, Status.SUCCEEDED): E.CALLBACK_SUCCEEDED,
    (Type.CALLBACK, Status.FAILED): E.CALLBACK_FAILED,
    (Type.CALLBACK, Status.TIMED_OUT): E.CALLBACK_TIMED_OUT,
    (Type.CHAINED_INVOKE, Status.SUCCEEDED): E.CHAINED_INVOKE_SUCCEEDED,
    (Type.CHAINED_INVOKE, Status.FAILED): E.CHAINED_INVOKE_FAILED,
    (Type.CHAINED_INVOKE, Status.TIMED_OUT): E.CHAINED_INVOKE_TIMED_OUT,
    (Type.CHAINED_INVOKE, Status.STOPPED): E.CHAINED_INVOKE_STOPPED,
}

_ERROR: Final = frozenset(
    {
        E.EXECUTION_FAILED,
        E.EXECUTION_TIMED_OUT,
        E.EXECUTION_STOPPED,
        E.CONTEXT_FAILED,
        E.STEP_FAILED,
        E.WAIT_CANCELLED,
        E.CHAINED_INVOKE_FAILED,
        E.CHAINED_INVOKE_TIMED_OUT,
        E.CHAINED_INVOKE_STOPPED,
        E.CALLBACK_FAILED,
        E.CALLBACK_TIMED_OUT,
        E.INVOCATION_COMPLETED,
    }
)
_MAY_LACK_ERROR: Final = frozenset({E.WAIT_CANCELLED, E.INVOCATION_COMPLETED})
_RESULT: Final = frozenset(
    {
        E.EXECUTION_SUCCEEDED,
        E.CONTEXT_SUCCEEDED,
        E.STEP_SUCCEEDED,
        E.CHAINED_INVOKE_SUCCEEDED,
        E.CALLBACK_SUCCEEDED,
    }
)
_INPUT: Final = frozenset({E.EXECUTION_STARTED, E.CHAINED_INVOKE_STARTED})
TERMINAL: Final = frozenset({E.EXECUTION_SUCCEEDED, E.EXECUTION_FAILED, E.EXECUTION_TIMED_OUT, E.EXECUTION_STOPPED})
_OF_EXECUTION: Final = TERMINAL | {E.EXECUTION_STARTED}


def carries_error(event: EventType) -> bool:
    """Whether the payload of an event of this type, if it has one, is the JSON of an error."""
    return event in _ERROR


def event_to_wire(event: Event, execution: tuple[str, str], operation: Operation | None, *, include_data: bool) -> dict[str, Any]:
    """One event as the history API sends it. `execution` is the execution's id and name, `operation` the operation that the event belongs
    to (None if it belongs to none). Times are in seconds since 1970-01-01 UTC, and members without a value are left out. Without
    `include_data`, payloads are left out and marked as truncated."""
    wire: dict[str, Any] = {"EventType": event.type.value, "EventId": event.number, "EventTimestamp": event.at / 1000}
    if event.type in _OF_EXECUTION:
        wire["Id"], wire["Name"] = execution
    elif operation is not None:
        wire["Id"] = operation.id
        named = {"Name": operation.name, "SubType": operation.sub_type, "ParentId": operation.parent_id}
        wire.update({key: value for key, value in named.items() if value})
    details: dict[str, Any] = {key: value for key, value in (event.detail or {}).items() if key not in _OUR_OWN}
    member = _payload_member(event)
    if member is not None:
        details[member] = _wrapped(event, include_data=include_data)
    wire[f"{event.type.value}Details"] = details
    return wire


def _payload_member(event: Event) -> str | None:
    if event.type in _RESULT:
        return "Result"
    if event.type in _INPUT:
        return "Input"
    if event.type in _ERROR and not (event.type in _MAY_LACK_ERROR and event.payload is None):
        return "Error"
    return None


def _wrapped(event: Event, *, include_data: bool) -> dict[str, Any]:
    if not include_data:
        return {"Truncated": True}
    if event.payload is None:
        return {"Truncated": False}
    payload: object = codec.loads(event.payload) if event.type in _ERROR else event.payload
    return {"Payload": payload, "Truncated": False}
