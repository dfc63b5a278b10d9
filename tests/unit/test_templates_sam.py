"""Templates as people write them for SAM: Globals, what SAM makes by itself, and what only a deployment knows."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from holdfast.lambda_api.templates.descriptions import FoundTargets
from holdfast.lambda_api.templates.template import read_template
from holdfast.model.deploy_errors import TemplateInvalid

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String, Default: dev}
  Url: {Type: 'AWS::SSM::Parameter::Value<String>', Default: /db/url}
  Urls: {Type: 'AWS::SSM::Parameter::Value<List<String>>', Default: /db/urls}
  Nobodys: {Type: String}
Conditions:
  Undecided: !Equals [!Ref Nobodys, a]
Globals:
  Function:
    Runtime: python3
    Timeout: 20
    Tags: {team: orders}
    Environment:
      Variables:
        RefreshRate: 5
Resources:
  F:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      AutoPublishAlias: !Sub '${Stage}-live'
      MORE
  Table: {Type: AWS::DynamoDB::Table, Properties: {TableName: !Sub '${Stage}-orders'}}
  Queue: {Type: AWS::SQS::Queue, Properties: {QueueName: jobs}}
  Version: {Type: AWS::Lambda::Version, Properties: {FunctionName: !Ref F}}
  Alias: {Type: AWS::Lambda::Alias, Properties: {Name: prod, FunctionName: !GetAtt F.Arn, FunctionVersion: !GetAtt Version.Version}}
  Machine: {Type: AWS::Serverless::StateMachine}
  Api: {Type: AWS::Serverless::Api}
  Undecided: {Type: AWS::Serverless::Function, Condition: Undecided, Properties: {Handler: app.handler}}
"""
ARN = "arn:aws:lambda:local:000000000000:function:F"


def read(folder: Path, more: str = "", **parameters: str) -> FoundTargets:
    """The template, with one more property of its function."""
    file = folder / "template.yaml"
    file.write_text(TEMPLATE.replace("MORE", more))
    return read_template(file, parameters)


def variable(folder: Path, value: str, **parameters: str) -> tuple[str | None, list[str]]:
    """The resolved value of a variable, and the warnings about it."""
    found = read(folder, f"Environment: {{Variables: {{X: {value}}}}}", **parameters)
    (one,) = found.deployed
    assert one.config.environment["RefreshRate"] == "5", "what Globals has stays"
    return one.config.environment.get("X"), [said for said in found.warnings if "Variables.X" in said]


@pytest.mark.parametrize(
    "value, known",
    [
        ("!Ref F.Alias", f"{ARN}:dev-live"),
        ("!Sub 'x ${F.Alias}'", f"x {ARN}:dev-live"),
        ("!Ref Alias", f"{ARN}:prod"),
        ("!Ref Table", "dev-orders"),
        ("!Length [a, !Ref Stage]", "2"),
        ("!ToJsonString {stage: !Ref Stage, n: [1]}", '{"stage":"dev","n":[1]}'),
    ],
)
def test_what_sam_would_make_is_known(tmp_path: Path, value: str, known: str) -> None:
    assert variable(tmp_path, value) == (known, [])


@pytest.mark.parametrize(
    "value, says",
    [
        ("!Ref F.Version", "a version's number is known only when it is published"),
        ("!Ref Version", "a version's number is known only when it is published"),
        ("!GetAtt FRole.Arn", "the template does not define FRole"),
        ("!Ref FAliaslive", "the template does not define FAliaslive"),
        ("!Ref FEventInvokeConfig", "the template does not define FEventInvokeConfig"),
        ("!Ref F.DestinationQueue", "the template does not define F.DestinationQueue"),
        ("!GetAtt MachineRole.Arn", "the template does not define MachineRole"),
        ("!Ref Api.Stage", "the template does not define Api.Stage"),
        ("!GetAtt UndecidedRole.Arn", "the template does not define UndecidedRole"),
        ("!Ref Undecided.Alias", "the template does not define Undecided.Alias"),
        ("!Sub 'https://${ServerlessRestApi}.example'", "the template does not define ServerlessRestApi"),
        ("!Sub 'https://${ServerlessRestApiProdStage}.example'", "the template does not define ServerlessRestApiProdStage"),
        ("'{{resolve:ssm:/db/password}}'", "the value of {{resolve:…}} is known only where it is deployed"),
        ("!Sub 'db://${Stage}:{{resolve:secretsmanager:db:SecretString:pw}}@host'", "the value of {{resolve:…}} is known only where"),
        ("!ToJsonString [!ImportValue a]", "what other stacks export is not known here"),
        ("!Ref Url", "the parameter Url has no value; give one with --parameter"),
    ],
)
def test_what_only_a_deployment_knows_is_not_set_and_said(tmp_path: Path, value: str, says: str) -> None:
    found, warnings = variable(tmp_path, value)
    assert found is None
    assert [says in warning and "(line 24)" in warning for warning in warnings] == [True]


def test_a_queue_is_named_but_its_address_is_not_known(tmp_path: Path) -> None:
    found, warnings = variable(tmp_path, "!Ref Queue")
    assert (found, len(warnings)) == ("jobs", 1)
    assert "AWS::SQS::Queue is not made here; 'jobs' is used instead" in warnings[0]


def test_a_parameter_from_ssm_can_be_given(tmp_path: Path) -> None:
    assert variable(tmp_path, "!Ref Url", Url="mysql:") == ("mysql:", [])
    assert variable(tmp_path, "!Join ['+', !Ref Urls]", Urls="a, b") == ("a+b", [])


def test_what_globals_and_functions_have_is_joined(tmp_path: Path) -> None:
    (one,) = read(tmp_path, "Environment: {Variables: {Ref1: a}}\n      Tags: {stage: dev}").deployed
    assert one.config.environment == {"RefreshRate": "5", "Ref1": "a"}
    assert (one.tags, one.config.timeout) == ({"team": "orders", "stage": "dev"}, 20)
    (one,) = read(tmp_path, "Timeout: 30").deployed
    assert one.config.timeout == 30


@pytest.mark.parametrize(
    "wrong, says",
    [
        (("Timeout: 20", "Timeout: soon"), "Resources.F.Properties.Timeout (line 13): 'soon' is not a number"),
        (("Timeout: 20", "Timeout: 1000"), "Resources.F.Properties.Timeout (line 13): must be between 1 and 900 seconds"),
        (("RefreshRate: 5", "RefreshRate: !Ref Absent"), "Environment.Variables.RefreshRate.Ref (line 17): there is no parameter"),
        (("MORE", "MemorySize: 64"), "Resources.F.Properties.MemorySize (line 24): must be between 128 and"),
        (("MORE", "Environment: {Variables: {_HANDLER: x}}"), "Properties.Environment (line 24): these keys are reserved"),
        (("MORE", "Tags: {a: !Ref Table.Nothing}"), "there is no parameter and no resource 'Table.Nothing'"),
        (("MORE", "Tags: {a: !Ref GooRole}"), "there is no parameter and no resource 'GooRole'"),
        (("MORE", "Tags: {a: !GetAtt TableRole.Arn}"), "there is no resource 'TableRole'"),
    ],
)
def test_a_mistake_is_named_by_the_line_that_has_it(tmp_path: Path, wrong: tuple[str, str], says: str) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(TEMPLATE.replace(*wrong).replace("      MORE\n", ""))
    with pytest.raises(TemplateInvalid) as refused:
        read_template(file, {})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "maker",
    [
        "  Fn::ForEach::Topics: [Name, [A], {'Topic${Name}': {Type: AWS::SNS::Topic}}]",
        "  Fn::Transform: {Name: AWS::Include, Parameters: {Location: s3://more/more.yaml}}",
        "Transform: [AWS::Serverless-2016-10-31, Mine]",
    ],
)
@pytest.mark.parametrize("value", ["!GetAtt TopicA.TopicName", "!Ref TopicA", "!Sub 'x ${TopicA.TopicName}'"])
def test_what_a_loop_or_a_macro_may_make_is_not_set_and_said(tmp_path: Path, maker: str, value: str) -> None:
    file = tmp_path / "template.yaml"
    given = f"Environment: {{Variables: {{X: {value}}}}}"
    file.write_text(TEMPLATE.replace("MORE", given).replace("Transform: AWS::Serverless-2016-10-31\n", "") + maker + "\n")
    found = read_template(file, {})
    assert "X" not in found.deployed[0].config.environment
    assert any("Variables.X" in said and "the template does not define TopicA" in said for said in found.warnings)


@pytest.mark.parametrize(
    "section, value, says",
    [
        ("Conditions", "!If [IsA, a, b]", "the condition IsA cannot be decided here"),
        ("Mappings", "!FindInMap [Sizes, dev, Disk]", "Mappings has no Sizes.dev.Disk here"),
    ],
)
def test_a_condition_or_a_mapping_that_a_loop_or_a_macro_may_make_is_unknown(tmp_path: Path, section: str, value: str, says: str) -> None:
    file = tmp_path / "template.yaml"
    text = TEMPLATE.replace("Conditions:\n", "Mappings:\nConditions:\n").replace(
        f"{section}:\n", f"{section}:\n  Fn::Transform: {{Name: Mine}}\n"
    )
    text = text.replace("MORE", f"Environment: {{Variables: {{X: {value}}}}}")
    file.write_text(text)
    found = read_template(file, {})
    assert "X" not in found.deployed[0].config.environment
    assert any("Variables.X" in said and says in said for said in found.warnings)


def test_a_resource_whose_condition_cannot_be_decided_is_left_out_and_said(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(TEMPLATE.replace("      MORE\n", ""))
    found = read_template(file, {})
    assert [one.name for one in found.deployed] == ["F"]
    assert any("Resources.Undecided (line 30): the condition Undecided cannot be decided here" in said for said in found.warnings)
    assert [one.name for one in read_template(file, {"Nobodys": "a"}).deployed] == ["F", "Undecided"]
    assert [one.name for one in read_template(file, {"Nobodys": "b"}).deployed] == ["F"]


@pytest.mark.parametrize("machine, warned", [("x86_64", "arm64"), ("aarch64", "x86_64")])
def test_another_architecture_is_said(tmp_path: Path, machine: str, warned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    for named in ("arm64", "x86_64"):
        said = [warning for warning in read(tmp_path, f"Architectures: [{named}]").warnings if "Architectures" in warning]
        assert len(said) == (named == warned)
