"""Templates: what a local run can resolve is resolved, the rest is said with path and line, and a bad template is an error."""

from __future__ import annotations

import json
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.lambda_api.functions.function_records import Code, Version, runtime_of
from holdfast.lambda_api.templates import yaml_text
from holdfast.lambda_api.templates.descriptions import DescribedFunction, FolderCode, FoundTargets, TextCode, ZipCode
from holdfast.lambda_api.templates.targets import find_all
from holdfast.lambda_api.templates.template import read_template
from holdfast.model.deploy_errors import TemplateInvalid
from holdfast.model.errors import DuplicateFunction, FunctionNotLoadable, InvalidParameter
from holdfast.model.execution import Terms
from tests.parts import examples

Read = Callable[..., FoundTargets]

FUNCTION = """
Resources:
  F:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      Runtime: python3.13
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str | bytes, name: str = "template.yaml", **parameters: str) -> FoundTargets:
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_template(file, parameters)

    return read


def only(found: FoundTargets) -> DescribedFunction:
    (one,) = found.deployed
    return one


def with_variables(*lines: str, more: str = "") -> str:
    """A template whose function has these variables."""
    return FUNCTION + "      Environment:\n        Variables:\n" + "".join(f"          {line}\n" for line in lines) + more


# --- functions


def test_a_serverless_function_is_described_with_globals_under_it(read: Read, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    one = only(
        read(
            """
Transform: AWS::Serverless-2016-10-31
Globals:
  Function:
    Runtime: python3.13
    Timeout: 10
    MemorySize: 256
    Environment: {Variables: {A: common, B: common}}
    Tags: {team: a}
Resources:
  Orders:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: process-order
      Description: An order
      CodeUri: code/
      Handler: app.handler
      Timeout: 20
      Environment: {Variables: {B: own, C: 3, D: true, E: 1.5}}
      DurableConfig: {ExecutionTimeout: 3600, RetentionPeriodInDays: 7}
      AutoPublishAlias: live
      LoggingConfig: {LogFormat: JSON}
"""
        )
    )
    config = one.config
    assert (one.name, one.aliases, one.code, one.tags) == ("process-order", ("live",), FolderCode(tmp_path / "code"), {"team": "a"})
    assert (config.handler, config.runtime, config.timeout, config.memory) == ("app.handler", "python3.13", 20, 256)
    assert config.environment == {"A": "common", "B": "own", "C": "3", "D": "true", "E": "1.5"}
    assert (config.terms, config.log_format, config.description) == (Terms(3600, 7), "JSON", "An order")


def test_levels_of_a_log_are_taken_from_globals_and_the_function(read: Read) -> None:
    one = only(
        read(
            """
Globals: {Function: {LoggingConfig: {LogFormat: JSON, SystemLogLevel: WARN}}}
Resources:
  F:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.handler, Runtime: python3, LoggingConfig: {ApplicationLogLevel: DEBUG}}
"""
        )
    )
    assert one.config.logging == {"LogFormat": "JSON", "ApplicationLogLevel": "DEBUG", "SystemLogLevel": "WARN"}
    described = runtime_of("F", Version(version="1", config=one.config, code=Code("a", "b", 1), modified_at=1, revision="r"), "folder")
    assert (described.log_format, described.application_log_level, described.system_log_level) == ("JSON", "DEBUG", "WARN")


@pytest.mark.parametrize(
    "given, why",
    [
        ("{LogFormat: Yaml}", "LoggingConfig.LogFormat.*: 'Yaml' is neither Text nor JSON"),
        ("{LogFormat: JSON, ApplicationLogLevel: LOUD}", "LoggingConfig .*: its ApplicationLogLevel is 'LOUD'; it must be one of TRACE"),
        ("{SystemLogLevel: INFO}", "LoggingConfig .*: SystemLogLevel needs LogFormat JSON"),
    ],
)
def test_a_logging_config_that_aws_refuses_is_refused_with_its_line(read: Read, given: str, why: str) -> None:
    with pytest.raises(TemplateInvalid, match=why):
        read(f"{FUNCTION.rstrip()}\n      LoggingConfig: {given}\n")


def test_a_log_group_of_a_template_is_said_to_have_no_effect(read: Read) -> None:
    (warning,) = read(f"{FUNCTION.rstrip()}\n      LoggingConfig: {{LogGroup: mine}}\n").warnings
    assert "LogGroup has no effect" in warning


def test_a_function_is_named_by_its_logical_id_unless_it_has_a_name(read: Read) -> None:
    assert only(read(FUNCTION)).name == "F"


def test_a_plain_lambda_function_with_versions_and_aliases(read: Read) -> None:
    found = read(
        """
Resources:
  F:
    Type: AWS::Lambda::Function
    Properties:
      Code: {ZipFile: "def handler(event, context): return 1"}
      Handler: index.handler
      Runtime: python3.13
      Tags: [{Key: team, Value: a}]
  V:
    Type: AWS::Lambda::Version
    Properties: {FunctionName: !Ref F}
  A:
    Type: AWS::Lambda::Alias
    Properties: {FunctionName: !GetAtt F.Arn, FunctionVersion: !GetAtt V.Version, Name: live}
"""
    )
    one = only(found)
    assert (one.code, one.aliases, one.publish) == (TextCode("index.py", "def handler(event, context): return 1"), ("live",), True)
    assert (one.tags, found.warnings) == ({"team": "a"}, ())


def test_a_template_may_be_json_also_with_tabs(read: Read) -> None:
    template = {
        "Resources": {
            "F": {"Type": "AWS::Serverless::Function", "Properties": {"Handler": {"Ref": "AWS::StackName"}, "Runtime": "nodejs22.x"}}
        }
    }
    for indent in (None, 2, "\t"):
        assert only(read(json.dumps(template, indent=indent), "template.json")).config.runtime == "nodejs22.x"


def test_code_may_be_a_zip_file(read: Read, tmp_path: Path) -> None:
    (tmp_path / "code.zip").write_bytes(b"")
    assert only(read(FUNCTION + "      CodeUri: code.zip\n")).code == ZipCode(tmp_path / "code.zip")


def test_what_is_watched_is_the_template_and_its_code(read: Read, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    assert read(FUNCTION + "      CodeUri: code\n").watched == (tmp_path / "template.yaml", tmp_path / "code")


# --- intrinsic functions

MORE = """
Parameters:
  Stage: {Type: String, Default: dev, AllowedValues: [dev, prod]}
  Zones: {Type: CommaDelimitedList, Default: "a, b,c"}
  Count: {Type: Number, Default: 3}
Mappings:
  Sizes: {dev: {small: 1, large: 2}, prod: {small: 3}}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
  IsDev: !Not [!Condition IsProd]
  Both: !And [!Condition IsProd, !Condition IsDev]
  Either: !Or [!Condition IsProd, !Condition IsDev]
"""

RESOLVED = [
    ("!Ref Stage", "dev"),
    ("!Ref Count", "3"),
    ("!Ref AWS::Region", "local"),
    ("!Ref AWS::AccountId", "000000000000"),
    ("{Ref: Stage}", "dev"),
    ("!Sub '${Stage}-${Count}-${AWS::Partition}'", "dev-3-aws"),
    ("!Sub '${!Stage} ${F} ${F.Arn}'", "${Stage} F arn:aws:lambda:local:000000000000:function:F"),
    ("!Sub ['${A}/${Stage}', {A: !Ref Count}]", "3/dev"),
    ("!Join ['-', [a, !Ref Stage, 1]]", "a-dev-1"),
    ("!Join ['', !Ref Zones]", "abc"),
    ("!Select [1, !Ref Zones]", "b"),
    ("!Select ['0', !Split ['/', 'x/y']]", "x"),
    ("!If [IsProd, yes-prod, no-prod]", "no-prod"),
    ("!If [IsDev, !Ref Stage, x]", "dev"),
    ("!If [Both, 1, 2]", "2"),
    ("!If [Either, 1, 2]", "1"),
    ("!FindInMap [Sizes, !Ref Stage, large]", "2"),
    ("!FindInMap [Sizes, prod, large, {DefaultValue: 9}]", "9"),
    ("!GetAtt F.Arn", "arn:aws:lambda:local:000000000000:function:F"),
    ("!Ref F", "F"),
    ("{'Fn::GetAtt': [F, Arn]}", "arn:aws:lambda:local:000000000000:function:F"),
    ("!Base64 abc", "YWJj"),
    ("!Equals [a, a]", "true"),
]


@pytest.mark.parametrize("call, value", RESOLVED)
def test_what_a_local_run_can_know_is_resolved(read: Read, call: str, value: str) -> None:
    found = read(with_variables(f"A: {call}", more=MORE))
    assert (only(found).config.environment, found.warnings) == ({"A": value}, ())


def test_parameters_are_given_on_the_command_line(read: Read) -> None:
    template = with_variables("A: !Ref Stage", "B: !If [IsProd, p, d]", more=MORE)
    assert only(read(template, Stage="prod")).config.environment == {"A": "prod", "B": "p"}
    with pytest.raises(TemplateInvalid, match=r"Parameters.Stage \(line 14\): 'test' is not allowed; allowed are dev, prod"):
        read(template, Stage="test")


def test_a_parameter_may_be_of_any_template_but_must_be_of_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(with_variables("A: !Ref Stage", more=MORE))
    (tmp_path / "b.yaml").write_text(FUNCTION.replace("  F:", "  G:"))
    targets = [str(tmp_path / name) for name in ("a.yaml", "b.yaml")]
    assert find_all(targets, {"Stage": "prod"}).deployed[0].config.environment == {"A": "prod"}
    with pytest.raises(InvalidParameter, match=r"No template here has a parameter Stag\. Parameters here: Count, Stage, Zones"):
        find_all(targets, {"Stag": "prod"})


def test_a_folder_without_anything_to_serve_is_no_fault_of_a_template(tmp_path: Path) -> None:
    with pytest.raises(FunctionNotLoadable, match=r"has no template\.yaml.* and no Python file in it defines"):
        find_all([str(tmp_path)], {})


def test_no_value_leaves_a_property_out(read: Read) -> None:
    found = read(with_variables("A: !Ref AWS::NoValue", "B: !If [IsProd, 1, !Ref 'AWS::NoValue']", "C: 1", more=MORE))
    assert only(found).config.environment == {"C": "1"}


def test_a_property_that_is_no_value_is_not_given(read: Read) -> None:
    template = (
        FUNCTION
        + """      Timeout: !If [IsProd, 5, !Ref AWS::NoValue]
      MemorySize: !Ref AWS::NoValue
      FunctionName: !If [IsProd, named, !Ref AWS::NoValue]
      Description: !Ref AWS::NoValue
      ImageUri: !Ref AWS::NoValue
      Environment: !Ref AWS::NoValue
      DurableConfig: !Ref AWS::NoValue
      LoggingConfig: !Ref AWS::NoValue
      Architectures: !Ref AWS::NoValue
      Tags: !Ref AWS::NoValue
      CodeUri: !Ref AWS::NoValue
"""
    )
    found = read(template + MORE)
    one = only(found)
    assert (one.name, one.config.timeout, one.config.memory, one.config.description) == ("F", 3, 128, "")
    assert (one.config.environment, one.config.terms, one.tags, found.warnings) == ({}, None, {}, ())
    assert (only(read(template + MORE, Stage="prod")).name, only(read(template + MORE, Stage="prod")).config.timeout) == ("named", 5)


def test_a_resource_whose_condition_does_not_hold_is_not_there(read: Read) -> None:
    template = with_variables("A: 1", more=MORE).replace("  F:\n", "  G:\n    Condition: IsProd\n    Type: AWS::S3::Bucket\n  F:\n")
    assert read(template).warnings == ()
    assert "AWS::S3::Bucket is not made here" in read(template, Stage="prod").warnings[0]


# --- warnings

UNKNOWN = [
    ("!ImportValue other", "Fn::ImportValue (line 10): Fn::ImportValue: what other stacks export is not known here"),
    ("!GetAtt Table.StreamArn", "Fn::GetAtt (line 10): Table.StreamArn is known only where it is deployed"),
    ("!GetAZs ''", "Fn::GetAZs (line 10): Fn::GetAZs is not resolved here"),
    ("!Sub 'x ${Table.Arn}'", "Fn::Sub (line 10): Table.Arn is known only where it is deployed"),
    ("!Join [',', [!ImportValue a]]", "what other stacks export is not known here"),
    ("!Ref Secret", "Ref (line 10): the parameter Secret has no value; give one with --parameter"),
]
TABLE = "  Table: {Type: AWS::DynamoDB::Table}\nParameters:\n  Secret: {Type: String}\n"


@pytest.mark.parametrize("call, says", UNKNOWN)
def test_what_only_a_deployment_knows_is_left_out_with_a_warning_that_says_where(read: Read, call: str, says: str) -> None:
    found = read(with_variables(f"A: {call}", "B: 1", more=TABLE))
    assert only(found).config.environment == {"B": "1"}
    (warning,) = [warning for warning in found.warnings if "Table (line 12)" not in warning]
    assert "template.yaml: Resources.F.Properties.Environment.Variables.A" in warning
    assert says in warning
    assert warning.endswith("what needs it is left out")


def test_what_is_not_made_here_stands_for_itself(read: Read) -> None:
    found = read(
        with_variables("A: !Ref Table", "B: !Ref Named", more=TABLE + "").replace(
            "  Table:", "  Named: {Type: AWS::SQS::Queue, Properties: {QueueName: jobs}}\n  Table:"
        )
    )
    assert only(found).config.environment == {"A": "Table", "B": "jobs"}
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "Resources.Named (line 12): AWS::SQS::Queue is not made here",
        "Resources.Table (line 13): AWS::DynamoDB::Table is not made here",
        "Resources.F.Properties.Environment.Variables.A.Ref (line 10): AWS::DynamoDB::Table is not made here; 'Table' is used instead",
        "Resources.F.Properties.Environment.Variables.B.Ref (line 11): AWS::SQS::Queue is not made here; 'jobs' is used instead",
    ]


def test_macros_and_loops_are_said_not_to_be_done(read: Read) -> None:
    found = read(FUNCTION + "  Fn::ForEach::Each: [N, [A], {}]\nTransform: [AWS::Serverless-2016-10-31, Mine]\n")
    assert only(found).name == "F"
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "Resources.Fn::ForEach::Each (line 8): Fn::ForEach::Each is not resolved here; what it makes is left out",
        "Transform (line 9): the transform 'Mine' is not applied here",
    ]


@pytest.mark.parametrize(
    "line, says",
    [
        ("Layers: [arn]", "Resources.F.Properties.Layers (line 8): Layers has no effect here"),
        ("Events: {A: {Type: Api}}", "Resources.F.Properties.Events (line 8): Events has no effect here"),
        (
            "Architectures: [z80]",
            "Resources.F.Properties.Architectures (line 8): the function runs on this machine's architecture, which is",
        ),
        ("Policies: [x]", None),
        ("Tracing: Active", None),
        ("Role: !GetAtt R.Arn", None),
    ],
)
def test_a_property_that_has_no_effect_is_said_where_it_could_matter(read: Read, line: str, says: str | None) -> None:
    found = read(FUNCTION + f"      {line}\n  R: {{Type: AWS::IAM::Role}}\n")
    assert len(found.warnings) == (says is not None)
    assert all(says is not None and says in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "line, says",
    [
        ("CodeUri: s3://bucket/key", "its code is on S3, or its place is not known here"),
        ("CodeUri: {Bucket: b, Key: k}", "its code is on S3, or its place is not known here"),
        ("PackageType: Image", "a container image is not run here"),
    ],
)
def test_a_function_that_cannot_run_here_is_left_out(read: Read, line: str, says: str) -> None:
    other = "  G:\n    Type: AWS::Serverless::Function\n    Properties: {Handler: a.b, Runtime: python3.13}\n"
    found = read(FUNCTION + f"      {line}\n" + other)
    assert [one.name for one in found.deployed] == ["G"]
    assert says in found.warnings[0]
    with pytest.raises(TemplateInvalid, match="no function that can be served here"):
        read(FUNCTION + f"      {line}\n")
    with pytest.raises(TemplateInvalid, match="the runtime java21 is not run here"):
        read(FUNCTION.replace("python3.13", "java21"))


# --- mistakes

WRONG = [
    ("", "The template is empty"),
    ("a: b", "this is not a valid template: it has no Resources"),
    ("[1]", "this is not a valid template"),
    ("Resources: [", r"The template cannot be read as YAML: .*\(line 1, column"),
    ('{"Resources": {,}}', "The template is not JSON"),
    ("Resources: {F: 1}", r"Resources.F \(line 1\): a resource must be a mapping with a Type"),
    ("Resources: {F: {Type: AWS::Serverless::Function, Properties: []}}", "no function that can be served here"),
    ("Resources: {F: {Type: AWS::Serverless::Function, Properties: [1]}}", "Properties .line 1.: must be a mapping"),
    ("Resources: {}", "no function that can be served here"),
    (FUNCTION.replace("      Handler: app.handler\n", ""), r"Resources.F.Properties \(line 5\): a function needs a Handler"),
    (FUNCTION + "      Handler: again\n", r"Resources.F.Properties.Handler \(line 8\) is there twice"),
    (FUNCTION + "      FunctionName: a b\n", r"FunctionName \(line 8\): Function name 'a b'"),
    (FUNCTION + "      Timeout: soon\n", r"Timeout \(line 8\): 'soon' is not a number"),
    (FUNCTION + "      Timeout: 901\n", r"Resources.F.Properties.Timeout \(line 8\): must be between 1 and 900"),
    (FUNCTION + "      CodeUri: absent/\n", r"CodeUri \(line 8\): there is no folder"),
    (FUNCTION + "      CodeUri: [a]\n", r"CodeUri \(line 8\): must be the path of a folder"),
    (FUNCTION + "      DurableConfig: {RetentionPeriodInDays: 1}\n", r"DurableConfig \(line 8\): a durable function needs an"),
    (FUNCTION + "      DurableConfig: {ExecutionTimeout: 0}\n", "execution_timeout is 0"),
    (
        FUNCTION + "      DurableConfig: {ExecutionTimeout: !Ref Seconds}\nParameters: {Seconds: {Type: Number}}\n",
        r"DurableConfig \(line 8\): a durable function needs an .* known here.\n  .*ExecutionTimeout.*: the parameter Seconds has no value",
    ),
    (FUNCTION + "      Environment: [a]\n", r"Environment \(line 8\): must be a mapping"),
    (with_variables("A: !Ref Absent"), r"A.Ref \(line 10\): there is no parameter and no resource 'Absent'"),
    (with_variables("A: !If [Absent, 1, 2]"), "there is no condition 'Absent'"),
    (with_variables("A: !Join [a]"), "must be a list with 2 elements"),
    (with_variables("A: !Select [9, [a]]"), "there is no item '9' to select"),
    (with_variables("A: !FindInMap [Absent, a, b]"), "Mappings has no Absent.a.b"),
    ("!Python print", r": The template \(line 1\): !Python is not a function"),
    ("!!set {a}", r": The template \(line 1\): Holdfast does not support the tag !!set"),
    (with_variables("A: !Python print"), "!Python is not a function of CloudFormation"),
    (
        with_variables("A: !!python/object/apply:os.system ['true']"),
        r"A \(line 10\): Holdfast does not support the tag !!python/object/apply:os.system",
    ),
    (with_variables("A: [1]"), r"A \(line 10\): must be a text"),
    (b"\xff\xfe", "not UTF-8"),
    (FUNCTION + "  G: {Type: AWS::Lambda::Function, Properties: {FunctionName: F, Handler: a.b, Runtime: python3}}\n", "several functions"),
]  # fmt: skip


@pytest.mark.parametrize("text, says", WRONG)
def test_a_bad_template_is_a_clear_error(read: Read, text: str | bytes, says: str) -> None:
    with pytest.raises(TemplateInvalid, match=says) as refused:
        read(text)
    assert "template.yaml: " in str(refused.value)


# --- hostile text


def test_an_alias_bomb_is_refused_before_it_goes_off(read: Read) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(TemplateInvalid, match="has more than 200000 values if its YAML aliases are expanded"):
        read(bomb + FUNCTION)


@pytest.mark.parametrize(
    "text",
    [
        with_variables(f"A: !Sub '{'${' * 40_000}'"),
        with_variables("A: 1" + ":1" * 130_000),
        with_variables("A: x", more="M:\n  <<: [" + ",".join(f"{{k{number}: 1}}" for number in range(12_000)) + "]\n"),
    ],
    ids=["variables without an end", "a number of many parts", "merges"],
)
def test_a_hostile_template_takes_no_longer_than_another_of_its_size(read: Read, text: str) -> None:
    began = time.process_time()
    read(text)
    spent = time.process_time() - began
    read(with_variables("A: x", more="M: [" + ",".join(f"{{k{number}: 1}}" for number in range(12_000)) + "]\n"))
    assert spent < 2 * (time.process_time() - began - spent)


@pytest.mark.parametrize("text", ["${", "a ${b", "${!a", "${!a} ${b ${c"])
def test_a_variable_without_its_end_is_text(read: Read, text: str) -> None:
    told = only(read(with_variables(f"A: !Sub '{text}'"))).config.environment["A"]
    assert told == text.replace("${!a}", "${a}")


def test_a_number_with_too_many_digits_is_refused_in_json_too(read: Read) -> None:
    with pytest.raises(TemplateInvalid, match="too many digits"):
        read('{"Resources":\t' + "1" * 5_000 + "}")


def test_an_alias_inside_itself_is_refused(read: Read) -> None:
    with pytest.raises(TemplateInvalid, match="refers to a value that contains it"):
        read("a: &a [*a]\n" + FUNCTION)


def test_aliases_and_merges_that_are_meant_are_followed(read: Read) -> None:
    one = only(read(with_variables("<<: *common", "B: own").replace("\nResources:", "\nX: &common {A: a, B: b}\nResources:")))
    assert one.config.environment == {"A": "a", "B": "own"}


@pytest.mark.parametrize("tower", ["[" * 5000, "{a: " * 5000, "- " * 5000, "? " * 3000, '{"a":' * 5000, "!Sub " * 100])
def test_a_tower_is_refused(read: Read, tower: str) -> None:
    with pytest.raises(TemplateInvalid):
        read(tower)
    with pytest.raises(TemplateInvalid):
        read('{"a": \t' + tower)


def test_a_template_that_is_too_large_is_refused(read: Read) -> None:
    with pytest.raises(TemplateInvalid, match="at most 1048576 bytes are allowed"):
        read("#" * (yaml_text.MAX_BYTES + 1))


@pytest.mark.parametrize("text", ["a: [" + "x," * 200_000 + "x]", "a: [" + "[]," * 100_000 + "x]", "- x\n" * 150_000])
def test_a_template_that_would_take_seconds_to_read_is_refused_at_once(read: Read, text: str) -> None:
    began = time.process_time()
    with pytest.raises(TemplateInvalid, match="more than 100000 lines, commas and brackets"):
        read(text)
    assert time.process_time() - began < 0.5


def test_conditions_that_ask_for_themselves_are_not_known(read: Read) -> None:
    found = read(with_variables("A: !If [X, 1, 2]", more="Conditions:\n  X: !Not [!Condition Y]\n  Y: !Not [!Condition X]\n"))
    assert only(found).config.environment == {}
    assert "the condition X cannot be decided here" in found.warnings[0]
    chain = "".join(f"  C{n}: !Not [!Condition C{n + 1}]\n" for n in range(3000)) + "  C3000: !Equals [a, a]\n"
    with pytest.raises(TemplateInvalid, match="nested too deeply"):
        read(with_variables("A: !If [C0, 1, 2]", more=f"Conditions:\n{chain}"))


def test_functions_cannot_make_endless_texts(read: Read) -> None:
    parameter = f"Parameters:\n  P: {{Type: String, Default: {'x' * 100_000}}}\n"
    with pytest.raises(TemplateInvalid, match="this makes a text of 300000 characters"):
        read(with_variables("A: !Sub '${P}${P}${P}'", more=parameter))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.ascii_letters + "${}!.:", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(string.ascii_letters, max_size=6), inner, max_size=3)
        | st.sampled_from(["Ref", "Condition", *(f"Fn::{name}" for name in sorted(yaml_text._FUNCTIONS))]).flatmap(
            lambda name: inner.map(lambda value: {name: value})
        )
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["FunctionName", "Handler", "Runtime", "CodeUri", "Code", "InlineCode", "Environment", "Timeout", "MemorySize", "DurableConfig",
     "AutoPublishAlias", "Tags", "LoggingConfig", "Architectures", "PackageType", "Description", "Role"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    properties=st.dictionaries(NAMES, VALUES, max_size=5),
    more=st.dictionaries(st.sampled_from(["Parameters", "Mappings", "Conditions", "Globals", "Transform"]), VALUES, max_size=2),
    kind=st.sampled_from(["Serverless", "Lambda"]),
)
def test_any_template_is_served_or_refused(read: Read, properties: dict[str, Any], more: dict[str, Any], kind: str) -> None:
    function = {"Type": f"AWS::{kind}::Function", "Properties": {"Handler": "a.b", "Runtime": "python3"} | properties}
    try:
        found = read(json.dumps(more | {"Resources": {"F": function}}), "template.json")
    except TemplateInvalid:  # any other error fails
        return
    one = only(found)
    assert one.config.checked(one.name) == one.config


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=80) | st.text("[]{}!&*:-<>|\"' \nabRef", max_size=60))
def test_any_text_is_refused_or_read(read: Read, text: str) -> None:
    try:
        read(text)
    except TemplateInvalid:
        return


# --- targets


def test_one_name_in_two_targets_is_a_mistake(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "template.yaml").write_text(FUNCTION)
    found = find_all([str(tmp_path / "a")], {})
    assert [one.name for one in found.deployed] == ["F"]
    with pytest.raises(DuplicateFunction, match="Several targets have a function F"):
        find_all([str(tmp_path / "a"), str(tmp_path / "b")], {})
