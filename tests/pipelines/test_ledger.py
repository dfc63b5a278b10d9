"""The ledger of pipelines: entries, daily sums, the usage of runs and the counters of budgets are the same sums."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, durable_execution
from holdfast.cli.cost import _print_report
from holdfast.contract.terms import RunLimits, ToolGrant
from holdfast.costs.reports import CostQuestion, CostReport, cost_report
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.ledger import DAY_MS, NANO, EntryState, nanos_of
from holdfast.pipelines.graph.graph import After, MapNode, WorkerNode
from holdfast.store.seam import Filter
from holdfast.testing.crashing import AFTER, BEFORE, Crash
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from tests.pipelines.stage import Stage, graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.postgres import empty_store
from tests.workers.harness import Counted, InlineWorker

COST = Decimal("0.000123457")
RESERVED = Reservation(
    tokens=20, cost_usd=Decimal("0.001"), output_tokens=10, model="small", price_source="a contract", price_date="2026-11-01"
)
USED = Usage(7, 2, COST, cached_tokens=3, reasoning_tokens=1)


def payer(does: Any = lambda **_: {}, name: str = "w", times: int = 1) -> InlineWorker:
    """A worker that calls a model so many times."""
    tool = Counted("language_model", Effect.READ, does, reservation=RESERVED, usage=USED)

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for _ in range(times):
            await ctx.tools.language_model()
        return {}

    return worker(name, body, tool, limits=RunLimits(tools=(ToolGrant("language_model"),), max_tokens=1000))


def report(on: Stage, **asked: Any) -> CostReport:
    """What the ledger says."""
    return cost_report(on.engine._store, CostQuestion(**asked), on.clock.now())


ALL = graph_of(
    WorkerNode(name="one", worker="w", inputs={}),
    MapNode(name="many", worker="w", over=ref("inputs", "ns"), inputs={}, at_most=10, after=(After("one"),)),
    WorkerNode(name="below", worker="inner", inputs={}, after=(After("many"),)),
    max_tokens=10_000,
    max_cost_usd=Decimal("1"),
)
INNER = graph_of(WorkerNode(name="x", worker="w", inputs={}), name="inner", max_tokens=5_000)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> str:
    """A store of each kind."""
    return ":memory:" if request.param == "sqlite" else empty_store()


async def test_entries_days_usage_and_counters_are_the_same_sums_at_every_level(where: str, tmp_path: Path) -> None:
    async with stage([INNER, ALL], payer(times=2), folder=tmp_path, where=where) as on:
        response = await on.run({"ns": [1, 2, 3]})
        store = on.engine._store
        calls, usage = 2 * 5, response.observability.usage
        whole = report(on, run=response.run_id).total
        assert (whole.settled.calls, whole.input_tokens, whole.output_tokens) == (calls, 7 * calls, 2 * calls)
        assert (whole.cached_tokens, whole.reasoning_tokens) == (3 * calls, calls)
        assert (usage.tokens.input, usage.tokens.output, usage.cached_tokens, usage.reasoning_tokens) == (70, 20, 30, 10)
        assert whole.nanos == nanos_of(usage.cost_usd) == nanos_of(COST) * calls
        assert whole.open.calls == whole.open.nanos == whole.unknown.calls == 0
        assert report(on, since="1d").total == whole, "the daily sums"
        counters = {one.key: one for one in store.counters([f"budget/{response.run_id}/tokens", f"budget/{response.run_id}/cost"])}
        assert {(one.amount, one.reserved) for one in counters.values()} == {(9 * calls, 0), (nanos_of(COST) * calls, 0)}
        by_node = {line.group: line.settled.calls for line in report(on, run=response.run_id, by="pipeline,node").lines}
        assert by_node == {("p", "one"): 2, ("p", "many"): 6, ("inner", "x"): 2}
        runs = {line.group[0]: line for line in report(on, run=response.run_id, by="run").lines}
        assert sum(line.nanos for line in runs.values()) == whole.nanos
        nested = next(one.id for one in store.list(Filter(function="inner")))
        assert report(on, run=nested).total.settled.calls == 2, "a run in the middle has what stands below it"
        (entry, _) = store.ledger(next(iter(runs)))[:2]
        assert (entry.state, entry.model, entry.price_source, entry.price_date) == (
            EntryState.RESERVED,
            "small",
            "a contract",
            "2026-11-01",
        )


@durable_execution
async def top(event: Any, context: AsyncDurableContext) -> Any:
    return await context.invoke("middle", event)


@durable_execution
async def middle(event: Any, context: AsyncDurableContext) -> Any:
    return await context.invoke("bottom", event)


@durable_execution
async def bottom(event: Any, context: AsyncDurableContext) -> Any:
    await context.run("w", {})
    await context.run("inner", {})


async def test_the_cost_of_a_durable_function_has_the_runs_of_every_function_that_it_invokes(where: str, tmp_path: Path) -> None:
    async with stage([INNER], payer(), folder=tmp_path, where=where, functions=[top, middle, bottom]) as on:
        await (await on.engine.start(top, None)).result()
        await (await on.engine.start(bottom, None)).result()
        found = {one.function: one.id for one in on.engine._store.list(Filter()) if one.parent is not None or one.function == "top"}
        told = {name: report(on, run=found[name]).total.settled.calls for name in ("top", "middle", "bottom", "inner")}
        assert told == {"top": 2, "middle": 2, "bottom": 2, "inner": 1}
        assert report(on).total.settled.calls == 4, "the calls of all runs, of which two are not below `top`"


async def test_a_report_with_more_groups_than_lines_says_so_and_its_total_counts_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stage([INNER, ALL], payer(), folder=tmp_path) as on:
        response = await on.run({"ns": [1, 2]})
        asked = CostQuestion(run=response.run_id, by="node")
        told = {most: cost_report(on.engine._store, asked, on.clock.now(), most) for most in (1, 2, 3)}
    assert {most: (len(one.lines), one.truncated, one.document()["truncated"]) for most, one in told.items()} == {
        1: (1, True, True),
        2: (2, True, True),
        3: (3, False, False),
    }
    assert {(one.total.settled.calls, one.total.nanos, one.total.open.calls) for one in told.values()} == {(4, 4 * nanos_of(COST), 0)}
    assert sum(line.nanos for line in told[3].lines) == told[1].total.nanos
    assert (told[1].lines[0].settled.calls, told[1].lines[0].open.calls) == (2, 0), "a line is whole or not there"
    _print_report(told[1])
    assert "1 are shown" in capsys.readouterr().out.splitlines()[-2]


async def test_a_report_with_more_groups_than_lines_has_those_that_cost_most(where: str, tmp_path: Path) -> None:
    async with stage([INNER, ALL], payer(), folder=tmp_path, where=where) as on:
        response = await on.run({"ns": [1, 2, 3]})
        asked = [CostQuestion(run=response.run_id, by="worker,node,pipeline"), CostQuestion(by="worker,node,pipeline")]
        told = [cost_report(on.engine._store, one, on.clock.now(), 1) for one in asked]
        days = cost_report(on.engine._store, CostQuestion(by="day,node"), on.clock.now(), 2)
    assert [[(line.group, line.settled.calls, line.open.calls) for line in one.lines] for one in told] == [[(("w", "many", "p"), 3, 0)]] * 2
    assert [line.group[1] for line in days.lines] == ["many", "one"], "with days, the first groups by name"


async def test_the_cost_of_a_run_is_known_after_retention_has_removed_the_run(where: str, tmp_path: Path) -> None:
    """The ledger keeps calls longer than the store keeps runs: of a worker, of a pipeline between two others, and of the outermost one."""
    async with stage([INNER, ALL], payer(times=2), folder=tmp_path, where=where) as on:
        response = await on.run({"ns": [1, 2, 3]})
        store = on.engine._store
        (nested,) = [one.id for one in store.list(Filter(function="inner"))]
        (leaf,) = [one.id for one in store.list(Filter(parent=nested))]
        runs = {response.run_id: 10, nested: 2, leaf: 2}
        assert {run: report(on, run=run).total.settled.calls for run in runs} == runs
        while store.expire(on.clock.now() + 300 * DAY_MS, 1000):
            pass
        assert store.list(Filter()) == []
        assert {run: report(on, run=run).total.settled.calls for run in runs} == runs
        with pytest.raises(ExecutionNotFound):
            report(on, run="none")


@pytest.mark.parametrize(
    "failed, state, nanos",
    [
        (ToolFailed("tool_unavailable", "refused"), "released", 0),
        (ToolFailed("tool_timeout", "silence", known=False), "unknown", NANO // 1000),
        (ToolFailed("tool_unavailable", "broke off", known=False, usage=USED), "unknown", nanos_of(COST)),
        (ToolFailed("tool_failed", "a refusal", usage=USED), "settled", nanos_of(COST)),
    ],
)
async def test_a_failed_call_is_booked_by_what_is_known_of_it(failed: ToolFailed, state: str, nanos: int, tmp_path: Path) -> None:
    graph = graph_of(WorkerNode(name="n", worker="w", inputs={}))
    async with stage(graph, payer(lambda **_: failed), folder=tmp_path) as on:
        response = await on.run()
        (line,) = report(on, run=response.run_id, by="model").lines
        (run,) = report(on, run=response.run_id, by="run").lines
        ends = [one.state.value for one in on.engine._store.ledger(run.group[0])]
        assert (line.group, ends, line.nanos, line.open.calls) == (("small",), ["reserved", state], nanos, 0)
        assert nanos_of(response.observability.usage.cost_usd) == nanos


async def test_a_run_without_a_model_adds_nothing(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.fetch()
        return {}

    plain = worker("w", body, Counted("fetch", Effect.READ), limits=RunLimits(tools=(ToolGrant("fetch"),)))
    async with stage(graph_of(WorkerNode(name="n", worker="w", inputs={})), plain, folder=tmp_path) as on:
        response = await on.run()
        assert (response.error, on.engine._store.ledger(response.run_id), report(on).lines) == (None, [], ())


@pytest.mark.parametrize("when", [pytest.param(BEFORE, marks=pytest.mark.long), AFTER])
async def test_wherever_a_pipeline_crashes_the_sums_are_equal(when: str, tmp_path: Path) -> None:
    seen = set()
    for place in range(1, 12, 3):
        async with stage([INNER, ALL], payer(), folder=tmp_path, crash=Crash(place, when)) as on:
            response = await on.run({"ns": [1, 2]})
            whole, usage = report(on, run=response.run_id).total, response.observability.usage
            assert whole.nanos == nanos_of(usage.cost_usd) == report(on, since="1d").total.nanos
            assert whole.input_tokens + whole.output_tokens == usage.tokens.input + usage.tokens.output
            assert (whole.settled.calls + whole.unknown.calls, whole.open.calls) == (4, 0)
            seen.add(response.status)
    assert seen == {"ok"}


async def test_a_call_under_way_is_open_with_what_it_has_reserved(tmp_path: Path) -> None:
    asked, answers = asyncio.Event(), asyncio.Event()

    class Slow(Counted):
        async def call(self, *told: Any) -> Any:
            asked.set()
            await answers.wait()
            return await super().call(*told)

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.language_model()
        return {}

    slow = worker(
        "w",
        body,
        Slow("language_model", Effect.READ, reservation=RESERVED, usage=USED),
        limits=RunLimits(tools=(ToolGrant("language_model"),)),
    )
    async with stage(graph_of(WorkerNode(name="n", worker="w", inputs={})), slow, folder=tmp_path) as on:
        running = asyncio.create_task(on.run())
        await asked.wait()
        total = report(on).total
        assert (total.open.calls, total.open.tokens, total.open.nanos, total.nanos) == (1, 20, NANO // 1000, 0)
        answers.set()
        await running
        assert report(on).total.open.calls == 0


class Silent(Counted):
    """A model that gets a call and never answers it."""

    def __init__(self) -> None:
        super().__init__("language_model", Effect.READ, reservation=RESERVED)
        self.asked = asyncio.Event()

    async def call(self, *told: Any) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("store", [":memory:", pytest.param(None, id="postgres")])
async def test_a_run_that_is_stopped_in_the_middle_of_a_call_costs_what_its_response_says(store: str | None, tmp_path: Path) -> None:
    silent = Silent()

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.language_model()
        return {}

    alone = worker("w", body, silent, limits=RunLimits(tools=(ToolGrant("language_model"),)))
    async with stage([], alone, folder=tmp_path, where=store or empty_store()) as on:
        running = asyncio.create_task(on.run(name="w"))
        await silent.asked.wait()
        (run,) = [x async for x in on.engine.list()]
        await on.engine._engine.stop(run.id)
        usage = (await running).observability.usage
        total = report(on, run=run.id).total
        assert (total.unknown.calls, total.open.calls, total.open.nanos, total.nanos) == (1, 0, 0, nanos_of(usage.cost_usd))
        assert total.nanos == NANO // 1000
        assert total == report(on).total, "the daily sums"


@pytest.mark.parametrize("fails", [True, False])
async def test_a_call_whose_body_is_gone_is_closed_and_costs_what_the_response_says(fails: bool, tmp_path: Path) -> None:
    silent = Silent()

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        left = asyncio.ensure_future(ctx.tools.language_model())
        await silent.asked.wait()
        left.cancel()
        if fails:
            raise RuntimeError("the body ends in the middle of its call")
        return {}

    alone = worker("w", body, silent, limits=RunLimits(tools=(ToolGrant("language_model"),)))
    async with stage([], alone, folder=tmp_path, policy=Policy(grace_seconds=0.01)) as on:
        response = await on.run(name="w")
        total, usage = report(on, run=response.run_id).total, response.observability.usage
        ends = [one.state.value for one in on.engine._store.ledger(response.run_id)]
        assert (response.error is not None, ends, total.open.calls, total.open.nanos) == (fails, ["reserved", "unknown"], 0, 0)
        assert total.nanos == nanos_of(usage.cost_usd) == NANO // 1000
        assert total.input_tokens + total.output_tokens == usage.tokens.input + usage.tokens.output == 20
