"""What boto3 sees of executions: one of them, its history, lists of them; and stopping one."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from holdfast.model.ids import Arn
from holdfast.service.settings import Settings
from holdfast.web.identity import CallerIdentity
from tests.surface.auth_server import KnownCaller
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, client, served

UNKNOWN_ID = "01a1e272-eb80-7000-b221-33b3c2de15dd"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("executions") / "store.db", ALL) as running:
        yield running


@pytest.fixture(scope="module")
def three_steps(server: Served) -> str:
    """The ARN of an execution that is over."""
    return str(server.invoke("steps:$LATEST", b'{"steps": 3}', DurableExecutionName="three")["DurableExecutionArn"])


def started(server: Served, function: str, name: str | None = None) -> str:
    named: dict[str, Any] = {} if name is None else {"DurableExecutionName": name}
    return str(server.invoke(f"{function}:$LATEST", InvocationType="Event", **named)["DurableExecutionArn"])


# --- GetDurableExecution


def test_an_execution_that_is_over_is_shown_with_everything(server: Served, three_steps: str) -> None:
    shown = server.find(three_steps)
    assert shown["DurableExecutionArn"] == three_steps
    assert shown["DurableExecutionName"] == "three"
    assert shown["FunctionArn"] == "arn:aws:lambda:local:000000000000:function:steps:$LATEST"
    assert (shown["Status"], shown["Version"]) == ("SUCCEEDED", "$LATEST")
    assert (shown["InputPayload"], json.loads(shown["Result"])) == ('{"steps": 3}', [0, 1, 2])
    assert shown["StartTimestamp"] <= shown["EndTimestamp"]
    assert shown["DurableConfig"] == {"ExecutionTimeout": 900, "RetentionPeriodInDays": 3}
    assert shown["ExecutionDataIncluded"] is True


def test_without_data_neither_input_nor_result_nor_error_is_shown(server: Served, three_steps: str) -> None:
    shown = server.lambda_.get_durable_execution(DurableExecutionArn=three_steps, IncludeExecutionData=False)
    assert shown["ExecutionDataIncluded"] is False
    assert {"InputPayload", "Result", "Error"}.isdisjoint(shown)
    assert shown["Status"] == "SUCCEEDED"


def test_a_running_execution_has_no_end_and_no_result(server: Served) -> None:
    shown = server.find(started(server, "endless"))
    assert shown["Status"] == "RUNNING"
    assert {"EndTimestamp", "Result", "Error"}.isdisjoint(shown)


def test_a_failed_execution_shows_its_error(server: Served) -> None:
    shown = server.ended(started(server, "failing"))
    assert shown["Status"] == "FAILED"
    assert shown["Error"] == {"ErrorMessage": "no luck", "ErrorType": "ValueError"}


@pytest.mark.parametrize(
    "change",
    [
        {"id": UNKNOWN_ID},
        {"id": "not-a-uuid"},
        {"name": "other"},
        {"function": "echo"},
        {"version": "1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("operation", ["get_durable_execution", "get_durable_execution_history", "stop_durable_execution"])
def test_an_execution_that_is_not_there_is_not_found(server: Served, three_steps: str, change: dict[str, str], operation: str) -> None:
    arn = str(Arn.parse(three_steps)._replace(**change))
    with pytest.raises(server.lambda_.exceptions.ResourceNotFoundException) as error:
        getattr(server.lambda_, operation)(DurableExecutionArn=arn)
    assert error.value.response["Error"]["Message"] == "Durable Execution does not exist"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_an_execution_of_another_account_is_not_found(server: Served, three_steps: str) -> None:
    with pytest.raises(server.lambda_.exceptions.ResourceNotFoundException):
        server.find(three_steps.replace("000000000000", "123456789012"))


@pytest.mark.parametrize("arn", ["x", "arn:aws:lambda:local:000000000000:function:f", "a" * 1025, "é"])
@pytest.mark.parametrize("operation", ["get_durable_execution", "get_durable_execution_history", "stop_durable_execution"])
def test_what_is_no_arn_is_refused(server: Served, arn: str, operation: str) -> None:
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException):
        getattr(server.lambda_, operation)(DurableExecutionArn=arn)


# --- GetDurableExecutionHistory


def history(server: Served, arn: str, size: int | None = None, **asked: Any) -> list[Any]:
    """All events, by boto3's own paginator."""
    pages = server.lambda_.get_paginator("get_durable_execution_history")
    config = {} if size is None else {"PaginationConfig": {"PageSize": size}}
    return [event for page in pages.paginate(DurableExecutionArn=arn, **asked, **config) for event in page["Events"]]


def test_history_is_told_in_order_without_gaps(server: Served, three_steps: str) -> None:
    events = history(server, three_steps)
    assert [event["EventId"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["EventType"] == "ExecutionStarted"
    assert [event["EventType"] for event in events[-2:]] == ["InvocationCompleted", "ExecutionSucceeded"]
    assert events[0]["ExecutionStartedDetails"]["Input"] == {"Payload": '{"steps": 3}', "Truncated": False}
    assert isinstance(events[0]["EventTimestamp"], datetime)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_of_a_history_join_to_the_whole(server: Served, three_steps: str, size: int, newest_first: bool) -> None:
    whole = history(server, three_steps)
    assert history(server, three_steps, size, ReverseOrder=newest_first) == (whole[::-1] if newest_first else whole)


def test_a_history_without_data_says_that_it_leaves_something_out(server: Served, three_steps: str) -> None:
    bare, full = history(server, three_steps, IncludeExecutionData=False), history(server, three_steps, IncludeExecutionData=True)
    assert [event["EventType"] for event in bare] == [event["EventType"] for event in full]
    assert bare[0]["ExecutionStartedDetails"]["Input"] == {"Truncated": True}
    assert "Payload" not in json.dumps(bare, default=str)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_of_large_events_ends_early_and_loses_nothing(server: Served, newest_first: bool) -> None:
    arn = str(server.invoke("bulky:$LATEST", b'{"steps": 8}', DurableExecutionName="bulky")["DurableExecutionArn"])
    page = server.lambda_.get_durable_execution_history(DurableExecutionArn=arn, ReverseOrder=newest_first)
    assert len(json.dumps(page, default=str)) < 6 * 1024 * 1024
    assert page["NextMarker"]
    whole = history(server, arn, ReverseOrder=newest_first)
    assert [event["EventId"] for event in whole] == sorted(range(1, len(whole) + 1), reverse=newest_first)
    assert sum(event["EventType"] == "StepSucceeded" for event in whole) == 8


@pytest.mark.parametrize("marker", ["x", "AAAA", "bmV3ZXN0fDM=", "b2xkZXN0fDk5OTk=", "b2xkZXN0", "é", "b2xkZXN0fC01"])
def test_a_marker_that_nobody_gave_is_refused(server: Served, three_steps: str, marker: str) -> None:
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException, match="Invalid Marker"):
        server.lambda_.get_durable_execution_history(DurableExecutionArn=three_steps, Marker=marker)


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_page_has_at_most_1000_items(server: Served, three_steps: str, size: int) -> None:
    unchecked = client(server.url, parameter_validation=False)
    with contextlib.closing(unchecked), pytest.raises(ClientError) as error:
        unchecked.get_durable_execution_history(DurableExecutionArn=three_steps, MaxItems=size)
    assert error.value.response["Error"]["Code"] == "InvalidParameterValueException"


# --- ListDurableExecutionsByFunction


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list[str]]]:
    """A server with five executions, oldest first: three of version 1, two of version 2."""
    clock = _Ticking()
    with served(tmp_path_factory.mktemp("list") / "store.db", ALL, settings=Settings(clock=clock)) as running:
        arns = [str(running.invoke("versioned:1", b"%d" % n, DurableExecutionName=f"one-{n}")["DurableExecutionArn"]) for n in range(3)]
        arns += [str(running.invoke("versioned:2", b"%d" % n, DurableExecutionName=f"two-{n}")["DurableExecutionArn"]) for n in range(2)]
        yield running, arns


class _Ticking:
    """The wall clock, except that no two starts share a millisecond."""

    virtual = False

    def __init__(self) -> None:
        self._now = 1_800_000_000_000

    def now(self) -> int:
        self._now += 1
        return self._now

    def skip_to(self, at: int) -> None:
        """Moves by itself."""


def listed(server: Served, size: int | None = None, **asked: Any) -> list[str]:
    """The ARNs of a list, by boto3's own paginator."""
    pages = server.lambda_.get_paginator("list_durable_executions_by_function")
    config = {} if size is None else {"PaginationConfig": {"PageSize": size}}
    found = pages.paginate(**({"FunctionName": "versioned"} | asked), **config)
    return [one["DurableExecutionArn"] for page in found for one in page["DurableExecutions"]]


@pytest.mark.parametrize("size", [None, 1, 2, 5])
def test_a_list_is_newest_first_and_its_pages_join_to_the_whole(many: tuple[Served, list[str]], size: int | None) -> None:
    server, arns = many
    assert listed(server, size) == arns[::-1]
    assert listed(server, size, ReverseOrder=True) == arns


def test_a_list_is_filtered_by_version_name_status_and_time(many: tuple[Served, list[str]]) -> None:
    server, arns = many
    assert listed(server, Qualifier="1", ReverseOrder=True) == arns[:3]
    assert listed(server, FunctionName="versioned:2", ReverseOrder=True) == arns[3:]
    assert listed(server, FunctionName="arn:aws:lambda:local:000000000000:function:versioned", ReverseOrder=True) == arns
    assert listed(server, DurableExecutionName="two-1") == [arns[4]]
    assert listed(server, Statuses=["SUCCEEDED"], ReverseOrder=True) == arns
    assert listed(server, Statuses=["FAILED", "RUNNING", "STOPPED", "TIMED_OUT"]) == []
    assert listed(server, Statuses=["FAILED", "SUCCEEDED"], DurableExecutionName="one-0") == [arns[0]]


def test_the_bounds_of_a_time_are_not_in_it(many: tuple[Served, list[str]]) -> None:
    server, arns = many
    times = [server.find(arn)["StartTimestamp"] for arn in arns]
    assert listed(server, StartedAfter=times[1], StartedBefore=times[3], ReverseOrder=True) == [arns[2]]
    assert listed(server, StartedAfter=times[-1]) == []


def test_an_execution_in_a_list_has_no_payloads(many: tuple[Served, list[str]]) -> None:
    server, arns = many
    (one,) = server.lambda_.list_durable_executions_by_function(FunctionName="versioned:1", DurableExecutionName="one-0")[
        "DurableExecutions"
    ]
    assert one["DurableExecutionArn"] == arns[0]
    assert set(one) == {"DurableExecutionArn", "DurableExecutionName", "FunctionArn", "Status", "StartTimestamp", "EndTimestamp"}


def test_whoever_is_kept_to_a_tenant_is_shown_only_its_executions(tmp_path: Path) -> None:
    with served(tmp_path / "store.db", ALL, gate=KnownCaller(CallerIdentity("a viewer", (), tenant="blue"))) as running:
        mine = running.invoke("versioned:1", TenantId="blue")["DurableExecutionArn"]
        running.invoke("versioned:1", TenantId="red")
        running.invoke("versioned:1")
        assert listed(running) == [mine]


def test_a_list_across_functions_is_an_addition_of_ours(server: Served, three_steps: str) -> None:
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    connection.request("GET", "/2025-12-01/durable-executions?DurableExecutionName=three&Statuses=SUCCEEDED")
    told = json.loads(connection.getresponse().read())
    connection.close()
    assert [one["DurableExecutionArn"] for one in told["DurableExecutions"]] == [three_steps]


@pytest.mark.parametrize(
    "asked, code",
    [
        ({"FunctionName": "nobody"}, "ResourceNotFoundException"),
        ({"Qualifier": "9"}, "ResourceNotFoundException"),
        ({"Statuses": ["LOST"]}, "InvalidParameterValueException"),
        ({"Statuses": ["FAILED"] * 11}, "InvalidParameterValueException"),
        ({"DurableExecutionName": "a b"}, "InvalidParameterValueException"),
        ({"Marker": "b2xkZXN0fDM="}, "InvalidParameterValueException"),
        ({"Marker": "bGlzdHx4"}, "InvalidParameterValueException"),
        ({"MaxItems": 1001}, "InvalidParameterValueException"),
    ],
    ids=str,
)
def test_a_list_that_cannot_be_given_is_refused(server: Served, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as error:
        server.lambda_.list_durable_executions_by_function(**({"FunctionName": "versioned"} | asked))
    assert error.value.response["Error"]["Code"] == code


# --- StopDurableExecution


def test_a_stop_ends_an_execution_with_the_error_it_brings(server: Served) -> None:
    arn = started(server, "endless")
    error = {"ErrorMessage": "enough", "ErrorType": "Operator", "ErrorData": '{"by": "me"}', "StackTrace": ["a", "b"]}
    stopped = server.lambda_.stop_durable_execution(DurableExecutionArn=arn, Error=error)
    shown = server.find(arn)
    assert (shown["Status"], shown["Error"]) == ("STOPPED", error)
    assert shown["EndTimestamp"] == stopped["StopTimestamp"]
    assert history(server, arn)[-1]["ExecutionStoppedDetails"]["Error"] == {"Payload": error, "Truncated": False}


def test_a_stop_without_an_error_records_an_empty_one(server: Served) -> None:
    arn = started(server, "endless")
    server.lambda_.stop_durable_execution(DurableExecutionArn=arn)
    assert server.find(arn)["Error"] == {}


def test_stopping_what_is_over_changes_nothing_and_tells_when_it_ended(server: Served, three_steps: str) -> None:
    before = server.rest()
    stopped = server.lambda_.stop_durable_execution(DurableExecutionArn=three_steps, Error={"ErrorMessage": "late"})
    assert stopped["StopTimestamp"] == server.find(three_steps)["EndTimestamp"]
    assert server.count() == before


def test_a_store_survives_its_server(tmp_path: Path) -> None:
    with served(tmp_path / "store.db", ALL) as first:
        arn = started(first, "asking", "survivor")
        callback = first.callback_id(arn)
    with served(tmp_path / "store.db", ALL) as second:
        second.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b'"still here"')
        assert json.loads(second.ended(arn)["Result"]) == '"still here"'
