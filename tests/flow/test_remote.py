"""One invocation in a Lambda runtime, request by request: what is sent, and what comes of each answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.durable import durable_execution
from holdfast.durable.config import CompletionConfig, ParallelConfig, StepConfig
from holdfast.durable.exceptions import CheckpointError, ExecutionError, GetExecutionStateError, InvocationError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.plugin import DurableInstrumentationPlugin, InvocationEndInfo, InvocationStartInfo
from holdfast.durable.retries import RetryPresets
from holdfast.model.errors import InvalidParameter
from tests.flow.official.lambda_runtime import SERVING, Answered, lambda_client

ARN = "arn:aws:lambda:us-east-1:123456789012:function:f:1/durable-execution/a-name/the-id"
STARTED_AT = 1_767_225_600_000
ONCE = StepConfig(retry_strategy=RetryPresets.none())

Answer = Answered | Callable[[Mapping[str, Any]], Answered]


def execution(payload: str | None = None) -> dict[str, Any]:
    details = {} if payload is None else {"InputPayload": payload}
    return {
        "Id": "the-id",
        "Type": "EXECUTION",
        "Status": "STARTED",
        "Name": "a-name",
        "StartTimestamp": STARTED_AT,
        "ExecutionDetails": details,
    }


def event(*operations: Any, marker: str = "", token: str = "token-0") -> dict[str, Any]:
    state = {"Operations": [execution('{"n": 1}'), *operations], "NextMarker": marker}
    return {"DurableExecutionArn": ARN, "CheckpointToken": token, "InitialExecutionState": state}


class Service:
    """Answers as it is told to, and with a new token when it is told nothing; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.answers: list[Answer] = []
        self.token = 0

    def __call__(self, asked: str, members: Mapping[str, Any]) -> Answered:
        self.asked.append((asked, members))
        if self.answers:
            answer = self.answers.pop(0)
            return answer(members) if callable(answer) else answer
        return self.accepted()

    def accepted(self, *operations: Any, marker: str | None = None) -> Answered:
        self.token += 1
        state: dict[str, Any] = {"Operations": list(operations)}
        return 200, {}, {"CheckpointToken": f"token-{self.token}", "NewExecutionState": state | ({"NextMarker": marker} if marker else {})}

    @property
    def updates(self) -> list[Mapping[str, Any]]:
        return [update for asked, members in self.asked if asked == "checkpoint" for update in members["Updates"]]


@pytest.fixture
def service() -> Iterator[Service]:
    served = SERVING[ARN] = Service()
    yield served
    del SERVING[ARN]


def refusal(status: int, code: str, message: str) -> Answered:
    return status, {"x-amzn-errortype": code}, {"message": message}


def withdrawn(_: Mapping[str, Any]) -> Answered:
    return 200, {}, {"NewExecutionState": {"Operations": []}}


def lost(_: Mapping[str, Any]) -> Answered:
    raise ConnectionError("no server there")


def both(write: Callable[[str], DurableFunction]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("function", [pytest.param(write(colour), id=colour) for colour in ("def", "async")])


def one_step(colour: str) -> DurableFunction:
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            return [event, context.step(lambda _: "done", name="work", config=ONCE)]

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        return [event, await context.step(lambda _: "done", name="work", config=ONCE)]

    return coroutine


def running_a_worker(colour: str) -> DurableFunction:
    """Runs a worker, which only an engine in the same process can do."""
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            return context.run("web-scrape-worker", {"url": "https://example.com"}).outputs

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        return (await context.run("web-scrape-worker", {"url": "https://example.com"})).outputs

    return coroutine


def enqueuing(colour: str) -> DurableFunction:
    """Enqueues, which only an engine in the same process can do."""
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            return context.enqueue("send", 1, queue="emails")

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        return await context.enqueue("send", 1, queue="emails")

    return coroutine


def swallowing(colour: str) -> DurableFunction:
    """Catches every exception, which a handler should not do."""
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            try:
                context.step(lambda _: "done", config=ONCE)
            except BaseException:
                return "swallowed"

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        try:
            await context.step(lambda _: "done", config=ONCE)
        except BaseException:
            return "swallowed"

    return coroutine


@both(running_a_worker)
def test_a_worker_cannot_be_run_from_here_and_the_error_names_the_route_to_use_in_a_step(
    function: DurableFunction, service: Service
) -> None:
    output = function(event(), None)
    assert output["Status"] == "FAILED"
    assert output["Error"]["ErrorType"].endswith("RunUnavailable")
    assert "POST /v1/workers/{id}/invoke, with an `idempotency_key`" in output["Error"]["ErrorMessage"]
    assert service.updates == []


@both(enqueuing)
def test_nothing_can_be_enqueued_from_here_and_the_error_names_the_route_to_use_in_a_step(
    function: DurableFunction, service: Service
) -> None:
    output = function(event(), None)
    assert output["Status"] == "FAILED"
    assert output["Error"]["ErrorType"].endswith("RunUnavailable")
    told = output["Error"]["ErrorMessage"]
    assert "POST /v1/queues/{queue}, with an `idempotency_key`" in told
    assert "under `holdfast dev` and `holdfast serve --reload`, functions run in processes of their own" in told
    assert service.updates == []


# --- what goes out and comes in ----------------------------------------------------------------------------------------------


@both(one_step)
def test_an_invocation_writes_with_its_token_and_answers_with_its_result(function: DurableFunction, service: Service) -> None:
    output = function(event(), None)
    assert output == {"Status": "SUCCEEDED", "Result": json.dumps([{"n": 1}, "done"])}
    assert {members["CheckpointToken"] for _, members in service.asked[:1]} == {"token-0"}
    assert [(update["Type"], update["Action"], update["Name"]) for update in service.updates] == [
        ("STEP", "START", "work"),
        ("STEP", "SUCCEED", "work"),
    ]


@both(one_step)
def test_each_request_uses_the_token_of_the_answer_before(function: DurableFunction, service: Service) -> None:
    function(event(), None)
    tokens = [members["CheckpointToken"] for _, members in service.asked]
    assert tokens == [f"token-{count}" for count in range(len(tokens))]


@pytest.mark.parametrize(
    "wrong",
    [None, "text", {}, {"n": 1}, {"DurableExecutionArn": ARN}, {"CheckpointToken": "t"}, {"DurableExecutionArn": 1, "CheckpointToken": 2}],
)
def test_an_event_that_is_no_durable_invocation_is_explained(wrong: Any) -> None:
    with pytest.raises(ExecutionError, match=r"no DurableExecutionArn and CheckpointToken.*DurableConfig.*engine\.start"):
        one_step("def")(wrong, None)


def test_an_operation_that_cannot_be_read_is_told() -> None:
    odd = {"Id": "1", "Type": "SOMETHING_NEW", "Status": "STARTED", "StartTimestamp": STARTED_AT}
    with pytest.raises(InvalidParameter, match="Not an operation: Invalid enum value 'SOMETHING_NEW'"):
        one_step("def")(event(odd), None)


def test_nothing_was_given_is_an_empty_object(service: Service) -> None:
    asked = event()
    asked["InitialExecutionState"]["Operations"] = [execution(None)]
    assert one_step("def")(asked, None)["Result"] == json.dumps([{}, "done"])


def test_an_event_may_have_no_state_at_all(service: Service) -> None:
    assert one_step("def")({"DurableExecutionArn": ARN, "CheckpointToken": "token-0"}, None)["Status"] == "SUCCEEDED"


def step_succeeded(name: str, at: float) -> dict[str, Any]:
    identity = "1ced8f5be2db23a6513eba4d819c73806424748a7bc6fa0d792cc1c7d1775a97"  # the first operation of a handler
    details = {"Attempt": 1, "Result": '"remembered"'}
    common = {"Id": identity, "Type": "STEP", "SubType": "Step", "Name": name, "Status": "SUCCEEDED"}
    return {**common, "StartTimestamp": at, "EndTimestamp": at, "StepDetails": details}


@both(one_step)
def test_what_did_not_fit_into_the_event_is_fetched(function: DurableFunction, service: Service) -> None:
    asked = event(marker="more")
    asked["InitialExecutionState"]["Operations"] = []
    in_seconds = execution('"the input"') | {"StartTimestamp": STARTED_AT / 1000}
    service.answers = [
        (200, {}, {"Operations": [in_seconds], "NextMarker": "still more"}),
        (200, {}, {"Operations": [step_succeeded("work", STARTED_AT / 1000)], "NextMarker": ""}),
    ]
    assert function(asked, None) == {"Status": "SUCCEEDED", "Result": json.dumps(["the input", "remembered"])}
    markers = [(asked, members["Marker"], members["MaxItems"], members["CheckpointToken"]) for asked, members in service.asked]
    assert markers == [("state", "more", "1000", "token-0"), ("state", "still more", "1000", "token-0")]


def test_what_did_not_fit_into_an_answer_is_fetched_with_the_new_token(service: Service) -> None:
    @durable_execution(boto3_client=lambda_client())
    def handler(event: Any, context: Any) -> Any:
        return context.create_callback("ask").callback_id

    identity = "1ced8f5be2db23a6513eba4d819c73806424748a7bc6fa0d792cc1c7d1775a97"
    common = {"Id": identity, "Type": "CALLBACK", "SubType": "Callback", "Name": "ask", "Status": "STARTED"}
    told = {**common, "StartTimestamp": STARTED_AT / 1000, "CallbackDetails": {"CallbackId": "the-callback"}}
    service.answers = [lambda _: service.accepted(marker="rest"), (200, {}, {"Operations": [told]})]
    assert handler(event(), None) == {"Status": "SUCCEEDED", "Result": '"the-callback"'}
    assert [(asked, members["CheckpointToken"]) for asked, members in service.asked] == [("checkpoint", "token-0"), ("state", "token-1")]


# --- refusals ----------------------------------------------------------------------------------------------------------------

TRY_AGAIN: list[Answer] = [
    refusal(429, "TooManyRequestsException", "slow down"),
    refusal(500, "ServiceException", "trouble"),
    refusal(503, "ServiceUnavailable", "trouble"),
    refusal(400, "InvalidParameterValueException", "Invalid checkpoint token"),
    refusal(400, "InvalidParameterValueException", "Invalid Checkpoint Token: too old"),
    lost,
]
FOR_GOOD = [
    refusal(400, "InvalidParameterValueException", "STEP output payload size must be less than or equal to 262144 bytes."),
    refusal(403, "AccessDeniedException", "not allowed"),
    refusal(404, "ResourceNotFoundException", "no such thing"),
    refusal(502, "KMSDisabledException", "the key is off"),
]


@pytest.mark.parametrize("answer", TRY_AGAIN)
@both(one_step)
def test_trouble_that_may_pass_is_raised_so_that_the_service_invokes_again(
    function: DurableFunction, answer: Answer, service: Service
) -> None:
    service.answers = [answer]
    with pytest.raises(CheckpointError) as raised:
        function(event(), None)
    assert raised.value.is_retryable()


@pytest.mark.parametrize("answer", FOR_GOOD)
@both(one_step)
def test_a_refusal_for_good_fails_the_execution(function: DurableFunction, answer: Answered, service: Service) -> None:
    service.answers = [answer]
    output = function(event(), None)
    assert output["Status"] == "FAILED"
    assert output["Error"]["ErrorType"] == "aws_durable_execution_sdk_python.exceptions.CheckpointError"
    assert answer[2]["message"] in output["Error"]["ErrorMessage"]


@pytest.mark.parametrize("answer", TRY_AGAIN)
def test_the_same_holds_for_reading_the_state(answer: Answer, service: Service) -> None:
    service.answers = [answer]
    with pytest.raises(GetExecutionStateError):
        one_step("def")(event(marker="more"), None)


@pytest.mark.parametrize("answer", FOR_GOOD)
def test_a_state_that_is_refused_for_good_fails_the_execution(answer: Answered, service: Service) -> None:
    service.answers = [answer]
    output = one_step("def")(event(marker="more"), None)
    assert (output["Status"], output["Error"]["ErrorType"]) == (
        "FAILED",
        "aws_durable_execution_sdk_python.exceptions.GetExecutionStateError",
    )


def test_without_a_token_nothing_is_asked(service: Service) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint token"):
        one_step("def")(event(token=""), None)
    with pytest.raises(GetExecutionStateError, match="no checkpoint token"):
        one_step("def")(event(token="", marker="more"), None)
    assert service.asked == []


@pytest.mark.parametrize("make", [one_step, swallowing])
@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_withdrawn_token_ends_the_invocation_as_pending(make: Callable[[str], DurableFunction], colour: str, service: Service) -> None:
    service.answers = [withdrawn]
    assert make(colour)(event(), None) == {"Status": "PENDING"}
    assert len(service.asked) == 1


def test_an_invocation_error_is_raised_and_any_other_is_the_answer(service: Service) -> None:
    @durable_execution(boto3_client=lambda_client())
    def handler(event: Any, context: Any) -> Any:
        raise InvocationError("again") if event["n"] == 1 else KeyError("k")

    with pytest.raises(InvocationError, match="again"):
        handler(event(), None)
    asked = event()
    asked["InitialExecutionState"]["Operations"] = [execution('{"n": 2}')]
    assert handler(asked, None) == {"Status": "FAILED", "Error": {"ErrorMessage": "'k'", "ErrorType": "KeyError"}}
    assert service.asked == []


# --- endings too large for an answer -----------------------------------------------------------------------------------------

TOO_LARGE = 6 * 1024 * 1024


def large(colour: str) -> DurableFunction:
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            if context.lambda_context.fails:
                raise ValueError("x" * TOO_LARGE)
            return "x" * TOO_LARGE

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        if context.lambda_context.fails:
            raise ValueError("x" * TOO_LARGE)
        return "x" * TOO_LARGE

    return coroutine


@both(large)
def test_a_result_too_large_for_an_answer_is_written_instead(function: DurableFunction, service: Service) -> None:
    assert function(event(), SimpleNamespace(fails=False)) == {"Status": "SUCCEEDED", "Result": ""}
    (update,) = service.updates
    assert (update["Type"], update["Action"], len(update["Payload"])) == ("EXECUTION", "SUCCEED", TOO_LARGE + 2)
    assert update["Id"].startswith("execution-result-")


@both(large)
def test_an_error_too_large_for_an_answer_is_written_instead(function: DurableFunction, service: Service) -> None:
    service.answers = [withdrawn]  # as the service does when an execution is over
    assert function(event(), SimpleNamespace(fails=True)) == {"Status": "FAILED"}
    (update,) = service.updates
    assert (update["Type"], update["Action"], update["Error"]["ErrorType"]) == ("EXECUTION", "FAIL", "ValueError")


def test_a_large_ending_that_is_refused_is_classified_like_any_write(service: Service) -> None:
    service.answers = [refusal(400, "InvalidParameterValueException", "Execution output payload size must be less"), TRY_AGAIN[0]]
    assert large("def")(event(), SimpleNamespace(fails=False))["Error"]["ErrorType"].endswith("CheckpointError")
    with pytest.raises(CheckpointError):
        large("def")(event(), SimpleNamespace(fails=False))


# --- the code around ---------------------------------------------------------------------------------------------------------


def test_the_runtimes_context_is_at_hand_in_children_too(service: Service) -> None:
    @durable_execution(boto3_client=lambda_client())
    def handler(event: Any, context: Any) -> Any:
        return [context.lambda_context.name, context.run_in_child_context(lambda child: child.lambda_context.name)]

    assert handler(event(), SimpleNamespace(name="here"))["Result"] == '["here", "here"]'


def test_no_thread_outlives_its_invocation(service: Service) -> None:
    """A frozen environment would wake it up in the middle of another one."""
    before = set(threading.enumerate())
    batch_over = threading.Event()
    late: list[str] = []

    def slow(branch: Any) -> Any:
        batch_over.wait(20)
        late.append("ran on")
        branch.step(lambda _: late.append("a new step"))

    @durable_execution(boto3_client=lambda_client())
    def handler(event: Any, context: Any) -> Any:
        config = ParallelConfig(completion_config=CompletionConfig.first_successful())
        batch = context.parallel([slow, lambda branch: branch.step(lambda _: "fast")], config=config)
        batch_over.set()
        return batch.get_results()

    assert handler(event(), None)["Result"] == '["fast"]'
    assert late[0] == "ran on"
    assert set(threading.enumerate()) - before == set()


def test_a_lambda_service_cannot_continue_as_new(service: Service) -> None:
    @durable_execution(boto3_client=lambda_client())
    def handler(event: Any, context: Any) -> Any:
        context.continue_as_new({"n": 2})

    output = handler(event(), None)
    assert output["Status"] == "FAILED"
    assert "cannot continue an execution as a new one" in output["Error"]["ErrorMessage"]


class Told(DurableInstrumentationPlugin):
    """Keeps what it is told."""

    seen: list[Any]

    @classmethod
    def create_plugin(cls, info: InvocationStartInfo) -> Told:
        return cls()

    def on_invocation_start(self, info: InvocationStartInfo) -> None:
        self.seen.append(("start", info.request_id, info.is_first_invocation, list(info.updated_operations)))

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        self.seen.append(("end", info.status.value))


@pytest.mark.parametrize("colour", ["def", "async"])
def test_plugins_are_told_of_the_invocation(colour: str, service: Service) -> None:
    function = one_step(colour)
    Told.seen = []
    function.plugins = [Told]
    again = event(step_succeeded("work", STARTED_AT)) | {"UpdatedOperationIds": [step_succeeded("work", STARTED_AT)["Id"]]}
    function(event(), SimpleNamespace(aws_request_id="request-1"))
    function(again, SimpleNamespace(aws_request_id="request-2"))
    service.answers = [withdrawn]
    function(event(), SimpleNamespace(aws_request_id="request-3"))
    assert Told.seen == [
        ("start", "request-1", True, []),
        ("end", "SUCCEEDED"),
        ("start", "request-2", False, [step_succeeded("work", STARTED_AT)["Id"]]),
        ("end", "SUCCEEDED"),
        ("start", "request-3", True, []),
        ("end", "PENDING"),
    ]


def patching(colour: str) -> DurableFunction:
    if colour == "def":

        @durable_execution(boto3_client=lambda_client())
        def handler(event: Any, context: Any) -> Any:
            return [context.patched("louder"), context.step(lambda _: "done", name="work", config=ONCE)]

        return handler

    @durable_execution(boto3_client=lambda_client())
    async def coroutine(event: Any, context: Any) -> Any:
        return [context.patched("louder"), await context.step(lambda _: "done", name="work", config=ONCE)]

    return coroutine


@both(patching)
def test_a_marker_is_a_step_of_its_own_sub_type_that_succeeds_at_once_and_comes_first(function: DurableFunction, service: Service) -> None:
    assert json.loads(function(event(), None)["Result"]) == [True, "done"]
    first, *others = [(update["Type"], update["SubType"], update["Action"], update["Name"]) for update in service.updates]
    assert first == ("STEP", "Patch", "SUCCEED", "louder")
    assert [other[3] for other in others] == ["work", "work"]
