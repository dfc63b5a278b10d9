"""Errors in Lambda's words, events with as much state as fits, and answers as outcomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from holdfast.lambda_api.runtime.invocation_events import durable_event, outcome_of, plain_event
from holdfast.lambda_api.runtime.jobs import JobResult, checked_header, exit_reason, raised
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model.errors import DiskFull, EngineClosed, InvalidParameter
from holdfast.model.execution import Execution, OutcomeStatus, Terms
from holdfast.model.ids import Position
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.ports import Invocation, Port
from holdfast.model.state_pages import BEGINNING, Mark, state_mark

DURABLE = Runtime(function="f", folder=".", handler="a.b")
PLAIN = Runtime(function="f", folder=".", handler="a.b", durable=False)
HEADER = Execution(
    id="e", function="f", version="$LATEST", name="n", input_hash="", terms=Terms(), started_at=7, deadline=9, invocation="i", seen=3
)


@pytest.mark.parametrize(
    "code, reason",
    [
        (0, "Runtime exited without providing a reason"),
        (1, "Runtime exited with error: exit status 1"),
        (-9, "Runtime exited with error: signal: killed"),
        (-11, "Runtime exited with error: signal: segmentation fault"),
        (-31, "Runtime exited with error: signal: 31"),
    ],
)
def test_an_exit_is_told_as_lambda_tells_it(code: int, reason: str) -> None:
    assert exit_reason(code) == reason


@pytest.mark.parametrize(
    "body, header, failure",
    [
        ({"errorType": "E", "errorMessage": "m", "stackTrace": ["a", "b"]}, None, Failure("m", "E", stack_trace=("a", "b"))),
        ({"errorType": "E", "errorMessage": "m", "trace": ["a"]}, "H", Failure("m", "E", stack_trace=("a",))),
        ({"errorMessage": "m"}, "H", Failure("m", "H")),
        ({"errorMessage": 5, "stackTrace": "no list"}, "H", Failure("5", "H")),
        ({}, "H", Failure(None, "H")),
        ("text", "H", Failure('"text"', "H")),
    ],
)
def test_a_posted_error_is_read_whatever_its_shape(body: Any, header: str | None, failure: Failure) -> None:
    assert raised(json.dumps(body).encode(), header) == failure


def test_a_posted_error_that_is_no_json_is_still_told() -> None:
    assert raised(b"\xffboom", None) == Failure("\ufffdboom", "Runtime.UnknownReason")
    assert raised(b'{"errorMessage":"\xff"}', "H") == Failure('{"errorMessage":"\ufffd"}', "H")
    tower = b'{"errorMessage":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert raised(tower, "H") == Failure(tower[:4096].decode(), "H")


def test_a_header_holds_nothing_that_would_break_it() -> None:
    assert checked_header("blue ü", "The tenant") == "blue ü"
    with pytest.raises(InvalidParameter, match="The tenant"):
        checked_header("a\r\nb: c", "The tenant")


def called(payload: Any = None, error: Failure | None = None) -> JobResult:
    return JobResult(request="r", payload=payload if isinstance(payload, bytes) else json.dumps(payload).encode(), error=error)


@pytest.mark.parametrize(
    "answer, status, detail",
    [
        (called({"Status": "PENDING"}), OutcomeStatus.PENDING, None),
        (called({"Status": "SUCCEEDED", "Result": "1"}), OutcomeStatus.SUCCEEDED, "1"),
        (called({"Status": "FAILED", "Error": {"ErrorType": "E"}}), OutcomeStatus.FAILED, "E"),
        (called({"Status": "OTHER"}), OutcomeStatus.FAILED, "InvalidParameterValueException"),
        (called(b"no json"), OutcomeStatus.FAILED, "InvalidParameterValueException"),
        (called(b"\xff"), OutcomeStatus.FAILED, "InvalidParameterValueException"),
        (called(b'{"Status":"SUCCEEDED","Result":"\\ud800"}'), OutcomeStatus.FAILED, "InvalidParameterValueException"),
        (called(error=Failure("m", "Sandbox.Timedout")), OutcomeStatus.CRASHED, "Sandbox.Timedout"),
        (called(error=Failure("m", "ValueError")), OutcomeStatus.CRASHED, "ValueError"),
        (called(error=Failure("m", "Function.ResponseSizeTooLarge")), OutcomeStatus.FAILED, "Function.ResponseSizeTooLarge"),
        (DiskFull(), OutcomeStatus.CRASHED, "DiskFull"),
        (EngineClosed(), OutcomeStatus.INTERRUPTED, None),
    ],
)
def test_the_answer_of_a_durable_function_is_an_outcome(answer: JobResult | Exception, status: OutcomeStatus, detail: str | None) -> None:
    outcome = outcome_of(DURABLE, answer, HEADER)
    assert outcome.status is status
    assert (outcome.error.type if outcome.error else outcome.result) == detail


@pytest.mark.parametrize(
    "answer, status, detail",
    [
        (called([1]), OutcomeStatus.SUCCEEDED, "[1]"),
        (called(error=Failure("m", "Sandbox.Timedout")), OutcomeStatus.FAILED, "Sandbox.Timedout"),
        (called(b"no json"), OutcomeStatus.FAILED, "InvalidParameterValueException"),
    ],
)
def test_a_plain_function_that_was_invoked_is_not_tried_again(answer: JobResult, status: OutcomeStatus, detail: str) -> None:
    outcome = outcome_of(PLAIN, answer, msgspec.structs.replace(HEADER, parent="p"))
    assert outcome.status is status
    assert (outcome.error.type if outcome.error else outcome.result) == detail


@pytest.mark.parametrize("failures, again", [(0, 60), (1, 120), (2, None)])
def test_an_event_for_a_plain_function_is_tried_again_twice(failures: int, again: int | None) -> None:
    outcome = outcome_of(PLAIN, called(error=Failure("m", "ValueError")), msgspec.structs.replace(HEADER, failures=failures))
    assert outcome.status is (OutcomeStatus.FAILED if again is None else OutcomeStatus.CRASHED)
    assert outcome.again_seconds == again


class Stored:
    """A port that only knows what is stored."""

    def __init__(self, operations: Sequence[Operation], given: str | None) -> None:
        self._operations = operations
        self._given = given

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return self._operations

    def input(self, token: Position) -> str | None:
        return self._given


def step(place: int, result: str, revision: int = 1) -> Operation:
    return Operation(id=str(place), type=Type.STEP, status=Status.SUCCEEDED, started_at=5, result=result, place=place, revision=revision)


def event(operations: Sequence[Operation], given: str | None = "{}", *, fresh: bool = False, room: int = 10_000) -> Any:
    invocation = Invocation("arn", HEADER, Position("e", 1, 0, 4), fresh, None)
    port = cast("Port", Stored(operations, given))
    assert json.loads(plain_event(invocation, port)) == {}
    return json.loads(durable_event(invocation, port, lambda position: f"token-{position.revision}", room))


def test_an_event_has_the_execution_first_then_what_happened() -> None:
    made = event([step(1, "one"), step(2, "two", revision=4)])
    assert (made["DurableExecutionArn"], made["CheckpointToken"]) == ("arn", "token-4")
    state = made["InitialExecutionState"]
    assert [operation["Id"] for operation in state["Operations"]] == ["e", "1", "2"]
    assert state["Operations"][0]["ExecutionDetails"] == {"InputPayload": "{}"}
    assert state["Operations"][1]["StartTimestamp"] == 5, "integer milliseconds"
    assert state["NextMarker"] == ""


def test_a_first_invocation_has_no_past() -> None:
    assert len(event([step(1, "not looked at")], fresh=True)["InitialExecutionState"]["Operations"]) == 1


def test_a_state_that_does_not_fit_is_cut_and_marked() -> None:
    state = event([step(place, "x" * 4000) for place in range(1, 5)])["InitialExecutionState"]
    assert [operation["Id"] for operation in state["Operations"]] == ["e", "1", "2"]
    assert state_mark(state["NextMarker"]) == Mark(0, 2)


def test_an_input_that_does_not_fit_is_left_to_the_next_page() -> None:
    header = Execution(id="e", function="f", version="1", name="n", input_hash="", terms=Terms(), started_at=7, deadline=9)
    invocation = Invocation("arn", header, Position("e", 1, 0, 4), True, '"' + "x" * 20_000 + '"')
    made = json.loads(durable_event(invocation, cast("Port", Stored([], None)), lambda _: "t", 10_000))
    assert made["InitialExecutionState"]["Operations"] == []
    assert state_mark(made["InitialExecutionState"]["NextMarker"]) == BEGINNING
