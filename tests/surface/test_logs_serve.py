"""What functions logged, read with boto3 and the AWS CLI from a server as users start it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.store.backends import open_store
from tests.postgres import empty_store
from tests.surface.auth_server import access_key
from tests.surface.serve_program import DATA, Program, Programs, programs, until

CHATTY = """
import json, logging, sys
logging.getLogger().setLevel("INFO")

def handler(event, context):
    print("printed", event["say"])
    print("on the other stream", file=sys.stderr)
    print(json.dumps({"level": "WARN", "message": "structured", "order": 42}))
    logging.info("logged %s", event["say"])
    for number in range(event.get("lines", 0)):
        print("line", number)
    return event
"""
GREETING = """
from holdfast.durable import durable_execution

@durable_execution(execution_timeout=600)
async def greet(event, context):
    context.logger.info("hello %s", event["who"], extra={"colour": "blue"})
    return await context.step(lambda step: step.logger.warning("in a step") or 1, name="greet")
"""
TEMPLATE = {
    "Resources": {
        "chatty": {
            "Type": "AWS::Serverless::Function",
            "Properties": {"FunctionName": "chatty", "CodeUri": "code/", "Handler": "chatty.handler", "Runtime": "python3"},
        }
    }
}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    shutil.copytree(DATA / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "chatty.py").write_text(CHATTY)
    (tmp_path / "chatty.json").write_text(json.dumps(TEMPLATE))
    (tmp_path / "greeting.py").write_text(GREETING)
    with programs(tmp_path) as made:
        yield made


@contextlib.contextmanager
def aws(server: Program, service: str = "logs", *, key: str = "any", secret: str = "any") -> Iterator[Any]:
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    config = Config(retries={"total_max_attempts": 1})
    with contextlib.closing(boto3.client(service, region_name="us-east-1", endpoint_url=server.url, config=config, **keys)) as client:
        yield client


def found(logs: Any, function: str, pattern: str = "", **asked: Any) -> list[dict[str, Any]]:
    """All records of a log that match, over all pages."""
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{function}", filterPattern=pattern, **asked)
    return [json.loads(event["message"]) for page in pages for event in page["events"]]


def messages(logs: Any, function: str, pattern: str = "", **asked: Any) -> list[str]:
    return [record["message"] for record in found(logs, function, pattern, **asked)]


def refused(verb: Callable[..., Any], **asked: Any) -> str:
    with pytest.raises(ClientError) as error:
        verb(**asked)
    return str(error.value.response["Error"]["Code"])


def test_what_a_function_prints_and_logs_is_found_as_records_with_its_request(serve: Programs) -> None:
    server = serve("chatty.json")
    with aws(server) as logs:
        assert found(logs, "chatty") == []  # it is there, and silent yet
        server.invoke("chatty", {"say": "this"})
        records = found(logs, "chatty")
        texts = [record["message"] for record in records]
        assert [text.split()[0] for text in (*texts[:2], *texts[-2:])] == ["INIT_START", "START", "END", "REPORT"]
        assert sorted(texts[2:-2]) == ["logged this", "on the other stream", "printed this", "structured"]
        (identity,) = {record["requestId"] for record in records[1:]}
        assert messages(logs, "chatty", f'{{ $.requestId = "{identity}" && $.order = 42 }}') == ["structured"]
        assert found(logs, "chatty", '"logged this"')[0]["level"] == "INFO"
        assert [record["type"] for record in found(logs, "chatty", "{ $.type = platform }")] == ["platform"] * 4
        assert messages(logs, "chatty", '?"printed this" ?structured -WARN') == ["printed this"]


@pytest.mark.long
def test_what_an_execution_logged_is_found_by_its_arn_over_all_its_invocations_and_a_kill(serve: Programs) -> None:
    server = serve("orders")
    arns = []
    for number in (1, 2):
        answer = server.invoke("process-order:live", {"order_id": f"{number}"}, InvocationType="Event")
        arns.append(answer["DurableExecutionArn"])
        server.callback(arns[-1])
    with aws(server) as logs:
        until(lambda: len(messages(logs, "process-order", "asking")) == 2, "both lines")
    server.kill()
    server = serve("orders")
    for arn in arns:
        server.approve(arn)
        assert server.ended(arn)["Status"] == "SUCCEEDED"
    with aws(server) as logs:
        for number, arn in enumerate(arns, 1):
            mine = found(logs, "process-order", f'{{ $.executionArn = "{arn}" }}')
            assert [one["message"] for one in mine if "type" not in one] == [f"asking test@example.com to approve {number}"]
            begun = [one for one in mine if one["message"].startswith("START")]
            assert len(begun) == len({one["requestId"] for one in begun}) == 2
        streams = logs.describe_log_streams(logGroupName="/aws/lambda/process-order")["logStreams"]
        assert all(one["logStreamName"][10:14] == "/[1]" for one in streams)
        assert len(streams) >= 2  # processes of the server before and after its death
        assert [one["logGroupName"] for one in logs.describe_log_groups()["logGroups"]] == ["/aws/lambda/process-order"]


def test_functions_of_the_servers_own_process_are_heard_through_their_logger(serve: Programs) -> None:
    server = serve("greeting.py")
    answer = server.invoke("greet:$LATEST", {"who": "ada"}, LogType="Tail")
    with aws(server) as logs:
        records = found(logs, "greet", f'{{ $.executionArn = "{answer["DurableExecutionArn"]}" }}')
        assert [(one["level"], one["message"]) for one in records] == [("INFO", "hello ada"), ("WARNING", "in a step")]
        assert (records[0]["colour"], records[1]["operationName"], records[1]["attempt"]) == ("blue", "greet", 1)
        assert len({one["requestId"] for one in records}) == 1
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert [line.split("\t")[0::3] for line in tail.splitlines()] == [["[INFO]", "hello ada"], ["[WARNING]", "in a step"]]


def test_the_tail_of_an_invocation_is_the_last_4_kb_it_really_logged(serve: Programs) -> None:
    server = serve("chatty.json", "orders")
    tail = base64.b64decode(server.invoke("chatty", {"say": "this"}, LogType="Tail")["LogResult"]).decode().splitlines()
    assert tail[0].startswith("START RequestId: ")
    assert {"printed this", "on the other stream"} < set(tail)
    assert any(line.startswith("[INFO]\t") and line.endswith("logged this") for line in tail)
    assert tail[-1].startswith("REPORT RequestId: ")
    long = base64.b64decode(server.invoke("chatty", {"say": "x", "lines": 2000}, LogType="Tail")["LogResult"])
    assert len(long) == 4096
    assert b"line 1999\n" in long
    assert "LogResult" not in server.invoke("chatty", {"say": "x"})
    arn = server.invoke("process-order:live", {"order_id": "7"}, InvocationType="Event", DurableExecutionName="seven")[
        "DurableExecutionArn"
    ]
    server.approve(arn)
    server.ended(arn)
    again = server.invoke("process-order:live", {"order_id": "7"}, LogType="Tail", DurableExecutionName="seven")
    assert base64.b64decode(again["LogResult"]).decode().splitlines()[-1].startswith("REPORT RequestId: ")


def test_logs_come_in_pages_by_time_and_by_stream(serve: Programs) -> None:
    server = serve("chatty.json")
    server.invoke("chatty", {"say": "x", "lines": 300})
    with aws(server) as logs:
        every = messages(logs, "chatty")
        assert messages(logs, "chatty", PaginationConfig={"PageSize": 7}) == every
        assert messages(logs, "chatty", startFromHead=False, PaginationConfig={"PageSize": 50}) == every[::-1]
        events = logs.filter_log_events(logGroupName="/aws/lambda/chatty")["events"]
        middle = events[150]["timestamp"]
        assert messages(logs, "chatty", startTime=middle) == [
            json.loads(event["message"])["message"] for event in events if event["timestamp"] >= middle
        ]
        assert messages(logs, "chatty", endTime=middle - 1) == [
            json.loads(event["message"])["message"] for event in events if event["timestamp"] < middle
        ]
        (stream,) = {event["logStreamName"] for event in events}
        assert messages(logs, "chatty", logStreamNames=[stream, "another"]) == every
        assert messages(logs, "chatty", logStreamNamePrefix="1999/") == []
        place = {"logGroupIdentifier": "arn:aws:logs:local:000000000000:log-group:/aws/lambda/chatty:*", "logStreamName": stream}
        read, token = [], None
        while True:  # as AWS's page says: the end is where the token stays
            page = logs.get_log_events(**place, limit=100, startFromHead=True, **({} if token is None else {"nextToken": token}))
            read += [json.loads(event["message"])["message"] for event in page["events"]]
            if page["nextForwardToken"] == token:
                break
            token = page["nextForwardToken"]
        assert read == every


def test_who_follows_a_log_sees_every_line_once(serve: Programs) -> None:
    """As `aws logs tail --follow` does: again from the time of the last event, without those that were seen."""
    server = serve("chatty.json")
    seen: defaultdict[int, set[str]] = defaultdict(set)
    read: list[str] = []

    def look(logs: Any, asked: dict[str, Any]) -> None:
        page = logs.filter_log_events(**asked)
        for event in page["events"]:
            if event["eventId"] not in seen[event["timestamp"]]:
                seen[event["timestamp"]].add(event["eventId"])
                read.append(json.loads(event["message"])["message"])
        asked.pop("nextToken", None)
        if "nextToken" in page:
            asked["nextToken"] = page["nextToken"]
        elif seen:
            asked["startTime"] = max(seen)

    with aws(server) as logs:
        asked: dict[str, Any] = {"logGroupName": "/aws/lambda/chatty", "interleaved": True, "startTime": 0}
        look(logs, asked)
        writer = threading.Thread(target=lambda: [server.invoke("chatty", {"say": "x", "lines": 20}) for _ in range(10)])
        writer.start()
        while writer.is_alive():
            look(logs, asked)
        writer.join()
        look(logs, asked)
        assert read == messages(logs, "chatty")
        assert read.count("line 19") == 10


def test_mistakes_are_told_as_aws_tells_them(serve: Programs) -> None:
    server = serve("chatty.json")
    with aws(server) as logs:
        group = {"logGroupName": "/aws/lambda/chatty"}
        assert refused(logs.filter_log_events, logGroupName="/aws/lambda/unknown") == "ResourceNotFoundException"
        assert refused(logs.filter_log_events, logGroupName="/another/group") == "ResourceNotFoundException"
        assert refused(logs.get_log_events, **group, logStreamName="none") == "ResourceNotFoundException"
        for wrong in (
            {},
            {**group, "logGroupIdentifier": "/aws/lambda/chatty"},
            {"logGroupName": "no group"},
            {**group, "filterPattern": "%regular%"},
            {**group, "filterPattern": "{ $.a = }"},
            {**group, "nextToken": "mine"},
            {**group, "limit": 10_001},
            {**group, "logStreamNames": ["a"], "logStreamNamePrefix": "b"},
            {**group, "logStreamNames": ["a:b"]},
        ):
            assert refused(logs.filter_log_events, **wrong) == "InvalidParameterException", wrong
        assert refused(logs.delete_log_group, **group) == "UnknownOperationException"
        prefixed = {**group, "orderBy": "LastEventTime", "logStreamNamePrefix": "a"}
        assert refused(logs.describe_log_streams, **prefixed) == "InvalidParameterException"


def test_a_tenant_sees_what_it_made_functions_log_and_no_other(serve: Programs, tmp_path: Path) -> None:
    with contextlib.closing(open_store(str(tmp_path / "orders.db"), "keys")) as store:
        keys = {name: access_key(store, "operator", tenant=name) for name in ("north", "south")}
        keys["viewer"], keys["approver"] = access_key(store, "viewer"), access_key(store, "approver", tenant="east")
    server = serve("chatty.json", "greeting.py")
    assert server.said[-1].endswith("AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=SECRET")

    def client(name: str, service: str = "logs") -> Any:
        return aws(server, service, key=keys[name].credential.id, secret=keys[name].secret)

    for name in ("north", "south"):
        with client(name, "lambda") as lambda_:
            lambda_.invoke(FunctionName="chatty", Payload=json.dumps({"say": name}))["Payload"].close()
            lambda_.invoke(FunctionName="greet:$LATEST", Payload=json.dumps({"who": name}))["Payload"].close()
    for name, other in (("north", "south"), ("south", "north")):
        with client(name) as logs:
            assert messages(logs, "chatty", "printed") == [f"printed {name}"]
            assert messages(logs, "greet", "hello") == [f"hello {name}"]
            assert other not in json.dumps(found(logs, "chatty") + found(logs, "greet"))
    with client("viewer") as logs:
        assert messages(logs, "chatty", "printed") == ["printed north", "printed south"]
    with client("approver") as logs:
        assert found(logs, "chatty") == []
        assert logs.describe_log_groups()["logGroups"] == []
        assert refused(logs.delete_log_group, logGroupName="/aws/lambda/chatty") == "AccessDeniedException"
    with aws(server, key=keys["viewer"].credential.id, secret="wrong") as logs:
        assert refused(logs.filter_log_events, logGroupName="/aws/lambda/chatty") == "InvalidSignatureException"


@pytest.mark.long
def test_logs_of_a_database_are_in_the_current_folder_and_can_be_turned_off(serve: Programs, tmp_path: Path) -> None:
    server = serve("chatty.json", store=empty_store())
    server.invoke("chatty", {"say": "this"})
    with aws(server) as logs:
        assert messages(logs, "chatty", "printed") == ["printed this"]
    assert (tmp_path / "holdfast.logs").is_dir()
    server = serve("chatty.json", "--log-megabytes", "0", "--log-days", "3", store="other.db")
    server.invoke("chatty", {"say": "this"})
    with aws(server) as logs:
        assert found(logs, "chatty") == []
    assert not (tmp_path / "other.db.logs").exists()


@pytest.mark.parametrize("kind", ["file", "database"])
def test_a_log_beside_somebodys_code_is_none_of_it(serve: Programs, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "chatty.py"
    place.write_text(CHATTY)
    properties = {"FunctionName": "chatty", "CodeUri": ".", "Handler": "chatty.handler", "Runtime": "python3"}
    (tmp_path / "template.json").write_text(
        json.dumps({"Resources": {"chatty": {"Type": "AWS::Serverless::Function", "Properties": properties}}})
    )
    server = serve(".", "--reload", store=empty_store() if kind == "database" else "orders.db")
    for _ in range(3):
        server.invoke("chatty", {"say": "this", "lines": 50})
    with aws(server) as logs:
        assert len(messages(logs, "chatty", "printed")) == 3
    place.write_text(CHATTY.replace("printed", "said"))
    until(lambda: any("chatty is version" in line for line in server.warned), "the change")
    code = urlsplit(server.lambda_.get_function(FunctionName="chatty", Qualifier="2")["Code"]["Location"]).path
    kept = {path.name for path in Path(code).iterdir()}
    assert "chatty.py" in kept
    assert [name for name in kept if "logs" in name] == []


def test_a_function_does_not_hear_of_a_log_that_cannot_be_written(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "orders.db.logs").write_text("in the way")
    server = serve("chatty.json")
    assert server.invoke("chatty", {"say": "this"})["Payload"] == {"say": "this"}
    until(lambda: any("log lines of functions are dropped" in line for line in server.warned), "the warning")
    assert server.invoke("chatty", {"say": "that"})["Payload"] == {"say": "that"}


# --- the line to paste

BOTO3 = """
import boto3, json
aws, logs = boto3.client("lambda"), boto3.client("logs")
answer = aws.invoke(FunctionName="chatty", Payload=json.dumps({"say": "pasted"}))
print(json.loads(answer["Payload"].read())["say"])
print(len(logs.filter_log_events(logGroupName="/aws/lambda/chatty", filterPattern="printed")["events"]))
"""


def test_the_line_that_is_printed_is_all_that_a_client_needs(serve: Programs, tmp_path: Path) -> None:
    server = serve("chatty.json")
    script = f"{server.said[-1].strip()}\nexec '{sys.executable}' -c '{BOTO3}'"
    ran = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"HOME": str(tmp_path / "unknown")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == "pasted\n1\n"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS CLI is not installed here")
def test_the_aws_cli_reads_logs(serve: Programs, tmp_path: Path) -> None:
    server = serve("chatty.json")
    server.invoke("chatty", {"say": "this", "lines": 30})

    def cli(*words: str) -> Any:
        script = f'{server.said[-1].strip()}\nexec aws "$@"'
        ran = subprocess.run(
            ["/bin/sh", "-c", script, "aws", *words], env={"HOME": str(tmp_path / "unknown"), "PATH": os.environ["PATH"]}, cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    group = ("--log-group-name", "/aws/lambda/chatty")
    events = cli("logs", "filter-log-events", *group, "--filter-pattern", "line", "--page-size", "10")["events"]
    assert [json.loads(event["message"])["message"] for event in events] == [f"line {number}" for number in range(30)]
    (stream,) = cli("logs", "describe-log-streams", *group)["logStreams"]
    read = cli("logs", "get-log-events", *group, "--log-stream-name", stream["logStreamName"], "--limit", "2")
    assert [json.loads(event["message"])["message"].split()[0] for event in read["events"]] == ["END", "REPORT"]
    assert [one["logGroupName"] for one in cli("logs", "describe-log-groups")["logGroups"]] == ["/aws/lambda/chatty"]
