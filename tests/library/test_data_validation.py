"""data-validation-worker: schemas and rulesets by name, every error with its place, a normal form, and hostile records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from holdfast.library.data_validation.normalizing import normalized
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import worker_kit
from holdfast.workers.policy import Policy
from tests.library.scene import case_of, file_of, from_the_command_line, ran, refuses, working

WORKER = "data-validation-worker"
CASE = case_of(WORKER)
PARAMETERS = file_of(WORKER).with_name("parameters.toml")


def validated(
    records: list[Any], parameters: Path = PARAMETERS, request: Mapping[str, Any] = MappingProxyType({}), **inputs: Any
) -> worker_kit.WorkerRan:
    """A run in this process, with what the operator keeps in a file. `request`: further members of the request."""
    settings = WorkerSettings(policy=Policy(isolation="inline"), parameters=str(parameters))
    return worker_kit.run(WORKER, {**CASE, "records": records, **inputs}, worker_settings=settings, **request)


def test_every_error_has_its_record_its_code_and_its_path() -> None:
    told = validated(CASE["records"])
    found = {(error["record"], error["code"], error["path"], error["severity"]) for error in told.outputs["errors"]}
    assert (told.status, told.outputs["valid"], "normalized" in told.outputs) == ("ok", False, False)
    assert found == {
        (1, "schema_mismatch", ".email", "error"),
        (1, "quantity_too_small", ".quantity", "error"),
        (2, "schema_mismatch", "", "error"),
        (2, "price_high", ".price", "warning"),
    }
    assert told.outputs["checked"] == {"records": 3, "invalid": 2, "not_listed": 0}


def test_good_records_come_back_in_their_normal_form_and_a_warning_does_not_make_one_invalid() -> None:
    record = {"order": "A-1001", "email": " ann@shop.example\n", "quantity": "2", "price": "1200.5"}
    told = validated([record])
    assert told.outputs["valid"] is True
    assert told.outputs["normalized"] == [
        {"order": "A-1001", "email": "ann@shop.example", "quantity": 2, "price": 1200.5, "currency": "EUR"}
    ]
    assert [error["code"] for error in told.outputs["errors"]] == ["price_high"]
    assert validated([]).outputs == {
        "valid": True,
        "errors": [],
        "checked": {"records": 0, "invalid": 0, "not_listed": 0},
        "normalized": [],
    }


@pytest.mark.parametrize("value, schema, becomes", [
    ("12", {"type": "integer"}, 12), ("1.5", {"type": "integer"}, "1.5"), ("1e9", {"type": "number"}, "1e9"),
    ("٣", {"type": "integer"}, "٣"),
    (" TRUE ", {"type": "boolean"}, True), ("yes", {"type": "boolean"}, "yes"), ("9" * 400, {"type": "integer"}, "9" * 400),
    (["1", "x"], {"items": {"type": "integer"}}, [1, "x"]), ("12", {"type": "string"}, "12"), ("12", True, "12"),
    (None, {"default": 3}, None),
    ({"a": {"b": "1"}}, {"properties": {"a": {"properties": {"b": {"type": "number"}, "c": {"default": []}}}}}, {"a": {"b": 1, "c": []}}),
    ({"a": 1}, {"properties": 3}, {"a": 1}), ("e\u0301 ", {}, "\u00e9"),
])  # fmt: skip
def test_a_value_is_changed_only_where_the_schema_says_what_it_is(value: Any, schema: Any, becomes: Any) -> None:
    told = normalized(value, schema)
    assert (told, type(told)) == (becomes, type(becomes))


@pytest.mark.parametrize("names, code", [
    ({"schema_name": "none"}, "schema_unknown"), ({"ruleset_id": "none"}, "ruleset_unknown"),
])  # fmt: skip
def test_what_the_operator_does_not_keep_is_an_invalid_request(names: dict[str, Any], code: str) -> None:
    told = validated(**{"records": [], **names})
    assert (told.status, told.error.error_code, told.error.retryable) == ("invalid_request", code, False)


@pytest.mark.parametrize("inputs", [{"schema_name": "../secrets"}, {"ruleset_id": "a/b"}, {"schema_name": ""}, {"records": 3}])
def test_a_name_is_a_name_and_no_path(inputs: dict[str, Any]) -> None:
    assert refuses(WORKER, {**CASE, **inputs})


def test_without_a_parameter_store_no_schema_is_known() -> None:
    assert worker_kit.run(WORKER, CASE).error.error_code == "schema_unknown"


@pytest.mark.parametrize("schema, rules", [
    ('"{"', "[]"), ('{"type": "nonsense"}', "[]"), ("{}", '[{"path": "x", "op": "exists"}]'), ("{}", '[{"op": "exists"}]'), ("{}", '"[3]"'),
    ("[]", "[]"), ("{}", "{}"), ('{"$ref": "file:///etc/hostname"}', "[]"),
])  # fmt: skip
def test_a_schema_or_a_ruleset_that_cannot_be_used_is_told_and_nothing_is_valid(tmp_path: Path, schema: str, rules: str) -> None:
    file = tmp_path / "parameters.json"
    file.write_text(f'{{"parameters": {{"{WORKER}": {{"schemas": {{"order": {schema}}}, "rulesets": {{"orders": {rules}}}}}}}}}')
    told = validated([{"x": 1}], file)
    assert (told.status, told.error.error_code) == ("permanent_error", "ruleset_unusable")


@pytest.mark.parametrize("allowed, refused", [("rules_engine", "json_schema_validate"), ("json_schema_validate", "rules_engine")])
def test_a_tool_that_the_request_forbids_is_no_fault_of_the_operators_ruleset(allowed: str, refused: str) -> None:
    told = validated(CASE["records"], request={"constraints": {"tools_allowed": [allowed, "parameter_store"]}})
    assert (told.error.error_code, refused in told.error.message) == ("tool_not_allowed", True)


def test_a_parameter_that_is_a_text_holds_json() -> None:
    told = worker_kit.run(WORKER, {**CASE, "records": ["7"]}, tools={"parameter_store": ['{"type": "integer"}', "[]"]})
    assert told.outputs["normalized"] == [7]
    assert [arguments["name"] for _, arguments in told.calls] == [f"/{WORKER}/schemas/order", f"/{WORKER}/rulesets/orders"]


def test_of_many_errors_the_first_are_listed_and_the_rest_is_counted() -> None:
    deep: Any = []
    for _ in range(150):
        deep = [deep]
    told = validated([{"order": deep}, *[{}] * 1_500])
    assert (len(told.outputs["errors"]), told.outputs["checked"]["invalid"]) == (200, 1_501)
    assert told.outputs["checked"]["not_listed"] >= 1_501 * 2 - 200


def test_many_warnings_leave_the_errors_in_the_list() -> None:
    dear = {"order": "A-1001", "email": "ann@shop.example", "quantity": 2, "price": 1200.5}
    told = validated([*[dear] * 250, {**dear, "quantity": 0}])
    listed = told.outputs["errors"]
    assert [error["code"] for error in listed if error["severity"] == "error"] == ["quantity_too_small"]
    assert (len(listed), told.outputs["checked"]) == (200, {"records": 251, "invalid": 1, "not_listed": 52})
    assert [error["record"] for error in listed] == sorted(error["record"] for error in listed)


def test_a_crash_at_any_point_changes_nothing() -> None:
    settings = WorkerSettings(policy=Policy(isolation="inline"), parameters=str(PARAMETERS))
    assert worker_kit.crash_everywhere(WORKER, CASE, worker_settings=settings) > 4


async def test_it_runs_in_its_jail_with_the_operators_file() -> None:
    async with working(WORKER, parameters=str(PARAMETERS)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["outputs"]["checked"]["invalid"]) == ("ok", 2)


@pytest.mark.long
def test_a_copy_of_its_folder_runs_from_the_command_line(tmp_path: Path) -> None:
    assert from_the_command_line(WORKER, tmp_path)["valid"] is False
