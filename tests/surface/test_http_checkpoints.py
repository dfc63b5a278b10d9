"""CheckpointDurableExecution and GetDurableExecutionState with boto3: here the test is the handler."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError

from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.service.settings import Settings
from tests.surface.http_functions import ALL
from tests.surface.http_server import Live, Served, SilentHost, client, served

STALE = "Invalid checkpoint token"


class Handler:
    """A handler's side of one invocation."""

    def __init__(self, server: Served, live: Live) -> None:
        self.server = server
        self.live = live
        self.arn = live.arn
        self.token = server.token(live)

    def checkpoint(self, *updates: dict[str, Any], **asked: Any) -> Any:
        """Write, and keep the next token."""
        request = {"DurableExecutionArn": self.arn, "CheckpointToken": self.token, "Updates": list(updates)} | asked
        answer = self.server.lambda_.checkpoint_durable_execution(**request)
        self.token = answer.get("CheckpointToken", "")
        return answer

    def refused(self, *updates: dict[str, Any], **asked: Any) -> str:
        """A checkpoint that is not accepted, and why."""
        before = self.server.count()
        with pytest.raises(self.server.lambda_.exceptions.InvalidParameterValueException) as error:
            self.checkpoint(*updates, **asked)
        assert self.server.count() == before, "nothing is written"
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        return str(error.value.response["Error"]["Message"])

    def state(self, size: int | None = None, **asked: Any) -> list[Any]:
        """All operations, by boto3's own paginator."""
        pages = self.server.lambda_.get_paginator("get_durable_execution_state")
        config = {} if size is None else {"PaginationConfig": {"PageSize": size}}
        found = pages.paginate(DurableExecutionArn=self.arn, CheckpointToken=self.token, **asked, **config)
        return [operation for page in found for operation in page["Operations"]]


def step(name: str, action: str = "SUCCEED", **more: Any) -> dict[str, Any]:
    return {"Id": name, "Type": "STEP", "Action": action, "Name": name, "SubType": "Step"} | more


@pytest.fixture(scope="module")
def host() -> SilentHost:
    return SilentHost()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, host: SilentHost) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("checkpoints") / "store.db", ALL, host=host, settings=Settings(threads=1000)) as running:
        yield running


def began(server: Served, host: SilentHost, payload: bytes = b'{"n": 1}', function: str = "endless") -> Handler:
    server.invoke(f"{function}:$LATEST", payload, InvocationType="Event")
    return Handler(server, host.next())


@pytest.fixture
def handler(server: Served, host: SilentHost) -> Handler:
    return began(server, host)


# --- writing


def test_a_checkpoint_answers_with_the_next_token_and_what_changed(handler: Handler) -> None:
    first = handler.token
    answer = handler.checkpoint(step("a", Payload='"done"'))
    assert answer["CheckpointToken"] not in ("", first)
    (operation,) = answer["NewExecutionState"]["Operations"]
    assert (operation["Id"], operation["Type"], operation["Status"]) == ("a", "STEP", "SUCCEEDED")
    assert operation["StepDetails"] == {"Attempt": 1, "Result": '"done"'}
    assert operation["StartTimestamp"] <= operation["EndTimestamp"]
    assert (operation["Name"], operation["SubType"]) == ("a", "Step")


def test_a_checkpoint_of_nothing_uses_its_token_up(handler: Handler) -> None:
    first = handler.token
    assert handler.checkpoint()["NewExecutionState"]["Operations"] == []
    assert handler.token != first
    handler.token = first
    assert handler.refused() == STALE


def test_updates_may_be_left_out(handler: Handler) -> None:
    answer = handler.server.lambda_.checkpoint_durable_execution(DurableExecutionArn=handler.arn, CheckpointToken=handler.token)
    assert answer["CheckpointToken"]


def test_a_repeated_request_gets_the_same_answer_whatever_it_brings(handler: Handler) -> None:
    first = handler.token
    answer = handler.checkpoint(step("a", Payload="1"), ClientToken="same")
    count = handler.server.count()
    handler.token = first
    again = handler.checkpoint(step("b", Payload="2"), ClientToken="same")
    assert again["CheckpointToken"] == answer["CheckpointToken"]
    assert again["NewExecutionState"] == answer["NewExecutionState"]
    assert handler.server.count() == count, "it is written once"
    handler.token = first
    assert handler.refused(step("b"), ClientToken="other") == STALE


def test_a_repeated_request_gets_the_same_answer_after_a_restart(tmp_path: Path) -> None:
    host = SilentHost()
    with served(tmp_path / "store.db", ALL, host=host) as first:
        handler = began(first, host)
        token = handler.token
        answer = handler.checkpoint(step("a", Payload="1"), ClientToken="same")
    with served(tmp_path / "store.db", ALL, host=SilentHost()) as second:
        asked = {"DurableExecutionArn": handler.arn, "CheckpointToken": token, "ClientToken": "same"}
        again = second.lambda_.checkpoint_durable_execution(**asked)
        assert again["CheckpointToken"] == answer["CheckpointToken"]
        assert again["NewExecutionState"]["Operations"] == answer["NewExecutionState"]["Operations"]


def test_a_callback_gets_its_id_in_the_same_answer(handler: Handler) -> None:
    options = {"TimeoutSeconds": 60, "HeartbeatTimeoutSeconds": 10}
    answer = handler.checkpoint({"Id": "c", "Type": "CALLBACK", "Action": "START", "CallbackOptions": options})
    (operation,) = answer["NewExecutionState"]["Operations"]
    handler.server.lambda_.send_durable_execution_callback_success(CallbackId=operation["CallbackDetails"]["CallbackId"], Result=b"yes")
    (operation,) = handler.checkpoint()["NewExecutionState"]["Operations"]
    assert (operation["Status"], operation["CallbackDetails"]["Result"]) == ("SUCCEEDED", "yes")


def test_what_ends_the_execution_gets_no_token(handler: Handler) -> None:
    answer = handler.checkpoint({"Id": "execution-result-1", "Type": "EXECUTION", "Action": "SUCCEED", "Payload": '"large"'})
    assert "CheckpointToken" not in answer
    shown = handler.server.find(handler.arn)
    assert (shown["Status"], shown["Result"]) == ("SUCCEEDED", '"large"')


def test_a_handler_that_goes_to_sleep_is_not_invoked_again_for_what_it_wrote_itself(server: Served, host: SilentHost) -> None:
    handler = began(server, host)
    handler.checkpoint(step("a"))
    answer = handler.checkpoint({"Id": "c", "Type": "CALLBACK", "Action": "START"})
    handler.live.end(server, Outcome(OutcomeStatus.PENDING))
    callback = answer["NewExecutionState"]["Operations"][0]["CallbackDetails"]["CallbackId"]
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback)
    woken = host.next()
    assert woken.arn == handler.arn
    events = server.lambda_.get_durable_execution_history(DurableExecutionArn=handler.arn)["Events"]
    assert [event["EventType"] for event in events].count("InvocationCompleted") == 1


def test_a_handler_that_missed_an_answer_is_invoked_again_at_once(server: Served, host: SilentHost) -> None:
    handler = began(server, host)
    answer = handler.checkpoint({"Id": "c", "Type": "CALLBACK", "Action": "START"}, {"Id": "d", "Type": "CALLBACK", "Action": "START"})
    callback = answer["NewExecutionState"]["Operations"][0]["CallbackDetails"]["CallbackId"]
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback)
    handler.live.end(server, Outcome(OutcomeStatus.PENDING))
    assert host.next().arn == handler.arn


@pytest.mark.parametrize(
    "updates, says",
    [
        ([step("a"), step("a")], "Cannot checkpoint multiple operations with the same ID."),
        ([step("a", ParentId="nobody")], "Invalid parent operation id."),
        ([step("a", "CANCEL")], "Invalid action for the given operation type."),
        ([step("a", "RETRY")], "Invalid StepOptions for the given action."),
        ([step("a", "FAIL", Payload="1")], "Cannot provide a Payload for FAIL action."),
        ([{"Id": "w", "Type": "WAIT", "Action": "START", "WaitOptions": {"WaitSeconds": 31_622_401}}], "WaitSeconds"),
        ([{"Id": "w", "Type": "NAP", "Action": "START"}], "NAP"),
        ([{"Id": "a b", "Type": "STEP", "Action": "START"}], "Id"),
        ([{"Id": "x" * 65, "Type": "STEP", "Action": "START"}], "Id"),
        ([step("a", Name="é")], "Name"),
        ([step("a", SubType="x" * 33)], "SubType"),
        ([step("ok"), step("a", SubType="no spaces")], "SubType"),
        ([{"Id": "e", "Type": "EXECUTION", "Action": "SUCCEED"}, step("a")], "EXECUTION checkpoint must be the last update."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_bad_update_refuses_the_whole_batch(handler: Handler, updates: list[dict[str, Any]], says: str) -> None:
    assert says in handler.refused(step("good"), *updates)
    handler.checkpoint(step("good"))


@pytest.mark.parametrize(
    "asked",
    [
        {"ClientToken": "x" * 65},
        {"ClientToken": "a b"},
        {"CheckpointToken": "x" * 2049},
        {"CheckpointToken": "!"},
        {"CheckpointToken": "AAAA"},
    ],
    ids=str,
)
def test_a_token_that_breaks_its_constraint_is_refused(handler: Handler, asked: dict[str, str]) -> None:
    handler.refused(**asked)


def test_a_payload_that_is_too_large_is_the_callers_mistake(handler: Handler) -> None:
    says = handler.refused(step("a", Payload="x" * (6 * 1024 * 1024 + 1)))
    assert says == "STEP output payload size must be less than or equal to 6291456 bytes."
    handler.checkpoint(step("a", Payload='"' + '\\"' * (3 * 1024 * 1024 - 1) + '"'))


# --- tokens


def test_a_token_of_another_execution_is_refused(server: Served, host: SilentHost) -> None:
    one, other = began(server, host), began(server, host)
    other.token = one.token
    assert other.refused(step("a")) == "Checkpoint token is not valid for the durable execution ARN"


def test_an_execution_that_is_not_there_is_a_bad_token_not_a_404(handler: Handler) -> None:
    missing = "01a1e272-eb80-7000-b221-33b3c2de15dd"
    token = handler.server.api.engine.store.seal.token(handler.live.position._replace(execution=missing))
    arn = f"{handler.arn.rpartition('/')[0]}/{missing}"
    for operation in ("checkpoint_durable_execution", "get_durable_execution_state"):
        with pytest.raises(handler.server.lambda_.exceptions.InvalidParameterValueException, match=STALE):
            getattr(handler.server.lambda_, operation)(DurableExecutionArn=arn, CheckpointToken=token)


def test_the_token_of_a_stopped_execution_is_stale(handler: Handler) -> None:
    handler.server.lambda_.stop_durable_execution(DurableExecutionArn=handler.arn)
    assert handler.refused(step("a")) == STALE
    with pytest.raises(ClientError, match=STALE):
        handler.state()


@pytest.mark.parametrize(
    "agent, says",
    [
        ("Boto3/1.44.0", "Invalid checkpoint token"),
        ("Boto3/1 aws-durable-execution-sdk-python/1.7.0", "Invalid Checkpoint Token"),
        ("Boto3/1 aws-durable-execution-sdk-python/2.0.0", "Invalid Checkpoint Token"),
        ("Boto3/1 aws-durable-execution-sdk-python/2.0.1", "Invalid checkpoint token"),
        ("Boto3/1 aws-durable-execution-sdk-python/3.0.0-bundled", "Invalid checkpoint token"),
        ("aws-sdk-js/3 aws-durable-execution-sdk-js/2.4.0", "Invalid Checkpoint Token"),
        ("aws-sdk-js/3 aws-durable-execution-sdk-js/2.10.0", "Invalid checkpoint token"),
        ("aws-sdk-java/2 aws-durable-execution-sdk-java/1.3.0", "Invalid Checkpoint Token"),
    ],
)
def test_each_sdk_reads_a_stale_token_in_the_words_it_knows(handler: Handler, agent: str, says: str) -> None:
    connection = http.client.HTTPConnection(*handler.server.address, timeout=30)
    connection.request("POST", path(handler.arn, "checkpoint"), json.dumps({"CheckpointToken": "AAAA"}), {"User-Agent": agent})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["x-amzn-errortype"]) == (400, "InvalidParameterValueException")
    told = json.loads(answer.read())
    assert (told["message"], told["Type"]) == (says, "User")
    connection.close()


# --- state


def test_the_state_begins_with_the_execution_itself(handler: Handler) -> None:
    handler.checkpoint(step("a", Payload="1"), {"Id": "w", "Type": "WAIT", "Action": "START", "WaitOptions": {"WaitSeconds": 60}})
    execution, first, second = handler.state()
    assert (execution["Id"], execution["Type"], execution["Status"]) == (handler.arn.rpartition("/")[2], "EXECUTION", "STARTED")
    assert execution["ExecutionDetails"] == {"InputPayload": '{"n": 1}'}
    assert (first["Id"], second["Id"]) == ("a", "w")
    assert second["WaitDetails"]["ScheduledEndTimestamp"] > second["StartTimestamp"]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 1000])
def test_pages_of_the_state_join_to_the_whole_and_use_no_token_up(handler: Handler, size: int) -> None:
    for number in range(5):
        handler.checkpoint(step(f"s{number}", Payload=str(number)))
    assert [operation["Id"] for operation in handler.state(size)[1:]] == [f"s{number}" for number in range(5)]
    handler.checkpoint(step("another"))


def test_a_page_of_large_operations_ends_early(handler: Handler) -> None:
    for number in range(3):
        handler.checkpoint(step(f"s{number}", Payload="x" * (3 * 1024 * 1024)))
    page = handler.server.lambda_.get_durable_execution_state(DurableExecutionArn=handler.arn, CheckpointToken=handler.token, MaxItems=1000)
    assert [operation["Id"] for operation in page["Operations"][1:]] == ["s0"]
    assert [operation["Id"] for operation in handler.state()[1:]] == ["s0", "s1", "s2"]


def test_an_answer_that_does_not_fit_is_read_on_with_the_new_token(handler: Handler) -> None:
    callbacks = [{"Id": f"c{number}", "Type": "CALLBACK", "Action": "START"} for number in range(8)]
    for operation in handler.checkpoint(*callbacks)["NewExecutionState"]["Operations"]:
        identity = operation["CallbackDetails"]["CallbackId"]
        handler.server.lambda_.send_durable_execution_callback_success(CallbackId=identity, Result=b"x" * 1_000_000)
    answer = handler.checkpoint(step("mine"))["NewExecutionState"]
    rest = _rest(handler, answer["NextMarker"])
    assert [operation["Id"] for operation in answer["Operations"] + rest] == [*(f"c{number}" for number in range(8)), "mine"]
    assert len(answer["Operations"]) < 9


def _rest(handler: Handler, marker: str) -> list[Any]:
    found: list[Any] = []
    while marker:
        page = handler.server.lambda_.get_durable_execution_state(
            DurableExecutionArn=handler.arn, CheckpointToken=handler.token, Marker=marker, MaxItems=1000
        )
        found += page["Operations"]
        marker = page["NextMarker"]
    return found


def test_an_input_that_fills_a_page_comes_alone(server: Served, host: SilentHost) -> None:
    with_input = began(server, host, b'"' + b"x" * (1024 * 1024 - 2) + b'"')
    for number in range(5):
        with_input.checkpoint(step(f"s{number}", Payload="x" * 1024 * 1024))
    assert [operation["Type"] for operation in with_input.state()] == ["EXECUTION", *["STEP"] * 5]


def test_children_of_a_closed_context_are_left_out_unless_they_are_asked_for(handler: Handler) -> None:
    def context(name: str, action: str, **more: Any) -> dict[str, Any]:
        return {"Id": name, "Type": "CONTEXT", "Action": action} | more

    handler.checkpoint(
        context("closed", "START"), step("hidden", ParentId="closed"), context("kept", "START"), step("shown", ParentId="kept")
    )
    handler.checkpoint(context("closed", "SUCCEED", Payload="1"), context("kept", "SUCCEED", ContextOptions={"ReplayChildren": True}))
    assert [operation["Id"] for operation in handler.state()[1:]] == ["closed", "kept", "shown"]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_children_of_a_closed_context_are_left_out_also_when_it_was_on_an_earlier_page(handler: Handler, size: int) -> None:
    def context(name: str, action: str, **more: Any) -> dict[str, Any]:
        return {"Id": name, "Type": "CONTEXT", "Action": action} | more

    handler.checkpoint(context("open", "START"), context("closed", "START", ParentId="open"), context("deep", "START", ParentId="closed"))
    handler.checkpoint(*(step(f"deep-{n}", ParentId="deep") for n in range(20)))
    handler.checkpoint(*(step(f"closed-{n}", ParentId="closed") for n in range(20)))
    handler.checkpoint(context("closed", "SUCCEED"), step("last", ParentId="open"), step("root"))
    assert [operation["Id"] for operation in handler.state(size)[1:]] == ["open", "closed", "last", "root"]


def test_a_page_of_the_state_costs_its_page_and_not_the_whole(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(4):
        handler.checkpoint(*(step(f"s{batch}-{number}", Payload="1") for number in range(250)))
    store, read = handler.server.api.engine.store, list[int]()

    def counted(*asked: Any, **more: Any) -> Any:
        found = operations(*asked, **more)
        read.append(len(found))
        return found

    operations = store.operations
    monkeypatch.setattr(store, "operations", counted)
    contexts = Mock(wraps=store.contexts)
    monkeypatch.setattr(store, "contexts", contexts)
    assert len(handler.state(100)) == 1001
    assert sum(read) < 2 * 1000
    assert contexts.call_count == 1


@pytest.mark.parametrize("marker", ["x", "c3RhdGV8MA==", "c3RhdGV8YXxi", "bGlzdHwx", "c3RhdGV8LTF8MA=="])
def test_a_marker_of_the_state_that_nobody_gave_is_refused(handler: Handler, marker: str) -> None:
    asked = {"DurableExecutionArn": handler.arn, "CheckpointToken": handler.token, "Marker": marker}
    with pytest.raises(handler.server.lambda_.exceptions.InvalidParameterValueException, match="Invalid Marker"):
        handler.server.lambda_.get_durable_execution_state(**asked)


# --- paths and encodings


def path(arn: str, operation: str, safe: str = "") -> str:
    return f"/2025-12-01/durable-executions/{quote(arn, safe=safe)}/{operation}"


@pytest.mark.parametrize("safe", ["", "/", ":$/"], ids=["encoded", "raw slashes", "raw"])
def test_an_arn_may_come_raw_or_encoded(handler: Handler, safe: str) -> None:
    connection = http.client.HTTPConnection(*handler.server.address, timeout=30)
    for method, operation, body in (
        ("POST", "checkpoint", json.dumps({"CheckpointToken": handler.token})),
        ("GET", "history", None),
        ("GET", "", None),
        ("POST", "stop", None),
    ):
        connection.request(method, path(handler.arn, operation, safe).rstrip("/"), body)
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, (operation, told)
    connection.close()


def test_a_token_in_a_query_may_have_a_plus_sign_that_is_not_encoded(handler: Handler) -> None:
    connection = http.client.HTTPConnection(*handler.server.address, timeout=30)
    for _ in range(100):
        if "+" in handler.token:
            break
        handler.checkpoint()
    assert "+" in handler.token
    connection.request("GET", path(handler.arn, "state") + f"?CheckpointToken={handler.token}")
    assert connection.getresponse().status == 200
    connection.close()


def test_times_are_seconds_with_a_fraction(handler: Handler) -> None:
    connection = http.client.HTTPConnection(*handler.server.address, timeout=30)
    connection.request("GET", path(handler.arn, "").rstrip("/"))
    told = json.loads(connection.getresponse().read())
    connection.close()
    assert isinstance(told["StartTimestamp"], float)
    assert 1e9 < told["StartTimestamp"] < 1e11


def test_members_that_nobody_knows_are_ignored(handler: Handler) -> None:
    connection = http.client.HTTPConnection(*handler.server.address, timeout=30)
    update = step("a") | {"Colour": "blue", "StepOptions": {"NextAttemptDelaySeconds": 1, "Shape": "round"}}
    body = {"CheckpointToken": handler.token, "Updates": [update], "Future": {"x": [1]}}
    connection.request("POST", path(handler.arn, "checkpoint") + "?Unknown=1", json.dumps(body))
    assert connection.getresponse().status == 200
    connection.close()


def test_boto3_retries_a_lost_answer_with_the_same_client_token(handler: Handler) -> None:
    """The first answer is thrown away after it was made; boto3 asks again, and nothing is written twice."""
    retrying = client(handler.server.url, retries={"max_attempts": 2, "mode": "standard"})
    losses = iter([0])  # retry at once, once
    retrying.meta.events.register_first("needs-retry.lambda.CheckpointDurableExecution", lambda **_: next(losses, None))
    answer = retrying.checkpoint_durable_execution(DurableExecutionArn=handler.arn, CheckpointToken=handler.token, Updates=[step("a")])
    retrying.close()
    assert answer["ResponseMetadata"]["RetryAttempts"] == 1
    handler.token = answer["CheckpointToken"]
    handler.checkpoint(step("b"))
    assert [operation["Id"] for operation in handler.state()[1:]] == ["a", "b"]
