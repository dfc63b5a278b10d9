"""Plugins without an execution: the content of an info, and the possible results of calling a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.hooks.plugin_calls import Plugins
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.plugin import (
    DurableInstrumentationPlugin,
    InvocationEndInfo,
    InvocationStartInfo,
    InvocationStatus,
    OperationChangeInfo,
    OperationEndInfo,
    OperationInfo,
    OperationStartInfo,
    PropagationInput,
    PropagationMetadata,
    UserFunctionEndInfo,
    UserFunctionOutcome,
    UserFunctionStartInfo,
)
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Execution, Outcome, OutcomeStatus, Terms
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Failure, Operation, Status, Type, served_since
from holdfast.model.ports import Invocation

NOON = 1_767_225_600_000
NOON_TIME = datetime(2026, 1, 1, tzinfo=UTC)
STEP = Operation(id="s", type=Type.STEP, status=Status.STARTED, started_at=NOON, sub_type="Step", name="pay", attempt=2, revision=5)
START = InvocationStartInfo("request", "arn", False, execution_input={"secret": 1})


def closed(operation: Operation, **values: Any) -> Operation:
    members = {name: getattr(operation, name) for name in operation.__struct_fields__}
    return Operation(**{**members, "status": Status.SUCCEEDED, "ended_at": NOON + 1000, **values})


# --- infos -------------------------------------------------------------------------------------------------------------------


def test_an_operation_is_told_as_it_is_stored() -> None:
    assert OperationInfo.from_operation(STEP) == OperationInfo(
        "s", Type.STEP, "Step", "pay", None, NOON_TIME, False, Status.STARTED, attempt=2
    )
    told = OperationInfo.from_operation(closed(STEP, result="7", parent_id="p"), is_replayed=True)
    assert (told.status, told.result, told.parent_id, told.is_replayed) == (Status.SUCCEEDED, "7", "p", True)
    assert told.end_time == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_only_a_step_has_attempts() -> None:
    assert OperationInfo.from_operation(closed(STEP, type=Type.WAIT)).attempt is None


def test_an_error_is_the_plugins_own_copy() -> None:
    failure = Failure("no", "ValueError", None, ("line",))
    told = OperationInfo.from_operation(closed(STEP, status=Status.FAILED, error=failure)).error
    assert told == ErrorObject("no", "ValueError", None, ["line"])
    told.stack_trace.clear()  # type: ignore[union-attr]
    assert failure.stack_trace == ("line",)


def test_an_error_without_members_is_none() -> None:
    assert OperationInfo.from_operation(closed(STEP, status=Status.FAILED, error=Failure())).error is None


def test_payloads_are_not_shown_and_tell_no_two_infos_apart() -> None:
    other = replace(START, execution_input=[2], operations={"s": OperationInfo.from_operation(STEP)})
    assert other == START
    assert hash(START) == hash(other)
    ended = InvocationEndInfo("request", "arn", False, status=InvocationStatus.SUCCEEDED, execution_result="secret")
    assert "secret" not in repr(START) + repr(ended)


@pytest.mark.parametrize(
    "outcome, status, result",
    [
        (Outcome(OutcomeStatus.SUCCEEDED, "1"), InvocationStatus.SUCCEEDED, "1"),
        (Outcome(OutcomeStatus.CONTINUED, "1"), InvocationStatus.SUCCEEDED, None),
        (Outcome(OutcomeStatus.PENDING), InvocationStatus.PENDING, None),
        (Outcome(OutcomeStatus.FAILED, error=Failure("no")), InvocationStatus.FAILED, None),
        (Outcome(OutcomeStatus.CRASHED, error=Failure("no")), InvocationStatus.RETRY, None),
    ],
)
def test_an_invocations_end_says_what_it_came_to(outcome: Outcome, status: InvocationStatus, result: str | None) -> None:
    info = InvocationEndInfo.from_durable_execution_invocation_output(START, outcome)
    assert (info.status, info.execution_result) == (status, result)
    assert info.error == (ErrorObject("no", None, None, None) if outcome.error else None)
    assert (info.request_id, info.execution_arn, info.execution_input) == ("request", "arn", {"secret": 1})


def test_a_functions_end_repeats_its_start() -> None:
    start = UserFunctionStartInfo("s", Type.STEP, "Step", "pay", None, NOON_TIME, False, Status.STARTED, attempt=3)
    error = ErrorObject("no", "ValueError", None, None)
    clock = VirtualClock(NOON)
    assert UserFunctionEndInfo.from_start_info(start, None, clock=clock).outcome is UserFunctionOutcome.SUCCEEDED
    assert UserFunctionEndInfo.from_start_info(start, None, outcome=UserFunctionOutcome.INCOMPLETE).error is None
    failed = UserFunctionEndInfo.from_start_info(start, error, clock=clock)
    assert (failed.outcome, failed.error, failed.attempt, failed.end_time) == (UserFunctionOutcome.FAILED, error, 3, NOON_TIME)


def test_what_the_service_changed_is_what_it_closed_or_made_ready() -> None:
    wait = closed(STEP, id="w", type=Type.WAIT)
    ready = closed(STEP, id="r", status=Status.READY, ended_at=None)
    assert served_since([STEP, wait, ready, closed(STEP), closed(wait, id="o", status=Status.STARTED)], 4) == ["w", "r"]
    assert served_since([wait, ready], 5) == []


# --- calling -----------------------------------------------------------------------------------------------------------------


class Making:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def create_plugin(self, info: InvocationStartInfo) -> Any:
        return self._make()


class Recorder(DurableInstrumentationPlugin):
    def __init__(self, told: list[str], name: str, raised: BaseException | None = None) -> None:
        self._told, self._name, self._raised = told, name, raised

    def on_invocation_start(self, info: InvocationStartInfo) -> None:
        self._tell("start")

    def on_operation_start(self, info: OperationStartInfo) -> None:
        self._tell("operation")

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        self._tell("end")

    def _tell(self, what: str) -> None:
        self._told.append(f"{self._name} {what}")
        if self._raised is not None:
            raise self._raised


OPERATION = OperationStartInfo("s", Type.STEP, "Step", "pay", None, None, False, Status.STARTED)
END = InvocationEndInfo("request", "arn", False, status=InvocationStatus.PENDING)


def test_plugins_are_called_in_their_order_whatever_one_of_them_raises(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    plugins = Plugins([Making(lambda: Recorder(told, "a", ValueError("mine"))), Making(lambda: Recorder(told, "b"))], START)
    plugins.begin(START)
    plugins.tell(OPERATION)
    plugins.end(END)
    assert told == ["a start", "b start", "a operation", "b operation", "a end", "b end"]
    assert [record.getMessage() for record in caplog.records] == [
        f"The plugin Recorder raised in {hook}; ignored." for hook in ("on_invocation_start", "on_operation_start", "on_invocation_end")
    ]
    assert all(record.exc_info for record in caplog.records)


def test_who_was_not_told_of_the_start_is_told_nothing_and_all_others_are_told_of_the_end() -> None:
    told: list[str] = []
    plugins = Plugins([Making(lambda: Recorder(told, "a", SystemExit())), Making(lambda: Recorder(told, "b"))], START)
    with pytest.raises(SystemExit):
        plugins.begin(START)
    with pytest.raises(SystemExit):
        plugins.end(END)
    assert told == ["a start", "a end"]
    told.clear()
    plugins = Plugins([Making(lambda: Recorder(told, "b")), Making(lambda: Recorder(told, "a", SystemExit()))], START)
    with pytest.raises(SystemExit):
        plugins.begin(START)
    with pytest.raises(SystemExit):
        plugins.end(END)
    assert told == ["b start", "a start", "b end", "a end"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_of_a_group_only_what_says_stop_goes_on(stop: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    group = BaseExceptionGroup("several", [ValueError("mine"), stop()])
    with pytest.raises(BaseExceptionGroup) as raised:
        Plugins([Making(lambda: Recorder([], "a", group))], START).begin(START)
    assert [type(error) for error in raised.value.exceptions] == [stop]
    assert "ValueError: mine" in caplog.text


def test_a_hook_that_is_a_coroutine_is_told_to_be_none(caplog: pytest.LogCaptureFixture) -> None:
    class Awaiting(DurableInstrumentationPlugin):
        async def on_invocation_start(self, info: InvocationStartInfo) -> None:  # type: ignore[override]
            raise AssertionError("the engine must not await it")

    Plugins([Making(Awaiting)], START).begin(START)
    assert "a hook must not be async" in caplog.text


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: 1 // 0, "The plugin factory Making raised"),
        (lambda: None, "made NoneType, which is not a DurableInstrumentationPlugin"),
        (object, "made object, which is not a DurableInstrumentationPlugin"),
    ],
)
def test_a_factory_that_makes_no_plugin_is_left_out(make: Any, complaint: str, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    Plugins([Making(make), Making(lambda: Recorder(told, "b"))], START).begin(START)
    assert told == ["b start"]
    assert complaint in caplog.text


def test_changes_are_only_made_for_those_who_look() -> None:
    class Looking(DurableInstrumentationPlugin):
        def on_operation_change(self, info: Any) -> None: ...

    assert not Plugins([Making(lambda: Recorder([], "a"))], START).want_changes
    assert Plugins([Making(lambda: Recorder([], "a")), Making(Looking)], START).want_changes


class Tracing(DurableInstrumentationPlugin):
    def __init__(self, told: Any) -> None:
        self._told = told

    def provide_propagation_metadata(self, info: PropagationInput) -> Any:
        if isinstance(self._told, BaseException):
            raise self._told
        return self._told


@pytest.mark.parametrize(
    "told, found, complaint",
    [
        ([PropagationMetadata("a"), PropagationMetadata("b")], "a", "another trace id than an earlier plugin"),
        ([PropagationMetadata("a"), PropagationMetadata("a")], "a", ""),
        ([None, PropagationMetadata(), PropagationMetadata(" "), PropagationMetadata("b")], "b", ""),
        ([ValueError("mine"), PropagationMetadata("b")], "b", "raised in provide_propagation_metadata"),
        ([asyncio.CancelledError(), PropagationMetadata("b")], "b", "raised in provide_propagation_metadata"),
        (["text", PropagationMetadata("b")], "b", "expected PropagationMetadata or None, not str"),
        ([PropagationMetadata(7), PropagationMetadata("b")], "b", "must be text or None, not int"),  # type: ignore[arg-type]
        ([], None, ""),
    ],
)
def test_the_first_trace_id_wins(told: list[Any], found: str | None, complaint: str, caplog: pytest.LogCaptureFixture) -> None:
    asked = PropagationInput("arn", "i", "other")
    assert Plugins([Making(lambda one=one: Tracing(one)) for one in told], START).trace_id(asked) == found  # type: ignore[misc]
    assert complaint in caplog.text
    assert bool(caplog.records) is bool(complaint)


# --- moments that no handler can be brought to surely ------------------------------------------------------------------------


class Kept(DurableInstrumentationPlugin):
    """Keeps its ends, and says stop at one of them."""

    def __init__(self, told: list[Any], stops_at: str | None = None) -> None:
        self._told, self._stops_at = told, stops_at

    def on_operation_end(self, info: OperationEndInfo) -> None:
        self._told.append(info.operation_id)
        if info.operation_id == self._stops_at:
            raise SystemExit

    def on_user_function_end(self, info: UserFunctionEndInfo) -> None:
        self._told.append((info.operation_id, info.outcome.value))

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        self._told.append(info.status.value)


def begun(told: list[Any], *known: Operation, stops_at: str | None = None) -> tuple[Hooks, dict[str, Operation]]:
    header = Execution(
        id="x", function="f", version="v", name="n", input_hash="", terms=Terms(), started_at=NOON, deadline=NOON, invocation="request"
    )
    operations = {operation.id: operation for operation in known}
    hooks = Hooks([Making(lambda: Kept(told, stops_at))], operations, VirtualClock(NOON))
    hooks.begin(Invocation("arn", header, Position("x", 1, 0, 0), fresh=False), "{}")
    return hooks, operations


CONTEXT = Operation(id="c", type=Type.CONTEXT, status=Status.STARTED, started_at=NOON, sub_type="RunInChildContext")
CALLBACKS = [closed(CONTEXT, id=name, type=Type.CALLBACK, parent_id="c") for name in ("one", "two")]


def test_what_nobody_asked_for_ends_with_the_context_it_is_in() -> None:
    told: list[Any] = []
    hooks, operations = begun(told, CONTEXT)
    inner = closed(STEP, parent_id="c")
    hooks.learning([*CALLBACKS, inner, closed(CONTEXT)], lambda learnt: operations.update({op.id: op for op in learnt}))
    hooks.recorded(Identity("c", Type.CONTEXT, "RunInChildContext").update(Action.SUCCEED))
    assert told == ["two", "one", "c"], "as in the official SDK; a caller waits for the step"
    hooks.looked(operations["one"])
    assert told == ["two", "one", "c"], "once"
    hooks.end(Outcome(OutcomeStatus.SUCCEEDED))
    assert told == ["two", "one", "c", "s", "SUCCEEDED"]


def test_an_open_operation_is_told_once_by_a_replay_and_a_ready_one_when_it_begins_again() -> None:
    told: list[Any] = []

    class Starts(DurableInstrumentationPlugin):
        def on_operation_start(self, info: OperationStartInfo) -> None:
            told.append((info.operation_id, info.status.value, info.is_replayed, info.start_time))

    ready = closed(STEP, id="r", status=Status.READY, ended_at=None)
    hooks = Hooks([Making(Starts)], {"c": CONTEXT, "r": ready}, VirtualClock(NOON))
    hooks.begin(msgspec.structs.replace(begun([])[0]._invocation, updated=()), "{}")
    for operation in (CONTEXT, CONTEXT, ready):
        hooks.met_again(operation)
    assert told == [("c", "STARTED", True, NOON_TIME)]
    hooks.recording(Identity("r", Type.STEP, "Step").update(Action.START))
    assert told[1:] == [("r", "STARTED", True, None)]


def test_what_nobody_waited_for_has_changed_before_the_invocation_ends() -> None:
    told: list[Any] = []

    class Changes(Kept):
        def on_operation_change(self, info: OperationChangeInfo) -> None:
            told.append({key: operation.status.value for key, operation in info.updated_operations.items()})

    operations = {"c": CONTEXT}
    hooks = Hooks([Making(lambda: Changes(told))], operations, VirtualClock(NOON))
    hooks.begin(begun([])[0]._invocation, "{}")
    for learnt in ([CONTEXT], [CONTEXT, STEP], [closed(CONTEXT)]):
        hooks.learning(learnt, lambda found: operations.update({op.id: op for op in found}))
    hooks.recorded(Identity("c", Type.CONTEXT, "Child").update(Action.SUCCEED))
    assert told == ["c", {"s": "STARTED", "c": "SUCCEEDED"}]
    hooks.learning([closed(STEP), closed(CONTEXT)], lambda found: operations.update({op.id: op for op in found}))
    hooks.end(Outcome(OutcomeStatus.PENDING))
    assert told[2:] == ["s", {"s": "SUCCEEDED"}, "PENDING"]


def test_a_stop_while_the_rest_is_told_does_not_keep_the_rest_from_being_told() -> None:
    told: list[Any] = []
    hooks, _ = begun(told, CONTEXT, stops_at="one")
    hooks.learning(CALLBACKS, lambda learnt: None)
    ended = hooks.end(Outcome(OutcomeStatus.SUCCEEDED))
    assert told == ["one", "two", "SUCCEEDED"]
    assert (ended.status, ended.error and ended.error.type) == (OutcomeStatus.CRASHED, "SystemExit")


def test_a_stop_ends_the_invocation_and_not_the_loop_it_runs_on() -> None:
    hooks, _ = begun([], CONTEXT, stops_at="one")
    hooks.learning(CALLBACKS, lambda learnt: None)
    with pytest.raises(BackgroundThreadError) as raised:
        hooks.looked(CALLBACKS[0])
    assert isinstance(raised.value.source_exception, SystemExit)


def test_after_its_end_an_invocation_is_told_nothing() -> None:
    told: list[Any] = []
    hooks, _ = begun(told)
    body = hooks.watched(lambda: told.append("ran"), Identity("s", Type.STEP, "Step"), 1)
    plan = hooks.running(Identity("c", Type.CONTEXT, "Child"), iter_forever(), None)
    next(plan)
    hooks.end(Outcome(OutcomeStatus.PENDING))
    assert told == [("c", "INCOMPLETE"), "PENDING"]
    plan.close()
    body()
    hooks.learning(CALLBACKS, lambda learnt: None)
    hooks.looked(CALLBACKS[0])
    assert hooks.end(Outcome(OutcomeStatus.SUCCEEDED)).status is OutcomeStatus.SUCCEEDED
    assert told == [("c", "INCOMPLETE"), "PENDING", "ran"]


def iter_forever() -> Any:
    while True:
        yield


def test_an_input_that_is_not_json_is_the_handlers_to_complain_about() -> None:
    infos: list[InvocationStartInfo] = []

    class Starts(DurableInstrumentationPlugin):
        def on_invocation_start(self, info: InvocationStartInfo) -> None:
            infos.append(info)

    hooks, _ = begun([])
    for payload in ("{", "", '{"a": [1]}'):
        Hooks([Making(Starts)], {}, VirtualClock(NOON)).begin(hooks._invocation, payload)
    assert [info.execution_input for info in infos] == [None, {}, {"a": [1]}]
