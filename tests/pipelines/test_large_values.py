"""Rules and merges of large values do not run on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipelines.graph.graph import GateNode, MergeNode, MergePart, RouteNode, Rule, UntilNode, When, WorkerNode
from holdfast.pipelines.nodes import gate, merge, route, until
from holdfast.pipelines.run import readiness
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import out

ALL = (Rule(path=".n[*]", op="at_least", value=0),)
JUDGES = [(gate, "broken"), (until, "broken"), (route, "holds"), (readiness, "holds"), (merge, "merged")]


@pytest.mark.parametrize("size, beside", [(3, False), (5_000, True)])
async def test_a_large_value_is_judged_and_merged_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, beside: bool
) -> None:
    """A worker chooses how large its outputs are: rules on 100,000 elements took the event loop a second, and a merge of ten such lists
    three seconds. A thread would cost a small value more than its rules do."""
    loop, seen = threading.get_ident(), list[tuple[str, bool]]()

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any) -> Any:
            seen.append((name, threading.get_ident() != loop))
            return call(*given)

        return made

    for module, name in JUDGES:
        monkeypatch.setattr(module, name, noted(module.__name__.rpartition(".")[2], getattr(module, name)))

    async def counts(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": list(range(size))}

    graph = graph_of(
        WorkerNode(name="a", worker="counts", inputs={}),
        GateNode(name="g", candidate=out("a"), rules=ALL),
        WorkerNode(name="w", worker="counts", inputs={}, when=When(value=out("a"), rules=ALL)),
        RouteNode(name="r", labels=("full", "empty"), value=out("a"), rules={"full": ALL}),
        UntilNode(name="u", worker="counts", inputs={}, rules=ALL, at_most=1, every_seconds=1),
        MergeNode(name="m", parts=(MergePart("a", out("a")), MergePart("w", out("w"))), policy="union"),
    )
    async with stage(graph, worker("counts", counts), folder=tmp_path) as made:
        response = await made.run()
    assert (response.error, set(seen)) == (None, {(name, beside) for name in ("gate", "merge", "readiness", "route", "until")})
