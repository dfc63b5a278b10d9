"""botocore's own model of function management, walked: every member is sent and comes back, but for those that are said not to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.surface.serve_program import Programs, programs
from tests.surface.test_serve_deploying import DOUBLE, DURABLE, ROLE, packed

IGNORED = {
    "CreateFunction": {"CodeSigningConfigArn", "ImageConfig", "CapacityProviderConfig", "PublishTo"},
    "UpdateFunctionCode": {"S3Bucket", "S3Key", "S3ObjectVersion", "S3ObjectStorageMode", "ImageUri", "SourceKMSKeyArn", "PublishTo"},
    "UpdateFunctionConfiguration": {"ImageConfig", "CapacityProviderConfig"},
    "PublishVersion": {"PublishTo"},
}
"""Not sent here: accepted without an effect, or another way to send code, which has tests of its own."""
ELSEWHERE = {"S3Bucket", "S3Key", "ImageUri"}
NEVER = {
    "MasterArn", "StateReason", "StateReasonCode", "LastUpdateStatusReason", "LastUpdateStatusReasonCode", "SigningProfileVersionArn",
    "SigningJobArn", "ImageConfigResponse", "RuntimeVersionConfig", "CapacityProviderConfig", "ConfigSha256",
}  # fmt: skip
"""Never there: nothing is pending or signed, there is one region, and no container images."""

KEPT: dict[str, Any] = {
    "VpcConfig": {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
    "DeadLetterConfig": {"TargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"},
    "KMSKeyArn": "arn:aws:kms:us-east-1:000000000000:key/a",
    "TracingConfig": {"Mode": "Active"},
    "FileSystemConfigs": [{"Arn": "arn:aws:elasticfilesystem:us-east-1:000000000000:access-point/fsap-1", "LocalMountPath": "/" + "mnt/a"}],
    "EphemeralStorage": {"Size": 512},
    "LoggingConfig": {"LogFormat": "JSON", "ApplicationLogLevel": "INFO", "SystemLogLevel": "WARN", "LogGroup": "/aws/lambda/f"},
    "Environment": {"Variables": {"A": "1"}},
    "Description": "All of it",
    "Timeout": 10,
    "MemorySize": 256,
    "Runtime": "python3",
    "Handler": "app.handler",
    "Role": ROLE,
    "DurableConfig": {"ExecutionTimeout": 60, "RetentionPeriodInDays": 3},
}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as made:
        yield made


def call(aws: Any, operation: str, **asked: Any) -> dict[str, Any]:
    """Call with all members that there are, and look that the answer has all its members."""
    method = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
    model = aws.meta.service_model.operation_model(operation)
    assert set(model.input_shape.members) - set(asked) == IGNORED.get(operation, set())
    answer: dict[str, Any] = getattr(aws, method)(**asked)
    members = set(model.output_shape.members) if model.output_shape is not None else set()
    if operation.startswith("List"):
        members -= {"NextMarker"}
    found = set(answer) - {"ResponseMetadata"}
    assert members - found - NEVER == set(), operation
    return answer


def test_no_member_of_function_management_is_forgotten(serve: Programs) -> None:
    aws = serve("--allow-deploy").lambda_
    name = {"FunctionName": "f"}
    created = call(
        aws, "CreateFunction", **name, **KEPT, Code={"ZipFile": packed(DURABLE)}, Publish=True, PackageType="Zip", Tags={"a": "b"},
        Layers=["arn:aws:lambda:us-east-1:000000000000:layer:l:1"], Architectures=["arm64"], SnapStart={"ApplyOn": "None"},
        TenancyConfig={"TenantIsolationMode": "PER_TENANT"},
    )  # fmt: skip
    assert {member: created[member] for member in KEPT} == KEPT
    assert created["Layers"] == [{"Arn": "arn:aws:lambda:us-east-1:000000000000:layer:l:1", "CodeSize": 0}]
    assert (created["Version"], created["Architectures"], created["SnapStart"]["ApplyOn"]) == ("1", ["arm64"], "None")

    revision = aws.get_function_configuration(**name)["RevisionId"]
    updated = call(
        aws, "UpdateFunctionCode", **name, ZipFile=packed(DOUBLE), Architectures=["x86_64"], Publish=False, DryRun=False,
        RevisionId=revision,
    )  # fmt: skip
    assert (updated["Version"], updated["Architectures"]) == ("$LATEST", ["x86_64"])
    changed = KEPT | {"Timeout": 20, "TracingConfig": {"Mode": "PassThrough"}, "DurableConfig": {"ExecutionTimeout": 61}}
    configured = call(
        aws, "UpdateFunctionConfiguration", **name, **changed, Layers=[], SnapStart={"ApplyOn": "None"}, RevisionId=updated["RevisionId"]
    )  # fmt: skip
    assert (configured["Timeout"], configured["TracingConfig"], configured["Layers"]) == (20, {"Mode": "PassThrough"}, [])
    assert configured["DurableConfig"] == {"ExecutionTimeout": 61, "RetentionPeriodInDays": 3}
    published = call(
        aws, "PublishVersion", **name, CodeSha256=configured["CodeSha256"], Description="two", RevisionId=configured["RevisionId"]
    )  # fmt: skip
    assert (published["Version"], published["Description"], published["CodeSha256"]) == ("2", "two", configured["CodeSha256"])

    alias = {"Name": "live", "Description": "Half", "RoutingConfig": {"AdditionalVersionWeights": {"2": 0.5}}}
    made = call(aws, "CreateAlias", **name, **alias, FunctionVersion="1")
    assert {member: made[member] for member in alias} == alias
    assert call(aws, "GetAlias", **name, Name="live")["RevisionId"] == made["RevisionId"]
    call(aws, "UpdateAlias", **name, **alias, FunctionVersion="1", RevisionId=made["RevisionId"])
    aws.create_alias(**name, Name="old", FunctionVersion="1")
    page = aws.list_aliases(**name, MaxItems=1)
    assert [one["Name"] for one in page["Aliases"]] == ["live"]
    rest = call(aws, "ListAliases", **name, FunctionVersion="1", Marker=page["NextMarker"], MaxItems=1)
    assert [one["Name"] for one in rest["Aliases"]] == ["old"]
    call(aws, "DeleteAlias", **name, Name="old")
    versions = aws.list_versions_by_function(**name, MaxItems=2)
    assert [one["Version"] for one in versions["Versions"]] == ["$LATEST", "1"]
    rest = call(aws, "ListVersionsByFunction", **name, Marker=versions["NextMarker"], MaxItems=2)
    assert [one["Version"] for one in rest["Versions"]] == ["2"]
    call(aws, "DeleteAlias", **name, Name="live")
    assert aws.delete_function(**name, Qualifier="1")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_what_has_no_effect_is_said_to_have_none() -> None:
    page = (ROOT / "docs/reference/http.md").read_text()
    said = {word for line in page.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    assert {member for members in IGNORED.values() for member in members} - ELSEWHERE - said == set()


def test_an_alias_shares_its_invocations_between_two_versions(serve: Programs) -> None:
    server = serve("--allow-deploy")
    aws = server.lambda_
    asked = {"Role": ROLE, "Runtime": "python3", "Handler": "app.handler", "Publish": True}
    aws.create_function(FunctionName="f", Code={"ZipFile": packed(DOUBLE)}, **asked)
    aws.update_function_code(FunctionName="f", ZipFile=packed(DOUBLE.replace("2", "3")), Publish=True)
    routing: dict[str, Any] = {"AdditionalVersionWeights": {"2": 1.0}}
    aws.create_alias(FunctionName="f", Name="live", FunctionVersion="1", RoutingConfig=routing)
    assert [server.invoke("f:live", 1)["ExecutedVersion"] for _ in range(3)] == ["2", "2", "2"]
    assert aws.get_function_configuration(FunctionName="f:live")["Version"] == "1", "who looks is no invocation"
    aws.update_alias(FunctionName="f", Name="live", RoutingConfig={"AdditionalVersionWeights": {"2": 0.5}})
    assert {server.invoke("f:live", 1)["ExecutedVersion"] for _ in range(60)} == {"1", "2"}  # fails once in 2 ** 59
