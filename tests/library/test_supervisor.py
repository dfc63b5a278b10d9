"""supervisor-worker: one of the given choices, or finish; everything else is no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Pipeline
from holdfast.testing import pipeline_kit, worker_kit
from tests.library.scene import as_written, case_of, file_of, from_the_command_line, model_at, ran, refuses, working
from tests.tools.models import a_model

WORKER = "supervisor-worker"
CASE = case_of(WORKER)


def said(choice: str, *, inputs: Any = None, outputs: Any = None) -> dict[str, Any]:
    return {"choice": choice, "reason": "It comes next.", "inputs": inputs, "outputs": outputs}


def chose(answer: Any, **inputs: Any) -> worker_kit.WorkerRan:
    """A run in this process, with a model that gives this answer."""
    return worker_kit.run(WORKER, {**CASE, **inputs}, tools={"language_model": answer})


def test_a_choice_has_its_reason_and_what_the_chosen_worker_gets() -> None:
    told = chose(said("prices", inputs={"product": "teapot"}, outputs={"ignored": 1}))
    assert told.outputs == {"choice": "prices", "reason": "It comes next.", "inputs": {"product": "teapot"}}
    assert chose(said("prices")).outputs == {"choice": "prices", "reason": "It comes next."}


def test_finish_has_the_outputs_also_in_the_last_turn() -> None:
    told = chose(said("finish", inputs={"ignored": 1}, outputs={"cost": 0}), turns_left=1)
    assert told.outputs == {"choice": "finish", "reason": "It comes next.", "outputs": {"cost": 0}}


@pytest.mark.parametrize("answer, turns, says", [
    (said("delete-everything"), 3, "none of classify, prices"), (said("Prices"), 3, "none of"),
    (said("finish"), 3, "finished without outputs"),
    (said("prices"), 1, "in its last turn"),
], ids=["unknown", "capitals", "no outputs", "last turn"])  # fmt: skip
def test_an_answer_that_is_no_choice_is_asked_for_again_and_then_an_invalid_output(answer: Any, turns: int, says: str) -> None:
    told = chose(answer, turns_left=turns)
    assert (told.status, told.error.error_code, told.observability.attempt) == ("invalid_output", "choice_invalid", 2)
    assert says in told.error.message
    assert len(told.calls) == 2


def test_a_good_second_answer_is_taken() -> None:
    told = chose([said("nonsense"), said("prices")])
    assert (told.status, told.outputs["choice"], told.observability.attempt) == ("ok", "prices", 2)


def test_the_model_sees_goal_choices_inputs_and_earlier_turns_in_a_bounded_length() -> None:
    earlier = [{"choice": "classify", "reason": f"turn {at}", "status": "ok", "outputs": {"x": "y" * 50_000}} for at in range(100)]
    earlier[-1] = {"choice": "prices", "reason": "r", "status": "permanent_error", "error": {"error_code": "access_denied"}}
    told = chose(said("finish", outputs={}), so_far=earlier, message="m" * 100_000, turns_left=1)
    ((_, arguments),) = told.calls
    prompt = arguments["prompt"]
    assert len(prompt) < 25_000
    for shown in (
        CASE["goal"],
        "- prices: The price of a product.",
        "(90 earlier turns are not shown.)",
        "turn 90",
        "access_denied",
        "must finish now",
    ):
        assert shown in prompt
    assert "turn 89" not in prompt


@pytest.mark.parametrize("inputs", [{"choices": [{"purpose": "x"}]}, {"goal": ""}, {"turns_left": "1"}])
def test_inputs_that_cannot_be_meant_are_refused(inputs: dict[str, Any]) -> None:
    assert refuses(WORKER, {**CASE, **inputs})
    assert not refuses(WORKER, CASE)


@pytest.mark.parametrize("labels", [["finish"], ["a", "a"], [], [f"l{at}" for at in range(51)]])
def test_choices_that_cannot_be_told_apart_are_refused(labels: list[str]) -> None:
    told = chose(said("a"), choices=[{"label": label} for label in labels])
    assert (told.status, told.error.error_code, told.calls) == ("invalid_request", "schema_mismatch", ())


# --- behind a supervise node -----------------------------------------------------------------------------------------------------

STUBS = {WORKER: file_of(WORKER), "classify-worker": {"label": "delivery"}, "price-worker": {"price": 9}}


def supervised(answers: list[Any], play: Any = pipeline_kit.run) -> Any:
    """A pipeline whose supervisor gives these answers, one after the other."""
    inputs = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    p = Pipeline("desk", "1.0", inputs=inputs, outputs={"type": "object"})
    given = {"goal": "Find out what it costs.", "message": p.inputs.message}
    found = p.supervise("find", WORKER, given, choices={"classify": "classify-worker", "prices": "price-worker"}, turns=3)
    p.gives({"found": found.outputs, "choices": found.choices})
    return play(p, {"message": "A crack."}, workers=STUBS, tools={"language_model": _by_turn(answers)})


def _by_turn(answers: list[Any]) -> Any:
    """The answer to each turn by what the model is shown of it, so that a call that is made again gets the same answer."""

    def answer(prompt: str, **_: Any) -> Any:
        return answers[3 - int(prompt.partition("this one included: ")[2][0])]

    return answer


def test_a_supervise_node_asks_it_turn_by_turn_and_runs_what_it_chose() -> None:
    answers = [said("classify", inputs={"text": "x"}), said("prices", inputs={"product": "teapot"}), said("finish", outputs={"price": 9})]
    told = supervised(answers)
    assert (told.status, told.outputs["found"]) == ("ok", {"price": 9})
    assert [one["choice"] for one in told.outputs["choices"]] == ["classify", "prices", "finish"]
    assert told.stub_calls == (("classify-worker", {"text": "x"}), ("price-worker", {"product": "teapot"}))
    prompts = [arguments["prompt"] for _, arguments in told.calls]
    assert ('"label": "delivery"' in prompts[1], "1. You must finish now." in prompts[2]) == (True, True)


@pytest.mark.parametrize(
    "answers, runs", [([said("delete-everything")], 0), ([said("prices", inputs={})] * 3, 2)], ids=["nonsense", "loop"]
)
def test_a_supervisor_that_talks_nonsense_or_loops_ends_the_node_with_a_named_code(answers: list[Any], runs: int) -> None:
    told = supervised(answers)
    assert (told.error.error_code, told.nodes["find"].state, len(told.stub_calls)) == ("choice_invalid", "failed", runs)


@pytest.mark.long
@pytest.mark.usefixtures("kit_store")
def test_a_crash_anywhere_under_a_supervise_node_changes_nothing() -> None:
    answers = [said("classify", inputs={"text": "x"}), said("prices", inputs={}), said("finish", outputs={"price": 9})]
    assert supervised(answers, pipeline_kit.crash_everywhere) > 20


@pytest.mark.long
def test_a_crash_at_any_point_changes_nothing() -> None:
    assert worker_kit.crash_everywhere(WORKER, CASE, tools={"language_model": said("prices")}) > 4


@pytest.mark.long
async def test_a_models_server_that_talks_nonsense_is_asked_twice() -> None:
    async with a_model() as model, working(WORKER, model=model_at(model.url)) as engine:
        model.answer = json.dumps({"choice": "prices"})
        told = await ran(engine, WORKER, CASE)
        assert (told["status"], told["error"]["error_code"], len(model.asked)) == ("invalid_output", "output_schema_mismatch", 2)
        model.answer = json.dumps(said("prices"))
        assert (await ran(engine, WORKER, CASE))["outputs"]["choice"] == "prices"


@pytest.mark.long
async def test_it_runs_as_written_without_a_key() -> None:
    told = await as_written(WORKER)
    assert (told["status"], told["outputs"]["choice"]) == ("ok", "prices")


@pytest.mark.long
def test_a_copy_of_its_folder_runs_from_the_command_line(tmp_path: Path) -> None:
    assert from_the_command_line(WORKER, tmp_path)["choice"] == "prices"
