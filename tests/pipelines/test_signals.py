"""Nodes in logs, metrics and traces, as an operator gets them: lines of a file, Prometheus's text, spans of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import Trace
from holdfast.contract.rules import Rule
from holdfast.pipelines.graph.graph import GateNode, MapNode, WorkerNode
from holdfast.workers.body.errors import WorkerError
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.workers.recording_observer import Seen, parent_id, span_id, trace_id

CALLER = Trace(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
SHORT = Rule(path=".text", op="length_at_most", value=5, code="long", message="Too long.")
GRAPH = graph_of(
    WorkerNode(name="draft", worker="drafts", inputs={}),
    GateNode(name="check", candidate=out("draft"), rules=(SHORT,), revise="draft", rounds=1),
    MapNode(name="each", worker="odd-fails", over=[1, 2], inputs={"n": ref("item"), "text": out("draft")}, at_most=2, tolerate=1),
    WorkerNode(name="last", worker="odd-fails", inputs={"n": 1, "each": ref("each", "counts")}, on_failure={"odd": "skip"}),
)


async def drafts(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"text": "short" if "revision" in inputs else "much too long"}


async def odd_fails(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    if inputs["n"] % 2:
        raise WorkerError("odd", "It is odd.")
    return inputs


@pytest.fixture(params=[0, 1000], ids=["replayed at every rest", "in memory"])
async def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Seen:
    """What one run of the graph told."""
    takes = {"type": "object", "properties": {"revision": {"type": "object"}}}
    workers = [worker("drafts", drafts, takes=takes), worker("odd-fails", odd_fails)]
    async with stage(GRAPH, *workers, folder=tmp_path, resting=request.param) as made:
        seen = Seen(tmp_path).watch(made.service)
        response = await made.run(trace=CALLER)
    assert (response.status, response.observability.partial) == ("ok", True)
    return seen


def test_each_end_of_a_node_is_one_line_and_lines_of_its_runs_name_it(seen: Seen) -> None:
    lines = seen.lines()
    ends = [(line["node"], line["round"], line["state"], line["error_code"]) for line in lines if line["event"] == "node_ended"]
    assert ends == [
        ("draft", 1, "ok", None),
        ("check", 1, "blocked", None),
        ("draft", 2, "ok", None),
        ("check", 2, "ok", None),
        ("each", 1, "partial", None),
        ("last", 1, "skipped", "odd"),
    ]
    assert {line["trace_id"] for line in lines} == {CALLER.trace_id}
    assert all(line["pipeline"] == "p" for line in lines if line["event"] == "node_ended" or line["worker_id"] != "p")
    runs = sorted((line["node"], line["worker_id"], line["status"]) for line in lines if line["event"] == "ended" and "node" in line)
    bad = "permanent_error"
    assert runs == [
        *[("draft", "drafts", "ok")] * 2,
        *[("each", "odd-fails", "ok"), ("each", "odd-fails", bad)],
        ("last", "odd-fails", bad),
    ]


def test_ends_of_nodes_are_counted_in_prometheus_text_by_pipeline_node_and_state(seen: Seen) -> None:
    assert seen.series("node_count") == {
        '{node="draft",pipeline="p",state="ok"}': 2,
        '{node="check",pipeline="p",state="blocked"}': 1,
        '{node="check",pipeline="p",state="ok"}': 1,
        '{node="each",pipeline="p",state="partial"}': 1,
        '{node="last",pipeline="p",state="skipped"}': 1,
    }


def test_a_span_of_each_node_is_below_the_run_and_above_the_runs_that_it_asked_for(seen: Seen) -> None:
    whole = seen.named("run p")
    assert (trace_id(whole), parent_id(whole)) == (CALLER.trace_id, CALLER.span_id)
    nodes = [span for span in seen.spans if span.name.startswith("node ")]
    assert {parent_id(span) for span in nodes} == {span_id(whole)}
    told: dict[Any, list[Any]] = {}
    for span in nodes:
        about = span.attributes or {}
        told.setdefault(about["node"], []).append((about["round"], about["state"], about.get("error_code")))
    assert told == {
        "draft": [(1, "ok", None), (2, "ok", None)],
        "check": [(1, "blocked", None), (2, "ok", None)],
        "each": [(1, "partial", None)],
        "last": [(1, "skipped", "odd")],
    }
    names = {span_id(span): span.name for span in nodes}
    runs = [span for span in seen.spans if span.name.startswith("run ") and span is not whole]
    assert sorted((names[parent_id(span) or ""], span.name) for span in runs) == [
        *[("node draft", "run drafts")] * 2,
        *[("node each", "run odd-fails")] * 2,
        ("node last", "run odd-fails"),
    ]
    assert {trace_id(span) for span in seen.spans} == {CALLER.trace_id}
