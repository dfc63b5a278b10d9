"""Budgets of pipelines: the calls of all child runs count against the run's limit and against the caps of their node."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.terms import RunLimits, ToolGrant
from holdfast.pipelines.graph.graph import After, Caps, MapNode, WorkerNode
from holdfast.workers.tools.seam import Effect, Reservation, Usage
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.workers.harness import Counted, InlineWorker


def spender(calls: list[int]) -> InlineWorker:
    """A worker whose one call costs ten tokens and half a dollar."""
    usage = Usage(input_tokens=9, output_tokens=1, cost_usd=Decimal("0.5"))
    tool = Counted("model", Effect.READ, reservation=Reservation(tokens=10, cost_usd=Decimal("0.5")), usage=usage)

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.model()
        calls.append(1)
        return {}

    return worker("w", body, tool, limits=RunLimits(tools=(ToolGrant("model"),)))


@pytest.mark.parametrize(
    "limits, made", [({"max_tokens": 20}, 2), ({"max_tokens": 29}, 2), ({"max_tokens": 30}, 3), ({"max_cost_usd": Decimal("1")}, 2)]
)
async def test_a_run_spends_no_more_than_its_pipelines_limit(tmp_path: Path, limits: dict[str, Any], made: int) -> None:
    calls: list[int] = []
    nodes = [WorkerNode(name=f"n{at}", worker="w", inputs={}, after=(After(f"n{at - 1}"),) if at else ()) for at in range(3)]
    async with stage(graph_of(*nodes, **limits), spender(calls), folder=tmp_path) as on:
        response = await on.run()
    assert len(calls) == made
    assert (response.error and response.error.error_code) == ("budget_exceeded" if made < 3 else None)
    assert response.observability.usage.tokens.input == 9 * made


async def test_the_caps_of_a_node_hold_for_all_its_items_and_other_nodes_do_not_count(tmp_path: Path) -> None:
    calls: list[int] = []
    graph = graph_of(
        WorkerNode(name="a", worker="w", inputs={}),
        MapNode(
            name="m",
            worker="w",
            over=ref("inputs", "ns"),
            inputs={},
            at_most=10,
            at_once=1,
            tolerate=10,
            caps=Caps(max_tokens=20),
            after=(After("a"),),
        ),
        gives={"counts": ref("m", "counts")},
    )
    async with stage(graph, spender(calls), folder=tmp_path) as on:
        response = await on.run({"ns": [1, 2, 3, 4]})
    assert response.outputs == {"counts": {"total": 4, "ok": 2, "failed": 2}}
    assert len(calls) == 3


async def test_a_pipeline_inside_a_pipeline_spends_from_both_limits(tmp_path: Path) -> None:
    calls: list[int] = []
    inner = graph_of(WorkerNode(name="x", worker="w", inputs={}), name="inner", max_tokens=1000)
    nodes = [WorkerNode(name=f"n{at}", worker="inner", inputs={}, after=(After(f"n{at - 1}"),) if at else ()) for at in range(3)]
    async with stage([inner, graph_of(*nodes, max_tokens=20)], spender(calls), folder=tmp_path) as on:
        response = await on.run()
    assert ((response.error and response.error.error_code), len(calls)) == ("budget_exceeded", 2)
