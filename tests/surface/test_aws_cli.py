"""The AWS CLI, unmodified, with an endpoint and keys in its environment and nothing else; and every waiter and paginator of boto3."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, WaiterError

from tests.flow.runtime.conftest import python_package
from tests.surface.serve_program import DATA, PATIENCE_SECONDS, Program, programs, until
from tests.surface.test_serve_deploying import DOUBLE, ROLE, packed

CLI = "awscli==1.46.2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("aws")
    for name in ("orders", "load"):
        shutil.copytree(DATA / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with programs(folder) as serve:
        yield serve("orders", "load", "--allow-deploy")


class Aws:
    """`aws lambda …`, as a shell would run it."""

    def __init__(self, package: Path, server: Program, folder: Path) -> None:
        self._folder = folder
        keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
        system = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(package)}
        self._environment = {"AWS_ENDPOINT_URL_LAMBDA": server.url, **keys, **system}

    def __call__(self, *arguments: str) -> Any:
        """What it prints, which is JSON or nothing."""
        done = self._run(arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    def refused(self, *arguments: str) -> str:
        """What it says when it fails."""
        done = self._run(arguments)
        assert done.returncode != 0
        return done.stderr

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "awscli", "lambda", *arguments]
        return subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )


@pytest.fixture
def aws(server: Program, tmp_path: Path) -> Aws:
    return Aws(python_package(CLI), server, tmp_path)


@pytest.mark.long
def test_the_cli_runs_an_order_with_its_approval(aws: Aws, server: Program, tmp_path: Path) -> None:
    order = ("--function-name", "process-order:live", "--invocation-type", "Event", "--payload", '{"order_id": "42"}')
    started = aws("invoke", *order, "out.json")
    assert started["StatusCode"] == 202
    arn = ("--durable-execution-arn", started["DurableExecutionArn"])
    assert aws("get-durable-execution", *arn)["Status"] == "RUNNING"
    callback = server.callback(arn[1])
    aws("send-durable-execution-callback-heartbeat", "--callback-id", callback)
    aws("send-durable-execution-callback-success", "--callback-id", callback, "--result", "yes")
    server.ended(arn[1])
    found = aws("get-durable-execution", *arn)
    assert (found["Status"], json.loads(found["Result"])["approval"]) == ("SUCCEEDED", "yes")
    whole = aws("get-durable-execution-history", *arn, "--include-execution-data")["Events"]
    assert [event["EventId"] for event in whole] == list(range(1, len(whole) + 1))
    assert aws("get-durable-execution-history", *arn, "--include-execution-data", "--page-size", "2")["Events"] == whole
    first = aws("get-durable-execution-history", *arn, "--include-execution-data", "--max-items", "3")
    rest = aws("get-durable-execution-history", *arn, "--include-execution-data", "--starting-token", first["NextToken"])
    assert [*first["Events"], *rest["Events"]] == whole


@pytest.mark.long
def test_the_cli_lists_stops_and_fails(aws: Aws, server: Program) -> None:
    names = [f"listed-{number}" for number in range(3)]
    order = ("--function-name", "process-order", "--qualifier", "live", "--invocation-type", "Event")
    arns = {}
    for name in names:
        asked = (*order, "--durable-execution-name", name, "--payload", json.dumps({"order_id": name}))
        arns[name] = aws("invoke", *asked, "out.json")["DurableExecutionArn"]
    listed = ("list-durable-executions-by-function", "--function-name", "process-order", "--statuses", "RUNNING")
    first = aws(*listed, "--page-size", "1", "--max-items", "2")
    rest = aws(*listed, "--page-size", "1", "--starting-token", first["NextToken"])
    assert [one["DurableExecutionName"] for one in first["DurableExecutions"] + rest["DurableExecutions"]] == names[::-1]
    aws("stop-durable-execution", "--durable-execution-arn", arns[names[0]], "--error", "ErrorType=Enough,ErrorMessage=enough")
    stopped = aws("get-durable-execution", "--durable-execution-arn", arns[names[0]])
    assert (stopped["Status"], stopped["Error"]) == ("STOPPED", {"ErrorType": "Enough", "ErrorMessage": "enough"})
    callback = ("--callback-id", server.callback(arns[names[1]]))
    aws("send-durable-execution-callback-failure", *callback, "--error", "ErrorType=No,ErrorMessage=no")
    assert server.ended(arns[names[1]])["Status"] == "FAILED"
    aws("stop-durable-execution", "--durable-execution-arn", arns[names[2]])
    wrong = aws.refused("get-durable-execution", "--durable-execution-arn", arns[names[2]] + "0")
    assert "(ResourceNotFoundException) when calling the GetDurableExecution operation" in wrong


@pytest.mark.long
def test_the_cli_deploys_a_function_waits_for_it_and_invokes_it(aws: Aws, tmp_path: Path) -> None:
    (tmp_path / "code.zip").write_bytes(packed(DOUBLE))
    name = ("--function-name", "by-cli")
    code = ("--zip-file", "fileb://code.zip")
    made = aws("create-function", *name, "--runtime", "python3", "--handler", "app.handler", "--role", ROLE, *code, "--publish")
    assert (made["FunctionName"], made["Version"]) == ("by-cli", "1")
    for waiter in ("function-exists", "function-active", "function-active-v2", "function-updated", "function-updated-v2"):
        assert aws("wait", waiter, *name) is None
    aws("wait", "published-version-active", *name, "--qualifier", "1")
    answer = aws("invoke", *name, "--payload", "21", "--log-type", "Tail", "out.json")
    assert (answer["StatusCode"], answer["ExecutedVersion"], (tmp_path / "out.json").read_text()) == (200, "$LATEST", "42")
    assert answer["LogResult"]
    assert aws("update-function-code", *name, *code, "--publish")["FunctionName"] == "by-cli"
    aws("update-function-configuration", *name, "--timeout", "9", "--environment", "Variables={A=1}")
    configured = aws("get-function-configuration", *name)
    assert (configured["Timeout"], configured["Environment"]) == (9, {"Variables": {"A": "1"}})
    assert aws("create-alias", *name, "--name", "live", "--function-version", "1")["AliasArn"].endswith(":by-cli:live")
    versions = aws("list-versions-by-function", *name, "--page-size", "1")["Versions"]
    assert [one["Version"] for one in versions][:2] == ["$LATEST", "1"]
    assert "by-cli" in [one["FunctionName"] for one in aws("list-functions", "--page-size", "2")["Functions"]]
    aws("delete-function", *name)
    assert "(ResourceNotFoundException) when calling the GetFunction operation: Function not found" in aws.refused("get-function", *name)


# --- boto3's waiters and paginators, as botocore's own model lists them

MODEL = boto3.Session(region_name="us-east-1")._session
NOT_SERVED = {
    "ListCapacityProviders", "ListCodeSigningConfigs", "ListEventSourceMappings", "ListFunctionEventInvokeConfigs",
    "ListFunctionUrlConfigs", "ListFunctionVersionsByCapacityProvider", "ListFunctionsByCodeSigningConfig", "ListLayerVersions",
    "ListLayers", "ListProvisionedConcurrencyConfigs",
}  # fmt: skip
"""Pages of what there is not here."""


def snake(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()


@pytest.fixture(scope="module")
def asked(server: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What operations are asked with: a function with three aliases and versions, and an execution with three operations."""
    aws, place = server.lambda_, tmp_path_factory.mktemp("place")
    code = {"ZipFile": packed(DOUBLE)}
    aws.create_function(FunctionName="paged", Runtime="python3", Handler="app.handler", Role=ROLE, Code=code)
    for number in range(3):
        aws.update_function_configuration(FunctionName="paged", Timeout=10 + number)
        version = aws.publish_version(FunctionName="paged")["Version"]
        aws.create_alias(FunctionName="paged", Name=f"alias-{number}", FunctionVersion=version)
    held = [server.invoke("held:live", {"place": str(place)}, InvocationType="Event") for _ in range(3)]
    arn = held[0]["DurableExecutionArn"]
    events = until(lambda: [e for e in map(read, place.glob("*.json")) if e["DurableExecutionArn"] == arn], "the invocation")
    updates = [{"Id": name, "Name": name, "Type": "STEP", "Action": "SUCCEED"} for name in "abc"]
    written = aws.checkpoint_durable_execution(DurableExecutionArn=arn, CheckpointToken=events[0]["CheckpointToken"], Updates=updates)
    yield {
        "FunctionName": "paged",
        "DurableExecutionArn": arn,
        "CheckpointToken": written["CheckpointToken"],
        "Qualifier": "1",
        "listed": "held",
    }
    (place / "done").touch()


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def members(aws: Any, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What an operation must be asked with."""
    needed = aws.meta.service_model.operation_model(operation).input_shape.required_members
    given = {
        "UUID": "a",
        "CapacityProviderName": "a",
        "CodeSigningConfigArn": "arn:aws:lambda:us-east-1:000000000000:code-signing-config:csc-0",
    }
    found = {member: (asked | given | {"LayerName": "a"})[member] for member in needed}
    return found | ({"FunctionName": asked["listed"]} if operation == "ListDurableExecutionsByFunction" else {})


@pytest.mark.parametrize("operation", sorted(MODEL.get_paginator_model("lambda")._paginator_config))
def test_every_paginator_walks_page_by_page(operation: str, server: Program, asked: dict[str, Any]) -> None:
    aws = server.lambda_
    paginator = aws.get_paginator(snake(operation))
    wanted = members(aws, operation, asked)
    if operation in NOT_SERVED:
        with pytest.raises(ClientError, match="UnknownOperationException"):
            paginator.paginate(**wanted).build_full_result()
        return
    whole = paginator.paginate(**wanted).build_full_result()
    (key,) = whole
    assert len(whole[key]) >= 3
    pages = list(paginator.paginate(**wanted, PaginationConfig={"PageSize": 1}))
    assert [one for page in pages for one in page[key]] == whole[key]
    assert {len(page[key]) for page in pages} <= {0, 1}
    some = paginator.paginate(**wanted, PaginationConfig={"MaxItems": 2, "PageSize": 1}).build_full_result()
    rest = paginator.paginate(**wanted, PaginationConfig={"StartingToken": some["NextToken"]}).build_full_result()
    assert [*some[key], *rest[key]] == whole[key]


@pytest.mark.parametrize("waiter", MODEL.get_waiter_model("lambda").waiter_names)
def test_every_waiter_waits_no_longer_than_it_must(waiter: str, server: Program, asked: dict[str, Any]) -> None:
    waits = server.lambda_.get_waiter(snake(waiter))
    waits.wait(FunctionName=asked["FunctionName"], Qualifier=asked["Qualifier"], WaiterConfig={"MaxAttempts": 1})
    with pytest.raises(WaiterError):
        waits.wait(FunctionName="nobody", WaiterConfig={"MaxAttempts": 1})
