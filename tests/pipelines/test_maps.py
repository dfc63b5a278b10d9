"""Maps in shards: exact counts across shards, bounded histories, and nothing done twice."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.terms import RunLimits, ToolGrant
from holdfast.pipelines.graph.graph import MapNode, Undo, WorkerNode
from holdfast.pipelines.scene import shards
from holdfast.store.seam import Filter
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Effect, Usage
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.workers.harness import Counted


def a_map(name: str = "m", body: str = "w", **more: Any) -> MapNode:
    return MapNode(name=name, worker=body, over=ref("inputs", "ns"), inputs={"n": ref("item"), "at": ref("index")}, at_most=20_000, **more)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of five items, so that a few items make several shards."""
    monkeypatch.setattr(shards, "SHARD_ITEMS", 5)


@pytest.mark.usefixtures("small_shards")
async def test_shards_run_one_after_another_each_with_the_whole_at_once(tmp_path: Path) -> None:
    live, most, order = 0, 0, []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        nonlocal live, most
        live += 1
        most = max(most, live)
        order.append(inputs["at"])
        for _ in range(20):
            await asyncio.sleep(0)
        live -= 1
        return {"n": inputs["n"] * 2}

    graph = graph_of(a_map(at_once=3), gives={"all": ref("m", "items", "*", "outputs", "n"), "counts": ref("m", "counts")})
    async with stage(graph, worker("w", body), folder=tmp_path) as made:
        response = await made.run({"ns": list(range(12))})
        store = made.engine._engine.store
        own = store.operations(response.run_id)
        parts = store.list(Filter(parent=response.run_id))
    assert response.outputs == {"all": [n * 2 for n in range(12)], "counts": {"total": 12, "ok": 12, "failed": 0}}
    assert most <= 3
    assert [sorted(order[at : at + 5]) for at in (0, 5, 10)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert sum(operation.sub_type == "Run" for operation in own) == len(parts) == 3


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("tolerate, ran", [(2, 7), (3, 10)])
async def test_what_a_map_tolerates_is_exact_across_shards(tmp_path: Path, tolerate: int, ran: int) -> None:
    """Items 1, 4 and 6 fail: with two tolerated the map ends at item 6, in the second shard."""
    calls: list[int] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        calls.append(inputs["n"])
        if inputs["n"] in (1, 4, 6):
            raise WorkerError("bad_item", f"item {inputs['n']}")
        return {}

    graph = graph_of(a_map(at_once=1, tolerate=tolerate), gives={"failed": ref("m", "failed", "*", "index")})
    async with stage(graph, worker("w", body), folder=tmp_path) as made:
        response = await made.run({"ns": list(range(10))})
    assert len(calls) == ran
    if tolerate == 2:
        assert response.error is not None
        assert response.error.error_code == "bad_item"
        assert "3 of 10 items of m failed; at most 2 may fail" in response.error.message
    else:
        assert (response.outputs, response.observability.partial) == ({"failed": [1, 4, 6]}, True)


@pytest.mark.usefixtures("small_shards")
async def test_a_page_above_a_size_is_an_artifact_and_paths_lead_into_it(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": inputs["n"], "text": "x" * 300}

    graph = graph_of(
        a_map(),
        WorkerNode(name="sum", worker="sum", inputs={"ns": ref("m", "ok", "*", "outputs", "n"), "first": ref("m", "items", 0, "outputs")}),
        gives=out("sum"),
    )

    async def total(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"sum": sum(inputs["ns"]), "text": len(inputs["first"]["text"])}

    policy = Policy(inline_artifact_bytes=1000)
    async with stage(graph, worker("w", body), worker("sum", total), folder=tmp_path, policy=policy) as made:
        response = await made.run({"ns": list(range(8))})
        store = made.engine._engine.store
        largest = max(len(operation.result or "") for operation in store.operations(response.run_id))
    assert response.outputs == {"sum": 28, "text": 300}
    assert largest < 4000


@pytest.mark.usefixtures("small_shards")
async def test_items_and_fallbacks_are_counted_once_in_what_the_run_used(tmp_path: Path) -> None:
    usage = Usage(input_tokens=10, output_tokens=1, cost_usd=Decimal("0.5"))
    tool = Counted("model", Effect.READ, usage=usage)

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.model()
        if inputs["n"] % 2 and ctx.contract.worker_id == "w":
            raise WorkerError("odd")
        return {}

    grants = RunLimits(tools=(ToolGrant("model"),))
    graph = graph_of(a_map(fallback=("v",)))
    both = (worker("w", body, tool, limits=grants), worker("v", body, tool, limits=grants))
    async with stage(graph, *both, folder=tmp_path) as made:
        response = await made.run({"ns": list(range(7))})
    used = response.observability.usage
    assert response.error is None, response
    assert (used.tool_calls, used.tokens.input, used.tokens.output, used.cost_usd) == (10, 100, 10, Decimal("5.0"))


@pytest.mark.usefixtures("small_shards")
async def test_the_items_of_a_map_are_undone_each_once_the_last_first(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"made": inputs["n"]}

    async def undo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        undone.append((inputs["inputs"]["at"], inputs["outputs"]["made"]))
        return {}

    async def fails(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError("broken_part")

    graph = graph_of(a_map(at_once=1, undo=Undo(worker="undo")), WorkerNode(name="z", worker="fails", inputs={"m": ref("m", "counts")}))
    async with stage(graph, worker("w", body), worker("undo", undo), worker("fails", fails), folder=tmp_path) as made:
        await made.run({"ns": [10, 11, 12, 13, 14, 15]})
    assert undone == [(at, 10 + at) for at in reversed(range(6))]


async def test_an_undo_of_an_item_may_have_inputs_of_its_own(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"made": inputs["n"]}

    async def undo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        undone.append(inputs)
        return {}

    async def fails(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError("broken_part")

    own = {"id": ref("item", "outputs", "made"), "of": ref("item", "item"), "who": ref("inputs", "who")}
    graph = graph_of(a_map(undo=Undo(worker="undo", inputs=own)), WorkerNode(name="z", worker="fails", inputs={"m": ref("m", "counts")}))
    async with stage(graph, worker("w", body), worker("undo", undo), worker("fails", fails), folder=tmp_path) as made:
        await made.run({"ns": [7], "who": "ann"})
    assert undone == [{"id": 7, "of": 7, "who": "ann"}]


async def test_an_item_whose_fallback_did_not_begin_ends_as_its_first_run(tmp_path: Path) -> None:
    both, began = asyncio.Event(), []

    async def first(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        began.append(inputs["n"])
        if len(began) == 2:
            both.set()
        await both.wait()  # so the shard learns of both ends at once
        if inputs["n"] == "breaks":
            raise WorkerError("broken_part", "it is broken")
        return {}

    async def second(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise AssertionError("the map has ended")

    node = MapNode(
        name="m", worker="first", fallback=("second",), over=ref("inputs", "ns"), inputs={"n": ref("item", "n")}, at_most=3, at_once=2
    )
    async with stage(graph_of(node), worker("first", first), worker("second", second), folder=tmp_path) as made:
        response = await made.run({"ns": [{"n": "breaks"}, {"n": "works"}, {"no": "n"}]})
    assert response.error is not None
    assert (response.error.error_code, sorted(began)) == ("broken_part", ["breaks", "works"])
    assert "Item 0 failed with broken_part: it is broken" in response.error.message
