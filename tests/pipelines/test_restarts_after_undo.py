"""Restarts after an undo: only what was undone is done again. What a good run did before, and what failed, is not written twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.contract.terms import ToolGrant
from holdfast.descriptions.pipeline_view import pipeline_view
from holdfast.pipelines.graph.graph import After, Graph, MapNode, SuperviseNode, Undo, WorkerNode
from holdfast.restarts.runs import RETRY, RestartAsked, prepare
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.run_lookup import find_run
from holdfast.workers.tools.seam import Effect
from tests.pipelines.stage import LOCAL, PatientClock, Stage, stage, worker
from tests.pipelines.templates import ref
from tests.pipelines.test_restarts import Shop, again, pipeline
from tests.workers.harness import Counted


def shape(**more: Any) -> Graph:
    """A map that publishes, and a node after it that may fail."""
    undo = Undo(worker="unpublish", inputs={"text": "away"})
    return pipeline(
        MapNode(name="m", worker="publish", over=ref("inputs", "ns"), at_most=10, inputs={"text": ref("item")}, undo=undo, **more),
        WorkerNode(name="last", worker="last", inputs={"x": ref("m", "counts"), "y": ref("inputs", "y")}),
    )


def staff(shop: Shop) -> list[Any]:
    return [shop.worker("publish", writes=True), shop.worker("unpublish", writes=True), shop.worker("last")]


def workers_with_stuck_undos(shop: Board, stuck: set[str]) -> list[Any]:
    """Workers that post a text and take it back. What is in `stuck` cannot be taken back."""

    async def take_back(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        text = inputs["inputs"]["text"]
        if text in stuck:
            raise WorkerError("stuck", f"{text} cannot be taken back")
        await ctx.tools.post(text=f"-{text}")
        return {}

    return [
        shop.worker("publish", writes=True),
        worker("take-back", take_back, shop.posts, grants=(ToolGrant("post"),)),
        shop.worker("last"),
    ]


async def left_in_part(made: Stage, asking: Response) -> Response:
    """The response of a run whose undo fails in part and asks a person, who leaves it so."""
    assert asking.error is not None
    assert asking.error.error_code == "approval_required"
    await made.act("leave")
    response = await made.service.wait_for(*await made.found(asking.run_id), wait=20)
    assert response.error is not None
    assert response.error.error_code == "undo_failed"
    return response


class Board(Shop):
    """A shop that knows what was posted, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: list[str] = []
        self.posts = Counted("post", Effect.WRITE, self._post)

    def _post(self, text: str) -> dict[str, Any]:
        self.posted.append(text)
        return {}


def states(made: Stage, run_id: str) -> dict[str, str]:
    store = made.engine._engine.store
    view = pipeline_view(store, *find_run(store, run_id, LOCAL))
    assert view is not None
    return {one.node: one.state for one in view.nodes}


async def test_a_map_that_a_good_run_did_is_not_undone_and_not_done_again(tmp_path: Path) -> None:
    shop = Board()
    async with stage(shape(), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        good = await made.run({"ns": ["a", "b"], "y": 1})
        shop.broken = {"last"}
        bad = await again(made, good.run_id, RestartAsked(inputs={"ns": ["a", "b"], "y": 2}))
        assert (bad.status is ResponseStatus.OK, states(made, bad.run_id)["m"]) == (False, "ok")
        shop.broken = set()
        third = await again(made, bad.run_id)
    assert (third.status, shop.posted) == (ResponseStatus.OK, ["a", "b"])


async def test_of_a_map_with_kept_items_only_the_undone_items_are_done_again(tmp_path: Path) -> None:
    shop = Board()
    async with stage(shape(), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        good = await made.run({"ns": ["a", "b"], "y": 1})
        shop.broken = {"last"}
        bad = await again(made, good.run_id, RestartAsked(inputs={"ns": ["c", "a", "b"], "y": 2}))
        assert (shop.posted, states(made, bad.run_id)["m"]) == (["a", "b", "c", "away"], "undone")
        worse = await again(made, bad.run_id)
        assert (worse.status is ResponseStatus.OK, shop.posted[4:]) == (False, ["c", "away"])
        shop.broken = set()
        last = await again(made, worse.run_id)
    assert (last.status, shop.posted[6:]) == (ResponseStatus.OK, ["c"])
    assert len({call.idempotency_key for call in shop.posts.calls}) == 7


async def test_an_item_that_failed_was_not_undone_and_does_not_write_again(tmp_path: Path) -> None:
    shop = Board()
    broken = {"b"}

    async def publish(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.post(text=inputs["text"])
        if inputs["text"] in broken:
            raise WorkerError("broken_part", "broken after its post")
        return {}

    workers = [worker("publish", publish, shop.posts, grants=(ToolGrant("post"),)), *staff(shop)[1:]]
    async with stage(shape(tolerate=1), *workers, folder=tmp_path, clock=PatientClock()) as made:
        shop.broken = {"last"}
        bad = await made.run({"ns": ["a", "b"], "y": 1})
        assert sorted(shop.posted) == ["a", "away", "b"]
        shop.broken, broken = set(), set()
        good = await again(made, bad.run_id)
    assert (good.status, sorted(shop.posted)) == (ResponseStatus.OK, ["a", "a", "away", "b"])


async def test_a_map_without_anything_to_undo_is_not_undone(tmp_path: Path) -> None:
    """The run in the middle had no items, so the writes of the run before it still count."""
    shop = Board()
    async with stage(shape(), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        good = await made.run({"ns": ["a"], "y": 1})
        shop.broken = {"last"}
        empty = await again(made, good.run_id, RestartAsked(inputs={"ns": [], "y": 1}))
        assert states(made, empty.run_id)["m"] == "ok"
        shop.broken = set()
        third = await again(made, empty.run_id, RestartAsked(inputs={"ns": ["a"], "y": 1}))
    assert (third.status, shop.posted) == (ResponseStatus.OK, ["a"])


async def test_an_undo_of_an_earlier_run_does_not_stand_for_the_undo_of_a_later_one(tmp_path: Path) -> None:
    shop = Board()
    shop.broken = {"last"}
    async with stage(shape(), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"ns": ["a"], "y": 1})
        shop.broken = set()
        good = await again(made, first.run_id)
        assert shop.posted == ["a", "away", "a"]
        shop.broken = {"last"}
        await again(made, good.run_id, RestartAsked(inputs={"ns": ["a", "b"], "y": 1}))
    assert shop.posted[3:] == ["b", "away"]


async def test_a_choice_that_a_good_run_made_is_not_made_again_though_a_later_choice_was_undone(tmp_path: Path) -> None:
    shop = Board()
    wanted = ["a"]

    async def boss(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        number = len(inputs["so_far"])
        if number == len(wanted):
            return {"choice": "finish", "reason": "done", "outputs": {}}
        return {"choice": "post", "reason": "next", "inputs": {"text": wanted[number]}}

    lead = SuperviseNode(
        name="lead", worker="boss", inputs={"x": ref("inputs", "x")}, choices={"post": "publish"}, turns=5, undo={"post": "unpublish"}
    )
    graph = pipeline(lead, WorkerNode(name="last", worker="last", inputs={"x": ref("lead", "turns"), "y": ref("inputs", "y")}))
    async with stage(graph, worker("boss", boss), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        good = await made.run({"x": 1, "y": 1})
        shop.broken, wanted = {"last"}, ["a", "b"]
        bad = await again(made, good.run_id, RestartAsked(inputs={"x": 2, "y": 2}))
        assert (shop.posted, states(made, bad.run_id)["lead"]) == (["a", "b", "unpublish"], "undone")
        shop.broken = set()
        third = await again(made, bad.run_id)
    assert (third.status, shop.posted[3:]) == (ResponseStatus.OK, ["b"])


async def test_of_a_map_that_was_undone_in_part_only_the_undone_items_are_done_again_and_undone_again(tmp_path: Path) -> None:
    shop, stuck = Board(), {"b"}
    mapped = MapNode(
        name="m", worker="publish", over=ref("inputs", "ns"), at_most=10, inputs={"text": ref("item")}, undo=Undo(worker="take-back")
    )
    graph = pipeline(mapped, WorkerNode(name="last", worker="last", inputs={"x": ref("m", "counts")}))
    async with stage(graph, *workers_with_stuck_undos(shop, stuck), folder=tmp_path, clock=PatientClock()) as made:
        shop.broken = {"last"}
        first = await left_in_part(made, await made.run({"ns": ["a", "b"]}))
        assert (sorted(shop.posted), states(made, first.run_id)["m"]) == (["-a", "a", "b"], "ok")
        plan = prepare(made.engine._store, first.run_id, LOCAL, RETRY, made.service).plan
        assert plan.nodes[0].why == "was undone in part (what was not undone is reused)"
        second = await again(made, first.run_id)  # the decision to leave it is about the same, and is reused
        assert shop.posted[3:] == ["a", "-a"]
        stuck.clear()
        third = await again(made, second.run_id)
        assert (third.status is ResponseStatus.OK, sorted(shop.posted[5:])) == (False, ["-a", "-b", "a"])
        shop.broken = set()
        last = await again(made, third.run_id)
    assert (last.status, sorted(shop.posted[8:])) == (ResponseStatus.OK, ["a", "b"])


async def test_of_a_supervisor_that_was_undone_in_part_only_the_undone_choices_are_made_again(tmp_path: Path) -> None:
    shop, stuck, wanted = Board(), {"b"}, ["a", "b"]

    async def boss(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        number = len(inputs["so_far"])
        if number == len(wanted):
            return {"choice": "finish", "reason": "done", "outputs": {}}
        return {"choice": "post", "reason": "next", "inputs": {"text": wanted[number]}}

    lead = SuperviseNode(name="lead", worker="boss", choices={"post": "publish"}, turns=5, undo={"post": "take-back"}, inputs={})
    graph = pipeline(lead, WorkerNode(name="last", worker="last", inputs={"x": ref("lead", "turns")}))
    workers = [worker("boss", boss), *workers_with_stuck_undos(shop, stuck)]
    async with stage(graph, *workers, folder=tmp_path, clock=PatientClock()) as made:
        shop.broken = {"last"}
        first = await left_in_part(made, await made.run({}))
        assert shop.posted == ["a", "b", "-a"]
        second = await again(made, first.run_id)  # the decision to leave it is about the same, and is reused
        assert shop.posted[3:] == ["a", "-a"]
        shop.broken = set()
        last = await again(made, second.run_id)
    assert (last.status, shop.posted[5:]) == (ResponseStatus.OK, ["a"])


def nested_shapes() -> list[Any]:
    """The node `sub` of a pipeline that runs another pipeline: directly, for each item of a list, or as the choice of a supervisor."""
    undo = Undo(worker="unpublish", inputs={"text": "away"})
    inputs = {"ns": ref("inputs", "ns")}
    mapped = MapNode(name="sub", worker="inner", over=ref("inputs", "items"), at_most=10, inputs={"ns": ref("item")}, undo=undo)
    lead = SuperviseNode(name="sub", worker="boss", inputs=inputs, choices={"go": "inner"}, turns=3, undo={"go": "unpublish"})
    return [
        pytest.param(WorkerNode(name="sub", worker="inner", inputs=inputs, undo=undo), id="a node"),
        pytest.param(mapped, id="an item of a map"),
        pytest.param(lead, id="a choice of a supervisor"),
    ]


@pytest.mark.parametrize("node", nested_shapes())
async def test_a_nested_pipeline_that_took_all_from_a_good_run_is_not_undone_and_one_that_did_something_is(
    tmp_path: Path, node: Any
) -> None:
    shop = Board()

    async def boss(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        answer = {"choice": "finish", "reason": "done", "outputs": {}} if inputs["so_far"] else {"choice": "go", "reason": "first"}
        return answer if inputs["so_far"] else answer | {"inputs": {"ns": inputs["ns"]}}

    inner = pipeline(
        MapNode(name="m", worker="publish", over=ref("inputs", "ns"), at_most=10, inputs={"text": ref("item")}),
        WorkerNode(name="end", worker="publish", inputs={"text": "end"}),
        name="inner",
    )
    outer = pipeline(node, WorkerNode(name="last", worker="last", inputs={"y": ref("inputs", "y")}, after=(After(node="sub"),)))
    async with stage([outer, inner], worker("boss", boss), *staff(shop), folder=tmp_path, clock=PatientClock()) as made:
        good = await made.run({"ns": ["a"], "items": [["a"]], "y": 1})
        assert (good.status, sorted(shop.posted)) == (ResponseStatus.OK, ["a", "end"])
        shop.broken = {"last"}
        bad = await again(made, good.run_id, RestartAsked(inputs={"ns": ["a"], "items": [["a"]], "y": 2}))
        assert (bad.status is ResponseStatus.OK, states(made, bad.run_id)["sub"], shop.posted[2:]) == (False, "ok", [])
        worse = await again(made, bad.run_id, RestartAsked(inputs={"ns": ["a", "b"], "items": [["a", "b"]], "y": 2}))
        assert (worse.status is ResponseStatus.OK, states(made, worse.run_id)["sub"]) == (False, "undone")
        assert shop.posted[2] == "b"
        assert shop.posted[3] in ("away", "unpublish")
        shop.broken = set()
        last = await again(made, worse.run_id)
    assert (last.status, sorted(shop.posted[4:])) == (ResponseStatus.OK, ["a", "b", "end"])
