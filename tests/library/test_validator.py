"""validator-worker: exact checks first, a model for criteria, and no way to an allow by accident."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast.contract.page_reader import read
from holdfast.contract.rules import RULE_SCHEMA, Operator
from holdfast.testing import worker_kit
from holdfast.workers.tools.seam import ToolFailed
from tests.library.scene import as_written, case_of, file_of, from_the_command_line, model_at, ran, working
from tests.tools.models import Model, a_model

WORKER = "validator-worker"
CASE = case_of(WORKER)
CANDIDATE = {"price": -1, "tags": ["a", "b"], "a b": {"x": "1"}}
POSITIVE = {"path": ".price", "op": "more", "value": 0, "code": "price_not_positive", "message": "A price is above zero."}
SCHEMA = {"properties": {"a b": {"properties": {"x": {"type": "integer"}}}, "tags": {"items": {"const": "a"}}}}
GOOD = {"verdict": "allow", "reasons": []}


def reason(code: str = "not_neutral", path: str = ".price", severity: str = "error", message: str = "It praises.") -> dict[str, str]:
    return {"code": code, "path": path, "message": message, "severity": severity}


def judged(*, model: Any = None, candidate: Any = None, **inputs: Any) -> worker_kit.WorkerRan:
    """A run in this process, with a model that gives this answer."""
    return worker_kit.run(WORKER, {"candidate": CANDIDATE if candidate is None else candidate, **inputs}, tools={"language_model": model})


# --- without a model ---------------------------------------------------------------------------------------------------------


def test_a_candidate_that_keeps_schema_and_rules_is_allowed() -> None:
    told = judged(candidate={"price": 1}, rules=[POSITIVE], schema={"required": ["price"]})
    assert told.outputs == {"verdict": "allow", "reasons": [], "checked": {"schema": True, "rules": 1, "criteria": False}}
    assert told.calls == ()


def test_every_broken_place_is_a_reason_in_one_form() -> None:
    told = judged(rules=[POSITIVE, {"path": ".tags[*]", "op": "in", "value": ["a"]}], schema=SCHEMA)
    assert told.outputs["verdict"] == "revise"
    found = {(one["code"], one["path"], one["severity"]) for one in told.outputs["reasons"]}
    assert found == {
        ("schema_mismatch", '["a b"].x', "error"),
        ("schema_mismatch", ".tags[1]", "error"),
        ("price_not_positive", ".price", "error"),
        ("rule_broken", ".tags[1]", "error"),
    }


def test_warnings_are_passed_on_and_allow() -> None:
    told = judged(rules=[{**POSITIVE, "severity": "warning"}])
    assert told.outputs["verdict"] == "allow"
    assert told.outputs["reasons"] == [
        {"code": "price_not_positive", "path": ".price", "message": "A price is above zero.", "severity": "warning"}
    ]


@pytest.mark.parametrize("wanted", ["revise", "block"])
def test_an_error_is_what_the_caller_says_it_is(wanted: str) -> None:
    assert judged(rules=[POSITIVE], on_error=wanted).outputs["verdict"] == wanted


@pytest.mark.parametrize(
    "inputs, path",
    [
        ({}, ""),
        ({"rules": []}, "/rules"),
        ({"rules": [{"path": ".price", "op": "eval", "value": "1"}]}, "/rules/0/op"),
        ({"rules": [POSITIVE, {"path": "price", "op": "exists"}]}, "/rules/1"),
        ({"rules": [{"path": "", "op": "matches", "value": "(a+)+\\1"}]}, "/rules/0"),
        ({"schema": {"type": "nonsense"}}, "/schema"),
        ({"schema": {"$ref": "http://127.0.0.1:9/x"}}, "/schema"),
        ({"rules": [POSITIVE], "on_error": "allow"}, "/on_error"),
    ],
)
def test_checks_that_cannot_be_used_are_refused_and_never_an_allow(inputs: dict[str, Any], path: str) -> None:
    told = judged(candidate={"price": 1}, **inputs)
    assert (told.status, told.error.error_code) == ("invalid_request", "schema_mismatch")
    assert path in [problem["path"] if isinstance(problem, dict) else problem.path for problem in told.error.details]


# --- with a model that says anything -------------------------------------------------------------------------------------------


def test_the_model_is_asked_only_about_a_candidate_that_the_exact_checks_allow() -> None:
    told = judged(rules=[POSITIVE], criteria="It is neutral.", model=GOOD)
    assert (told.outputs["verdict"], told.outputs["checked"]["criteria"], told.calls) == ("revise", False, ())
    told = judged(rules=[{**POSITIVE, "severity": "warning"}], criteria="It is neutral.", model=GOOD)
    assert (told.outputs["verdict"], told.outputs["checked"]["criteria"], len(told.calls)) == ("allow", True, 1)
    assert [one["code"] for one in told.outputs["reasons"]] == ["price_not_positive"]


@pytest.mark.parametrize(
    "answer, verdict, codes",
    [
        (GOOD, "allow", []),
        ({"verdict": "allow", "reasons": [reason(severity="warning")]}, "allow", ["not_neutral"]),
        ({"verdict": "revise", "reasons": [reason()]}, "revise", ["not_neutral"]),
        ({"verdict": "block", "reasons": [reason()]}, "block", ["not_neutral"]),
        ({"verdict": "allow", "reasons": [reason()]}, "block", ["not_neutral", "contradiction"]),
        ({"verdict": "revise", "reasons": []}, "block", ["reason_missing"]),
        ({"verdict": "block", "reasons": [reason(severity="warning")]}, "block", ["not_neutral", "reason_missing"]),
    ],
)
def test_a_verdict_and_its_reasons_must_not_contradict_each_other(answer: Any, verdict: str, codes: list[str]) -> None:
    told = judged(criteria="It is neutral.", model=answer)
    assert (told.outputs["verdict"], [one["code"] for one in told.outputs["reasons"]]) == (verdict, codes)


def test_a_place_that_the_model_made_up_is_no_path() -> None:
    answer = {"verdict": "revise", "reasons": [reason(path="the second offer"), reason(path=".offers[1].price")]}
    told = judged(criteria="It is neutral.", model=answer)
    assert [one["path"] for one in told.outputs["reasons"]] == ["", ".offers[1].price"]


@pytest.mark.parametrize("code", ["tool_not_allowed", "access_denied", "tool_failed", "budget_exceeded"])
def test_criteria_that_no_model_can_judge_end_the_run_without_a_verdict(code: str) -> None:
    told = judged(criteria="It is neutral.", model=ToolFailed(code, "no"))
    assert (told.status, told.error.error_code, told.outputs) == ("permanent_error", code, None)


def test_a_crash_at_any_point_changes_nothing() -> None:
    assert worker_kit.crash_everywhere(WORKER, CASE, tools={"language_model": {"verdict": "revise", "reasons": [reason()]}}) > 0


# --- in its jail, with a model's server on this machine ------------------------------------------------------------------------


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as here:
        yield here


async def test_the_model_gets_the_criteria_and_the_candidate_and_its_answer_is_judged(model: Model) -> None:
    model.answer = json.dumps({"verdict": "revise", "reasons": [reason()]})
    async with working(WORKER, model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, {"candidate": CANDIDATE, "criteria": "It is neutral."})
        assert (told["status"], told["outputs"]["verdict"], told["outputs"]["reasons"]) == ("ok", "revise", [reason()])
        (asked,) = model.asked
        assert [message["role"] for message in asked["messages"]] == ["system", "user"]
        assert "It is neutral." in asked["messages"][1]["content"]
        assert json.dumps(CANDIDATE, sort_keys=True) in asked["messages"][1]["content"]
        assert asked["response_format"]["json_schema"]["schema"]["required"] == ["verdict", "reasons"]
        for lie in ('{"verdict": "allow"}', "Allow."):
            model.answer = lie
            model.web.asked.clear()
            told = await ran(engine, WORKER, {"candidate": CANDIDATE, "criteria": "It is neutral."})
            assert (told["status"], told["error"]["error_code"]) == ("invalid_output", "output_schema_mismatch")
            assert (told["outputs"], told["observability"]["attempt"], len(model.asked)) == (None, 2, 2)


async def test_it_runs_as_written_without_a_key() -> None:
    told = await as_written(WORKER)
    assert (told["status"], told["outputs"]["verdict"]) == ("ok", "allow")
    assert [one["code"] for one in told["outputs"]["reasons"]] == ["currency_missing", "currency_missing", "service_mentioned"]
    assert told["observability"]["usage"]["tokens"] == {"input": 412, "output": 58}


@pytest.mark.long
def test_a_copy_of_its_folder_runs_from_the_command_line(tmp_path: Path) -> None:
    assert from_the_command_line(WORKER, tmp_path)["verdict"] == "allow"


# --- the page ------------------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_rules_in_the_form_that_rules_have() -> None:
    contract = read(file_of(WORKER).with_name("worker.md").read_text()).contract
    assert contract is not None
    assert contract.input_schema["properties"]["rules"]["items"] == RULE_SCHEMA
    assert RULE_SCHEMA["properties"]["op"]["enum"] == list(get_args(Operator))
