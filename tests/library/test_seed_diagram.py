"""The diagram of seed 004, with the ready validator and the ready aggregator: ingress → A → validator and B → aggregator → output."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Pipeline
from holdfast.pipelines.graph.edges import edges_of
from holdfast.pipelines.graph.graph import Graph
from holdfast.testing import pipeline_kit
from tests.library.scene import file_of

OBJECT = {"type": "object"}
VALIDATOR, AGGREGATOR = "validator-worker", "aggregator-worker"
RULES = [{"path": ".text", "op": "length_at_least", "value": 1, "code": "empty", "message": "There is no text."}]
STUBS: dict[str, Any] = {
    "a": lambda inputs: {"text": inputs["message"].upper()},
    "b": lambda inputs: {"length": len(inputs["text"])},
    VALIDATOR: file_of(VALIDATOR),
    AGGREGATOR: file_of(AGGREGATOR),
}


@pytest.fixture
def diagram() -> Pipeline:
    p = Pipeline("seed", "1.0", inputs=OBJECT, outputs=OBJECT)
    a = p.worker("worker-a", "a", {"message": p.inputs.message})
    checked = p.gate("validator", VALIDATOR, {"candidate": a.outputs, "rules": p.const(RULES)})
    b = p.worker("worker-b", "b", {"text": a.outputs.text})
    merged = p.merge("aggregator", {"validator": checked.outputs.candidate, "worker-b": b.outputs}, worker=AGGREGATOR)
    p.gives({"output": merged.outputs})
    return p


def test_the_edges_are_those_of_the_diagram(diagram: Pipeline) -> None:
    draft = diagram.draft()
    graph = Graph(contract={}, nodes=draft.nodes, gives=draft.gives)
    assert {(edge.source, edge.target) for edge in edges_of(graph)} == {
        ("worker-a", "validator"),
        ("worker-a", "worker-b"),
        ("validator", "aggregator"),
        ("worker-b", "aggregator"),
    }


def test_the_diagram_runs_and_the_aggregator_waits_for_both(diagram: Pipeline) -> None:
    ran = pipeline_kit.run(diagram, {"message": "hello"}, workers=STUBS)
    assert (ran.status, ran.outputs) == ("ok", {"output": {"text": "HELLO", "length": 5}})
    begun = [event.data["node"] for event in ran.events if event.event == "node" and event.data["state"] == "running"]
    ended = [event.data["node"] for event in ran.events if event.event == "node" and event.data["state"] == "ok"]
    assert (begun[0], begun[-1], set(begun[1:3])) == ("worker-a", "aggregator", {"validator", "worker-b"})
    assert (ended[0], ended[-1], set(ended[1:3])) == ("worker-a", "aggregator", {"validator", "worker-b"})
    (merge,) = ran.runs["aggregator"]
    assert [part["source"] for part in merge.inputs["parts"]] == ["validator", "worker-b"]


def test_what_the_validator_blocks_reaches_no_aggregator(diagram: Pipeline) -> None:
    ran = pipeline_kit.run(diagram, {"message": ""}, workers=STUBS)
    assert ran.error is not None
    assert (ran.error.error_code, ran.runs["aggregator"]) == ("gate_blocked", ())
    assert ran.error.details["details"]["reasons"][0]["code"] == "empty"


@pytest.mark.long
def test_a_crash_anywhere_changes_nothing(diagram: Pipeline) -> None:
    assert pipeline_kit.crash_everywhere(diagram, {"message": "hello"}, workers=STUBS) > 10
