"""Function management over HTTP: boto3 deploys functions to a server, as to AWS."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.surface.serve_program import PATIENCE_SECONDS, Program, Programs, programs, until

DOUBLE = "def handler(event, context): return event * 2\n"
TRIPLE = "def handler(event, context): return event * 3\n"
NAMED = "def handler(event, context): return [context.invoked_function_arn, context.aws_request_id]\n"
DURABLE = """
from holdfast.durable import durable_execution

@durable_execution
def handler(event, context):
    context.create_callback(name="go").result()
    return context.step(lambda _: "done")
"""
ROLE = "arn:aws:iam::000000000000:role/any"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as made:
        yield made


def packed(code: str, name: str = "app.py") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), code)
    return made.getvalue()


def create(server: Program, name: str = "number", code: str = DOUBLE, **more: Any) -> Any:
    asked = {"Runtime": "python3", "Role": ROLE, "Handler": "app.handler", "Code": {"ZipFile": packed(code)}} | more
    return server.lambda_.create_function(FunctionName=name, **asked)


def refusal(call: Any, **asked: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**asked)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def test_a_function_is_created_updated_published_named_and_deleted(serve: Programs) -> None:
    server = serve("--allow-deploy")
    aws = server.lambda_
    created = create(server, Timeout=10, Environment={"Variables": {"A": "1"}}, Tags={"team": "a"})
    assert (created["Version"], created["State"], created["CodeSize"]) == ("$LATEST", "Active", len(packed(DOUBLE)))
    aws.get_waiter("function_active_v2").wait(FunctionName="number")
    assert server.invoke("number", 4)["Payload"] == 8
    assert refusal(aws.create_function, FunctionName="number", Role=ROLE, Runtime="python3", Handler="a.b", Code={"ZipFile": b"x"}) == (
        "ResourceConflictException",
        "Function already exist: number",
    )

    published = aws.publish_version(FunctionName="number", CodeSha256=created["CodeSha256"], Description="twice")
    assert (published["Version"], published["Description"]) == ("1", "twice")
    assert aws.publish_version(FunctionName="number")["Version"] == "1"  # nothing has changed
    alias = aws.create_alias(FunctionName="number", Name="live", FunctionVersion="1")
    assert alias["AliasArn"].endswith(":function:number:live")

    create(server, "named", NAMED)
    aws.create_alias(FunctionName="named", Name="now", FunctionVersion=aws.publish_version(FunctionName="named")["Version"])
    named = [server.invoke(f"named{which}", None)["Payload"] for which in ("", ":$LATEST", ":1", ":now")]
    assert [arn.partition(":function:")[2] for arn, _ in named] == ["named", "named:$LATEST", "named:1", "named:now"]
    answer = aws.invoke(FunctionName="named")
    assert json.loads(answer["Payload"].read())[1] == answer["ResponseMetadata"]["RequestId"]
    aws.delete_function(FunctionName="named")

    updated = aws.update_function_code(FunctionName="number", ZipFile=packed(TRIPLE), Publish=True)
    assert updated["Version"] == "2"
    aws.get_waiter("function_updated_v2").wait(FunctionName="number")
    assert [server.invoke(f"number{which}", 4)["Payload"] for which in ("", ":live", ":1", ":2")] == [12, 8, 8, 12]
    stale = refusal(aws.update_alias, FunctionName="number", Name="live", FunctionVersion="2", RevisionId="old")
    assert stale[0] == "PreconditionFailedException"
    aws.update_alias(FunctionName="number", Name="live", FunctionVersion="2", RevisionId=alias["RevisionId"])
    assert server.invoke("number:live", 4)["Payload"] == 12
    aws.update_function_configuration(FunctionName="number", Timeout=20, MemorySize=256)
    found = aws.get_function(FunctionName="number")
    assert (found["Configuration"]["Timeout"], found["Configuration"]["MemorySize"], found["Tags"]) == (20, 256, {"team": "a"})
    assert found["Configuration"]["Environment"] == {"Variables": {"A": "1"}}
    assert aws.get_function_configuration(FunctionName="number", Qualifier="1")["Timeout"] == 10  # versions do not change

    pages = aws.get_paginator("list_versions_by_function").paginate(FunctionName="number", PaginationConfig={"PageSize": 1})
    assert [one["Version"] for page in pages for one in page["Versions"]] == ["$LATEST", "1", "2"]
    assert [one["Name"] for one in aws.list_aliases(FunctionName="number", FunctionVersion="2")["Aliases"]] == ["live"]
    assert refusal(aws.delete_function, FunctionName="number", Qualifier="2")[0] == "ResourceConflictException"
    aws.delete_function(FunctionName="number", Qualifier="1")
    assert refusal(aws.invoke, FunctionName="number:1")[0] == "ResourceNotFoundException"
    aws.delete_alias(FunctionName="number", Name="live")
    assert refusal(aws.get_alias, FunctionName="number", Name="live")[0] == "ResourceNotFoundException"
    aws.delete_function(FunctionName="number")
    assert refusal(aws.get_function, FunctionName="number")[0] == "ResourceNotFoundException"
    assert aws.list_functions()["Functions"] == []


def test_deployed_functions_survive_kill_9_and_executions_wait_for_a_function_that_left(serve: Programs) -> None:
    server = serve("--allow-deploy")
    create(server, "durable", DURABLE, DurableConfig={"ExecutionTimeout": 300}, Publish=True)
    arn = server.invoke("durable:1", {}, InvocationType="Event")["DurableExecutionArn"]
    callback = server.callback(arn)
    server.kill()
    server = serve("--allow-deploy")
    assert [one["FunctionName"] for one in server.lambda_.list_functions()["Functions"]] == ["durable"]
    server.lambda_.delete_function(FunctionName="durable")
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b'"go"')
    assert server.lambda_.get_durable_execution(DurableExecutionArn=arn)["Status"] == "RUNNING"
    again = create(server, "durable", DURABLE, DurableConfig={"ExecutionTimeout": 300}, Publish=True)
    assert again["Version"] == "2"  # so nothing that began with another code goes on with this one
    assert server.lambda_.get_durable_execution(DurableExecutionArn=arn)["Status"] == "RUNNING"


def test_no_acknowledged_change_is_lost_by_kill_9(serve: Programs) -> None:
    server = serve("--allow-deploy")
    sent = [create(server)["CodeSha256"]]
    acknowledged: dict[str, str] = {}
    """Published versions and their code, as they were answered."""
    for after in (3, 7, 12):
        stop = threading.Event()

        def change(server: Program = server, stop: threading.Event = stop, after: int = after) -> None:
            with contextlib.suppress(BotoCoreError, ClientError):  # the server is gone
                while True:
                    code = packed(f"{DOUBLE}# {len(sent)}\n")
                    sent.append(base64.b64encode(hashlib.sha256(code).digest()).decode())
                    made = server.lambda_.update_function_code(FunctionName="number", ZipFile=code, Publish=True)
                    acknowledged[made["Version"]] = made["CodeSha256"]
                    if len(acknowledged) >= after:
                        stop.set()

        changing = threading.Thread(target=change)
        changing.start()
        assert stop.wait(PATIENCE_SECONDS)
        server.process.kill()
        changing.join(PATIENCE_SECONDS)
        server.kill()
        server = serve("--allow-deploy")
        listed = server.lambda_.list_versions_by_function(FunctionName="number", MaxItems=1000)["Versions"]
        found = {one["Version"]: one["CodeSha256"] for one in listed}
        assert {version: found[version] for version in acknowledged} == acknowledged
        assert found["$LATEST"] in (list(acknowledged.values())[-1], sent[-1])
        assert server.invoke("number", 4)["Payload"] == 8


def test_code_may_be_a_folder_of_the_servers_machine(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/app.py").write_text(DOUBLE)
    server = serve("--allow-deploy")
    create(server, Code={"S3Bucket": "holdfast-local", "S3Key": str(tmp_path / "code")})
    assert server.invoke("number", 2)["Payload"] == 4


@pytest.mark.parametrize(
    "asked, says",
    [
        ({"Code": {"ZipFile": b"no zip"}}, "Could not unzip uploaded file"),
        ({"Code": {"ZipFile": packed("", "../../out.py")}}, "leads out of it"),
        pytest.param({"Code": {"S3Bucket": "mine", "S3Key": "a.zip"}}, "S3 is not read here", marks=pytest.mark.long),
        pytest.param({"Code": {"ImageUri": "image"}, "PackageType": "Image"}, "container images are not run here", marks=pytest.mark.long),
        pytest.param({"DurableConfig": {"RetentionPeriodInDays": 1}}, "without an executionTimeout", marks=pytest.mark.long),
        pytest.param({"Timeout": 901}, "Timeout: must be between 1 and 900", marks=pytest.mark.long),
        pytest.param(
            {"Environment": {"Variables": {"_HANDLER": "other.handler"}}},
            "these keys are reserved, and cannot be given: _HANDLER",
            marks=pytest.mark.long,
        ),
        pytest.param({"FunctionName": "a.b"}, "Function name 'a.b'", marks=pytest.mark.long),
    ],
)
def test_what_cannot_run_here_is_refused(serve: Programs, asked: dict[str, Any], says: str) -> None:
    server = serve("--allow-deploy")
    wanted: dict[str, Any] = {"FunctionName": "f", "Role": ROLE, "Runtime": "python3", "Handler": "app.handler"}
    code, message = refusal(server.lambda_.create_function, **{**wanted, "Code": {"ZipFile": packed(DOUBLE)}, **asked})
    assert code == "InvalidParameterValueException"
    assert says in message
    assert server.lambda_.list_functions()["Functions"] == []


def test_a_function_that_is_not_durable_is_refused_a_durable_configuration_whatever_its_members(serve: Programs) -> None:
    server = serve("--allow-deploy")
    create(server)
    for asked in ({"RetentionPeriodInDays": 1}, {"ExecutionTimeout": 300}):
        code, message = refusal(server.lambda_.update_function_configuration, FunctionName="number", DurableConfig=asked)
        assert (code, "cannot add a durable configuration" in message) == ("InvalidParameterValueException", True), message


def test_nothing_is_deployed_where_it_was_not_allowed(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(
        "from holdfast.durable import durable_execution\n@durable_execution\ndef greet(event, context): ...\n"
    )
    server = serve("greeting.py")
    assert refusal(lambda: create(server))[0] == "AccessDeniedException"
    server.leave()
    server = serve("greeting.py", "--allow-deploy")
    assert refusal(lambda: create(server, "greet"))[0] == "ResourceConflictException"  # it is the program's own


def test_what_runs_in_a_process_cannot_deploy(serve: Programs) -> None:
    """The private listener of a process asks for no credentials, so it must not bring code."""
    code = """
import boto3, botocore
def handler(event, context):
    try:
        boto3.client("lambda").delete_function(FunctionName="number")
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
"""
    server = serve("--allow-deploy")
    create(server, code=code, Timeout=30)
    assert server.invoke("number", {})["Payload"] == 405


def test_a_function_whose_code_was_changed_on_disk_is_not_run_and_its_neighbours_are(serve: Programs) -> None:
    server = serve("--allow-deploy")
    create(server)
    create(server, "other", TRIPLE)
    server.close()
    (code,) = [path for path in (serve.folder / "orders.db.functions" / "code").glob("*/app.py") if path.read_text() == DOUBLE]
    code.write_text(TRIPLE)
    server = serve("--allow-deploy")
    kind, message = refusal(server.lambda_.invoke, FunctionName="number", Payload=b"4")
    assert (kind, "is not what was deployed" in message) == ("InvalidParameterValueException", True)
    assert server.invoke("other", 4)["Payload"] == 12
    until(lambda: any("code_changed" in line for line in server.warned), "why the function does not run")
    server.lambda_.update_function_code(FunctionName="number", ZipFile=packed(DOUBLE))
    assert server.invoke("number", 4)["Payload"] == 8
