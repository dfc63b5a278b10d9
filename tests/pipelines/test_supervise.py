"""Supervisors: what they are told, what is recorded of their choices, and what they cost."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.terms import Retries, RunLimits, ToolGrant
from holdfast.pipelines.graph.graph import Caps, SuperviseNode
from holdfast.pipelines.graph.structure import structure_of
from holdfast.pipelines.record.choices import SupervisorChoice, answer_of
from holdfast.pipelines.record.states import node_states
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.tools.seam import Effect, Reservation, Usage
from tests import parts
from tests.pipelines.cases import rested
from tests.pipelines.rows_of_loops import FINISH, chosen
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.pipelines.values import JSON
from tests.workers.harness import Counted, InlineWorker

CHOICES = {"search": "searcher", "write": "writer"}


def scripted(*answers: Any, seen: list[Any] | None = None) -> InlineWorker:
    """A supervisor that gives one answer after the other, by what happened so far."""

    async def body(inputs: dict[str, Any], ctx: Any) -> Any:
        if seen is not None:
            seen.append(inputs)
        return answers[min(len(inputs["so_far"]), len(answers) - 1)]

    return worker("chooses", body)


async def _search(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    if inputs.get("fails"):
        raise WorkerError("access_denied", "a login is needed")
    return {"found": inputs["what"]}


async def _write(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"page": inputs["text"], "length": len(inputs["text"])}


WORKERS = (worker("searcher", _search, purpose="Searches the shelves."), worker("writer", _write))


def node(**more: Any) -> SuperviseNode:
    return SuperviseNode(name="plan", worker="chooses", inputs={"goal": "a page"}, **{"choices": CHOICES, "turns": 5, **more})


async def test_a_supervisor_is_told_its_inputs_its_choices_and_what_came_of_each_choice_so_far(tmp_path: Path) -> None:
    seen: list[Any] = []
    answers = (chosen("search", what="lamps"), chosen("search", fails=True), FINISH)
    async with stage(graph_of(node()), scripted(*answers, seen=seen), *WORKERS, folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
    assert response.status == "ok"
    assert [one["turns_left"] for one in seen] == [5, 4, 3]
    last = seen[-1]
    assert last["goal"] == "a page"
    assert last["choices"] == [
        {"label": "search", "worker": "searcher", "purpose": "Searches the shelves."},
        {"label": "write", "worker": "writer", "purpose": ""},
    ]
    first, second = last["so_far"]
    assert first == {"turn": 1, "choice": "search", "reason": "It needs search.", "status": "ok", "outputs": {"found": "lamps"}}
    error = {"error_code": "access_denied", "message": "a login is needed"}
    assert second == {"turn": 2, "choice": "search", "reason": "It needs search.", "status": "permanent_error", "error": error}


async def test_large_outputs_are_told_as_artifacts_which_the_supervisor_can_hand_on(tmp_path: Path) -> None:
    seen: list[Any] = []
    text = "lamp " * 20_000

    async def chooses(inputs: dict[str, Any], ctx: Any) -> Any:
        seen.append(inputs)
        so_far = inputs["so_far"]
        if not so_far:
            return chosen("write", text=text)
        if len(so_far) == 1:
            return chosen("write", text=so_far[0]["outputs"]["page"])
        return {**FINISH, "outputs": {"page": so_far[1]["outputs"]["page"]}}

    graph = graph_of(node(), gives={"page": out("plan", "page")})
    async with stage(graph, worker("chooses", chooses), *WORKERS, folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
        page = (response.outputs or {})["page"]
        assert await made.service.artifacts.resolved("default", {"page": page}) == {"page": text}
    told = seen[-1]["so_far"]
    assert [one["outputs"]["length"] for one in told] == [len(text)] * 2
    assert all(one["outputs"]["page"]["artifact"]["size_bytes"] > len(text) for one in told)


@pytest.mark.parametrize("answer", [{"choice": "search", "inputs": ...}, {"choice": "finish", "outputs": ...}], ids=["inputs", "outputs"])
@pytest.mark.parametrize("holds, code", [([1], "supervise_invalid_answer"), (None, "artifact_not_found")], ids=["a list", "nothing"])
async def test_a_forged_artifact_ends_the_node_with_a_name(tmp_path: Path, answer: Any, holds: Any, code: str) -> None:
    identity, forged = "0" * 32, {"reason": "forged"}
    async with stage(graph_of(node()), scripted(forged), *WORKERS, folder=tmp_path, clock=PatientClock()) as made:
        if holds is not None:
            kept = made.service.artifacts.keep("default", "x", "application/json", io.BytesIO(json.dumps(holds).encode()).read)
            identity = kept.artifact_id
        forged |= {name: {"$artifact": {"artifact_id": identity}} if value is ... else value for name, value in answer.items()}
        response = await made.run()
    assert response.error is not None
    assert response.error.error_code == code


async def test_every_choice_is_an_event_with_its_reason_also_one_that_is_refused(tmp_path: Path) -> None:
    async with stage(
        graph_of(node()), scripted(chosen("search", what="x"), chosen("delete")), *WORKERS, folder=tmp_path, clock=PatientClock()
    ) as made:
        response = await made.run()
        events = [event async for event in made.service.follow(response.run_id, LOCAL) if event is not None]
    choices = [(event.data["node"], event.data["turn"], event.data["choice"]) for event in events if event.event == "choice"]
    assert choices == [("plan", 1, "search"), ("plan", 2, "delete")]
    assert [event.data["reason"] for event in events if event.event == "choice"] == ["It needs search.", "It needs delete."]
    assert response.error is not None
    assert response.error.error_code == "supervise_unknown_choice"
    assert "the choices are search, write and finish" in response.error.message


async def test_a_choice_whose_inputs_do_not_fit_names_the_turn_they_came_from(tmp_path: Path) -> None:
    strict = worker("writer", _write, takes={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    answers = (chosen("write", text=5),)
    async with stage(graph_of(node()), scripted(*answers), WORKERS[0], strict, folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.error.error_code, response.error.details["details"]["edges"][0]["from"]) == ("edge_mismatch", "turn-1.inputs")


async def test_a_running_supervisor_shows_its_last_choice(tmp_path: Path) -> None:
    async def times_out(inputs: dict[str, Any], ctx: Any) -> Any:
        raise WorkerError("timeout")

    graph = graph_of(node(choices={"slow": "slow"}))
    slow = worker("slow", times_out, retries=Retries(max_attempts=2, initial_delay_seconds=9e4, max_delay_seconds=9e4))
    async with stage(graph, scripted(chosen("slow")), slow, folder=tmp_path, clock=PatientClock()) as made:
        waiting = await made.run(wait=0)
        await rested(made, waiting.run_id)
        (node_status,) = _node_statuses(made, graph, waiting.run_id)
    assert (node_status.state, node_status.message) == ("running", "turn 1: chose slow: It needs slow.")


def _node_statuses(made: Stage, graph: Any, run_id: str) -> list[Any]:
    store = made.engine._engine.store
    return node_states(graph, structure_of(graph), store.find(run_id), store.operations(run_id))


async def test_the_caps_of_the_node_hold_for_the_supervisor_and_all_it_chooses(tmp_path: Path) -> None:
    usage = Usage(input_tokens=9, output_tokens=1, cost_usd=Decimal("0.5"))
    calls: list[str] = []

    def paid(name: str, answer: Any) -> InlineWorker:
        tool = Counted("model", Effect.READ, reservation=Reservation(tokens=10, cost_usd=Decimal("0.5")), usage=usage)

        async def body(inputs: dict[str, Any], ctx: Any) -> Any:
            await ctx.tools.model()
            calls.append(name)
            return answer

        return worker(name, body, tool, limits=RunLimits(tools=(ToolGrant("model"),)))

    graph = graph_of(node(turns=50, caps=Caps(max_tokens=50)), gives={"n": ref("plan", "turns")})
    async with stage(
        graph, paid("chooses", chosen("search")), paid("searcher", {}), WORKERS[1], folder=tmp_path, clock=PatientClock()
    ) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.error.error_code, calls) == ("budget_exceeded", ["chooses", "searcher"] * 2 + ["chooses"])


@pytest.mark.parametrize(
    "outputs",
    [
        None,
        {},
        [],
        "search",
        {"choice": "search"},
        {"choice": "search", "reason": " "},
        {"choice": ["search"], "reason": "r"},
        {"choice": "search", "reason": {"$artifact": {}}},
        {"choice": "search", "reason": "r", "inputs": [1]},
        {"choice": "finish", "reason": "r"},
        {"choice": "finish", "reason": "r", "outputs": 5},
    ],
)
def test_an_answer_that_is_no_choice_is_told_as_a_sentence(outputs: Any) -> None:
    assert isinstance(answer_of(outputs), str)


ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "choice": st.sampled_from(["search", "write", "finish", "delete", ""]) | JSON,
        "reason": st.sampled_from(["because", " "]) | JSON,
        "inputs": st.sampled_from([{"what": "lamps"}, {"text": "lamps"}, {"fails": True}, {"page": {"artifact": {"artifact_id": "x"}}}])
        | JSON,
        "outputs": JSON,
        "more": JSON,
    },
)
ENDS = {
    "supervise_invalid_answer",
    "supervise_unknown_choice",
    "supervise_turns",
    "edge_mismatch",
    "artifact_not_found",
}


@settings(max_examples=parts.examples(300), deadline=None)
@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_whatever_a_supervisor_answers_its_node_ends_well_or_with_a_name(answers: list[Any]) -> None:
    async def ended() -> str | None:
        with tempfile.TemporaryDirectory() as folder:
            async with stage(graph_of(node(turns=4)), scripted(*answers), *WORKERS, folder=Path(folder), clock=PatientClock()) as made:
                response = await made.run()
        return None if response.error is None else response.error.error_code

    assert asyncio.run(ended()) in ENDS | {None}


def test_the_texts_of_a_choice_are_bounded() -> None:
    found = answer_of({"choice": "c" * 10_000, "reason": "r" * 10_000, "more": 1})
    assert isinstance(found, SupervisorChoice)
    assert (len(found.choice), len(found.reason)) == (100, 2000)
