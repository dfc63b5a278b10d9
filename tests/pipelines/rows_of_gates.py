"""Rows of the table: gates and people."""

from __future__ import annotations

from typing import Any

from holdfast.pipelines.graph.graph import (
    Caps,
    GateNode,
    HumanNode,
    Rule,
    Undo,
    WorkerNode,
)
from tests.pipelines.cases import Case, act, answer, cancel, passes
from tests.pipelines.rows import BIG, DAY, after, gate, worker_node
from tests.pipelines.stage import graph_of
from tests.pipelines.templates import out, ref


def judged(verdict: str, **more: Any) -> GateNode:
    return gate(worker="judge", candidate={"verdict": verdict, "n": out("a", "n")}, **more)


AFTER_GATE = worker_node("z", "echo", after=after("g"))
REVISED = WorkerNode(name="a", worker="revised", inputs={})
GATE = (
    Case(
        id="gate-allow",
        graph=graph_of(worker_node(), gate(rules=(Rule(path=".n", op="equals", value=6),)), AFTER_GATE, gives={"n": out("g", "n")}),
        outputs={"n": 6},
        states={"g": "ok", "z": "ok"},
    ),
    Case(
        id="gate-block-fail",
        graph=graph_of(worker_node(), gate(rules=(BIG,)), AFTER_GATE, gives={}),
        status="permanent_error",
        code="gate_blocked",
        states={"g": "failed"},
        calls={"echo": 0},
    ),
    Case(
        id="gate-block-skip",
        graph=graph_of(worker_node(), gate(rules=(BIG,), on_block="skip"), AFTER_GATE, gives={"why": ref("g", "reasons", "*", "code")}),
        outputs={"why": ["small"]},
        partial=True,
        states={"g": "blocked", "z": "skipped"},
        calls={"echo": 0},
    ),
    Case(
        id="gate-block-skips-what-refers-to-its-outputs",
        graph=graph_of(worker_node(), gate(rules=(BIG,), on_block="skip"), worker_node("z", "echo", n=out("g", "n")), gives={}),
        outputs={},
        partial=True,
        states={"z": "skipped"},
    ),
    Case(
        id="gate-escalate-use",
        graph=graph_of(worker_node(), gate(rules=(BIG,), on_block="escalate"), AFTER_GATE, gives={"n": out("g", "n")}),
        acts=(act("use"),),
        outputs={"n": 6},
        states={"z": "ok"},
    ),
    Case(
        id="gate-escalate-stop",
        graph=graph_of(worker_node(), gate(rules=(BIG,), on_block="escalate"), AFTER_GATE, gives={}),
        acts=(act("stop"),),
        status="permanent_error",
        code="gate_blocked",
        calls={"echo": 0},
    ),
    Case(
        id="gate-escalate-skip",
        graph=graph_of(worker_node(), gate(rules=(BIG,), on_block="escalate"), AFTER_GATE, gives={}),
        acts=(act("skip"),),
        outputs={},
        partial=True,
        states={"g": "blocked", "z": "skipped"},
    ),
    Case(
        id="gate-escalate-skip-skips-what-refers-to-its-outputs",
        graph=graph_of(
            worker_node(),
            gate(rules=(BIG,), on_block="escalate"),
            worker_node("z", "echo", n=out("g", "n")),
            gives={"why": ref("g", "reasons", "*", "code")},
        ),
        acts=(act("skip"),),
        outputs={"why": ["small"]},
        partial=True,
        states={"g": "blocked", "z": "skipped"},
        calls={"echo": 0},
    ),
    Case(
        id="gate-escalate-retry-then-silence",
        graph=graph_of(worker_node(), judged("block", on_block="escalate"), gives={}),
        acts=(act("retry"), passes(8 * DAY)),
        status="permanent_error",
        code="approval_expired",
        calls={"judge": 2},
    ),
    Case(
        id="gate-schema",
        graph=graph_of(worker_node(), gate(schema={"properties": {"n": {"type": "string"}}}), gives={}),
        status="permanent_error",
        code="gate_blocked",
    ),
    Case(
        id="gate-shadow",
        graph=graph_of(worker_node(), gate(rules=(BIG,), shadow=True), AFTER_GATE, gives={"v": ref("g", "verdict")}),
        outputs={"v": "block"},
        states={"z": "ok"},
    ),
    Case(
        id="gate-worker-blocks",
        graph=graph_of(worker_node(), judged("block"), gives={}),
        status="permanent_error",
        code="gate_blocked",
        calls={"judge": 1},
    ),
    Case(
        id="gate-worker-fails-skip",
        graph=graph_of(worker_node(), gate(worker="denied", on_failure={"access_denied": "skip"}), AFTER_GATE, gives={}),
        outputs={},
        partial=True,
        states={"g": "blocked", "z": "skipped"},
        calls={"echo": 0},
    ),
    Case(
        id="gate-revise-then-allow",
        graph=graph_of(REVISED, gate(worker="asks-once", revise="a", rounds=2), AFTER_GATE, gives={"n": out("a", "n")}),
        outputs={"n": 2},
        states={"a": "ok", "g": "ok", "z": "ok"},
        calls={"revised": 2, "asks-once": 2},
    ),
    Case(
        id="gate-revise-too-often",
        graph=graph_of(
            REVISED, gate(worker="judge", candidate={"verdict": "revise", "n": out("a", "n")}, revise="a", rounds=2), AFTER_GATE, gives={}
        ),
        status="permanent_error",
        code="gate_blocked",
        calls={"revised": 3, "judge": 3, "echo": 0},
    ),
    Case(
        id="gate-revise-rules-with-a-node-between",
        graph=graph_of(
            REVISED,
            worker_node("b", n=out("a", "n")),
            gate(candidate=out("b"), rules=(Rule(path=".n", op="at_least", value=6),), revise="a", rounds=5),
            worker_node("w", "echo", n=out("a", "n")),
            gives={"n": out("b", "n"), "w": out("w", "n")},
        ),
        outputs={"n": 6, "w": 3},
        calls={"revised": 3, "double": 3, "echo": 1},
    ),
    Case(
        id="gate-revise-without-a-node",
        graph=graph_of(worker_node(), judged("revise"), gives={}),
        status="permanent_error",
        code="gate_blocked",
        calls={"judge": 1},
    ),
    Case(
        id="gate-cancel",
        graph=graph_of(worker_node(), gate(worker="slow"), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
    ),
    Case(
        id="gate-timeout",
        graph=graph_of(worker_node(), gate(worker="slow", caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
    ),
)


def human(**more: Any) -> HumanNode:
    return HumanNode(name="h", show=out("a"), question="Publish?", within_seconds=2 * DAY, **more)


AFTER_HUMAN = worker_node("z", "echo", after=after("h"))
HUMAN = (
    Case(
        id="human-approves",
        graph=graph_of(worker_node(), human(), AFTER_HUMAN, gives={"by": ref("h", "decided_by"), "n": out("h", "n")}),
        acts=(answer("approve"),),
        outputs={"by": "ann", "n": 6},
        states={"h": "ok", "z": "ok"},
    ),
    Case(
        id="human-edits",
        graph=graph_of(worker_node(), human(), gives={"n": out("h", "n")}),
        acts=(answer("approve", edited_arguments={"n": 70}),),
        outputs={"n": 70},
    ),
    Case(
        id="human-rejects-fail",
        graph=graph_of(worker_node(), human(), AFTER_HUMAN, gives={}),
        acts=(answer("reject", comment="no"),),
        status="permanent_error",
        code="approval_rejected",
        calls={"echo": 0},
    ),
    Case(
        id="human-rejects-skip",
        graph=graph_of(worker_node(), human(on_reject="skip"), AFTER_HUMAN, gives={"v": ref("h", "verdict")}),
        acts=(answer("reject"),),
        outputs={"v": "reject"},
        partial=True,
        states={"h": "blocked", "z": "skipped"},
    ),
    Case(
        id="human-rejects-escalate-retry",
        graph=graph_of(worker_node(), human(on_reject="escalate"), AFTER_HUMAN, gives={}),
        acts=(answer("reject"), act("retry"), answer("approve")),
        outputs={},
        states={"z": "ok"},
    ),
    Case(
        id="human-silent-fail",
        graph=graph_of(worker_node(), human(), gives={}),
        acts=(passes(2 * DAY + 1),),
        status="permanent_error",
        code="approval_expired",
    ),
    Case(
        id="human-silent-skip",
        graph=graph_of(worker_node(), human(on_silence="skip"), AFTER_HUMAN, gives={}),
        acts=(passes(2 * DAY + 1),),
        outputs={},
        partial=True,
        states={"z": "skipped"},
    ),
    Case(
        id="human-cancel",
        graph=graph_of(worker_node(), human(), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
    ),
    Case(
        id="human-node-timeout",
        graph=graph_of(worker_node(), human(caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
    ),
    Case(
        id="human-run-timeout-undoes",
        graph=graph_of(worker_node(undo=Undo(worker="undo")), human(), gives={}, run_timeout_seconds=5000),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
        states={"a": "undone"},
        calls={"undo": 1},
    ),
)
