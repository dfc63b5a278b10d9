"""Estimates: the most that a run can cost is never below what it spends, and past runs tell what is usual."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli.approvals import _rest as shown_rest
from holdfast.cli.approvals import _say_unknown as say_unknown
from holdfast.contract.protocol import Constraints, WorkerRequest
from holdfast.contract.terms import Contract, RunLimits, ToolGrant
from holdfast.model.admission import Enqueue
from holdfast.model.ledger import NANO, CostSample, EntryState, nanos_of
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import checked_declaration
from holdfast.pipelines.estimate.amounts import Amount
from holdfast.pipelines.estimate.estimate import estimate
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import (
    After,
    AnyNode,
    Caps,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    MergePart,
    PipelineNode,
    Rule,
    SuperviseNode,
    Undo,
    UntilNode,
    WorkerNode,
)
from holdfast.service.store_approvals import StoreApprovals
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.prices import Price
from holdfast.workers.tools.seam import CallResult, Effect, Remaining, Reservation, ToolFailed, Usage
from tests import parts
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.postgres import empty_store
from tests.workers.harness import Counted, InlineWorker

PRICED = ModelSettings(model="m", prices={"m": Price(input=Decimal(1), output=Decimal(2))})
"""A token costs at most two millionths of a dollar: 2,000 billionths."""
TOKEN = 2_000
MODEL = (ToolGrant("language_model"),)


class Greedy(Counted):
    """A model that uses all that it may, in one call: what the run may still spend, at most 100 tokens; and then some more."""

    more: Iterator[int] = repeat(0)
    """The tokens of each call beyond its reservation."""

    def reserve(self, arguments: Any, remaining: Remaining) -> Reservation:
        tokens = min(100, 100 if remaining.tokens is None else remaining.tokens)
        if tokens <= 0:
            raise ToolFailed("budget_exceeded", "nothing is left")
        return Reservation(tokens, Decimal(tokens * TOKEN) / NANO, tokens, "m", "test")

    async def call(self, call: Any, arguments: Any, reservation: Reservation) -> CallResult:
        await super().call(call, arguments, reservation)
        more = next(self.more)
        return CallResult({}, Usage(0, reservation.tokens + more, reservation.cost_usd + Decimal(more * TOKEN) / NANO))


ANSWERS: dict[str, dict[str, Any]] = {
    "judge": {"verdict": "revise", "reasons": []},
    "boss": {"choice": "a", "reason": "again", "inputs": {}},
}


def spender(name: str, tokens: int | None, calls: int = 1, *, fails: bool = False, **more: Any) -> InlineWorker:
    """A worker that calls a model so often, within its cap of tokens."""

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for _ in range(calls):
            await ctx.tools.language_model()
        if fails:
            raise RuntimeError("it fails in the end")
        return ANSWERS.get(name, {})

    return worker(name, body, Greedy("language_model", Effect.READ), limits=RunLimits(tools=MODEL, max_tokens=tokens, **more))


def one(name: str = "a", worker: str = "w", **more: Any) -> WorkerNode:
    return WorkerNode(name=name, worker=worker, inputs={}, **more)


def mapped(**more: Any) -> MapNode:
    return MapNode(name="m", worker="w", over=ref("inputs", "ns"), inputs={}, at_most=10, **more)


LOOP: tuple[AnyNode, ...] = (one(), GateNode(name="g", candidate={"x": ref("a")}, worker="judge", revise="a", rounds=2))

CASES: dict[str, tuple[tuple[AnyNode, ...], dict[str, Any], int | None]] = {
    "a worker's cap counts once, whatever its attempts": ((one(),), {}, 50),
    "every fallback adds its cap": ((one(fallback=("big",)),), {}, 350),
    "an undo adds its cap": ((one(undo=Undo(worker="big")),), {}, 350),
    "a map counts its items": ((mapped(),), {"ns": [1, 2, 3]}, 150),
    "a map over something else counts at_most": ((mapped(),), {"ns": "?"}, 500),
    "a loop counts its rounds, the gate too": (LOOP, {}, 3 * (50 + 20)),
    "the caps of a node bound it": ((mapped(caps=Caps(max_tokens=120)),), {"ns": [1, 2, 3]}, 120),
    "a merge counts its worker and who decides conflicts": (
        (
            one(),
            MergeNode(name="g", parts=(MergePart("a", ref("a", "outputs")),), worker="w", conflicts="worker", resolver="big"),
        ),
        {},
        50 + 50 + 300,
    ),
    "a nested pipeline counts its nodes": ((one(worker="inner"),), {}, 50),
    "a node that looks again counts its rounds": (
        (UntilNode(name="u", worker="w", inputs={}, rules=(), at_most=4, every_seconds=1),),
        {},
        4 * 50,
    ),
    "a supervisor counts its turns, and the dearest worker in all turns but the last": (
        (SuperviseNode(name="s", worker="judge", inputs={}, choices={"a": "w", "b": "big"}, turns=3, undo={"a": "w"}),),
        {},
        3 * 20 + 2 * 300 + 2 * 50,
    ),
    "a pipeline node counts the nodes of its pipeline": ((PipelineNode(name="n", worker="inner", inputs={}),), {}, 50),
    "a worker without a model costs nothing": ((one(worker="plain"),), {}, 0),
    "a worker without a cap is not known": ((one(worker="endless"),), {}, None),
    "the cap of a node makes it known": ((one(worker="endless", caps=Caps(max_tokens=7, max_cost_usd=Decimal("0.1"))),), {}, 7),
}
INNER = graph_of(one("x"), name="inner")


def workers() -> tuple[InlineWorker, ...]:
    async def nothing(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {}

    known = (spender("w", 50), spender("big", 300, 3), spender("judge", 20), spender("endless", None))
    return (*known, worker("plain", nothing))


@pytest.mark.parametrize("case", CASES)
async def test_the_most_follows_from_caps_items_rounds_and_fallbacks(case: str, tmp_path: Path) -> None:
    nodes, inputs, tokens = CASES[case]
    async with stage([INNER, graph_of(*nodes)], *workers(), folder=tmp_path, model=PRICED) as on:
        told = on.estimates.of("p", inputs)
    nanos = None if tokens is None else tokens * TOKEN
    assert told.most == Amount(tokens, nanos)
    assert [gap.why for gap in told.gaps] == (["endless has neither max_tokens nor max_cost_usd"] if tokens is None else [])


async def test_a_price_that_is_not_known_is_told_by_name(tmp_path: Path) -> None:
    async with stage(graph_of(one()), *workers(), folder=tmp_path) as on:
        told = on.estimates.of("p")
    assert told.most == Amount(50, None)
    assert [(gap.node, "price" in gap.why) for gap in told.gaps] == [("a", True)]


class CountedCatalogue:
    """Pipelines that stand in each other, each with three nodes, and the worker `w`; it counts what it is asked."""

    def __init__(self, *graphs: Graph, tokens: int | None = 50) -> None:
        self._graphs = {graph.pipeline_id: graph for graph in graphs}
        self._worker = spender("w", tokens).contract
        self.asked = 0

    def contract(self, worker_id: str, version: str | None) -> Contract | None:
        self.asked += 1
        return self._worker if worker_id == "w" else contract_in(self._graphs[worker_id])

    def graph(self, worker_id: str, version: str | None) -> Graph | None:
        self.asked += 1
        return self._graphs.get(worker_id)

    def dearest(self) -> Decimal | None:
        return Decimal(TOKEN) / NANO


def thrice(name: str, worker: str) -> Graph:
    return graph_of(*(one(node, worker) for node in "abc"), name=name)


@pytest.mark.parametrize("tokens", [50, None])
def test_an_estimate_reads_each_nested_pipeline_once(tokens: int | None) -> None:
    deep = [thrice(f"p{at}", "w" if at == 12 else f"p{at + 1}") for at in range(13)]
    known, past = CountedCatalogue(*deep, tokens=tokens), [CostSample("a", "o", "r", 7, 0)]
    told = estimate(deep[0], None, known, samples=lambda pipeline: past if pipeline == "p3" else ())
    assert told.most.tokens == (None if tokens is None else 3**13 * tokens)
    assert told.p50 == Amount(3**3 * 7, 0)
    assert known.asked < 150
    assert {gap.node.partition("/")[0] for gap in told.gaps} == (set("abc") if tokens is None else set())
    assert len(told.gaps) <= 30
    assert {len(gap.node) for gap in told.gaps} <= {len("a/b/c/a/b/c/a/b/c/a/b/c/a")}


def test_pipelines_in_circles_are_read_up_to_a_bound_that_is_told() -> None:
    ring = [thrice(f"p{at}", f"p{(at + 1) % 12}") for at in range(12)]
    known = CountedCatalogue(*ring)
    told = estimate(ring[0], None, known)
    assert told.most == Amount(None, None)
    assert known.asked < 2 * 3 * 300
    assert any("would be one more" in gap.why for gap in told.gaps), told.gaps


# --- never below what is spent


NEVER = Rule(path=".absent", op="exists", code="absent")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains of nodes: workers that succeed, overspend and fail, with fallbacks, undos, maps, loops, supervisors, rounds, caps
    and a nested pipeline."""
    names = st.sampled_from(["w", "big", "fails", "inner"])
    nodes: list[AnyNode] = []
    for at in range(draw(st.integers(1, 4))):
        after = (After(f"n{at - 1}"),) if at else ()
        caps = draw(st.sampled_from([Caps(), Caps(), Caps(max_tokens=70)]))
        more: dict[str, Any] = {"after": after, "caps": caps, "on_failure": {"*": draw(st.sampled_from(["skip", "fail"]))}}
        more["fallback"] = tuple(draw(st.lists(names, max_size=2)))
        more["undo"] = draw(st.sampled_from([None, Undo(worker="w")]))
        kind = draw(st.sampled_from(["worker", "map", "until", "supervise"]))
        if kind == "supervise":
            del more["fallback"], more["undo"]
            undo = draw(st.sampled_from([{}, {"a": "w"}]))
            nodes.append(
                SuperviseNode(
                    name=f"n{at}", worker="boss", inputs={}, choices={"a": draw(names)}, turns=draw(st.integers(1, 3)), undo=undo, **more
                )
            )
        elif kind == "until":
            del more["fallback"], more["undo"]
            nodes.append(UntilNode(name=f"n{at}", worker=draw(names), inputs={}, rules=(NEVER,), at_most=2, every_seconds=1, **more))
        elif kind == "worker":
            nodes.append(WorkerNode(name=f"n{at}", worker=draw(names), inputs={}, **more))
        else:
            over = ref("inputs", "ns")
            nodes.append(
                MapNode(name=f"n{at}", worker=draw(names), over=over, inputs={}, at_most=3, tolerate=draw(st.integers(0, 3)), **more)
            )
    if draw(st.booleans()):
        loop: dict[str, Any] = {"worker": "judge", "revise": nodes[-1].name, "rounds": draw(st.integers(0, 2)), "on_block": "fail"}
        nodes.append(GateNode(name="gate", candidate={"x": ref(nodes[-1].name).copy() | {"default": None}}, **loop))
    return graph_of(*nodes, max_tokens=draw(st.sampled_from([None, 150])))


@settings(max_examples=parts.examples(60), deadline=None)
@given(graphs(), st.integers(0, 3), st.lists(st.sampled_from([0, 0, 7, 40]), min_size=1, max_size=3))
async def test_no_run_spends_more_than_the_most_and_the_overshoots_that_it_reports(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, items: int, more: list[int]
) -> None:
    served = (spender("w", 50), spender("big", 300, 3), spender("fails", 80, 1, fails=True), spender("judge", 20), spender("boss", 30))
    inner = graph_of(one("x", fallback=("big",)), one("y", after=(After("x"),)), name="inner")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Greedy, "more", cycle(more))
        async with stage([inner, graph], *served, folder=tmp_path_factory.mktemp("p"), model=PRICED) as on:
            inputs = {"ns": list(range(items))}
            most = on.estimates.of("p", inputs).most
            usage = (await on.run(inputs)).observability.usage
            tokens, cost = await overshoots(on)
    assert most.tokens is not None
    assert most.nanos is not None
    assert usage.tokens.input + usage.tokens.output <= most.tokens + tokens
    assert int(usage.cost_usd * NANO) <= most.nanos + nanos_of(cost)
    assert tokens == 0 or any(more)


async def overshoots(on: Stage) -> tuple[int, Decimal]:
    """What the runs of workers report in their logs, and the same by the entries of the ledger."""
    runs = [header.id for header in [x async for x in on.engine.list()] if header.function in ("w", "big", "fails", "judge", "boss")]
    lines = [line for run in runs for line in (await on.service.response(run, LOCAL)).logs if line["event"] == "overshoot"]
    ended = [entry for run in runs for entry in on.engine._store.ledger(run) if entry.state is EntryState.SETTLED]
    told = sum(line["tokens"] for line in lines), sum((Decimal(str(line["cost_usd"])) for line in lines), Decimal(0))
    beyond = [(max(0, one.output_tokens + one.held_tokens), max(0, one.nanos + one.held_nanos)) for one in ended]
    assert (told[0], nanos_of(told[1])) == (sum(tokens for tokens, _ in beyond), sum(nanos for _, nanos in beyond))
    return told


# --- what is usual, and what is left


async def test_past_runs_tell_what_a_node_usually_costs_and_a_map_counts_by_its_items(tmp_path: Path) -> None:
    graph = graph_of(one(), mapped(after=(After("a"),)))
    async with stage(graph, *workers(), folder=tmp_path, model=PRICED) as on:
        assert on.estimates.of("p").p50 is None
        for _ in range(3):
            await on.run({"ns": [1, 2]})
        on.estimates._read.clear()
        told = on.estimates.of("p", {"ns": [1, 2, 3, 4]}, tenant="default")
        other = on.estimates.of("p", {}, tenant="other")
    usual = {node.node: node.usual for node in told.nodes}
    assert {name: (one and one.p50.tokens, one and one.samples) for name, one in usual.items()} == {"a": (50, 3), "m": (200, 6)}
    assert (told.p50, told.p95) == (Amount(250, 250 * TOKEN), Amount(250, 250 * TOKEN))
    assert other.p50 is None, "the past of another tenant tells nothing"


async def test_past_runs_of_a_worker_tell_what_it_usually_costs_outside_pipelines(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for _ in range(inputs["calls"]):
            await ctx.tools.language_model()
        return {}

    caller = worker("caller", body, Greedy("language_model", Effect.READ), limits=RunLimits(tools=MODEL, max_tokens=1000))
    graph = graph_of(WorkerNode(name="a", worker="caller", inputs={"calls": 9}))
    async with stage(graph, caller, folder=tmp_path, model=PRICED, policy=Policy(estimate="typical")) as on:
        small: dict[str, Any] = {"name": "caller", "constraints": Constraints(max_tokens=300)}
        refused = await on.run({"calls": 1}, **small)
        assert on.estimates.of("caller").p50 is None
        await on.run()
        for calls in (1, 1, 3):
            await on.run({"calls": calls}, name="caller")
        on.estimates._read.clear()
        told = on.estimates.of("caller", tenant="default")
        capped = on.estimates.of("caller", limits=RunLimits(tools=MODEL, max_tokens=250))
        other = on.estimates.of("caller", tenant="other")
        began = await on.run({"calls": 1}, **small)
    assert refused.error is not None
    assert refused.error.error_code == "estimate_exceeded"
    assert (told.most.tokens, told.p50, told.p95) == (1000, Amount(100, 100 * TOKEN), Amount(300, 300 * TOKEN))
    assert [node.usual and node.usual.samples for node in told.nodes] == [3]
    assert (capped.p95, began.error) == (Amount(250, 250 * TOKEN), None)
    assert (other.p50, other.p95, other.nodes[0].usual) == (None, None, None), "the past of another tenant tells nothing"


async def test_the_rest_of_a_run_is_what_its_open_nodes_may_still_cost(tmp_path: Path) -> None:
    graph = graph_of(one(undo=Undo(worker="judge")), HumanNode(name="ok", show=ref("a", "outputs")), one("b", "big", after=(After("ok"),)))
    graph = msgspec.structs.replace(graph, steps=None)
    async with stage(graph, *workers(), folder=tmp_path, model=PRICED, clock=PatientClock()) as on:
        response = await on.run()
        header, accepted = await on.found(response.run_id)
        rest = on.estimates.rest(header, accepted)
        assert rest is not None
        assert [node.node for node in rest.nodes] == ["ok", "b"]
        assert rest.most.tokens == 300 + 20, "and the undo of what is done"
        (asked,) = on.service.approvals(LOCAL)
        assert on.estimates.with_rest(asked).may_cost == rest.brief(), "a person who is asked is told"
        await on.answer()
        await on.service.response(response.run_id, LOCAL)
        after = on.estimates.rest(*await on.found(response.run_id))
        assert after is not None
        assert after.nodes == ()


@pytest.mark.parametrize("tokens, most", [(300, {"tokens": 200, "cost_usd": 0.0004}), (None, {"tokens": None, "cost_usd": None})])
async def test_a_question_of_a_worker_without_a_pipeline_tells_what_its_caps_leave(
    tmp_path: Path, tokens: int | None, most: dict[str, Any]
) -> None:
    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.language_model()
        return {"said": await ctx.ask("go on?")}

    async def plain(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.ask("go on?")}

    caller = worker("asks", asks, Greedy("language_model", Effect.READ), limits=RunLimits(tools=MODEL, max_tokens=tokens))
    async with stage(
        graph_of(one(worker="asks")), caller, worker("plain", plain), folder=tmp_path, model=PRICED, clock=PatientClock()
    ) as on:
        told = {}
        for name in ("asks", "plain"):
            await on.run(name=name)
            (asked,) = [one for one in on.service.approvals(LOCAL) if one.worker_id == name]
            told[name] = on.estimates.with_rest(asked).may_cost
            alone = StoreApprovals(on.engine._store, on.clock).get(asked.approval_id).may_cost
            assert alone is not None
            assert alone["most"]["tokens"] == (told[name] or {})["most"]["tokens"], "also where no worker is served"
    assert told["asks"] == {"most": most, "p50": None, "p95": None}
    assert told["plain"] == {"most": {"tokens": 0, "cost_usd": 0.0}, "p50": None, "p95": None}


async def test_where_no_worker_is_served_past_runs_and_caps_tell_what_the_rest_may_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = graph_of(HumanNode(name="ok", show={}), one("b", "big", after=(After("ok"),)))
    capped = msgspec.structs.replace(graph_of(*graph.nodes, name="q", max_cost_usd=Decimal("0.5")), steps=None)
    async with stage(
        [msgspec.structs.replace(graph, steps=None), capped], *workers(), folder=tmp_path, model=PRICED, clock=PatientClock()
    ) as on:
        approvals, told = StoreApprovals(on.engine._store, on.clock), []
        for name in ("p", "p", "q"):
            run = (await on.run(name=name)).run_id
            (asked,) = approvals.list()
            assert [*approvals.list(run)] == [asked] == [approvals.get(asked.approval_id)]
            told.append((asked.may_cost or {}) | {"words": shown_rest(asked)})
            say_unknown([asked])
            await on.answer()
            await on.service.response(run, LOCAL)
    assert [one["most"]["cost_usd"] for one in told] == [None, None, 0.5]
    assert (told[0]["p50"], told[1]["p50"]["tokens"]) == (None, 300)
    assert [one["words"].partition(",")[0] for one in told] == ["at most unknown here", "at most unknown here", "at most $0.5"]
    assert capsys.readouterr().err.count("unknown here; a server of the workers tells it: GET /v1/approvals/a_") == 2


# --- before a run begins


@pytest.mark.parametrize(
    "policy, constraints, code",
    [
        (Policy(), {"max_cost_usd": Decimal("0.0001")}, None),
        (Policy(estimate="worst"), {}, None),
        (Policy(estimate="worst"), {"max_tokens": 350}, None),
        (Policy(estimate="worst"), {"max_tokens": 349}, "estimate_exceeded"),
        (Policy(estimate="worst"), {"max_cost_usd": Decimal("0.0005")}, "estimate_exceeded"),
        (Policy(estimate="typical"), {"max_tokens": 349}, "estimate_exceeded"),
        (Policy(estimate="worst", caps=DayCaps(tokens=349)), {}, "estimate_exceeded"),
        (Policy(estimate="worst", tenant_caps={"other": DayCaps(tokens=1)}), {}, None),
    ],
)
async def test_a_run_that_may_cost_more_than_is_allowed_does_not_begin(
    policy: Policy, constraints: dict[str, Any], code: str | None, tmp_path: Path
) -> None:
    graph = graph_of(one(fallback=("big",)), max_tokens=1000, max_cost_usd=Decimal(1))
    async with stage(graph, *workers(), folder=tmp_path, model=PRICED, policy=policy) as on:
        response = await on.run(constraints=Constraints(**constraints))
        began = [run.function for run in [x async for x in on.engine.list()]]
    refused = response.error is not None and response.error.error_code == "estimate_exceeded"
    assert (refused, began == []) == ((True, True) if code else (False, False)), response.error


async def test_what_is_usual_lets_a_run_begin_whose_most_is_too_much(tmp_path: Path) -> None:
    graph = graph_of(one(fallback=("big",)), max_tokens=1000)
    async with stage(graph, *workers(), folder=tmp_path, model=PRICED, policy=Policy(estimate="typical")) as on:
        first = await on.run(constraints=Constraints(max_tokens=100))
        await on.run()
        on.estimates._read.clear()
        then = await on.run(constraints=Constraints(max_tokens=100))
    assert first.error is not None
    assert (first.error.error_code, then.error) == ("estimate_exceeded", None)


async def test_a_key_that_has_a_run_finds_it_whatever_a_new_run_may_cost(tmp_path: Path) -> None:
    policy = Policy(estimate="worst", caps=DayCaps(tokens=399))
    async with stage(graph_of(one(fallback=("big",))), *workers(), folder=tmp_path, model=PRICED, policy=policy) as on:
        first = await on.run(idempotency_key="k")
        again, other = await on.run(idempotency_key="k"), await on.run(idempotency_key="other")
    assert (first.run_id, first.error) == (again.run_id, None)
    assert other.error is not None
    assert other.error.error_code == "estimate_exceeded"


async def test_a_refusal_tells_what_the_run_may_cost_and_what_the_caller_allows_without_powers_of_ten(tmp_path: Path) -> None:
    async with stage(graph_of(one()), *workers(), folder=tmp_path, model=PRICED, policy=Policy(estimate="worst")) as on:
        refused = await on.run(constraints=Constraints(max_cost_usd=Decimal("0.00001")))
    assert refused.error is not None
    assert re.fullmatch(
        r"The run may cost \$[0-9.]+, and the caller allows \$0\.00001 \(policy\.estimate = 'worst'\)\.", refused.error.message
    )


# --- a queue's depth by money


async def _enqueued(on: Stage, inputs: dict[str, Any]) -> str:
    header = await on.service.enqueue(WorkerRequest(worker_id="p", inputs=inputs), LOCAL, Enqueue(queue="jobs"))
    return header.id


@pytest.mark.parametrize("where", [":memory:", pytest.param("postgres", marks=pytest.mark.long)])
async def test_a_queue_takes_no_more_than_its_money_allows_and_an_empty_one_takes_any_run(tmp_path: Path, where: str) -> None:
    where = empty_store() if where == "postgres" else where
    async with stage(graph_of(mapped()), *workers(), folder=tmp_path, where=where, model=PRICED) as on:
        store = on.engine._store
        store.declare([checked_declaration("jobs", {"most_waiting_usd": 0.0005})])
        store.set_queue(on.paused(store.queue("jobs")))
        ten = {"ns": list(range(10))}  # 500 tokens, a thousandth of a dollar
        await _enqueued(on, ten)
        assert store.queue_state("jobs", on.clock.now()).money == 500 * TOKEN
        with pytest.raises(QueueFull) as full:
            await _enqueued(on, {"ns": [1]})
        assert full.value.retry_after_seconds > 0
        assert "$0.00" in str(full.value)
        assert store.queue_state("jobs", on.clock.now()).waiting == 1


@pytest.mark.parametrize("where", [":memory:", pytest.param("postgres", marks=pytest.mark.long)])
async def test_money_leaves_the_queue_with_its_runs(tmp_path: Path, where: str) -> None:
    where = empty_store() if where == "postgres" else where
    async with stage(graph_of(mapped()), *workers(), folder=tmp_path, where=where, model=PRICED) as on:
        store = on.engine._store
        store.declare([checked_declaration("jobs", {"most_waiting_usd": 1, "limits": {"at_once": 1}})])
        runs = [await _enqueued(on, {"ns": [1]}) for _ in range(4)]
        for run in runs:
            await on.service.response(run, LOCAL)
        state = store.queue_state("jobs", on.clock.now())
        assert (state.waiting, state.money) == (0, 0)
