"""Errors: what they are called on the wire, how they come back from storage, and which of them user code may catch."""

import inspect
import re
from datetime import UTC, datetime
from typing import Any

import aws_durable_execution_sdk_python.exceptions as official
import aws_durable_execution_sdk_python.lambda_service as official_service
import pytest

from holdfast.durable import exceptions
from holdfast.durable.concurrency.models import BatchCompletionError
from holdfast.durable.exceptions import (
    BotoClientError,
    CallbackError,
    CallbackTimeoutError,
    CheckpointError,
    ChildContextError,
    DurableApiErrorCategory,
    DurableExecutionsError,
    DurableOperationError,
    ExecutionError,
    InvocationError,
    OrderedLockError,
    SerDesError,
    StepError,
    SuspendExecution,
    TerminationReason,
    TimedSuspendExecution,
    ValidationError,
    register_operation_error,
    wire_name,
)
from holdfast.durable.lambda_service import ErrorObject
from holdfast.model import errors as model_errors
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import Failure


class Broken(Exception):
    pass


class MyStepError(StepError):
    pass


class MySerDesError(SerDesError):
    pass


ERRORS: list[Any] = [
    cls
    for name, cls in sorted(vars(exceptions).items())
    if not name.startswith("_") and inspect.isclass(cls) and issubclass(cls, BaseException) and cls is not HoldfastError
] + [BatchCompletionError]
OPERATION_ERRORS: list[Any] = [cls for cls in ERRORS if issubclass(cls, DurableOperationError) and cls is not DurableOperationError]


def their(cls: type) -> Any:
    """The official class of this name."""
    import aws_durable_execution_sdk_python as package

    return getattr(official, cls.__name__, None) or getattr(package, cls.__name__)


# --- codes and names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_made_of_its_name(cls: Any) -> None:
    assert vars(cls)["code"] == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def test_no_two_errors_share_a_code() -> None:
    codes = [cls.code for cls in ERRORS] + [
        cls.code for cls in vars(model_errors).values() if inspect.isclass(cls) and issubclass(cls, HoldfastError)
    ]
    assert sorted(codes) == sorted(set(codes))


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert [cls.__name__ for cls in ERRORS if not re.search(rf"\b{cls.__name__}\b", exceptions.__doc__ or "")] == []


@pytest.mark.parametrize("cls", [*OPERATION_ERRORS, ValidationError, InvocationError], ids=lambda cls: cls.__name__)
def test_our_errors_have_the_official_names_on_the_wire(cls: Any) -> None:
    assert wire_name(cls) == f"{their(cls).__module__}.{their(cls).__qualname__}"


def test_other_errors_have_their_own_names_on_the_wire() -> None:
    assert wire_name(Broken) == wire_name(Broken("x")) == f"{__name__}.Broken"
    assert wire_name(MyStepError) == f"{__name__}.MyStepError"
    assert wire_name(ValueError()) == "ValueError"
    assert wire_name(model_errors.LeaseLost) == "holdfast.model.errors.LeaseLost"


# --- messages ----------------------------------------------------------------------------------------------------------------


def test_the_docstring_is_the_message_when_none_is_given() -> None:
    assert str(StepError()) == "The step failed."
    assert str(ValidationError()) == "A durable call, or a configuration, was given a value that it does not accept."


def test_a_message_is_kept_as_given() -> None:
    assert (str(ValidationError("no")), str(StepError("")), ValidationError("a", 2).args) == ("no", "", ("a", 2))
    assert StepError().message is None


def test_a_lock_error_tells_what_broke_the_lock() -> None:
    cause = ValueError("x")
    ours, theirs = OrderedLockError("Broken.", cause), official.OrderedLockError("Broken.", cause)
    assert (str(ours), ours.source_exception) == (str(theirs), cause)


# --- storage and back --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", OPERATION_ERRORS, ids=lambda cls: cls.__name__)
def test_an_operation_error_survives_storage(cls: Any) -> None:
    stored = ErrorObject.from_exception(cls(message="m", data="d", stack_trace=["s"]))
    back = stored.to_durable_operation_error()
    assert type(back) is cls
    assert (back.message, back.error_type, back.data, back.stack_trace) == ("m", wire_name(cls), "d", ["s"])
    assert stored.to_dict() == official_service.ErrorObject.from_exception(their(cls)(message="m", data="d", stack_trace=["s"])).to_dict()


@pytest.mark.parametrize("name", ["ValueError", "os.system", f"{__name__}.MyStepError", "builtins.SystemExit", "", None])
def test_a_class_named_by_data_is_never_built(name: str | None) -> None:
    back = DurableOperationError.from_error_fields(name, "m", None, None)
    assert type(back) is DurableOperationError
    assert back.error_type == (name or wire_name(DurableOperationError))


def test_a_registered_class_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "_KNOWN", dict(exceptions._KNOWN))
    register_operation_error(MyStepError)
    assert type(DurableOperationError.from_error_fields(wire_name(MyStepError), "m", None, None)) is MyStepError


@pytest.mark.parametrize(
    "error, stored",
    [
        (ValueError("bad"), {"ErrorMessage": "bad", "ErrorType": "ValueError"}),
        (Broken(), {"ErrorMessage": "", "ErrorType": f"{__name__}.Broken"}),
        (MyStepError("m"), {"ErrorMessage": "m", "ErrorType": f"{__name__}.MyStepError"}),
        (MySerDesError("m", data="d"), {"ErrorMessage": "m", "ErrorType": wire_name(SerDesError), "ErrorData": "d"}),
    ],
)
def test_an_exception_is_stored_in_four_fields(error: Exception, stored: dict[str, str]) -> None:
    kept = ErrorObject.from_exception(error)
    assert kept.to_dict() == stored
    assert ErrorObject.from_dict(stored) == kept
    assert ErrorObject.from_failure(kept.to_failure()) == kept


def test_the_model_keeps_the_same_four_fields() -> None:
    assert ErrorObject("m", "t", "d", ["s"]).to_failure() == Failure("m", "t", "d", ("s",))
    assert ErrorObject.from_message("m").to_failure() == Failure("m")


@pytest.mark.parametrize("kind", ["ValueError", wire_name(StepError), wire_name(SerDesError), None])
def test_an_operation_raises_what_the_official_one_raises(kind: str | None) -> None:
    fields: Any = ("m", kind, "d", ["s"])
    with pytest.raises((ChildContextError, SerDesError)) as ours:
        ErrorObject(*fields).raise_as_operation_error(ChildContextError)
    with pytest.raises((official.ChildContextError, official.SerDesError)) as theirs:
        official_service.ErrorObject(*fields).raise_as_operation_error(official.ChildContextError)
    for mine, other in [(ours.value, theirs.value), (ours.value.__cause__, theirs.value.__cause__)]:
        assert type(mine).__name__ == type(other).__name__
        assert vars(mine) == vars(other)


# --- service calls -----------------------------------------------------------------------------------------------------------


class ClientError(Exception):
    def __init__(self, response: Any) -> None:
        super().__init__("call failed")
        self.response = response


def answered(status: int | None, code: str | None = "SomeException", message: str | None = "text") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}})


STALE = ("InvalidParameterValueException", "Invalid checkpoint token: used")


@pytest.mark.parametrize(
    "error, category",
    [
        (answered(400), "EXECUTION"),
        (answered(400, None, None), "EXECUTION"),
        (answered(499), "EXECUTION"),
        (answered(429), "INVOCATION"),
        (answered(500), "INVOCATION"),
        (answered(None), "INVOCATION"),
        (answered(502, "KMSDisabledException"), "EXECUTION"),
        (answered(400, *STALE), "INVOCATION"),
        (answered(400, "OtherException", STALE[1]), "EXECUTION"),
        (answered(400, STALE[0], "something else"), "EXECUTION"),
        (ClientError({"ResponseMetadata": {"HTTPStatusCode": 400}}), "INVOCATION"),
        (ClientError({}), "INVOCATION"),
        (ConnectionError("gone"), "INVOCATION"),
    ],
)
def test_a_failed_call_costs_what_it_costs_in_the_official_sdk(error: Exception, category: str) -> None:
    ours, theirs = CheckpointError.from_exception(error), official.CheckpointError.from_exception(error)
    assert ours.error_category.value == theirs.error_category.value == category
    assert ours.is_retryable() is ours.is_retriable() is theirs.is_retryable() is (category == "INVOCATION")
    assert ours.build_logger_extras() == theirs.build_logger_extras()
    assert str(ours) == str(theirs)
    assert ours.termination_reason is TerminationReason.CHECKPOINT_FAILED


def test_a_stale_token_is_recognised_whatever_its_capitals() -> None:
    stale = answered(400, STALE[0], "Invalid Checkpoint Token")
    assert BotoClientError.from_exception(stale).error_category is DurableApiErrorCategory.INVOCATION
    assert official.BotoClientError.from_exception(stale).error_category.value == "EXECUTION"  # the bug this avoids


def test_an_unrecoverable_error_says_why_the_invocation_ended() -> None:
    assert ExecutionError("x").termination_reason is TerminationReason.EXECUTION_ERROR
    assert InvocationError("x").termination_reason is TerminationReason.INVOCATION_ERROR
    assert exceptions.NonDeterministicExecutionError("x", "op").termination_reason is TerminationReason.NON_DETERMINISTIC_EXECUTION
    assert exceptions.StepInterruptedError("x", "op").termination_reason is TerminationReason.STEP_INTERRUPTED
    assert exceptions.RetryableSerDesError("x").termination_reason is TerminationReason.SERIALIZATION_ERROR
    assert exceptions.GetExecutionStateError("x").termination_reason is TerminationReason.INVOCATION_ERROR


# --- what user code may catch ------------------------------------------------------------------------------------------------


def test_a_suspension_passes_through_except_exception() -> None:
    def careful() -> None:
        try:
            raise TimedSuspendExecution("until later", 5.0)
        except Exception:
            raise AssertionError("swallowed") from None

    with pytest.raises(SuspendExecution):
        careful()


def test_one_name_catches_every_error_of_the_durable_api() -> None:
    assert all(issubclass(cls, DurableExecutionsError) == issubclass(cls, Exception) for cls in ERRORS)
    assert issubclass(DurableExecutionsError, HoldfastError)
    assert issubclass(CallbackTimeoutError, CallbackError)


def test_a_suspension_knows_when_it_ends() -> None:
    clock = VirtualClock(now=10_500)
    assert TimedSuspendExecution.from_delay("m", 30, clock=clock).scheduled_timestamp == 40.5
    assert TimedSuspendExecution.from_datetime("m", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)).scheduled_timestamp == 60.0
