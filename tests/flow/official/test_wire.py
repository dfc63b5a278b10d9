"""The wire form, read and written beside the official SDK's own reading and writing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from aws_durable_execution_sdk_python.lambda_service import Operation as OfficialOperation
from aws_durable_execution_sdk_python.lambda_service import OperationUpdate

from holdfast.model import wire
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, OutcomeStatus, Terms
from holdfast.model.operations import Action, Failure, Operation, Status, Type, Update

AT = 1_767_225_600_123
ERROR = Failure(message="m", type="T", data="d", stack_trace=("one", "two"))

UPDATES = [
    Update(id="1", type=Type.STEP, action=Action.START, sub_type="Step", name="a name", parent_id="p"),
    Update(id="1", type=Type.STEP, action=Action.SUCCEED, payload=""),
    Update(id="1", type=Type.STEP, action=Action.FAIL, error=ERROR),
    Update(id="1", type=Type.STEP, action=Action.RETRY, error=ERROR, delay_seconds=7),
    Update(id="1", type=Type.WAIT, action=Action.START, wait_seconds=9),
    Update(id="1", type=Type.CALLBACK, action=Action.START, timeout_seconds=5, heartbeat_seconds=3),
    Update(id="1", type=Type.CONTEXT, action=Action.SUCCEED, payload="x", replay_children=True),
    Update(id="1", type=Type.CHAINED_INVOKE, action=Action.START, payload="{}", function_name="f:1", tenant_id="t", trace_id="r"),
    Update(id="execution-result-1", type=Type.EXECUTION, action=Action.SUCCEED, payload="1"),
]


def read(update: object) -> Update:
    """An update, as the service reads it in a request."""
    body = json.dumps({"CheckpointToken": "t", "Updates": [update]})
    return wire.checkpoint_from_json(body.encode()).updates[0]


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: f"{update.type} {update.action}")
def test_an_update_comes_back_from_the_official_sdk_as_it_went(update: Update) -> None:
    through = OperationUpdate.from_dict(wire.update_to_wire(update)).to_dict()
    assert read(dict(through)) == update


@pytest.mark.parametrize(
    "sent, told",
    [
        ([], "object"),
        ({"Type": "STEP", "Action": "START"}, "Id"),
        ({"Id": "", "Type": "STEP", "Action": "START"}, "Id"),
        ({"Id": "x" * 65, "Type": "STEP", "Action": "START"}, "Id"),
        ({"Id": "a b", "Type": "STEP", "Action": "START"}, "Id"),
        ({"Id": "a\n", "Type": "STEP", "Action": "START"}, "Id"),
        ({"Id": "a", "Type": "STEPS", "Action": "START"}, "Type"),
        ({"Id": "a", "Type": "STEP", "Action": "start"}, "Action"),
        ({"Id": "a", "Type": "STEP", "Action": "START", "Name": "\u00e4"}, "Name"),
        ({"Id": "a", "Type": "STEP", "Action": "START", "SubType": "x" * 33}, "SubType"),
        ({"Id": "a", "Type": "STEP", "Action": "SUCCEED", "Payload": {"not": "text"}}, "Payload"),
        ({"Id": "a", "Type": "STEP", "Action": "FAIL", "Error": "text"}, "Error"),
        ({"Id": "a", "Type": "STEP", "Action": "FAIL", "Error": {"StackTrace": "text"}}, "StackTrace"),
        ({"Id": "a", "Type": "WAIT", "Action": "START", "WaitOptions": {"WaitSeconds": "1"}}, "WaitSeconds"),
        ({"Id": "a", "Type": "WAIT", "Action": "START", "WaitOptions": {"WaitSeconds": True}}, "WaitSeconds"),
        ({"Id": "a", "Type": "CHAINED_INVOKE", "Action": "START", "ChainedInvokeOptions": {}}, "FunctionName"),
    ],
)
def test_an_update_of_the_wrong_shape_is_refused_with_the_members_name(sent: object, told: str) -> None:
    with pytest.raises(InvalidParameter, match=told):
        read(sent)


def test_empty_names_are_absent_and_unknown_members_are_ignored() -> None:
    sent = {"Id": "a", "Type": "STEP", "Action": "START", "Name": "", "ParentId": "", "SubType": None, "New": 1}
    assert read(sent) == Update(id="a", type=Type.STEP, action=Action.START)


def test_an_operation_has_milliseconds_in_an_event_and_seconds_in_the_api() -> None:
    pending = Operation(id="1", type=Type.STEP, status=Status.PENDING, started_at=AT, attempt=2, due_at=AT + 1000, error=ERROR)
    in_event = wire.operation_to_wire(pending, wire.milliseconds)
    in_api = wire.operation_to_wire(pending, wire.seconds)
    assert (in_event["StartTimestamp"], in_event["StepDetails"]["NextAttemptTimestamp"]) == (AT, AT + 1000)
    assert (in_api["StartTimestamp"], in_api["StepDetails"]["NextAttemptTimestamp"]) == (AT / 1000, AT / 1000 + 1)
    assert dict(OfficialOperation.from_json_dict(in_event).to_json_dict()) == in_event


OPERATIONS: list[dict[str, Any]] = [
    {"type": Type.WAIT, "status": Status.STARTED, "due_at": AT + 5},
    {"type": Type.CALLBACK, "status": Status.FAILED, "callback_id": "cb", "error": ERROR, "ended_at": AT + 9},
    {"type": Type.CALLBACK, "status": Status.SUCCEEDED, "callback_id": "cb", "result": "r", "ended_at": AT + 9},
    {"type": Type.STEP, "status": Status.SUCCEEDED, "attempt": 1, "result": "r", "ended_at": AT, "name": "n", "sub_type": "Step"},
    {"type": Type.CHAINED_INVOKE, "status": Status.SUCCEEDED, "result": "r", "ended_at": AT, "parent_id": "p"},
]


@pytest.mark.parametrize("members", OPERATIONS, ids=lambda members: f"{members['type']} {members['status']}")
def test_the_official_sdk_reads_an_operation_as_it_was_meant(members: dict[str, Any]) -> None:
    told = wire.operation_to_wire(Operation(id="1", started_at=AT, **members), wire.milliseconds)
    assert dict(OfficialOperation.from_json_dict(told).to_json_dict()) == told


def test_the_execution_operation_is_named_by_the_last_segment_of_the_arn() -> None:
    header = Execution(
        id="the-id",
        function="f",
        version="1",
        name="n",
        input_hash="",
        terms=Terms(1, 1),
        started_at=AT,
        deadline=AT,
    )
    assert wire.execution_to_wire(header, '{"a":1}', wire.milliseconds) == {
        "Id": "the-id",
        "Type": "EXECUTION",
        "Name": "n",
        "Status": "STARTED",
        "StartTimestamp": AT,
        "ExecutionDetails": {"InputPayload": '{"a":1}'},
    }


@pytest.mark.parametrize(
    "output",
    [
        None,
        "SUCCEEDED",
        {},
        {"Status": "DONE"},
        {"Status": "RETRY"},
        {"Status": "SUCCEEDED", "Result": {"not": "text"}},
        {"Status": "SUCCEEDED", "Error": {}},
        {"Status": "FAILED", "Result": "x"},
        {"Status": "FAILED", "Error": "text"},
    ],
)
def test_an_output_that_is_no_answer_fails_the_execution(output: object) -> None:
    outcome = wire.outcome_from_wire(output)
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.error is not None
    assert outcome.error.type == "InvalidParameterValueException"


def test_a_failure_without_an_error_is_a_failure() -> None:
    assert wire.outcome_from_wire({"Status": "FAILED"}).error == Failure()


def as_boto3(at: int) -> Any:
    return datetime.fromtimestamp(at / 1000, UTC)


PENDING: dict[str, Any] = {"type": Type.STEP, "status": Status.PENDING, "attempt": 2, "due_at": AT + 1000, "error": ERROR}
CHILD: dict[str, Any] = {"type": Type.CONTEXT, "status": Status.SUCCEEDED, "ended_at": AT, "result": "", "replay_children": True}


@pytest.mark.parametrize("times", [wire.milliseconds, as_boto3])
@pytest.mark.parametrize("members", [*OPERATIONS, PENDING, CHILD], ids=lambda members: f"{members['type']} {members['status']}")
def test_an_operation_is_read_from_an_event_and_from_boto3(members: dict[str, Any], times: wire.Times) -> None:
    operation = Operation(id="1", started_at=AT, revision=3, **members)
    assert wire.operation_from_wire(wire.operation_to_wire(operation, times), 3) == operation


def test_what_the_official_sdk_tells_of_an_operation_is_read() -> None:
    told = OfficialOperation.from_json_dict(wire.operation_to_wire(Operation(id="1", started_at=AT, **CHILD), wire.milliseconds))
    assert wire.operation_from_wire(told.to_json_dict()) == Operation(id="1", started_at=AT, **CHILD)


@pytest.mark.parametrize(
    "told, why",
    [
        ({"Type": "STEP", "Status": "STARTED"}, "missing required field `Id`"),
        ({"Id": "1", "Type": "NEW", "Status": "STARTED"}, "Invalid enum value 'NEW'"),
        ({"Id": "1", "Type": "STEP", "Status": "STARTED", "StartTimestamp": "2026-01-01T00:00:00Z"}, "Not a time"),
        ({"Id": "1", "Type": "STEP", "Status": "STARTED", "StartTimestamp": AT / 1000}, "integer milliseconds"),
    ],
)
def test_an_operation_of_the_wrong_shape_is_told(told: Any, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        wire.operation_from_wire(told)
