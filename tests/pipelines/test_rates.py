"""A rate that is used up delays a node, and uses up neither a try nor a fallback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.contract.terms import RateLimit
from holdfast.pipelines.graph.graph import MapNode, WorkerNode
from tests.pipelines.stage import PatientClock, graph_of, stage, worker
from tests.pipelines.templates import out, ref


async def test_a_node_waits_durably_for_a_rate(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": inputs["n"] + 1}

    async def unwanted(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise AssertionError("the fallback is for failures")

    graph = graph_of(
        WorkerNode(name="a", worker="w", inputs={"n": 1}),
        WorkerNode(name="b", worker="w", inputs={"n": out("a", "n")}, fallback=("v",)),
        MapNode(name="m", worker="w", over=[1, 2, 3], inputs={"n": ref("item")}, at_most=3, at_once=3),
        gives={"n": out("b", "n"), "counts": ref("m", "counts")},
    )
    clock = PatientClock()
    began = clock.now()
    limited = worker("w", body, rate_limit=RateLimit(1, 60))
    async with stage(graph, limited, worker("v", unwanted), folder=tmp_path, clock=clock) as made:
        response = await made.run()
    assert response.outputs == {"n": 3, "counts": {"total": 3, "ok": 3, "failed": 0}}
    assert clock.now() - began >= 4 * 60_000
