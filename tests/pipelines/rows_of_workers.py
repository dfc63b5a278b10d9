"""Rows of the table: workers, maps, steps and waits."""

from __future__ import annotations

from typing import Any

from holdfast.pipelines.graph.graph import (
    Caps,
    MapNode,
    StepNode,
    Undo,
    WaitNode,
    When,
)
from tests.pipelines.cases import Case, act, cancel, passes
from tests.pipelines.rows import BIG, DAY, NEEDS_N, after, failing, optional_n, worker_node
from tests.pipelines.stage import graph_of
from tests.pipelines.templates import out, ref

WORKER = (
    Case(id="worker-ok", graph=graph_of(worker_node(), gives={"n": out("a", "n")}), outputs={"n": 6}, states={"a": "ok"}),
    Case(
        id="gives-no-object",
        graph=graph_of(worker_node(), gives=out("a", "n")),
        status="invalid_output",
        code="output_schema_mismatch",
    ),
    Case(id="gives-a-whole-result", graph=graph_of(worker_node(), gives=out("a")), outputs={"n": 6}),
    Case(
        id="worker-chain",
        graph=graph_of(worker_node(n=ref("inputs", "n")), worker_node("b", n=out("a", "n")), gives={"n": out("b", "n")}),
        inputs={"n": 2},
        outputs={"n": 8},
        calls={"double": 2},
    ),
    Case(
        id="worker-fail",
        graph=graph_of(failing(), worker_node("b", n=out("a", "n")), gives={"n": out("b", "n")}),
        status="permanent_error",
        code="broken_part",
        states={"a": "failed"},
        calls={"fails": 1, "double": 0},
    ),
    Case(
        id="worker-fallback",
        graph=graph_of(failing(fallback=("denied", "double", "echo")), gives={"n": out("a", "n")}),
        outputs={"n": 6},
        calls={"fails": 1, "denied": 1, "double": 1, "echo": 0},
    ),
    Case(
        id="worker-skip-partial",
        graph=graph_of(failing(on_failure={"broken_part": "skip"}), worker_node("b"), gives={"n": out("b", "n"), "a": out("a", "n")}),
        outputs={"n": 6},
        partial=True,
        states={"a": "skipped", "b": "ok"},
    ),
    Case(
        id="worker-skip-another-code",
        graph=graph_of(failing(on_failure={"odd": "skip"}), gives={}),
        status="permanent_error",
        code="broken_part",
    ),
    Case(
        id="worker-skip-outputs-do-not-fit",
        graph=graph_of(failing(on_failure={"*": "skip"}), gives={"n": out("a", "n")}, schema=NEEDS_N),
        status="invalid_output",
        code="output_schema_mismatch",
        states={"a": "skipped"},
    ),
    Case(
        id="worker-skip-default",
        graph=graph_of(failing(on_failure={"*": "skip"}), worker_node("b", n=out("a", "n", default=5)), gives={"n": out("b", "n")}),
        outputs={"n": 10},
        partial=True,
    ),
    Case(
        id="worker-escalate-retry",
        graph=graph_of(worker_node(worker="flaky", on_failure={"*": "escalate"}), gives={"n": out("a", "n")}),
        acts=(act("retry"),),
        outputs={"n": 1},
        calls={"flaky": 2},
    ),
    Case(
        id="worker-escalate-use",
        graph=graph_of(failing(on_failure={"*": "escalate"}), gives={"n": out("a", "n")}),
        acts=(act("use", outputs={"n": 9}),),
        outputs={"n": 9},
        states={"a": "ok"},
    ),
    Case(
        id="worker-escalate-skip",
        graph=graph_of(failing(on_failure={"*": "escalate"}), gives=optional_n("a")),
        acts=(act("skip"),),
        outputs={"n": -1},
        partial=True,
    ),
    Case(
        id="worker-escalate-stop",
        graph=graph_of(failing(on_failure={"*": "escalate"}), gives={}),
        acts=(act("stop"),),
        status="permanent_error",
        code="broken_part",
    ),
    Case(
        id="worker-escalate-silence",
        graph=graph_of(failing(on_failure={"*": "escalate"}), gives={}),
        acts=(passes(8 * DAY),),
        status="permanent_error",
        code="approval_expired",
    ),
    Case(
        id="worker-cancel",
        graph=graph_of(worker_node(worker="slow"), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        calls={"slow": 1},
    ),
    Case(
        id="worker-node-timeout",
        graph=graph_of(worker_node(worker="slow", caps=Caps(timeout_seconds=5000), on_failure={"timeout": "skip"}), gives={"x": 1}),
        acts=(passes(5001),),
        outputs={"x": 1},
        partial=True,
        states={"a": "skipped"},
        calls={"slow": 1},
    ),
    Case(
        id="worker-run-timeout",
        graph=graph_of(worker_node(worker="slow"), gives={}, run_timeout_seconds=5000),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
        calls={"slow": 1},
    ),
    Case(
        id="worker-budget",
        graph=graph_of(worker_node(worker="spent"), gives={}),
        status="permanent_error",
        code="budget_exceeded",
    ),
    Case(
        id="worker-edge-mismatch",
        graph=graph_of(worker_node("a", "echo", n="text"), worker_node("b", n=out("a", "n")), gives={}),
        status="invalid_output",
        code="edge_mismatch",
        calls={"double": 0},
    ),
    Case(
        id="worker-edge-missing",
        graph=graph_of(worker_node("a", "echo"), worker_node("b", n=out("a", "other")), gives={}),
        status="invalid_output",
        code="edge_mismatch",
        calls={"double": 0},
    ),
    Case(
        id="worker-when",
        graph=graph_of(worker_node(), worker_node("b", when=When(value=out("a"), rules=(BIG,))), gives=optional_n("b")),
        outputs={"n": -1},
        states={"b": "skipped"},
        calls={"double": 1},
    ),
    Case(
        id="worker-not-served",
        graph=graph_of(worker_node(worker="nowhere"), gives={}),
        status="invalid_request",
        code="worker_not_found",
    ),
)

OVER = ref("inputs", "ns")
ITEM = {"n": ref("item")}


def map_node(worker: str = "double", **more: Any) -> MapNode:
    return MapNode(name="m", worker=worker, over=OVER, inputs=ITEM, at_most=more.pop("at_most", 10), **more)


MAP = (
    Case(
        id="map-ok",
        graph=graph_of(map_node(at_once=2), gives={"all": ref("m", "ok", "*", "outputs", "n"), "c": ref("m", "counts")}),
        inputs={"ns": [1, 2, 3]},
        outputs={"all": [2, 4, 6], "c": {"total": 3, "ok": 3, "failed": 0}},
        calls={"double": 3},
    ),
    Case(id="map-empty", graph=graph_of(map_node(), gives={"all": ref("m", "ok")}), inputs={"ns": []}, outputs={"all": []}),
    Case(
        id="map-partial",
        graph=graph_of(map_node("odd-fails", tolerate=2), gives={"bad": ref("m", "failed", "*", "index"), "ok": ref("m", "counts", "ok")}),
        inputs={"ns": [1, 2, 3]},
        outputs={"bad": [0, 2], "ok": 1},
        partial=True,
        states={"m": "partial"},
    ),
    Case(
        id="map-fail",
        graph=graph_of(map_node("odd-fails", tolerate=1, at_once=1), gives={}),
        inputs={"ns": [1, 3, 2, 4]},
        status="permanent_error",
        code="odd",
        calls={"odd-fails": 2},
    ),
    Case(
        id="map-tolerate-percent",
        graph=graph_of(map_node("odd-fails", tolerate=50, tolerate_percent=True), gives={"ok": ref("m", "counts", "ok")}),
        inputs={"ns": [1, 3, 2, 4]},
        outputs={"ok": 2},
        partial=True,
    ),
    Case(
        id="map-fallback",
        graph=graph_of(map_node("odd-fails", fallback=("double",)), gives={"all": ref("m", "ok", "*", "outputs", "n")}),
        inputs={"ns": [1, 2]},
        outputs={"all": [2, 2]},
    ),
    Case(
        id="map-skip",
        graph=graph_of(map_node("fails", on_failure={"*": "skip"}), gives={"all": ref("m", "ok", default=[])}),
        inputs={"ns": [1, 2]},
        outputs={"all": []},
        partial=True,
        states={"m": "skipped"},
    ),
    Case(
        id="map-escalate-retry",
        graph=graph_of(map_node("flaky", at_once=1, on_failure={"*": "escalate"}), gives={"ok": ref("m", "counts", "ok")}),
        inputs={"ns": [1]},
        acts=(act("retry"),),
        outputs={"ok": 1},
        calls={"flaky": 2},
    ),
    Case(
        id="map-too-many",
        graph=graph_of(map_node(at_most=2), gives={}),
        inputs={"ns": [1, 2, 3]},
        status="invalid_output",
        code="edge_mismatch",
        calls={"double": 0},
    ),
    Case(
        id="map-cancel",
        graph=graph_of(map_node("slow", at_once=2), gives={}),
        inputs={"ns": [1, 2, 3]},
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        calls={"slow": 2},
    ),
    Case(
        id="map-timeout",
        graph=graph_of(map_node("slow", at_once=2, caps=Caps(timeout_seconds=5000)), gives={}),
        inputs={"ns": [1, 2, 3]},
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
        calls={"slow": 2},
    ),
    Case(
        id="map-needs-human",
        graph=graph_of(map_node("asks"), gives={}),
        inputs={"ns": [1]},
        status="needs_human",
        code="ask_somebody",
    ),
    Case(
        id="map-undo",
        graph=graph_of(map_node(undo=Undo(worker="undo")), failing(after=after("m")), gives={}),
        inputs={"ns": [1, 2]},
        status="permanent_error",
        code="broken_part",
        states={"m": "undone"},
        calls={"undo": 2},
    ),
    Case(
        id="map-undo-with-inputs-gets-the-row-and-its-index",
        graph=graph_of(
            map_node("odd-fails", tolerate=1, undo=Undo(worker="row-undo", inputs={"row": ref("item"), "index": ref("index")})),
            failing(after=after("m")),
            gives={},
        ),
        inputs={"ns": [1, 2, 4]},
        status="permanent_error",
        code="broken_part",
        states={"m": "undone"},
        calls={"row-undo": 2},
    ),
    Case(
        id="map-undo-fails-then-retry",
        graph=graph_of(map_node(undo=Undo(worker="bad-undo")), failing(after=after("m")), gives={}),
        inputs={"ns": [1, 2]},
        acts=(act("retry"),),
        status="permanent_error",
        code="broken_part",
        states={"m": "undone"},
        calls={"bad-undo": 3},
    ),
)

STEP = (
    Case(id="step-ok", graph=graph_of(StepNode(name="s", function="up", inputs={"n": 1}), gives={"n": out("s", "n")}), outputs={"n": 2}),
    Case(
        id="step-fail",
        graph=graph_of(StepNode(name="s", function="broken", inputs={}), gives={}),
        status="retryable_error",
        code="worker_crashed",
    ),
    Case(
        id="step-skip",
        graph=graph_of(StepNode(name="s", function="broken", inputs={}, on_failure={"*": "skip"}), gives=optional_n("s")),
        outputs={"n": -1},
        partial=True,
    ),
    Case(
        id="step-escalate-use",
        graph=graph_of(StepNode(name="s", function="broken", inputs={}, on_failure={"*": "escalate"}), gives={"n": out("s", "n")}),
        acts=(act("use", outputs={"n": 5}),),
        outputs={"n": 5},
    ),
)

WAIT = (
    Case(id="wait-ok", graph=graph_of(WaitNode(name="w", seconds=60), gives={"x": 1}), outputs={"x": 1}, states={"w": "ok"}),
    Case(
        id="wait-cancel",
        graph=graph_of(WaitNode(name="w", seconds=DAY), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
    ),
    Case(
        id="wait-timeout",
        graph=graph_of(WaitNode(name="w", seconds=DAY, caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
    ),
    Case(
        id="wait-timeout-skip",
        graph=graph_of(WaitNode(name="w", seconds=DAY, caps=Caps(timeout_seconds=5000), on_failure={"timeout": "skip"}), gives={}),
        acts=(passes(5001),),
        outputs={},
        partial=True,
    ),
    Case(
        id="wait-escalate-retry",
        graph=graph_of(WaitNode(name="w", seconds=DAY, caps=Caps(timeout_seconds=5000), on_failure={"*": "escalate"}), gives={}),
        acts=(passes(5001), act("retry"), passes(5001), act("skip")),
        outputs={},
        partial=True,
        states={"w": "skipped"},
    ),
    Case(
        id="wait-while-another-node-fails",
        graph=graph_of(WaitNode(name="w", seconds=DAY), failing(), gives={}),
        status="permanent_error",
        code="broken_part",
        states={"w": "failed", "a": "failed"},
    ),
)
