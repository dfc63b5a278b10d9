"""How a pipeline runs: its diagram, its edges, its children, its events, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Constraints
from holdfast.contract.terms import Retries
from holdfast.model.execution import ExecutionStatus
from holdfast.pipelines.graph.graph import After, GateNode, HumanNode, MapNode, Rule, Undo, WorkerNode
from holdfast.pipelines.graph.structure import structure_of
from holdfast.pipelines.record.states import node_states
from holdfast.store.seam import Filter
from holdfast.workers.approvals import ApproverRefused
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.events import events_so_far
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import accepted_in, run_views
from tests.pipelines.cases import rested
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import out, ref


async def _echo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return inputs


async def _fails(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    raise WorkerError("broken_part", "it is broken")


async def test_a_value_that_does_not_fit_names_the_edge_it_came_by(tmp_path: Path) -> None:
    takes = {"type": "object", "properties": {"report": {"type": "object", "properties": {"title": {"type": "string"}}}}}
    graph = graph_of(
        WorkerNode(name="facts", worker="echo", inputs={"name": 7}),
        WorkerNode(name="publish", worker="strict", inputs={"report": {"title": out("facts", "name")}}),
    )
    async with stage(graph, worker("echo", _echo), worker("strict", _echo, takes=takes), folder=tmp_path) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.error.error_code, response.error.retryable, response.status) == ("edge_mismatch", False, ResponseStatus.INVALID_OUTPUT)
    (edge,) = response.error.details["details"]["edges"]
    assert (edge["from"], edge["to"]) == ("facts.outputs.name", "publish.report.title")


async def test_large_data_goes_by_reference_and_a_path_leads_into_it(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def large(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"page": {"title": "T", "text": "x" * 5000}, "small": 1}

    async def reads(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        seen.append(inputs)
        return {"length": len(inputs["page"]["text"])}

    graph = graph_of(
        WorkerNode(name="a", worker="large", inputs={}),
        WorkerNode(name="b", worker="reads", inputs={"page": out("a", "page"), "title": out("a", "page", "title")}),
        gives={"length": out("b", "length")},
    )
    policy = Policy(inline_artifact_bytes=1000)
    async with stage(graph, worker("large", large), worker("reads", reads), folder=tmp_path, policy=policy) as made:
        response = await made.run()
        children = made.engine._engine.store.list(Filter(parent=response.run_id))
        stored = [made.engine._engine.store.input(child.id) for child in children if child.function == "reads"]
    assert response.outputs == {"length": 5000}
    assert seen[0]["title"] == "T"
    assert "$artifact" in stored[0]
    assert "xxxx" not in stored[0]


async def test_each_change_of_a_node_is_one_event_with_an_id_that_never_changes(tmp_path: Path) -> None:
    graph = graph_of(
        WorkerNode(name="a", worker="echo", inputs={}),
        WorkerNode(name="b", worker="fails", inputs={}, on_failure={"*": "skip"}),
        WorkerNode(name="c", worker="echo", inputs={"b": out("b")}),
    )

    async def told(made: Stage, run_id: str) -> list[tuple[int | str | None, str, str]]:
        heard = [event async for event in made.service.follow(run_id, LOCAL)]
        return [(one.id, one.data["node"], one.data["state"]) for one in heard if one is not None and one.event == "node"]

    async with stage(graph, worker("echo", _echo), worker("fails", _fails), folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
        first, again = await told(made, response.run_id), await told(made, response.run_id)
    assert first == again
    states = [(node, state) for _, node, state in first]
    assert {("a", "running"), ("a", "ok"), ("b", "running"), ("b", "skipped"), ("c", "skipped")} == set(states)
    assert len(states) == len(set(states))


async def test_a_pipeline_runs_in_a_pipeline_and_is_partial_if_its_part_is(tmp_path: Path) -> None:
    inner = graph_of(
        WorkerNode(name="x", worker="fails", inputs={}, on_failure={"*": "skip"}),
        WorkerNode(name="y", worker="echo", inputs={"n": ref("inputs", "n")}),
        gives={"n": out("y", "n")},
        name="inner",
    )
    outer = graph_of(WorkerNode(name="a", worker="inner", inputs={"n": 5}), gives={"n": out("a", "n")})
    async with stage([inner, outer], worker("echo", _echo), worker("fails", _fails), folder=tmp_path) as made:
        response = await made.run()
    assert (response.outputs, response.observability.partial) == ({"n": 5}, True)


async def test_a_cancel_reaches_the_runs_of_a_pipeline_inside_a_pipeline(tmp_path: Path) -> None:
    inner = graph_of(WorkerNode(name="x", worker="slow", inputs={}), name="inner")
    outer = graph_of(WorkerNode(name="a", worker="inner", inputs={}))
    slow = worker("slow", _times_out, retries=Retries(max_attempts=2, initial_delay_seconds=9e4, max_delay_seconds=9e4))
    async with stage([inner, outer], slow, folder=tmp_path, clock=PatientClock()) as made:
        waiting = await made.run(wait=0)
        await rested(made, waiting.run_id)
        response = await made.service.cancel(waiting.run_id, LOCAL)
        left = made.engine._engine.store.list(Filter(statuses=(ExecutionStatus.RUNNING,)))
    assert response.error is not None
    assert (response.error.error_code, list(left)) == ("cancelled", [])


async def _times_out(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    raise WorkerError("timeout")


async def test_a_revised_node_gets_the_round_the_reasons_and_what_it_gave_before(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def writes(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        seen.append(inputs.get("revision"))
        return {"n": len(seen)}

    takes = {"type": "object", "properties": {"revision": {"type": "object"}}}
    graph = graph_of(
        WorkerNode(name="a", worker="writes", inputs={}),
        GateNode(name="g", candidate=out("a"), rules=(Rule(path=".n", op="at_least", value=2, code="few"),), revise="a", rounds=1),
        gives=out("a"),
    )
    async with stage(graph, worker("writes", writes, takes=takes), folder=tmp_path) as made:
        response = await made.run()
    assert response.outputs == {"n": 2}
    first, second = seen
    assert first is None
    assert (second["round"], second["reasons"][0]["code"], second["previous"]) == (2, "few", {"n": 1})


async def test_undo_goes_backwards_with_the_inputs_and_outputs_of_each_node(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def undo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        undone.append(inputs)
        return {}

    graph = graph_of(
        WorkerNode(name="a", worker="echo", inputs={"n": 1}, undo=Undo(worker="undo")),
        WorkerNode(name="b", worker="echo", inputs={"n": out("a", "n"), "m": 2}, undo=Undo(worker="undo", inputs={"which": out("b", "m")})),
        WorkerNode(name="c", worker="fails", inputs={"b": out("b")}),
    )
    async with stage(graph, worker("echo", _echo), worker("fails", _fails), worker("undo", undo), folder=tmp_path) as made:
        await made.run()
    assert undone == [{"which": 2}, {"inputs": {"n": 1}, "outputs": {"n": 1}}]


async def test_the_undo_of_a_round_sees_no_value_of_a_later_round(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def undo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        undone.append(inputs)
        return {}

    async def counts(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": (inputs.get("revision") or {}).get("round", 1)}

    async def fails_first(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return inputs if inputs["n"] > 1 else await _fails(inputs, ctx)

    takes = {"type": "object", "properties": {"revision": {"type": "object"}}}
    seen = {"n": out("a", "n"), "m": out("m", "n", default=None)}
    graph = graph_of(
        WorkerNode(name="a", worker="counts", inputs={}),
        WorkerNode(name="m", worker="fails-first", inputs={"n": out("a", "n")}, on_failure={"*": "skip"}),
        WorkerNode(name="b", worker="echo", inputs=seen, undo=Undo(worker="undo", inputs=seen)),
        GateNode(name="g", candidate=out("b"), rules=(Rule(path=".n", op="at_least", value=2),), revise="a", rounds=1),
        WorkerNode(name="z", worker="fails", inputs={"b": out("g")}),
    )
    bodies = {"fails-first": fails_first, "echo": _echo, "undo": undo, "fails": _fails}
    workers = [worker("counts", counts, takes=takes), *(worker(name, body) for name, body in bodies.items())]
    async with stage(graph, *workers, folder=tmp_path) as made:
        await made.run()
    assert undone == [{"n": 2, "m": 2}, {"n": 1, "m": None}]


async def test_outputs_that_do_not_fit_the_contract_undo_what_was_done(tmp_path: Path) -> None:
    undone: list[Any] = []

    async def undo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        undone.append(inputs["outputs"])
        return {}

    needs = {"type": "object", "required": ["url"]}
    graph = graph_of(WorkerNode(name="a", worker="echo", inputs={"n": 1}, undo=Undo(worker="undo")), gives=out("a"), schema=needs)
    async with stage(graph, worker("echo", _echo), worker("undo", undo), folder=tmp_path) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.status, response.error.error_code, undone) == ("invalid_output", "output_schema_mismatch", [{"n": 1}])


async def test_no_part_of_a_run_outlives_it_and_its_questions_are_withdrawn(tmp_path: Path) -> None:
    graph = graph_of(
        WorkerNode(name="a", worker="echo", inputs={}, undo=Undo(worker="slow")),
        HumanNode(name="h", show={"x": 1}, after=(After("a"),)),
        WorkerNode(name="s", worker="slow", inputs={}, after=(After("a"),)),
    )
    slow = worker("slow", _times_out, retries=Retries(max_attempts=2, initial_delay_seconds=9e4, max_delay_seconds=9e4))
    async with stage(graph, worker("echo", _echo), slow, folder=tmp_path, clock=PatientClock()) as made:
        waiting = await made.run(wait=0)
        await rested(made, waiting.run_id)
        (question,) = made.service.approvals(LOCAL)
        assert (question.node, question.kind, question.arguments) == ("h", "approve", {"x": 1})
        await made.cancel(waiting.run_id)
        await rested(made, waiting.run_id)  # the undo is under way
        header = made.engine._engine.store.find(waiting.run_id)
        assert header is not None
        assert header.status is ExecutionStatus.RUNNING
        assert made.service.approvals(LOCAL) == []
        states = {one.node: one for one in node_states(graph, structure_of(graph), header, made.engine._engine.store.operations(header.id))}
        accepted = accepted_in(made.engine._engine.store, header)
        assert accepted is not None
        told = events_so_far(made.engine._engine.store, header.id, accepted)
    assert tuple(states[name].state for name in "ahs") == ("ok", "failed", "failed")
    assert [one.data["state"] for one in told if one.event == "approval"] == ["open", "withdrawn"]


async def test_nodes_say_what_they_wait_for(tmp_path: Path) -> None:
    graph = graph_of(
        WorkerNode(name="a", worker="echo", inputs={}),
        HumanNode(name="h", show=out("a")),
        WorkerNode(name="z", worker="echo", inputs={}, after=(After("h"),)),
    )
    async with stage(graph, worker("echo", _echo), folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
        assert (response.error and response.error.error_code) == "approval_required"
        store = made.engine._engine.store
        header = store.find(response.run_id)
        assert header is not None
        found = {one.node: one for one in node_states(graph, structure_of(graph), header, store.operations(header.id))}
        (approval,) = made.service.approvals(LOCAL)
    assert tuple(found[name].state for name in "ahz") == ("ok", "waiting", "waiting")
    assert ((approval.approval_id,), ("h",)) == (found["h"].waits_for, found["z"].waits_for)


async def test_only_the_approvers_of_a_node_decide(tmp_path: Path) -> None:
    graph = graph_of(HumanNode(name="h", show={"x": 1}, approvers=("bob",)), gives={"by": ref("h", "decided_by")})
    async with stage(graph, folder=tmp_path, clock=PatientClock()) as made:
        waiting = await made.run()
        with pytest.raises(ApproverRefused):
            await made.answer("approve", by="ann")
        await made.answer("approve", by="bob")
        response = await made.service.response(waiting.run_id, LOCAL, wait=20)
    assert response.outputs == {"by": "bob"}


async def test_the_same_key_gives_the_same_response_and_runs_nothing_twice(tmp_path: Path) -> None:
    calls: list[int] = []

    async def counts(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        calls.append(1)
        return {}

    graph = graph_of(WorkerNode(name="a", worker="counts", inputs={}))
    async with stage(graph, worker("counts", counts), folder=tmp_path) as made:
        first = await made.run({"n": 1}, idempotency_key="k")
        second = await made.run({"n": 1}, idempotency_key="k")
        third = await made.run({"n": 2}, idempotency_key="k")
    assert (first.run_id, 1) == (second.run_id, len(calls))
    assert (third.error and third.error.error_code) == "idempotency_conflict"


async def test_a_request_may_tighten_the_time_of_a_run_and_never_widen_it(tmp_path: Path) -> None:
    graph = graph_of(WorkerNode(name="a", worker="echo", inputs={}), run_timeout_seconds=100)
    async with stage(graph, worker("echo", _echo), folder=tmp_path) as made:
        wide = await made.run(run_timeout_seconds=200)
        tight = await made.run(run_timeout_seconds=50, constraints=Constraints())
        header = made.engine._engine.store.find(tight.run_id)
    assert (wide.error and wide.error.error_code) == "constraint_widened"
    assert header is not None
    assert (tight.status, header.deadline - header.started_at > 50_000) == (ResponseStatus.OK, True)


async def test_a_caller_cannot_pass_for_a_shard(tmp_path: Path) -> None:
    """A shard is recognised by its package, which no request can name."""
    graph = graph_of(WorkerNode(name="a", worker="echo", inputs={"given": ref("inputs")}), gives=out("a"))
    shard = {"pipeline": "p", "visit": {"node": "a"}, "part": "work", "first": 0, "failed": 0, "task.workers": ["echo"]}
    async with stage(graph, worker("echo", _echo), folder=tmp_path) as made:
        response = await made.run(shard)
    assert {"given": shard} == response.outputs
    assert msgspec.json.encode(response)


async def test_a_caller_learns_that_a_run_below_waits_for_a_person(tmp_path: Path) -> None:
    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.ask("Which colour?")}

    graph = graph_of(WorkerNode(name="a", worker="asks", inputs={}), gives=out("a"))
    async with stage(graph, worker("asks", asks), folder=tmp_path, clock=PatientClock()) as made:
        waiting = await made.run()
        assert waiting.error is not None
        assert (waiting.status, waiting.error.error_code) == (ResponseStatus.NEEDS_HUMAN, "approval_required")
        (approval,) = waiting.approvals
        (listed,) = made.service.approvals(LOCAL)
        assert approval["approval_id"] == listed.approval_id
        await made.answer("answer", result="red")
        response = await made.service.response(waiting.run_id, LOCAL, wait=20)
    assert response.outputs == {"said": "red"}


async def test_the_shards_of_a_map_are_no_runs_in_lists(tmp_path: Path) -> None:
    graph = graph_of(MapNode(name="m", worker="echo", over=[1, 2], inputs={"n": ref("item")}, at_most=5))
    async with stage(graph, worker("echo", _echo), folder=tmp_path) as made:
        response = await made.run()
        listed = [one.header.id for one in run_views(made.engine._engine.store, LOCAL, worker="p", limit=10)]
    assert listed == [response.run_id]
