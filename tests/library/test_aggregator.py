"""aggregator-worker: every policy, conflicts as data, and a model that can choose but not invent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Pipeline
from holdfast.testing import pipeline_kit, worker_kit
from tests.library.scene import as_written, case_of, file_of, from_the_command_line, model_at, ran, working
from tests.tools.models import a_model

WORKER = "aggregator-worker"
CASE = case_of(WORKER)
PARTS = [{"source": "a", "value": {"name": "Acme", "founded": 1987}}, {"source": "b", "value": {"name": "Acme", "founded": 1986, "x": 1}}]
BOTH = [{"path": ".founded", "values": [{"source": "a", "value": 1987}, {"source": "b", "value": 1986}]}]


def aggregated(policy: str, parts: Any = None, *, model: Any = None, **inputs: Any) -> worker_kit.WorkerRan:
    """A run in this process, with a model that gives this answer."""
    return worker_kit.run(WORKER, {"parts": parts or PARTS, "merge_policy": policy, **inputs}, tools={"language_model": model})


def choice(conflict: int, source: str) -> dict[str, Any]:
    return {"conflict": conflict, "source": source, "reason": "The register knows."}


# --- conflicts that a pipeline hands over -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy, otherwise", [("union", 1987), ("strict", None), ("majority", None)])
def test_a_pipelines_merge_hands_its_conflicts_over_and_the_model_decides_them(policy: Any, otherwise: int | None) -> None:
    p = Pipeline("vendor", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
    parts = {part["source"]: p.const(part["value"]) for part in PARTS}
    report = p.merge("report", parts, policy=policy, conflicts=WORKER, key="id")
    p.gives({"report": report.outputs, "conflicts": report.conflicts})
    decided = pipeline_kit.run(p, {}, workers={WORKER: file_of(WORKER)}, tools={"language_model": {"choices": [choice(0, "b")]}})
    assert (decided.status, decided.outputs) == ("ok", {"report": {"name": "Acme", "founded": 1986, "x": 1}, "conflicts": BOTH})
    assert [run.inputs["conflicts"] for run in decided.runs["report"]] == [BOTH]
    undecided = pipeline_kit.run(p, {}, workers={WORKER: file_of(WORKER)}, tools={"language_model": {"choices": []}})
    told = (undecided.status, None if undecided.outputs is None else undecided.outputs["report"].get("founded"))
    assert told == (("permanent_error", None) if policy == "strict" else ("ok", otherwise))


def test_a_worker_that_merges_hands_its_conflicts_over_to_the_worker_that_decides() -> None:
    p = Pipeline("vendor", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
    report = p.merge("report", {part["source"]: p.const(part["value"]) for part in PARTS}, worker=WORKER, conflicts=WORKER)
    p.gives({"report": report.outputs})
    decided = pipeline_kit.run(p, {}, workers={WORKER: file_of(WORKER)}, tools={"language_model": {"choices": [choice(0, "b")]}})
    assert (decided.outputs["report"]["founded"], len(decided.runs["report"]), len(decided.calls)) == (1986, 2, 1)


# --- without a model ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, merged, conflicts, completeness",
    [
        ("best_effort", {"name": "Acme", "founded": 1987, "x": 1}, BOTH, 1),
        ("union", {"name": "Acme", "founded": 1987, "x": 1}, BOTH, 1),
        ("majority", {"name": "Acme", "x": 1}, BOTH, 2 / 3),
        ("first", {"name": "Acme", "founded": 1987}, [], 1),
    ],
)
def test_every_policy_but_strict_gives_a_result_and_names_its_conflicts(
    policy: str, merged: Any, conflicts: Any, completeness: float
) -> None:
    told = aggregated(policy)
    assert (told.status, told.outputs["merged"], told.outputs["conflicts"]) == ("ok", merged, conflicts)
    assert told.outputs["completeness"] == pytest.approx(completeness)
    assert (told.outputs["resolved"], told.calls) == ([], ())


def test_strict_ends_in_a_merge_conflict_that_is_not_tried_again_and_shows_what_agrees() -> None:
    told = aggregated("strict")
    assert (told.status, told.error.error_code, told.error.retryable) == ("permanent_error", "merge_conflict", False)
    assert (told.outputs["merged"], told.outputs["conflicts"]) == ({"name": "Acme", "x": 1}, BOTH)
    assert told.observability.partial is True
    assert "1 places: .founded" in told.error.message


def test_strict_refuses_a_missing_part() -> None:
    told = aggregated("strict", [PARTS[0], {"source": "c"}])
    assert (told.error.error_code, told.outputs["missing"], told.outputs["completeness"]) == ("merge_conflict", ["c"], 0.5)
    assert aggregated("strict", [PARTS[0]]).outputs["merged"] == PARTS[0]["value"]


def test_a_part_whose_value_is_null_is_there() -> None:
    told = aggregated("strict", [{"source": "a", "value": None}])
    assert (told.status, told.outputs["merged"], told.outputs["missing"], told.outputs["completeness"]) == ("ok", None, [], 1)


def test_the_callers_order_of_parts_matters_only_for_first() -> None:
    for policy in ("best_effort", "majority", "union"):
        assert aggregated(policy).outputs == aggregated(policy, PARTS[::-1]).outputs
    assert aggregated("first", PARTS[::-1]).outputs["merged"] == PARTS[1]["value"]


@pytest.mark.parametrize(
    "inputs",
    [{"parts": []}, {"merge_policy": "last"}, {"parts": [{"value": 1}]}, {"parts": [PARTS[0], PARTS[1], PARTS[0]]}],
    ids=["no parts", "no policy", "no source", "one source twice"],
)
def test_parts_that_cannot_be_told_apart_are_refused(inputs: dict[str, Any]) -> None:
    told = worker_kit.run(WORKER, {"parts": PARTS, "merge_policy": "first", **inputs})
    assert (told.status, told.error.error_code) == ("invalid_request", "schema_mismatch")


# --- with a model that says anything -------------------------------------------------------------------------------------------


def test_the_model_chooses_a_source_and_the_value_is_that_of_the_source() -> None:
    told = aggregated("best_effort", instructions="Trust b.", model={"choices": [choice(0, "b")]})
    assert told.outputs["merged"] == {"name": "Acme", "founded": 1986, "x": 1}
    assert told.outputs["conflicts"] == []
    assert told.outputs["resolved"] == [{"path": ".founded", "source": "b", "reason": "The register knows."}]


@pytest.mark.parametrize("choices", [[], [choice(0, "1985")], [choice(7, "b")], [choice(0, "nobody"), choice(1, "a")]], ids=str)
def test_a_choice_outside_the_conflicts_and_their_sources_is_not_taken(choices: list[Any]) -> None:
    told = aggregated("majority", instructions="Trust b.", model={"choices": choices})
    assert (told.outputs["merged"], told.outputs["conflicts"], told.outputs["resolved"]) == ({"name": "Acme", "x": 1}, BOTH, [])


def test_of_two_choices_for_one_conflict_the_first_is_taken() -> None:
    told = aggregated("majority", instructions="Trust b.", model={"choices": [choice(0, "b"), choice(0, "a")]})
    assert told.outputs["merged"]["founded"] == 1986


@pytest.mark.parametrize(
    "policy, parts, more",
    [("strict", PARTS, {"instructions": "Trust b."}), ("best_effort", PARTS, {}), ("best_effort", PARTS[:1], {"instructions": "Trust b."})],
    ids=["strict", "without instructions", "without a conflict"],
)
def test_the_model_is_not_asked_where_it_has_nothing_to_say(policy: str, parts: Any, more: Any) -> None:
    assert aggregated(policy, parts, model={"choices": []}, **more).calls == ()


def test_the_model_sees_a_bounded_part_of_the_conflicts() -> None:
    parts = [{"source": name, "value": {f"f{at}": name * 2_000 for at in range(60)}} for name in ("a", "b")]
    told = aggregated("majority", parts, instructions="Trust b.", model={"choices": [choice(at, "b") for at in range(50)]})
    ((_, arguments),) = told.calls
    assert len(arguments["prompt"]) < 60_000
    assert (len(told.outputs["resolved"]), len(told.outputs["conflicts"])) == (50, 10)


def test_a_crash_at_any_point_changes_nothing() -> None:
    assert worker_kit.crash_everywhere(WORKER, CASE, tools={"language_model": {"choices": [choice(0, "register")]}}) > 0


# --- in its jail ---------------------------------------------------------------------------------------------------------------


async def test_a_models_server_is_asked_once_and_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    inputs = {"parts": PARTS, "merge_policy": "majority", "instructions": "Trust b."}
    async with a_model() as model, working(WORKER, model=model_at(model.url)) as engine:
        model.answer = json.dumps({"choices": [choice(0, "b")]})
        told = await ran(engine, WORKER, inputs)
        assert (told["outputs"]["merged"]["founded"], len(model.asked)) == (1986, 1)
        assert '{"a": "1987", "b": "1986"}' in model.asked[0]["messages"][1]["content"]
        model.answer = json.dumps({"choices": [{"conflict": 0, "value": 1985}]})
        told = await ran(engine, WORKER, inputs)
        assert (told["status"], told["error"]["error_code"], told["outputs"]) == ("invalid_output", "output_schema_mismatch", None)
        strict = await ran(engine, WORKER, {"parts": PARTS, "merge_policy": "strict"})
        assert (strict["status"], strict["observability"]["attempt"]) == ("permanent_error", 1)


async def test_it_runs_as_written_without_a_key() -> None:
    told = await as_written(WORKER)
    assert (told["status"], told["outputs"]["merged"]["founded"], told["outputs"]["missing"]) == ("ok", 1986, ["press"])
    assert [offer["sku"] for offer in told["outputs"]["merged"]["offers"]] == ["L2", "L1"]


@pytest.mark.long
def test_a_copy_of_its_folder_runs_from_the_command_line(tmp_path: Path) -> None:
    assert from_the_command_line(WORKER, tmp_path)["merged"]["founded"] == 1986
