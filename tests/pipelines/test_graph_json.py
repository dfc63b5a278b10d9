"""Graphs as JSON: both ways equal, one id for one graph, and a reader that answers any text with a graph or a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.graph.edges import edges_of
from holdfast.pipelines.graph.graph import (
    After,
    GateNode,
    Graph,
    HumanNode,
    MergeNode,
    MergePart,
    RouteNode,
    StepNode,
    WaitNode,
    WorkerNode,
)
from holdfast.pipelines.graph.graph_json import graph_from, graph_id, graph_text, text_id
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.resolved_templates import resolved
from tests import parts
from tests.pipelines.values import CONTRACT, GRAPHS, RULE, WHOLE

TEXT = graph_text(WHOLE)


@settings(max_examples=parts.examples(300))
@given(GRAPHS)
def test_a_graph_is_read_back_as_it_was_written(graph: Graph) -> None:
    text = graph_text(graph)
    again = graph_from(text)
    assert again == graph
    assert graph_text(again) == text
    assert graph_id(again) == graph_id(graph) == text_id(text)
    assert json.loads(text)["format"] == 1


def test_the_whole_graph_is_read_back() -> None:
    assert graph_from(TEXT) == WHOLE
    assert re.fullmatch("[0-9a-f]{64}", graph_id(WHOLE))
    assert WHOLE.pipeline_id == "trial"
    assert WHOLE.node("tidy") is WHOLE.nodes[9]


def test_what_equals_a_default_is_left_out_whichever_object_it_is() -> None:
    said = {"kind": "human", "name": "h", "show": 1, "votes": 1, "question": "", "on_reject": "fail", "within_seconds": 604800, "then": []}
    graph = msgspec.structs.replace(WHOLE, nodes=(HumanNode(name="h", show=1),), gives={})
    told = json.loads(graph_text(graph))
    assert told["nodes"] == [{"kind": "human", "name": "h", "show": 1}]
    assert graph_id(graph_from(json.dumps(told | {"nodes": [said]}))) == graph_id(graph)


def test_the_id_depends_on_what_the_graph_says_and_not_on_how() -> None:
    spaced = json.dumps(json.loads(TEXT), indent=2)
    said = json.loads(TEXT)
    said["nodes"][1]["caps"] = {}
    said["nodes"][0]["caps"]["max_cost_usd"] = 0.5
    assert graph_id(graph_from(spaced)) == graph_id(graph_from(json.dumps(said))) == graph_id(WHOLE)
    assert graph_id(msgspec.structs.replace(WHOLE, gates="advised")) != graph_id(WHOLE)


def changed(**node: Any) -> str:
    """A graph of one worker node, with these members in place of the right ones."""
    right = {"kind": "worker", "name": "one", "worker": "w", "inputs": {}}
    return json.dumps({"format": 1, "contract": CONTRACT, "gives": {}, "nodes": [{**right, **node}]})


DEEP = json.loads("[" * 90 + "]" * 90)


@pytest.mark.parametrize(
    "text, told, where",
    [
        ("", "not JSON", ""),
        ("nonsense", "not JSON", ""),
        (b"\xff\xfe", "not JSON", ""),
        ("[]", "Expected `object`", ""),
        ("{}", "missing required field `format`", ""),
        ('{"format": 2}', "the format 2", "format"),
        ('{"format": "1"}', "Expected `int`", "format"),
        ('{"format": 1}', "missing required field `contract`", ""),
        ("[" * 1_000_000, "objects and lists", ""),
        ("[" * 5000 + "]" * 5000, "100 levels deep", ""),
        ('{"format": ' + "9" * 5000 + "}", "more than 1000 digits", ""),
        ('{"format":1,"nodes":[' + '{"kind":"wait","name":"a","seconds":1},' * 1_000_000 + "]}", "at most 1048576 are allowed", ""),
        (changed(kind="loop"), "Invalid value", "nodes[0].kind"),
        (changed(extra=1), "unknown field `extra`", "nodes[0]"),
        (changed(name="A"), "not a name of a node", "nodes[0].name"),
        (changed(name="x" * 65), "not a name of a node", "nodes[0].name"),
        (changed(name="inputs"), "is reserved", "nodes[0].name"),
        (changed(name="a\nb"), "not a name of a node", "nodes[0].name"),
        (changed(worker="../etc"), "not the id of a worker", "nodes[0].worker"),
        (changed(inputs={"$from": "x" * 65}), "the name of a node", "nodes[0].inputs"),
        (changed(inputs={"a": {"$eval": 1}}), "not a form of a template", "nodes[0].inputs.a"),
        (changed(inputs={"a": {"$from": "item"}}), "only in the inputs of a map", "nodes[0].inputs.a"),
        (changed(inputs=DEEP), "more than 32 levels", "nodes[0].inputs"),
        (changed(inputs={"$const": DEEP}), "more than 32 levels", "nodes[0].inputs"),
        (changed(inputs={"$const": "x" * 70_000}), "more than 65536 bytes", "nodes[0].inputs"),
        (changed(caps={"max_cost_usd": "NaN"}), "not an allowed amount", "nodes[0].caps.max_cost_usd"),
        (changed(caps={"max_cost_usd": "1e-999999"}), "not an allowed amount", "nodes[0].caps.max_cost_usd"),
        (changed(caps={"timeout_seconds": 0}), "at least 1", "nodes[0].caps.timeout_seconds"),
        (changed(after=[{"node": "A B"}]), "not a name", "nodes[0].after[0]"),
        (changed(on_failure={"no code": "skip"}), "not an error code", "nodes[0].on_failure"),
        (changed(on_failure={"*": "retry"}), "Invalid enum value", "nodes[0].on_failure"),
        (changed(when={"value": 1, "rules": [{"path": "x", "op": "exists"}]}), "not understood", "nodes[0].when.rules[0].path"),
        (changed(kind="map", over=[], at_most=100_001), "at most 100000", "nodes[0].at_most"),
        (changed(kind="map", over=[], at_most=10**30), "at most 100000", "nodes[0].at_most"),
    ],
)  # fmt: skip
def test_a_hostile_text_is_refused_with_what_and_where(text: str | bytes, told: str, where: str) -> None:
    with pytest.raises(PipelineInvalid) as refused:
        graph_from(text)
    assert told in refused.value.what
    assert refused.value.where.startswith(where)
    assert refused.value.code == "pipeline_invalid"
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(
    "node, told",
    [
        (GateNode(name="g", candidate=1, rules=(RULE,), rounds=21), "rounds is 21"),
        (GateNode(name="g", candidate=1), "needs a worker, a schema or rules"),
        (MergeNode(name="m", parts=(), policy="union"), "at least one part"),
        (MergeNode(name="m", parts=(MergePart("a", 1), MergePart("a", 2)), policy="union"), "the same `source`"),
        (MergeNode(name="m", parts=(MergePart("a", 1),)), "either `policy` or `worker`"),
        (RouteNode(name="r", labels=("a",), value=1, otherwise="b"), "not one of the labels"),
        (RouteNode(name="r", labels=("a",), value=1, rules={"b": ()}), "not one of the labels"),
        (HumanNode(name="h", show=1, question="x" * 5000), "5000 characters"),
        (StepNode(name="s", function="__import__", inputs=1), "not a name of a function"),
        (WaitNode(name="w", seconds=10**9), "seconds is 1000000000"),
    ],
)
def test_a_node_beyond_its_bounds_is_refused(node: Any, told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        graph_from(graph_text(Graph(contract=CONTRACT, nodes=(node,), gives={})))


def test_two_nodes_of_one_name_and_too_many_nodes_are_refused() -> None:
    one = WaitNode(name="a", seconds=1)
    with pytest.raises(PipelineInvalid, match="Two nodes are named 'a'"):
        graph_from(graph_text(Graph(contract=CONTRACT, nodes=(one, one), gives={})))
    many = tuple(WaitNode(name=f"a{at}", seconds=1) for at in range(1001))
    with pytest.raises(PipelineInvalid, match="1001 nodes"):
        graph_from(graph_text(Graph(contract=CONTRACT, nodes=many, gives={})))
    graph_from(graph_text(Graph(contract=CONTRACT, nodes=many[:1000], gives={})))


def test_a_cycle_is_read_and_keeps_no_function_busy() -> None:
    def node(name: str, other: str) -> WorkerNode:
        return WorkerNode(name=name, worker="w", inputs={"x": {"$from": other}}, after=(After(other),))

    graph = graph_from(graph_text(Graph(contract=CONTRACT, nodes=(node("a", "b"), node("b", "a"), node("c", "c")), gives={"$from": "a"})))
    assert [edge.source for edge in edges_of(graph) if edge.kind == "data"] == ["b", "a", "c"]
    assert resolved(graph.gives, {}).reason == "no_result"


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*path, key))


PLACES = list(places(json.loads(TEXT)))
WRONG: list[Any] = [None, True, -1, 10**40, 1.5, "", "A b", "x" * 5000, [], [[]], {}, {"$from": []}, {"kind": 5}, [None] * 2000]


def put(path: tuple[str | int, ...], value: Any) -> str:
    whole = json.loads(TEXT)
    if not path:
        return json.dumps(value)
    at = whole
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return json.dumps(whole)


@settings(max_examples=parts.examples(2000))
@given(st.sampled_from(PLACES), st.sampled_from(WRONG))
def test_a_wrong_value_in_any_place_is_refused_or_is_another_graph(path: tuple[str | int, ...], value: Any) -> None:
    try:
        graph = graph_from(put(path, value))
    except PipelineInvalid:
        return
    assert graph_from(graph_text(graph)) == graph


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_a_graph_or_refused(text: bytes | str) -> None:
    with pytest.raises(PipelineInvalid):
        graph_from(text)
