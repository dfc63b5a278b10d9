"""What can be read of functions with boto3, and what tools around Lambda ask a server for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from holdfast.model.errors import DiskFull
from holdfast.model.ids import Arn
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("functions") / "store.db", ALL) as running:
        yield running


# --- functions


def test_a_function_is_shown_with_what_makes_it_durable(server: Served) -> None:
    shown = server.lambda_.get_function(FunctionName="steps")["Configuration"]
    assert (shown["FunctionName"], shown["Version"]) == ("steps", "$LATEST")
    assert shown["FunctionArn"] == "arn:aws:lambda:local:000000000000:function:steps"
    assert shown["DurableConfig"] == {"ExecutionTimeout": 900, "RetentionPeriodInDays": 3}
    assert (shown["State"], shown["LastUpdateStatus"]) == ("Active", "Successful")


def test_a_function_is_found_in_a_version(server: Served) -> None:
    for asked in ({"FunctionName": "versioned:1"}, {"FunctionName": "versioned", "Qualifier": "1"}):
        shown = server.lambda_.get_function_configuration(**asked)
        assert (shown["Version"], shown["FunctionArn"]) == ("1", "arn:aws:lambda:local:000000000000:function:versioned:1")
    assert server.lambda_.get_function_configuration(FunctionName="versioned")["Version"] == "2", "the newest"


def test_functions_are_listed_once_or_in_every_version(server: Served) -> None:
    pages = server.lambda_.get_paginator("list_functions")
    once = [f["FunctionName"] for page in pages.paginate(PaginationConfig={"PageSize": 2}) for f in page["Functions"]]
    assert once == sorted({function.name for function in ALL})
    every = [(f["FunctionName"], f["Version"]) for page in pages.paginate(FunctionVersion="ALL") for f in page["Functions"]]
    assert every == sorted((function.name, function.version) for function in ALL)
    assert server.lambda_.list_functions(MasterRegion="ALL")["Functions"]


@pytest.mark.parametrize("waiter", ["function_exists", "function_active_v2", "function_updated_v2", "function_active", "function_updated"])
def test_waiters_do_not_wait(server: Served, waiter: str) -> None:
    server.lambda_.get_waiter(waiter).wait(FunctionName="versioned", Qualifier="1", WaiterConfig={"MaxAttempts": 1})


@pytest.mark.parametrize(
    "operation, asked, code",
    [
        ("get_function", {"FunctionName": "nobody"}, "ResourceNotFoundException"),
        ("get_function", {"FunctionName": "versioned", "Qualifier": "7"}, "ResourceNotFoundException"),
        ("get_function_configuration", {"FunctionName": "nobody"}, "ResourceNotFoundException"),
        ("get_function", {"FunctionName": "a b"}, "InvalidParameterValueException"),
        ("list_functions", {"Marker": "x"}, "InvalidParameterValueException"),
        ("list_functions", {"Marker": "RnVuY3Rpb25zfC0x"}, "InvalidParameterValueException"),
        ("list_functions", {"MaxItems": 10_001}, "InvalidParameterValueException"),
        ("list_functions", {"FunctionVersion": "SOME"}, "InvalidParameterValueException"),
    ],
)
def test_what_cannot_be_shown_is_refused(server: Served, operation: str, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as error:
        getattr(server.lambda_, operation)(**asked)
    assert error.value.response["Error"]["Code"] == code


# --- SAM's hooks


def test_sam_starts_an_execution_on_terms_of_its_own(server: Served) -> None:
    body = {
        "AccountId": "123456789012",
        "FunctionName": "echo",
        "FunctionQualifier": "$LATEST",
        "ExecutionName": "from-sam",
        "ExecutionTimeoutSeconds": 77,
        "ExecutionRetentionPeriodDays": 5,
        "InvocationId": "some-id",
        "TraceFields": {"a": "b"},
        "TenantId": None,
        "Input": '{"a": 1}',
        "LambdaEndpoint": "http://127.0.0.1:3001",
    }
    answer = httpx.post(f"{server.url}/start-durable-execution", json=body)
    assert answer.status_code == 201
    arn = answer.json()["ExecutionArn"]
    assert Arn.parse(arn).name == "from-sam"
    shown = server.ended(arn)
    assert shown["DurableConfig"] == {"ExecutionTimeout": 77, "RetentionPeriodInDays": 5}
    assert json.loads(shown["Result"]) == {"a": 1}


@pytest.mark.parametrize(
    "body, status, shape",
    [
        (b"{", 400, "SerializationException"),
        (b"[]", 400, "InvalidParameterValueException"),
        (b"{}", 400, "InvalidParameterValueException"),
        (b'{"FunctionName": "nobody"}', 404, "ResourceNotFoundException"),
        (b'{"FunctionName": "echo", "Input": "{"}', 400, "InvalidRequestContentException"),
        (b'{"FunctionName": "echo", "Input": {"a": 1}}', 400, "InvalidParameterValueException"),
        (b'{"FunctionName": "echo", "ExecutionTimeoutSeconds": 0}', 400, "InvalidParameterValueException"),
        (b'{"FunctionName": "echo", "ExecutionName": "a b"}', 400, "InvalidParameterValueException"),
    ],
)
def test_a_start_that_cannot_be_is_refused(server: Served, body: bytes, status: int, shape: str) -> None:
    before = server.rest()
    answer = httpx.post(f"{server.url}/start-durable-execution", content=body)
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (status, shape)
    assert server.count() == before


# --- health


def test_a_server_is_healthy_while_it_answers_and_ready_while_it_can_write(server: Served) -> None:
    assert httpx.get(f"{server.url}/health").json() == {"status": "healthy"}
    assert httpx.get(f"{server.url}/ready").json() == {"status": "ready"}


def test_a_server_whose_disk_is_full_is_not_ready_and_starts_nothing(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    health = server.api.engine.health
    monkeypatch.setattr(health, "rose", lambda: None)  # it is not over with the next try
    monkeypatch.setattr(health, "trouble", DiskFull("no space left"))
    ready = httpx.get(f"{server.url}/ready")
    assert (ready.status_code, ready.headers["retry-after"], ready.json()["reason"]) == (503, "1", "no space left")
    path = "/2015-03-31/functions/echo:$LATEST/invocations"
    refused = httpx.post(f"{server.url}{path}", headers={"X-Amz-Invocation-Type": "Event"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert (refused.headers["x-amzn-errortype"], refused.json()["Type"]) == ("ServiceException", "Service")
    assert httpx.get(f"{server.url}/health").status_code == 200
