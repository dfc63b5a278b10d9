"""Summaries: what a list shows of the runs of a pipeline and of its nodes is what their responses say."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import response_from
from holdfast.contract.terms import Retries, RunLimits, ToolGrant
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import Kind
from holdfast.model.shown_status import ShownStatus
from holdfast.model.summary import Summary
from holdfast.pipelines.graph.graph import After, MapNode, WorkerNode
from holdfast.store.browse import Browse, Facet
from holdfast.workers.tools.seam import Effect, Reservation, Usage
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.postgres import empty_store
from tests.workers.harness import Counted, InlineWorker

COST = Decimal("0.000123457")
INNER = graph_of(WorkerNode(name="x", worker="w", inputs={"n": 1}), name="inner")
OUTER = graph_of(
    WorkerNode(name="one", worker="w", inputs={"n": 1}),
    MapNode(name="many", worker="w", over=ref("inputs", "ns"), inputs={"n": ref("item")}, at_most=10, after=(After("one"),)),
    WorkerNode(name="below", worker="inner", inputs={}, after=(After("many"),)),
)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> str:
    """A store of each kind."""
    return ":memory:" if request.param == "sqlite" else empty_store()


def payer() -> InlineWorker:
    """A worker that pays for one call."""
    reserved = Reservation(tokens=20, cost_usd=Decimal("0.001"), output_tokens=10, model="small")
    tool = Counted("language_model", Effect.READ, lambda **_: {}, reservation=reserved, usage=Usage(7, 2, COST))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.language_model()
        return {}

    limits = RunLimits(tools=(ToolGrant("language_model"),), max_tokens=1000)
    return worker("w", body, tool, limits=limits, retries=Retries(max_attempts=3))


async def test_a_pipelines_run_and_the_runs_of_its_nodes_are_found_by_it_and_tell_their_costs(where: str, tmp_path: Path) -> None:
    async with stage([INNER, OUTER], payer(), folder=tmp_path, where=where) as on:
        response = await on.run({"ns": [1, 2]})
        store = on.engine._store
        found = store.browse(Browse(pipelines=("p",)), 60).rows
        assert {(row.header.function, row.kind, row.status) for row in found if row.kind is not Kind.PIPELINE} == {
            ("w", Kind.WORKER, ShownStatus.OK)
        }
        (outer,) = [row.header for row in found if row.header.id == response.run_id]
        assert outer.summary is not None
        assert (outer.summary.outcome, outer.summary.pipeline, outer.summary.cost) == ("ok", "p", 4 * nanos_of(COST))
        runs = [row.header for row in found if row.header.function == "w"]
        assert [run.summary for run in runs] == [Summary(outcome="ok", pipeline="p", cost=nanos_of(COST), attempt=1, attempts=3)] * 3
        below = store.browse(Browse(pipelines=("inner",)), 60).rows
        assert sorted(row.header.function for row in below) == ["inner", "w"]
        counts = store.facets(Browse(), 60).counts
        assert counts[Facet.WORKER] == {"w": 4}
        assert counts[Facet.PIPELINE]["inner"] == 2


async def test_a_run_that_fails_is_told_with_its_code_and_its_attempts(where: str, tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise RuntimeError("the page is gone")

    graph = graph_of(WorkerNode(name="one", worker="w", inputs={}))
    async with stage([graph], worker("w", body, retries=Retries(max_attempts=2)), folder=tmp_path, where=where) as on:
        response = await on.run({})
        store = on.engine._store
        for row in store.browse(Browse(pipelines=("p",)), 60).rows:
            told = response_from(store.result(row.header) or "{}")
            assert (row.status, told.error is not None) == (ShownStatus.FAILED, True)
            assert row.header.summary is not None
            assert (row.header.summary.outcome, row.header.summary.error_code) == (told.status.value, told.error and told.error.error_code)
            assert row.header.summary.attempt == told.observability.attempt
        assert response.error is not None
        found = store.browse(Browse(error_codes=(response.error.error_code,)), 60).rows
        assert response.run_id in [row.header.id for row in found]
        assert store.browse(Browse(statuses=(ShownStatus.FAILED,)), 60).rows == store.browse(Browse(), 60).rows
