"""History on the wire: the form that the service's clients and conformance tests read."""

import pytest

from holdfast.model import codec
from holdfast.model.history import TERMINAL, Event, EventType, carries_error, event_to_wire
from holdfast.model.operations import Failure, Operation, Status, Type
from tests.unit.lone import ID, T0

E = EventType
OOPS = Failure("boom", "Oops", None, ("line 1",))
OPERATION = Operation(id="op", type=Type.STEP, status=Status.STARTED, started_at=T0)
OF_EXECUTION = TERMINAL | {E.EXECUTION_STARTED}

# What the service's model says each event's details carry besides what the event keeps as its `detail`.
RESULT = {E.EXECUTION_SUCCEEDED, E.CONTEXT_SUCCEEDED, E.STEP_SUCCEEDED, E.CHAINED_INVOKE_SUCCEEDED, E.CALLBACK_SUCCEEDED}
INPUT = {E.EXECUTION_STARTED}
ERROR = {
    E.EXECUTION_FAILED, E.EXECUTION_TIMED_OUT, E.EXECUTION_STOPPED, E.CONTEXT_FAILED, E.STEP_FAILED, E.CALLBACK_FAILED,
    E.CALLBACK_TIMED_OUT, E.CHAINED_INVOKE_FAILED, E.CHAINED_INVOKE_TIMED_OUT, E.CHAINED_INVOKE_STOPPED,
}  # fmt: skip
OPTIONAL_ERROR = {E.WAIT_CANCELLED, E.INVOCATION_COMPLETED}


def wire(event: Event, operation: Operation | None = None, *, include_data: bool = True) -> dict[str, object]:
    return event_to_wire(event, (ID, "order-1"), operation, include_data=include_data)


def details(event: Event, *, include_data: bool = True) -> object:
    return wire(event, include_data=include_data)[f"{event.type.value}Details"]


def test_there_are_24_events() -> None:
    assert len(EventType) == 24


@pytest.mark.parametrize("kind", EventType)
@pytest.mark.parametrize("include_data", [True, False])
def test_the_details_key_always_exists(kind: EventType, include_data: bool) -> None:
    shown = wire(Event(1, kind, T0), OPERATION, include_data=include_data)
    assert isinstance(shown[f"{kind.value}Details"], dict)
    assert [key for key in shown if key.endswith("Details")] == [f"{kind.value}Details"]


@pytest.mark.parametrize("kind", [E.STEP_STARTED, E.CONTEXT_STARTED, E.WAIT_STARTED, E.CALLBACK_STARTED, E.WAIT_SUCCEEDED])
def test_an_event_without_payload_has_no_wrapper(kind: EventType) -> None:
    assert details(Event(1, kind, T0)) == {}


def test_times_are_epoch_seconds() -> None:
    assert wire(Event(7, E.STEP_STARTED, T0 + 123), OPERATION) == {
        "EventType": "StepStarted", "EventId": 7, "EventTimestamp": (T0 + 123) / 1000, "Id": "op", "StepStartedDetails": {},
    }  # fmt: skip


@pytest.mark.parametrize("empty", [None, ""])
def test_unset_members_are_left_out(empty: str | None) -> None:
    bare = Operation(id="op", type=Type.STEP, status=Status.STARTED, started_at=T0, name=empty, sub_type=empty, parent_id=empty)
    assert not {"Name", "SubType", "ParentId"} & set(wire(Event(1, E.STEP_STARTED, T0), bare))


def test_an_operations_event_carries_what_the_sdk_called_it() -> None:
    named = Operation(id="op", type=Type.STEP, status=Status.STARTED, started_at=T0, name="charge", sub_type="Step", parent_id="ctx")
    shown = wire(Event(1, E.STEP_STARTED, T0), named)
    assert (shown["Id"], shown["Name"], shown["SubType"], shown["ParentId"]) == ("op", "charge", "Step", "ctx")


@pytest.mark.parametrize("kind", sorted(OF_EXECUTION))
def test_an_executions_event_carries_its_id_and_name(kind: EventType) -> None:
    shown = wire(Event(1, kind, T0))
    assert (shown["Id"], shown["Name"]) == (ID, "order-1")


def test_an_invocations_event_has_no_id_and_no_name() -> None:
    assert not {"Id", "Name", "SubType", "ParentId"} & set(wire(Event(1, E.INVOCATION_COMPLETED, T0)))


@pytest.mark.parametrize("kind", sorted(RESULT))
def test_a_result_is_wrapped_as_the_text_it_is(kind: EventType) -> None:
    event = Event(1, kind, T0, "op", '{"a":1}')
    assert details(event) == {"Result": {"Payload": '{"a":1}', "Truncated": False}}
    assert details(event, include_data=False) == {"Result": {"Truncated": True}}


@pytest.mark.parametrize("kind", sorted(INPUT))
def test_an_input_is_wrapped_as_the_text_it_is(kind: EventType) -> None:
    event = Event(1, kind, T0, None, "1", {"ExecutionTimeout": 60})
    assert details(event) == {"ExecutionTimeout": 60, "Input": {"Payload": "1", "Truncated": False}}
    assert details(event, include_data=False) == {"ExecutionTimeout": 60, "Input": {"Truncated": True}}


@pytest.mark.parametrize("kind", sorted(ERROR | OPTIONAL_ERROR))
def test_an_error_is_wrapped_as_an_error_object(kind: EventType) -> None:
    event = Event(1, kind, T0, "op", codec.failure_text(OOPS))
    assert details(event) == {
        "Error": {"Payload": {"ErrorMessage": "boom", "ErrorType": "Oops", "StackTrace": ["line 1"]}, "Truncated": False}
    }
    assert details(event, include_data=False) == {"Error": {"Truncated": True}}


@pytest.mark.parametrize("kind", sorted(RESULT | ERROR))
def test_a_required_wrapper_is_there_even_without_a_payload(kind: EventType) -> None:
    (wrapper,) = details(Event(1, kind, T0)).values()  # type: ignore[attr-defined]
    assert wrapper == {"Truncated": False}


@pytest.mark.parametrize("kind", sorted(OPTIONAL_ERROR))
@pytest.mark.parametrize("include_data", [True, False])
def test_an_optional_error_is_left_out_when_there_is_none(kind: EventType, include_data: bool) -> None:
    assert details(Event(1, kind, T0), include_data=include_data) == {}


@pytest.mark.parametrize("kind", EventType)
def test_what_carries_an_error_is_what_shows_one(kind: EventType) -> None:
    """Storage reads an operation's payload back as an error or as a result by this alone."""
    assert carries_error(kind) is (kind in ERROR | OPTIONAL_ERROR)


def test_an_error_object_has_only_the_members_that_were_given() -> None:
    assert codec.failure_text(Failure()) == "{}"
    assert codec.loads(codec.failure_text(Failure("boom"))) == {"ErrorMessage": "boom"}
    assert codec.failure_from(codec.failure_text(OOPS)) == OOPS
