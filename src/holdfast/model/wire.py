"""The wire: operations, updates, invocations and their outputs in the JSON form that AWS's SDKs and clients read and write.

An operation has two forms: in an invocation's event its times are integer milliseconds, and in the API's answers they are seconds. This
module checks the members and types of what it reads; transitions.py checks what an update may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, assert_never

import msgspec
from msgspec import Meta, Struct

from holdfast.model import json_structs
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Action, Failure, Operation, Status, Type, Update

Wire = dict[str, Any]
Times = Callable[[int], int | float]
"""Converts a time from milliseconds to the unit in which it is sent: `milliseconds` or `seconds`."""

MALFORMED: Final = "InvalidParameterValueException"
"""The error type of an execution whose handler returned an output of a wrong form."""


def milliseconds(at: int) -> int:
    """A time as the event of an invocation has it: in milliseconds."""
    return at


def seconds(at: int) -> float:
    """A time as the answers of the API have it: in seconds."""
    return at / 1000


# --- what goes out


def execution_to_wire(header: Execution, payload: str | None, times: Times) -> Wire:
    """The EXECUTION operation, which comes before all others. Its id is the last segment of the ARN. `payload` is the execution's input;
    None leaves it out. `times` converts its times to milliseconds or seconds."""
    wire: Wire = {
        "Id": header.id,
        "Type": Type.EXECUTION.value,
        "Name": header.name,
        "Status": Status.STARTED.value,
        "StartTimestamp": times(header.started_at),
        "ExecutionDetails": {} if payload is None else {"InputPayload": payload},
    }
    if header.ended_at is not None:
        wire["Status"] = header.status.value
        wire["EndTimestamp"] = times(header.ended_at)
    return wire


def operation_to_wire(operation: Operation, times: Times) -> Wire:
    """An operation as it is sent. Members without a value are left out. The member with the details of the operation's type (`StepDetails`,
    for example) is there even if it is empty. `times` converts its times to milliseconds or seconds."""
    wire: Wire = {
        "Id": operation.id,
        "Type": operation.type.value,
        "Status": operation.status.value,
        "StartTimestamp": times(operation.started_at),
    }
    if operation.ended_at is not None:
        wire["EndTimestamp"] = times(operation.ended_at)
    for key, value in (("ParentId", operation.parent_id), ("Name", operation.name), ("SubType", operation.sub_type)):
        if value:
            wire[key] = value
    key, details = _details(operation, times)
    if operation.result is not None:
        details["Result"] = operation.result
    if operation.error is not None:
        details["Error"] = failure_to_wire(operation.error)
    wire[key] = details
    return wire


def _details(operation: Operation, times: Times) -> tuple[str, Wire]:
    due_at = operation.due_at
    if operation.type is Type.STEP:
        details: Wire = {"Attempt": operation.attempt}
        if operation.status is Status.PENDING and due_at is not None:
            details["NextAttemptTimestamp"] = times(due_at)
        return "StepDetails", details
    if operation.type is Type.WAIT:
        return "WaitDetails", {} if due_at is None else {"ScheduledEndTimestamp": times(due_at)}
    if operation.type is Type.CALLBACK:
        return "CallbackDetails", {"CallbackId": operation.callback_id}
    if operation.type is Type.CONTEXT:
        return "ContextDetails", {"ReplayChildren": True} if operation.replay_children else {}
    if operation.type is Type.CHAINED_INVOKE:
        return "ChainedInvokeDetails", {}
    if operation.type is Type.EXECUTION:
        return "ExecutionDetails", {}
    assert_never(operation.type)


def failure_to_wire(failure: Failure) -> Wire:
    """An error as AWS's ErrorObject."""
    wire: Wire = msgspec.to_builtins(failure)
    if failure.stack_trace is not None:
        wire["StackTrace"] = list(failure.stack_trace)
    return wire


def invocation_to_wire(arn: str, token: str, operations: Iterable[Wire], marker: str = "", updated: Iterable[str] = ()) -> Wire:
    """The event that a handler is invoked with.

    `marker` is the marker of the next page of operations; empty if there is none. `updated` has the ids of the operations that the service
    changed since the invocation before this one.
    """
    state = {"Operations": list(operations), "NextMarker": marker}
    return {"DurableExecutionArn": arn, "CheckpointToken": token, "InitialExecutionState": state, "UpdatedOperationIds": list(updated)}


def update_to_wire(update: Update) -> Wire:
    """An update as an SDK sends it."""
    wire: Wire = {"Id": update.id, "Type": update.type.value, "Action": update.action.value}
    for key, value in (("ParentId", update.parent_id), ("Name", update.name), ("SubType", update.sub_type)):
        if value:
            wire[key] = value
    if update.payload is not None:
        wire["Payload"] = update.payload
    if update.error is not None:
        wire["Error"] = failure_to_wire(update.error)
    wire.update(_options(update))
    return wire


def _options(update: Update) -> Wire:
    match update.type, update.action:
        case Type.CONTEXT, Action.SUCCEED:
            return {"ContextOptions": {"ReplayChildren": update.replay_children}}
        case Type.STEP, Action.RETRY:
            return {} if update.delay_seconds is None else {"StepOptions": {"NextAttemptDelaySeconds": update.delay_seconds}}
        case Type.WAIT, Action.START:
            return {} if update.wait_seconds is None else {"WaitOptions": {"WaitSeconds": update.wait_seconds}}
        case Type.CALLBACK, Action.START:
            times = {"TimeoutSeconds": update.timeout_seconds, "HeartbeatTimeoutSeconds": update.heartbeat_seconds}
            return {"CallbackOptions": times}
        case Type.CHAINED_INVOKE, Action.START:
            target = {"FunctionName": update.function_name, "TenantId": update.tenant_id, "XAmznTraceId": update.trace_id}
            return {"ChainedInvokeOptions": {key: value for key, value in target.items() if value is not None}}
        case _:
            return {}


# --- what comes in


class _ContextOptions(Struct, rename="pascal"):
    replay_children: bool = False


class _StepOptions(Struct, rename="pascal"):
    next_attempt_delay_seconds: int | None = None


class _WaitOptions(Struct, rename="pascal"):
    wait_seconds: int | None = None


class _CallbackOptions(Struct, rename="pascal"):
    timeout_seconds: int = 0
    heartbeat_timeout_seconds: int = 0


class _ChainedInvokeOptions(Struct, rename="pascal"):
    function_name: Annotated[str, Meta(min_length=1, max_length=256)]
    tenant_id: Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\A[a-zA-Z0-9._:/=+@ -]*\Z")] | None = None
    x_amzn_trace_id: Annotated[str, Meta(max_length=8192, pattern=r"\A[\x20-\x7E]*\Z")] | None = None


_Id = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[a-zA-Z0-9_-]*\Z")]
# In these members an empty text means that the member is absent, as in the SDKs.
_Parent = Annotated[str, Meta(max_length=64, pattern=r"\A[a-zA-Z0-9_-]*\Z")]
_Name = Annotated[str, Meta(max_length=256, pattern=r"\A[\x20-\x7E]*\Z")]
_SubType = Annotated[str, Meta(max_length=32, pattern=r"\A[a-zA-Z0-9_-]*\Z")]


class _Update(Struct, rename="pascal"):
    id: _Id
    type: Type
    action: Action
    parent_id: _Parent | None = None
    name: _Name | None = None
    sub_type: _SubType | None = None
    payload: str | None = None
    error: Failure | None = None
    context_options: _ContextOptions | None = None
    step_options: _StepOptions | None = None
    wait_options: _WaitOptions | None = None
    callback_options: _CallbackOptions | None = None
    chained_invoke_options: _ChainedInvokeOptions | None = None


def _update(sent: _Update) -> Update:
    context = sent.context_options or _ContextOptions()
    step = sent.step_options or _StepOptions()
    wait = sent.wait_options or _WaitOptions()
    callback = sent.callback_options or _CallbackOptions()
    invoke = sent.chained_invoke_options
    return Update(
        id=sent.id,
        type=sent.type,
        action=sent.action,
        parent_id=sent.parent_id or None,
        name=sent.name or None,
        sub_type=sent.sub_type or None,
        payload=sent.payload,
        error=sent.error,
        replay_children=context.replay_children,
        delay_seconds=step.next_attempt_delay_seconds,
        wait_seconds=wait.wait_seconds,
        timeout_seconds=callback.timeout_seconds,
        heartbeat_seconds=callback.heartbeat_timeout_seconds,
        function_name=invoke.function_name if invoke else None,
        tenant_id=invoke.tenant_id if invoke else None,
        trace_id=invoke.x_amzn_trace_id if invoke else None,
    )


class _Checkpoint(Struct, rename="pascal"):
    checkpoint_token: Annotated[str, Meta(min_length=1, max_length=2048)]
    updates: tuple[_Update, ...] | None = None
    client_token: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[\x21-\x7E]*\Z")] | None = None


class CheckpointAsked(NamedTuple):
    """The content of a CheckpointDurableExecution request."""

    token: str
    updates: tuple[Update, ...]
    client_token: str | None


def checkpoint_from_json(body: bytes) -> CheckpointAsked:
    """Read the body of a checkpoint request. Raises msgspec.DecodeError if the body is not JSON or has too many values, and
    InvalidParameter if it does not have the form of such a request."""
    try:
        sent = json_structs.received(body, _Checkpoint)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"Not a checkpoint: {error}") from None
    return CheckpointAsked(sent.checkpoint_token, tuple(map(_update, sent.updates or ())), sent.client_token)


def failure_from_wire(wire: object) -> Failure:
    """Read an ErrorObject. If `wire` is None, the result is an error without any member. Raises InvalidParameter if `wire` does not have
    the form of an ErrorObject."""
    try:
        return json_structs.converted({} if wire is None else wire, Failure)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"Not an error object: {error}") from None


class _Details(Struct, rename="pascal"):
    """All members that the details of operations may have. Each type of operation sends only some of them."""

    attempt: int | None = None
    next_attempt_timestamp: Any = None
    scheduled_end_timestamp: Any = None
    callback_id: str | None = None
    replay_children: bool | None = None
    input_payload: str | None = None
    result: str | None = None
    error: Failure | None = None


class _Operation(Struct, rename="pascal"):
    id: str
    type: Type
    status: Status
    start_timestamp: Any = None
    end_timestamp: Any = None
    parent_id: str | None = None
    name: str | None = None
    sub_type: str | None = None
    execution_details: _Details | None = None
    context_details: _Details | None = None
    step_details: _Details | None = None
    wait_details: _Details | None = None
    callback_details: _Details | None = None
    chained_invoke_details: _Details | None = None


def operation_from_wire(wire: object, revision: int = 0) -> Operation:
    """Read an operation as the service sends it. Its times are integer milliseconds in an event, and datetimes in boto3's answers. Raises
    InvalidParameter if it does not have the form of an operation.

    The result has this `revision`, because an operation on the wire has none. The input of an execution becomes the `result` of its
    EXECUTION operation.
    """
    try:
        sent = json_structs.converted(wire, _Operation)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"Not an operation: {error}") from None
    details = (
        (sent.step_details or sent.context_details or sent.wait_details)
        or (sent.callback_details or sent.chained_invoke_details or sent.execution_details)
        or _Details()
    )
    due = details.next_attempt_timestamp if sent.status is Status.PENDING else details.scheduled_end_timestamp
    return Operation(
        id=sent.id,
        type=sent.type,
        status=sent.status,
        started_at=_instant(sent.start_timestamp) or 0,
        sub_type=sent.sub_type or None,
        name=sent.name or None,
        parent_id=sent.parent_id or None,
        ended_at=_instant(sent.end_timestamp),
        attempt=details.attempt or 0,
        due_at=_instant(due),
        callback_id=details.callback_id,
        replay_children=bool(details.replay_children),
        result=details.input_payload if sent.type is Type.EXECUTION else details.result,
        error=details.error,
        revision=revision,
    )


def _instant(sent: Any) -> int | None:
    if sent is None:
        return None
    if isinstance(sent, datetime):
        return round(sent.timestamp() * 1000)
    if isinstance(sent, int):
        return sent
    raise InvalidParameter(f"Not a time: {sent!r}. An event has integer milliseconds.")


def outcome_from_wire(output: object) -> Outcome:
    """The outcome that a handler's output describes. If the output has a wrong form, the outcome is FAILED, so that the execution fails at
    once: another try would give the same output."""
    if not isinstance(output, Mapping):
        return _malformed(f"The handler returned {type(output).__name__} instead of an object with a Status.")
    status, result, error = output.get("Status"), output.get("Result"), output.get("Error")
    if status == "PENDING":
        return Outcome(OutcomeStatus.PENDING)
    if status == "SUCCEEDED":
        if error is not None:
            return _malformed("The handler returned SUCCEEDED with an Error.")
        if result is not None and not isinstance(result, str):
            return _malformed("The handler returned a Result that is not a string.")
        return Outcome(OutcomeStatus.SUCCEEDED, result)
    if status == "FAILED":
        if result is not None:
            return _malformed("The handler returned FAILED with a Result.")
        try:
            return Outcome(OutcomeStatus.FAILED, error=failure_from_wire(error))
        except InvalidParameter as wrong:
            return _malformed(str(wrong))
    return _malformed(f"The handler returned an unknown Status: {status!r}.")


def _malformed(message: str) -> Outcome:
    return Outcome(OutcomeStatus.FAILED, error=Failure(message=message, type=MALFORMED))
