"""Invoke over HTTP with boto3: how executions are started from outside, and what their callers get."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from holdfast.model.clock import VirtualClock
from holdfast.model.ids import Arn
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, served

UNQUALIFIED = "You cannot invoke a durable function using an unqualified ARN."
TOO_LONG = "You cannot synchronously invoke a durable function with an executionTimeout greater than 15 minutes."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("invoke") / "store.db", ALL) as running:
        yield running


def invoke(server: Served, function: str, payload: Any = None, **asked: Any) -> Any:
    return server.invoke(function, None if payload is None else json.dumps(payload).encode(), **asked)


def refused(server: Served, function: str, payload: Any = None, **asked: Any) -> Any:
    before = server.rest()
    with pytest.raises(ClientError) as error:
        invoke(server, function, payload, **asked)
    assert server.count() == before, "a refused request writes nothing"
    return error.value.response


def test_a_synchronous_caller_gets_the_result_as_it_was_written(server: Served) -> None:
    answer = invoke(server, "echo:$LATEST", {"a": [1, "é"]})
    assert answer["StatusCode"] == 200
    assert answer["ExecutedVersion"] == "$LATEST"
    assert "FunctionError" not in answer
    assert answer["Payload"].decode() == server.find(answer["DurableExecutionArn"])["Result"]


def test_a_synchronous_caller_waits_through_suspensions(tmp_path: Path) -> None:
    with served(tmp_path / "store.db", ALL, settings=Settings(clock=VirtualClock())) as running:
        answer = invoke(running, "sleepy", Qualifier="$LATEST")
        assert json.loads(answer["Payload"]) == "rested"
        events = running.lambda_.get_durable_execution_history(DurableExecutionArn=answer["DurableExecutionArn"])["Events"]
        assert [event["EventType"] for event in events].count("InvocationCompleted") == 2


def test_an_event_is_accepted_with_its_arn_and_no_body(server: Served) -> None:
    answer = invoke(server, "echo:$LATEST", 7, InvocationType="Event")
    assert answer["StatusCode"] == 202
    assert answer["Payload"] == b""
    assert server.ended(answer["DurableExecutionArn"])["Result"] == "7"


def test_a_dry_run_checks_everything_and_starts_nothing(server: Served) -> None:
    before = server.rest()
    answer = invoke(server, "endless:$LATEST", InvocationType="DryRun")
    assert answer["StatusCode"] == 204
    assert "DurableExecutionArn" not in answer
    assert server.count() == before
    assert refused(server, "endless", InvocationType="DryRun")["Error"]["Message"] == UNQUALIFIED


@pytest.mark.parametrize("kind", ["RequestResponse", "Event", "DryRun"])
def test_a_durable_function_without_a_qualifier_is_refused(server: Served, kind: str) -> None:
    told = refused(server, "echo", InvocationType=kind)
    assert told["Error"] == {"Code": "InvalidParameterValueException", "Message": UNQUALIFIED}
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert told["Type"] == "User"
    assert told["message"] == UNQUALIFIED


def test_a_function_that_may_take_longer_than_15_minutes_is_not_invoked_synchronously(server: Served) -> None:
    told = refused(server, "endless:$LATEST")
    assert told["Error"] == {"Code": "InvalidParameterValueException", "Message": TOO_LONG}
    assert invoke(server, "endless:$LATEST", InvocationType="Event")["StatusCode"] == 202


@pytest.mark.parametrize(
    "function, qualifier, version",
    [
        ("versioned", "1", "1"),
        ("versioned:2", None, "2"),
        ("versioned:2", "2", "2"),
        ("function:versioned:1", None, "1"),
        ("000000000000:function:versioned:1", None, "1"),
        ("000000000000:versioned:2", None, "2"),
        ("arn:aws:lambda:local:000000000000:function:versioned", "2", "2"),
        ("arn:aws:lambda:local:000000000000:function:versioned:1", None, "1"),
    ],
)
def test_a_version_is_named_in_the_name_or_beside_it(server: Served, function: str, qualifier: str | None, version: str) -> None:
    answer = invoke(server, function, **({} if qualifier is None else {"Qualifier": qualifier}))
    assert answer["ExecutedVersion"] == version
    assert json.loads(answer["Payload"]) == {"1": "one", "2": "two"}[version]
    assert Arn.parse(answer["DurableExecutionArn"]).version == version


def test_two_qualifiers_that_differ_are_refused(server: Served) -> None:
    told = refused(server, "versioned:1", Qualifier="2")
    assert told["Error"]["Code"] == "InvalidParameterValueException"
    assert "does not match the specified qualifier" in told["Error"]["Message"]


@pytest.mark.parametrize(
    "function",
    [
        "unknown:1",
        "versioned:3",
        "echo:live",
        "echo:$LATEST.PUBLISHED",
        "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST",
        "arn:aws:lambda:local:123456789012:function:echo:$LATEST",
        "123456789012:function:echo:$LATEST",
    ],
)
def test_a_function_that_is_not_here_is_not_found(server: Served, function: str) -> None:
    told = refused(server, function)
    assert told["Error"]["Code"] == "ResourceNotFoundException"
    assert told["Error"]["Message"].startswith("Function not found: ")
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_a_name_finds_its_execution_again_and_nothing_runs_twice(server: Served) -> None:
    first = invoke(server, "steps:$LATEST", {"steps": 2}, DurableExecutionName="once")
    count = server.rest()
    again = invoke(server, "steps:$LATEST", {"steps": 2}, DurableExecutionName="once")
    assert again["DurableExecutionArn"] == first["DurableExecutionArn"]
    assert again["Payload"] == first["Payload"]
    later = invoke(server, "steps:$LATEST", {"steps": 2}, DurableExecutionName="once", InvocationType="Event")
    assert later["DurableExecutionArn"] == first["DurableExecutionArn"]
    assert server.count() == count
    assert Arn.parse(first["DurableExecutionArn"]).name == "once"


def test_a_name_with_another_payload_or_version_is_a_conflict(server: Served) -> None:
    arn = invoke(server, "versioned:1", 1, DurableExecutionName="taken")["DurableExecutionArn"]
    for function, payload in (("versioned:1", 2), ("versioned:2", 1)):
        told = refused(server, function, payload, DurableExecutionName="taken")
        assert told["Error"] == {"Code": "DurableExecutionAlreadyStartedException", "Message": f"Execution already started: {arn}"}
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 409


def test_payloads_are_compared_byte_by_byte(server: Served) -> None:
    server.invoke("echo:$LATEST", b'{"a": 1}', DurableExecutionName="bytes")
    with pytest.raises(server.lambda_.exceptions.DurableExecutionAlreadyStartedException):
        server.invoke("echo:$LATEST", b'{"a":1}', DurableExecutionName="bytes")


def test_a_tenant_is_kept_with_the_execution_and_its_names_are_its_own(server: Served) -> None:
    arn = invoke(server, "echo:$LATEST", 1, TenantId="blue/1", DurableExecutionName="tenants")["DurableExecutionArn"]
    assert server.api.execution(arn).tenant == "blue/1"
    assert invoke(server, "echo:$LATEST", 1, TenantId="blue/1", DurableExecutionName="tenants")["DurableExecutionArn"] == arn
    for payload, tenant in ((1, {"TenantId": "red"}), (2, {"TenantId": "red"}), (2, {})):
        told = refused(server, "echo:$LATEST", payload, DurableExecutionName="tenants", **tenant)
        assert told["Error"]["Code"] == "DurableExecutionAlreadyStartedException"
        assert arn.rpartition("/")[2] not in str(told)


def test_what_an_execution_invokes_is_of_its_tenant_and_its_trace(server: Served) -> None:
    asked = {"X-Amz-Tenant-Id": "blue", "X-Amzn-Trace-Id": "Root=1-2-3;Sampled=0"}
    status, headers, _ = raw(server, asked, b'{"function": "versioned:2", "payload": null}', "calling:$LATEST")
    assert status == 200
    parent = headers["x-amz-durable-execution-arn"]
    (child,) = server.api.engine.store.list(Filter(parent=parent.rpartition("/")[2]))
    assert child.tenant == "blue"
    for arn in (parent, str(Arn(child.function, child.version, child.name, child.id))):
        assert server.find(arn)["TraceHeader"] == {"XAmznTraceId": "Root=1-2-3;Sampled=0"}
    (told,) = [event for event in history(server, parent) if event["EventType"] == "ChainedInvokeStarted"]
    assert told["ChainedInvokeStartedDetails"]["TenantId"] == "blue"
    assert "TraceHeader" not in server.find(invoke(server, "echo:$LATEST")["DurableExecutionArn"])


def history(server: Served, arn: str) -> Any:
    return server.lambda_.get_durable_execution_history(DurableExecutionArn=arn)["Events"]


@pytest.mark.parametrize(
    "name, value",
    [
        ("X-Amzn-Trace-Id", "x" * 8193),
        ("X-Amzn-Trace-Id", "na\xefve"),
        ("X-Amz-Client-Context", "no base64"),
        ("X-Amz-Client-Context", "e30"),
        ("X-Amz-Client-Context", base64.b64encode(b"no json").decode()),
        ("X-Amz-Client-Context", base64.b64encode(b"\xff").decode()),
        ("X-Amz-Client-Context", base64.b64encode(b"[" * 40_000).decode()),
    ],
)
def test_a_trace_or_a_client_context_that_cannot_be_handed_on_is_refused(server: Served, name: str, value: str) -> None:
    before = server.rest()
    status, headers, body = raw(server, {name: value})
    assert (status, headers["x-amzn-errortype"]) == (400, "InvalidParameterValueException"), body
    assert server.count() == before


@pytest.mark.parametrize(
    "asked",
    [
        {"DurableExecutionName": "with space"},
        {"DurableExecutionName": "x" * 65},
        {"DurableExecutionName": "naïve"},
        {"TenantId": "a*b"},
        {"TenantId": "x" * 257},
        {"InvocationType": "Later"},
        {"LogType": "All"},
        {"Qualifier": "a b"},
        {"Qualifier": "x" * 129},
    ],
    ids=str,
)
def test_what_breaks_a_constraint_is_refused(server: Served, asked: dict[str, str]) -> None:
    if "naïve" in asked.values():
        status, headers, body = raw(server, {"X-Amz-Durable-Execution-Name": "na\xefve"})
        assert (status, headers["x-amzn-errortype"], json.loads(body)["Type"]) == (400, "InvalidParameterValueException", "User")
        return
    told = refused(server, "echo:$LATEST" if "Qualifier" not in asked else "echo", **asked)
    assert told["Error"]["Code"] == "InvalidParameterValueException"
    assert next(iter(asked)) in told["Error"]["Message"]


@pytest.mark.parametrize("function", ["a b", "x" * 257, "é", "echo:", ":1", "arn:aws:lambda:local:0:function:echo:1", "a/b"])
def test_what_is_no_function_name_is_refused(server: Served, function: str) -> None:
    assert refused(server, function)["Error"]["Code"] == "InvalidParameterValueException"


def raw(
    server: Served, headers: dict[str, str] | None = None, body: bytes = b"1", function: str = "echo:$LATEST"
) -> tuple[int, dict[str, str], bytes]:
    """An Invoke as boto3 would not send it."""
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    try:
        connection.request("POST", f"/2015-03-31/functions/{function}/invocations", body, headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("body", [b"{", b" ", b"nul", b'{"a": NaN}', b"\xff\xfe", b"\xef\xbb\xbf1", b"[" * 200_000, b"1 2"])
def test_a_body_that_is_no_json_is_refused(server: Served, body: bytes) -> None:
    before = server.rest()
    status, headers, told = raw(server, body=body)
    assert (status, headers["x-amzn-errortype"]) == (400, "InvalidRequestContentException")
    assert json.loads(told)["message"].startswith("Could not parse request body into json")
    assert server.count() == before


@pytest.mark.parametrize("text", ["123456789012345678901234567890", "1e400", r'"\ud800"', '" "', "true", '{"a":1,"a":2}'])
def test_any_json_is_kept_as_it_came(server: Served, text: str) -> None:
    arn = server.invoke("endless:$LATEST", text.encode(), InvocationType="Event")["DurableExecutionArn"]
    assert server.find(arn)["InputPayload"] == text


@pytest.mark.parametrize("kind", ["RequestResponse", "Event"])
def test_no_payload_is_an_empty_object(server: Served, kind: str) -> None:
    answer = invoke(server, "echo:$LATEST", InvocationType=kind)
    assert answer["Payload"] == (b"{}" if kind == "RequestResponse" else b"")
    assert server.find(answer["DurableExecutionArn"])["InputPayload"] == "{}"


@pytest.mark.parametrize("kind, most", [("RequestResponse", 6 * 1024 * 1024), ("Event", 1024 * 1024)])
def test_a_payload_may_have_its_limit_and_not_a_byte_more(server: Served, kind: str, most: int) -> None:
    assert invoke(server, "versioned:1", "x" * (most - 2), InvocationType=kind)["StatusCode"] in (200, 202)
    told = refused(server, "versioned:1", "x" * (most - 1), InvocationType=kind)
    assert told["Error"]["Code"] == "RequestTooLargeException"
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 413
    assert str(most) in told["Error"]["Message"]


def test_a_failed_execution_is_told_in_lambdas_own_form(server: Served) -> None:
    answer = invoke(server, "failing:$LATEST")
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    told = json.loads(answer["Payload"])
    assert (told["errorType"], told["errorMessage"]) == ("ValueError", "no luck")
    assert server.find(answer["DurableExecutionArn"])["Status"] == "FAILED"


def test_a_stopped_execution_tells_its_waiting_caller_the_error_it_was_stopped_with(server: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(invoke, server, "asking:$LATEST", DurableExecutionName="to-be-stopped")
        arn = str(Arn("asking", "$LATEST", "to-be-stopped", _id_of(server, "to-be-stopped")))
        error = {"ErrorType": "Enough", "ErrorMessage": "no more", "ErrorData": "{}", "StackTrace": ["here", "there"]}
        server.lambda_.stop_durable_execution(DurableExecutionArn=arn, Error=error)
        answer = waiting.result(30)
    assert answer["FunctionError"] == "Unhandled"
    told = json.loads(answer["Payload"])
    assert told == {"errorType": "Enough", "errorMessage": "no more", "stackTrace": ["here", "there"], "errorData": "{}"}


def _id_of(server: Served, name: str) -> str:
    while True:
        for one in server.lambda_.list_durable_executions_by_function(FunctionName="asking")["DurableExecutions"]:
            if one["DurableExecutionName"] == name:
                return str(one["DurableExecutionArn"]).rpartition("/")[2]


def test_the_tail_of_the_log_comes_with_a_synchronous_answer_when_asked_for(server: Served) -> None:
    answer = invoke(server, "steps:$LATEST", {"steps": 1}, LogType="Tail")
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert tail.splitlines()[0].startswith("START RequestId: ")
    assert "REPORT RequestId: " in tail
    assert "LogResult" not in invoke(server, "steps:$LATEST", {"steps": 1}, LogType="None")
    assert "LogResult" not in invoke(server, "steps:$LATEST", {"steps": 1}, LogType="Tail", InvocationType="Event")


def test_a_function_that_invokes_another_gets_its_result(server: Served) -> None:
    answer = invoke(server, "calling:$LATEST", {"function": "versioned:2", "payload": None})
    assert json.loads(answer["Payload"]) == "two"


def test_every_answer_has_a_request_id_of_its_own(server: Served) -> None:
    answers = [invoke(server, "echo:$LATEST"), invoke(server, "echo:$LATEST"), refused(server, "echo")]
    assert len({answer["ResponseMetadata"]["RequestId"] for answer in answers}) == 3
