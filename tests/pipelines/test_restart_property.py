"""Any pipeline that fails here and there and is retried, restarted and retried again ends as one that never failed, and writes once."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.terms import ToolGrant
from holdfast.pipelines.graph.graph import AnyNode, GateNode, Graph, MapNode, PipelineNode, Rule, SuperviseNode, WorkerNode
from holdfast.restarts.runs import RETRY, RestartAsked, restart_run
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.tools.seam import Effect
from tests import parts
from tests.pipelines.stage import LOCAL, PatientClock, graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.workers.harness import Counted

ROUNDS = 3


class World:
    """A board on which workers post, and the failures that it has in store for them."""

    def __init__(self) -> None:
        self.posted: Counter[str] = Counter()
        self.broken: dict[str, str] = {}
        """By what is posted: whether its worker fails before the post or after it."""

    def post(self, what: str) -> dict[str, Any]:
        self.posted[what] += 1
        return {"on": what}

    async def work(self, inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        what = f"{inputs['name']}/{inputs.get('item', '')}"
        if self.broken.get(what) == "before":
            raise WorkerError("broken", "before it posts")
        await ctx.tools.post(what=what)
        if self.broken.get(what) == "after":
            raise WorkerError("broken", "after it has posted")
        return {"v": [what, inputs["from"]]}


async def boss(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """A supervisor that lets two posts be made, gives up if one fails, and else finishes."""
    so_far = inputs["so_far"]
    if so_far and so_far[-1]["status"] != "ok":
        raise WorkerError("broken", "what it chose has failed")
    if len(so_far) == 2:
        return {"choice": "finish", "reason": "all is posted", "outputs": {"v": [one["outputs"]["v"] for one in so_far]}}
    asked = {"name": inputs["name"], "item": str(len(so_far) + 1), "from": inputs["from"]}
    return {"choice": "a", "reason": "the next one", "inputs": asked}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[str]]:
    """A pipeline, and everything that it posts: nodes that use one another, maps, gates, supervisors and pipelines inside."""
    nodes: list[AnyNode] = []
    posts: list[str] = []
    for at in range(draw(st.integers(2, 5))):
        name = f"n{at}"
        used = [nodes[number].name for number in sorted(draw(st.sets(st.integers(0, at - 1), max_size=2)))] if at else []
        value: Any = [out(each, "v") if not each.startswith("m") else ref(each, "counts") for each in used]
        match draw(st.sampled_from(["worker", "worker", "map", "pipeline", "gate", "supervise"])):
            case "supervise":
                told = {"name": name, "from": value}
                nodes.append(SuperviseNode(name=name, worker="boss", inputs=told, choices={"a": "w"}, turns=4))
                posts += [f"{name}/1", f"{name}/2"]
            case "map":
                name = f"m{at}"
                each = {"name": name, "item": ref("item"), "from": value}
                at_once = draw(st.sampled_from((1, 2)))
                nodes.append(MapNode(name=name, worker="w", over=["x", "y"], inputs=each, at_most=5, at_once=at_once))
                posts += [f"{name}/x", f"{name}/y"]
            case "gate":
                nodes.append(GateNode(name=name, candidate={"v": value}, rules=(Rule(path=".v", op="exists"),)))
            case "pipeline":
                nodes.append(PipelineNode(name=name, worker="inner", inputs={"name": name, "from": value}))
                posts += [f"{name}/1", f"{name}/2"]
            case _:
                nodes.append(WorkerNode(name=name, worker="w", inputs={"name": name, "from": value}))
                posts.append(f"{name}/")
    gives = {node.name: ref(node.name, "counts") if isinstance(node, MapNode) else out(node.name, "v") for node in nodes}
    return msgspec.structs.replace(graph_of(*nodes, gives=gives), steps=None), posts


def inner() -> Graph:
    first = {"name": ref("inputs", "name"), "item": "1", "from": ref("inputs", "from")}
    second = {"name": ref("inputs", "name"), "item": "2", "from": out("first", "v")}
    nodes = (WorkerNode(name="first", worker="w", inputs=first), WorkerNode(name="second", worker="w", inputs=second))
    return msgspec.structs.replace(graph_of(*nodes, name="inner", gives={"v": out("second", "v")}), steps=None)


async def played(graph: Graph, failures: list[dict[str, str]], restarted: str | None) -> tuple[Any, Counter[str]]:
    """What a pipeline gives, run with these failures, retried as often as there are more, and at last restarted from a node."""
    world = World()
    tool = Counted("post", Effect.WRITE, world.post)
    with tempfile.TemporaryDirectory() as folder:
        poster = worker("w", world.work, tool, grants=(ToolGrant("post"),))
        async with stage([inner(), graph], poster, worker("boss", boss), folder=Path(folder), clock=PatientClock()) as made:
            world.broken = failures[0]
            response = await made.run()
            asks = [RETRY for _ in failures[1:]] + ([RestartAsked(nodes=(restarted,))] if restarted else [])
            for broken, asked in zip([*failures[1:], {}], asks, strict=False):
                if response.status is ResponseStatus.OK and not asked.nodes:
                    continue
                world.broken = broken
                header, accepted = await restart_run(made.service, response.run_id, LOCAL, asked)
                response = await made.service.wait_for(header, accepted, wait=20)
    assert response.status is ResponseStatus.OK, response.error
    return response.outputs, world.posted


@settings(max_examples=parts.examples(60), deadline=None)
@given(graphs(), st.data())
async def test_whatever_fails_and_is_retried_ends_as_if_nothing_had_failed_and_posts_once(
    made: tuple[Graph, list[str]], data: st.DataObject
) -> None:
    graph, posts = made
    one = st.dictionaries(st.sampled_from(posts), st.sampled_from(["before", "after"]), max_size=3) if posts else st.just({})
    failures = data.draw(st.lists(one, min_size=1, max_size=ROUNDS))
    restarted = data.draw(st.sampled_from([None, *(node.name for node in graph.nodes)]))
    expected, _ = await played(graph, [{}], None)
    outputs, posted = await played(graph, [*failures, {}], restarted)
    assert outputs == expected
    assert posted == Counter(posts)
