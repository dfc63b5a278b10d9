"""The order workflow for the official SDK, served from a SAM template and driven with boto3, as on AWS."""

from __future__ import annotations

import shutil
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import empty_store
from tests.surface.serve_program import DATA, Program, Programs, programs, until


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    shutil.copytree(DATA / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    with programs(tmp_path) as made:
        yield made


def start(program: Program, **order: object) -> str:
    answer = program.invoke("process-order:live", {"order_id": "42", **order}, InvocationType="Event")
    assert answer["StatusCode"] == 202
    arn: str = answer["DurableExecutionArn"]
    return arn


def test_the_order_workflow_runs_with_an_approval_sent_by_boto3(serve: Programs) -> None:
    server = serve("orders")
    arn = start(server, failures=2)
    assert ":function:process-order:1/durable-execution/" in arn  # the alias was resolved
    server.approve(arn)
    ended = server.ended(arn)
    assert ended["Status"] == "SUCCEEDED"
    assert ended["Result"] == ('{"order_id": "42", "status": "processed", "code": "first", "stage": "test", "approval": "\\"yes\\""}')
    kinds = [event["EventType"] for event in server.history(arn)]
    assert [kind for kind in kinds if kind != "InvocationCompleted"] == [
        "ExecutionStarted",
        *("StepStarted", "StepSucceeded"),
        "CallbackStarted",
        *("StepStarted", "StepSucceeded"),
        "CallbackSucceeded",
        *("StepStarted", "StepFailed") * 2,
        *("StepStarted", "StepSucceeded"),
        "ExecutionSucceeded",
    ]
    assert kinds.count("InvocationCompleted") == 4  # suspended for the approval, and before both retries
    until(lambda: "process-order: asking test@example.com to approve 42" in server.warned, "what the function printed")
    listed = server.lambda_.list_durable_executions_by_function(FunctionName="process-order", Qualifier="live")
    assert [one["DurableExecutionArn"] for one in listed["DurableExecutions"]] == [arn]


def test_it_says_what_it_serves_and_where(serve: Programs) -> None:
    server = serve("orders/template.yaml", "--parameter", "Stage=prod")
    assert server.said[0] == f"serving on {server.url} from orders.db"
    assert [line.split() for line in server.said[1:4]] == [
        ["FUNCTION", "VERSIONS", "KIND", "RUNS"],
        ["Tax", "$LATEST", "plain", "python3", "tax.handler"],
        ["process-order", "$LATEST,", "1", "(live)", "durable", "python3", "orders.lambda_handler"],
    ]
    assert server.said[4].startswith("credentials: none")
    assert server.said[-1] == (
        f"  export AWS_ENDPOINT_URL_LAMBDA={server.url} AWS_ENDPOINT_URL_CLOUDWATCH_LOGS={server.url} AWS_DEFAULT_REGION=us-east-1"
        " AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any"
    )
    with urllib.request.urlopen(f"{server.url}/ready") as answer:
        assert (answer.status, answer.read()) == (200, b'{"status":"ready"}')
    found = server.lambda_.get_function(FunctionName="process-order", Qualifier="live")["Configuration"]
    assert found["Environment"]["Variables"] == {"STAGE": "prod", "MAIL": "prod@example.com"}
    assert (found["Version"], found["Timeout"], found["State"]) == ("1", 30, "Active")
    assert found["DurableConfig"] == {"ExecutionTimeout": 900, "RetentionPeriodInDays": 7}


def test_a_function_that_is_not_durable_is_invoked_too(serve: Programs) -> None:
    server = serve("orders")
    assert server.invoke("Tax", {"price": 100})["Payload"] == {"tax": 25.0}
    failed = server.invoke("Tax", {})
    assert (failed["FunctionError"], failed["Payload"]["errorType"]) == ("Unhandled", "KeyError")
    assert server.invoke("Tax", {"price": 1}, InvocationType="Event")["StatusCode"] == 202


def test_an_order_survives_kill_9_of_its_server_at_its_worst_moments(serve: Programs, tmp_path: Path) -> None:
    place = tmp_path / "processing"
    server = serve("orders")
    arn = start(server, place=str(place))
    server.callback(arn)
    server.kill()  # while it waits for its approval
    server = serve("orders")
    server.approve(arn)
    until(place.exists, "the step that never ends")
    server.kill()  # in the middle of a step
    server = serve("orders")
    ended = server.ended(arn)
    assert ended["Status"] == "SUCCEEDED"
    assert '"status": "processed"' in ended["Result"]
    assert [version["Version"] for version in server.lambda_.list_versions_by_function(FunctionName="process-order")["Versions"]] == [
        "$LATEST",
        "1",
    ]  # the same code is the same version


@pytest.mark.long
def test_an_order_on_postgres_survives_kill_9_of_its_server(serve: Programs) -> None:
    where = empty_store()
    server = serve("orders", store=where)
    arn = start(server)
    server.callback(arn)
    server.kill()
    server = serve("orders", store=where)
    server.approve(arn)
    assert server.ended(arn)["Status"] == "SUCCEEDED"
    assert (serve.folder / "holdfast.functions").is_dir()


@pytest.mark.long
def test_changed_code_is_a_new_version_and_what_began_before_ends_with_the_old(serve: Programs, tmp_path: Path) -> None:
    server = serve("orders")
    old = start(server)
    server.callback(old)
    assert server.leave() == 0
    code = tmp_path / "orders/src/orders.py"
    code.write_text(code.read_text().replace('CODE = "first"', 'CODE = "second"'))
    server = serve("orders")
    new = start(server)
    assert ":process-order:2/" in new
    for arn, ran in ((old, "first"), (new, "second")):
        server.approve(arn)
        assert f'"code": "{ran}"' in server.ended(arn)["Result"]


@pytest.mark.long
def test_a_change_under_reload_is_a_new_version_while_it_is_served(serve: Programs, tmp_path: Path) -> None:
    template = tmp_path / "orders/template.yaml"
    template.write_text(template.read_text() + "  Table: {Type: AWS::DynamoDB::Table}\n")
    server = serve("orders", "--reload")
    old = start(server)
    server.callback(old)
    code = tmp_path / "orders/src/orders.py"
    text = code.read_text()
    code.write_text(text.replace('CODE = "first"', "CODE = 'sec"))  # a mistake is a version too, as on AWS
    until(lambda: "process-order is version 2 now" in server.warned, "the second version")
    code.write_text(text.replace('CODE = "first"', 'CODE = "third"'))
    until(lambda: "process-order is version 3 now" in server.warned, "the third version")
    new = start(server)
    for arn, ran in ((old, "first"), (new, "third")):
        server.approve(arn)
        assert f'"code": "{ran}"' in server.ended(arn)["Result"]
    assert sum("Resources.Table" in line for line in server.warned) == 1  # told once, and not with every change
    template.write_text("Resources: [")
    until(lambda: any("not reloaded: error[template_invalid]" in line for line in server.warned), "the broken template")
    assert server.invoke("Tax", {"price": 4})["Payload"] == {"tax": 1.0}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_server_that_is_told_to_leave_leaves_in_good_order(serve: Programs, number: int, tmp_path: Path) -> None:
    place = tmp_path / "processing"
    server = serve("orders")
    arn = start(server, place=str(place))
    server.approve(arn)
    until(place.exists, "the step that never ends")
    assert server.leave(number) == 0
    assert "leaving: waiting until running work can be stopped" in server.warned
    server = serve("orders")
    assert server.ended(arn)["Status"] == "SUCCEEDED"
    deaths = [e for e in server.history(arn) if e["EventType"] == "InvocationCompleted" and "Error" in e["InvocationCompletedDetails"]]
    assert deaths == []  # no process died: the invocation was given up, and counts nowhere
