"""Rows of the table: merges, routes and undo."""

from __future__ import annotations

from typing import Any

from holdfast.pipelines.graph.graph import (
    Caps,
    MergeNode,
    MergePart,
    RouteNode,
    Undo,
    WorkerNode,
)
from tests.pipelines.cases import Case, act, cancel, passes
from tests.pipelines.rows import BIG, DAY, after, failing, gate, merge, worker_node
from tests.pipelines.stage import graph_of
from tests.pipelines.templates import out, ref

TWO = (worker_node("a", "echo", n=1), WorkerNode(name="b", worker="echo", inputs={"m": 2}))
DIFFER = (worker_node("a", "echo", n=1), worker_node("b", "echo", n=2))
SKIPPED = failing(on_failure={"*": "skip"})
MERGE = (
    Case(id="merge-ok", graph=graph_of(*TWO, merge(), gives={"r": out("r")}), outputs={"r": {"n": 1, "m": 2}}, states={"r": "ok"}),
    Case(
        id="merge-missing",
        graph=graph_of(SKIPPED, TWO[1], merge(), gives={"r": out("r"), "missing": ref("r", "missing")}),
        outputs={"r": {"m": 2}, "missing": ["a"]},
        partial=True,
        states={"r": "partial"},
    ),
    Case(
        id="merge-nothing",
        graph=graph_of(SKIPPED, merge(parts=(MergePart("a", out("a")),)), gives={"r": out("r", default=None)}),
        outputs={"r": None},
        partial=True,
        states={"r": "skipped"},
    ),
    Case(
        id="merge-conflict-report",
        graph=graph_of(*DIFFER, merge(), gives={"at": ref("r", "conflicts", "*", "path")}),
        outputs={"at": [".n"]},
    ),
    Case(
        id="merge-conflict-fail",
        graph=graph_of(*DIFFER, merge(conflicts="fail"), gives={}),
        status="permanent_error",
        code="merge_conflict",
    ),
    Case(id="merge-strict", graph=graph_of(*DIFFER, merge(policy="strict"), gives={}), status="permanent_error", code="merge_conflict"),
    Case(
        id="merge-conflict-skip",
        graph=graph_of(*DIFFER, merge(conflicts="fail", on_failure={"merge_conflict": "skip"}), gives={"r": out("r", default=0)}),
        outputs={"r": 0},
        partial=True,
    ),
    Case(
        id="merge-conflict-escalate-use",
        graph=graph_of(*DIFFER, merge(conflicts="escalate"), gives={"r": out("r")}),
        acts=(act("use", outputs={"n": 7}),),
        outputs={"r": {"n": 7}},
    ),
    Case(
        id="merge-conflict-escalate-stop",
        graph=graph_of(*DIFFER, merge(conflicts="escalate"), gives={}),
        acts=(act("stop"),),
        status="permanent_error",
        code="merge_conflict",
    ),
    Case(
        id="merge-by-worker",
        graph=graph_of(*DIFFER, merge(policy=None, worker="merges"), gives={"r": out("r")}),
        outputs={"r": {"parts": 2}},
        calls={"merges": 1},
    ),
    Case(
        id="merge-worker-fails",
        graph=graph_of(*DIFFER, merge(policy=None, worker="denied"), gives={}),
        status="permanent_error",
        code="access_denied",
    ),
    Case(
        id="merge-resolver",
        graph=graph_of(*DIFFER, merge(conflicts="worker", resolver="resolves"), gives={"r": out("r")}),
        outputs={"r": {"decided": 1}},
        calls={"resolves": 1},
    ),
    Case(
        id="merge-strict-resolver",
        graph=graph_of(*DIFFER, merge(policy="strict", conflicts="worker", resolver="resolves"), gives={"r": out("r")}),
        outputs={"r": {"decided": 1}},
        calls={"resolves": 1},
    ),
    Case(
        id="merge-strict-resolver-missing",
        graph=graph_of(
            SKIPPED,
            worker_node("b", "echo", n=1),
            worker_node("c", "echo", n=2),
            merge(policy="strict", conflicts="worker", resolver="resolves", parts=tuple(MergePart(name, out(name)) for name in "abc")),
            gives={"r": out("r")},
        ),
        status="permanent_error",
        code="merge_conflict",
        calls={"resolves": 0},
    ),
    Case(
        id="merge-cancel",
        graph=graph_of(*DIFFER, merge(policy=None, worker="slow"), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
    ),
    Case(
        id="merge-timeout",
        graph=graph_of(*DIFFER, merge(policy=None, worker="slow", caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
    ),
)


def route(**more: Any) -> RouteNode:
    return RouteNode(name="r", labels=("big", "small"), value=more.pop("value", out("a")), **more)


BRANCHES = (worker_node("x", "echo", n=1, after=after("r:big")), worker_node("y", "echo", n=2, after=after("r:small")))
CHOSEN = {"x": out("x", "n", default=None), "y": out("y", "n", default=None)}
ROUTE = (
    Case(
        id="route-by-rules",
        graph=graph_of(worker_node(), route(rules={"big": (BIG,)}, otherwise="small"), *BRANCHES, gives=CHOSEN),
        outputs={"x": None, "y": 2},
        states={"x": "skipped", "y": "ok"},
        calls={"echo": 1},
    ),
    Case(
        id="route-by-worker",
        graph=graph_of(worker_node(), route(worker="labels", value={"label": "big"}), *BRANCHES, gives=CHOSEN),
        outputs={"x": 1, "y": None},
    ),
    Case(
        id="route-unknown-otherwise",
        graph=graph_of(worker_node(), route(worker="labels", value={"label": "huge"}, otherwise="small"), *BRANCHES, gives=CHOSEN),
        outputs={"x": None, "y": 2},
    ),
    Case(
        id="route-unknown-fail",
        graph=graph_of(worker_node(), route(worker="labels", value={"label": "huge"}), *BRANCHES, gives=CHOSEN),
        status="permanent_error",
        code="route_unknown",
        calls={"echo": 0},
    ),
    Case(
        id="route-skip",
        graph=graph_of(worker_node(), route(worker="denied", on_failure={"*": "skip"}), *BRANCHES, gives=CHOSEN),
        outputs={"x": None, "y": None},
        partial=True,
        states={"r": "skipped", "x": "skipped", "y": "skipped"},
    ),
    Case(
        id="route-escalate-use",
        graph=graph_of(worker_node(), route(rules={"big": (BIG,)}, on_failure={"*": "escalate"}), *BRANCHES, gives=CHOSEN),
        acts=(act("use", outputs={"label": "big"}),),
        outputs={"x": 1, "y": None},
    ),
    Case(
        id="route-then-merge",
        graph=graph_of(
            worker_node(),
            route(rules={"big": (BIG,)}, otherwise="small"),
            *BRANCHES,
            MergeNode(name="j", parts=(MergePart("x", out("x")), MergePart("y", out("y"))), policy="first"),
            gives={"n": out("j", "n")},
        ),
        outputs={"n": 2},
        states={"j": "ok"},
    ),
    Case(
        id="route-cancel",
        graph=graph_of(worker_node(), route(worker="slow"), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
    ),
)

UNDONE = worker_node("u", "double", undo=Undo(worker="undo"))
UNDO = (
    Case(
        id="undo-in-reverse",
        graph=graph_of(UNDONE, worker_node("v", "double", n=out("u", "n"), undo=Undo(worker="undo")), failing(after=after("v")), gives={}),
        status="permanent_error",
        code="broken_part",
        states={"u": "undone", "v": "undone"},
        calls={"undo": 2},
    ),
    Case(
        id="undo-on-cancel",
        graph=graph_of(UNDONE, worker_node("b", "slow", after=after("u")), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        states={"u": "undone"},
        calls={"undo": 1},
    ),
    Case(
        id="undo-fails-retry",
        graph=graph_of(worker_node("u", "double", undo=Undo(worker="bad-undo")), failing(after=after("u")), gives={}),
        acts=(act("retry"),),
        status="permanent_error",
        code="broken_part",
        states={"u": "undone"},
        calls={"bad-undo": 2},
    ),
    Case(
        id="undo-fails-done-by-hand",
        graph=graph_of(worker_node("u", "double", undo=Undo(worker="denied")), failing(after=after("u")), gives={}),
        acts=(passes(20 * DAY), act("done")),
        status="permanent_error",
        code="broken_part",
        states={"u": "undone"},
    ),
    Case(
        id="undo-fails-left",
        graph=graph_of(worker_node("u", "double", undo=Undo(worker="denied")), failing(after=after("u")), gives={}),
        acts=(act("leave"),),
        status="needs_human",
        code="undo_failed",
        states={"u": "ok"},
    ),
    Case(
        id="undo-of-outputs-that-a-person-gave",  # the person says what took place in place of the worker: the undo gets these outputs
        graph=graph_of(
            worker_node("u", "fails", undo=Undo(worker="echo"), on_failure={"*": "escalate"}), failing(after=after("u")), gives={}
        ),
        acts=(act("use", outputs={"n": 7}),),
        status="permanent_error",
        code="broken_part",
        states={"u": "undone"},
        calls={"echo": 1},
    ),
    Case(
        id="undo-siblings-end-first",
        graph=graph_of(UNDONE, worker_node("b", "slow", after=after("u")), failing(after=after("u")), gives={}),
        status="permanent_error",
        code="broken_part",
        states={"u": "undone"},
        calls={"undo": 1, "slow": 1},
    ),
    Case(
        id="undo-every-round",
        graph=graph_of(
            WorkerNode(name="a", worker="revised", inputs={}, undo=Undo(worker="undo")),
            gate(worker="judge", candidate={"verdict": "revise", "n": out("a", "n")}, revise="a", rounds=1),
            gives={},
        ),
        status="permanent_error",
        code="gate_blocked",
        calls={"undo": 2, "revised": 2},
    ),
)
