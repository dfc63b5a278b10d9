"""Rows of the table: supervisors, loops until rules hold, and pipelines inside pipelines."""

from __future__ import annotations

from typing import Any

from holdfast.pipelines.graph.graph import Caps, HumanNode, PipelineNode, Rule, SuperviseNode, Undo, UntilNode, When
from tests.pipelines.cases import Case, act, cancel, passes
from tests.pipelines.rows import BIG, DAY, after, failing, optional_n, worker_node
from tests.pipelines.stage import graph_of
from tests.pipelines.templates import out, ref

CHOICES = {"double": "double", "echo": "echo", "fails": "fails", "spent": "spent", "slow": "slow", "flaky": "flaky"}
DOUBLE = {"choice": "double", "inputs": {"n": 4}, "reason": "It must be doubled."}
FINISH = {"choice": "finish", "outputs": {"n": 9}, "reason": "It is enough."}


def chosen(label: str, **inputs: Any) -> dict[str, Any]:
    return {"choice": label, "inputs": inputs, "reason": f"It needs {label}."}


def supervise(*script: Any, turns: int = 4, **more: Any) -> SuperviseNode:
    return SuperviseNode(name="s", worker="chooses", inputs={"script": {"$const": list(script)}}, choices=CHOICES, turns=turns, **more)


def failed_by(code: str, *script: Any, id: str, calls: dict[str, int], status: str = "permanent_error", **more: Any) -> Case:
    return Case(id=id, graph=graph_of(supervise(*script, **more), gives={}), status=status, code=code, states={"s": "failed"}, calls=calls)


UNDONE = {"double": "undo"}

SUPERVISE = (
    Case(
        id="supervise-finish",
        graph=graph_of(
            supervise(DOUBLE, chosen("echo", a=1), FINISH),
            gives={"n": out("s", "n"), "turns": ref("s", "turns"), "chose": ref("s", "choices", "*", "choice")},
        ),
        outputs={"n": 9, "turns": 3, "chose": ["double", "echo", "finish"]},
        states={"s": "ok"},
        calls={"chooses": 3, "double": 1, "echo": 1},
    ),
    Case(
        id="supervise-finish-at-once-in-the-only-turn",
        graph=graph_of(supervise(FINISH, turns=1), gives=out("s")),
        outputs={"n": 9},
        calls={"chooses": 1},
    ),
    Case(
        id="supervise-choice-without-inputs",
        graph=graph_of(supervise({"choice": "echo", "reason": "as it is"}, FINISH), gives={"why": ref("s", "choices", 0, "reason")}),
        outputs={"why": "as it is"},
        calls={"echo": 1},
    ),
    Case(
        id="supervise-choice-fails",
        graph=graph_of(supervise(chosen("fails"), DOUBLE, FINISH), gives={"s": ref("s", "choices", "*", "status")}),
        outputs={"s": ["permanent_error", "ok", "ok"]},
        states={"s": "ok"},
        calls={"fails": 1, "double": 1},
    ),
    failed_by("supervise_unknown_choice", DOUBLE, chosen("delete"), id="supervise-unknown-choice", calls={"chooses": 2, "double": 1}),
    failed_by("supervise_invalid_answer", DOUBLE, {"next": "double"}, id="supervise-nonsense", calls={"chooses": 2, "double": 1}),
    failed_by("supervise_turns", DOUBLE, id="supervise-loops", calls={"chooses": 4, "double": 3}),
    failed_by("budget_exceeded", chosen("spent"), id="supervise-overspends", calls={"chooses": 1, "spent": 1}),
    failed_by(
        "edge_mismatch",
        chosen("double", n="four"),
        id="supervise-inputs-that-do-not-fit",
        status="invalid_output",
        calls={"chooses": 1, "double": 0},
    ),
    Case(
        id="supervise-supervisor-fails",
        graph=graph_of(SuperviseNode(name="s", worker="fails", inputs={}, choices=CHOICES, turns=3), gives={}),
        status="permanent_error",
        code="broken_part",
    ),
    Case(
        id="supervise-skip",
        graph=graph_of(supervise(DOUBLE, on_failure={"supervise_turns": "skip"}), gives=optional_n("s")),
        outputs={"n": -1},
        partial=True,
        states={"s": "skipped"},
    ),
    Case(
        id="supervise-escalate-retry",
        graph=graph_of(
            supervise(DOUBLE, chosen("odd"), FINISH, turns=3, on_failure={"*": "escalate"}),
            gives={"n": out("s", "n"), "chose": ref("s", "choices", "*", "choice")},
        ),
        acts=(act("retry"), act("use", outputs={"n": 7})),
        outputs={"n": 7, "chose": ["double"]},
        calls={"chooses": 3, "double": 1},
    ),
    Case(
        id="supervise-cancel",
        graph=graph_of(supervise(DOUBLE, chosen("slow"), undo=UNDONE), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        states={"s": "undone"},
        calls={"double": 1, "slow": 1, "undo": 1},
    ),
    Case(
        id="supervise-timeout",
        graph=graph_of(supervise(chosen("slow"), FINISH, caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
        calls={"slow": 1, "chooses": 1},
    ),
    Case(
        id="supervise-undo",
        graph=graph_of(supervise(DOUBLE, DOUBLE, chosen("echo"), FINISH, undo=UNDONE), failing(after=after("s")), gives={}),
        status="permanent_error",
        code="broken_part",
        states={"s": "undone"},
        calls={"double": 2, "undo": 2},
    ),
    Case(
        id="supervise-fails-and-undoes",
        graph=graph_of(supervise(DOUBLE, chosen("fails"), chosen("odd"), undo={**UNDONE, "fails": "undo"}), gives={}),
        status="permanent_error",
        code="supervise_unknown_choice",
        states={"s": "undone"},
        calls={"undo": 1},
    ),
    Case(
        id="supervise-fails-with-nothing-to-undo",
        graph=graph_of(supervise(chosen("odd"), undo=UNDONE), gives={}),
        status="permanent_error",
        code="supervise_unknown_choice",
        states={"s": "failed"},
        calls={"undo": 0},
    ),
    Case(
        id="supervise-undo-fails-then-retry",
        graph=graph_of(supervise(DOUBLE, DOUBLE, chosen("odd"), undo={"double": "bad-undo"}), gives={}),
        acts=(act("retry"),),
        status="permanent_error",
        code="supervise_unknown_choice",
        states={"s": "undone"},
        calls={"bad-undo": 3},
    ),
)

THREE = Rule(path=".n", op="at_least", value=3, code="not_yet")


def until(at_most: int = 5, every: int = 30, worker: str = "polls", **more: Any) -> UntilNode:
    rules = more.pop("rules", (THREE,))
    return UntilNode(name="u", worker=worker, inputs=more.pop("inputs", {}), rules=rules, at_most=at_most, every_seconds=every, **more)


UNTIL = (
    Case(
        id="until-third",
        graph=graph_of(until(), gives={"n": out("u", "n"), "times": ref("u", "times")}),
        outputs={"n": 3, "times": 3},
        states={"u": "ok"},
        calls={"polls": 3},
    ),
    Case(
        id="until-last",
        graph=graph_of(until(3), gives={"n": out("u", "n")}),
        outputs={"n": 3},
        calls={"polls": 3},
    ),
    Case(
        id="until-not-reached",
        graph=graph_of(until(2), gives={}),
        status="permanent_error",
        code="until_not_reached",
        states={"u": "failed"},
        calls={"polls": 2},
    ),
    Case(
        id="until-skip",
        graph=graph_of(until(2, on_failure={"until_not_reached": "skip"}), gives=optional_n("u")),
        outputs={"n": -1},
        partial=True,
        states={"u": "skipped"},
    ),
    Case(
        id="until-run-fails",
        graph=graph_of(until(worker="fails"), gives={}),
        status="permanent_error",
        code="broken_part",
        calls={"fails": 1},
    ),
    Case(
        id="until-inputs-that-do-not-fit",
        graph=graph_of(until(worker="double", inputs={"n": "x"}), gives={}),
        status="invalid_output",
        code="edge_mismatch",
        calls={"double": 0},
    ),
    Case(
        id="until-escalate-retry",
        graph=graph_of(until(2, on_failure={"*": "escalate"}), gives={"n": out("u", "n"), "times": ref("u", "times")}),
        acts=(act("retry"),),
        outputs={"n": 3, "times": 1},
        calls={"polls": 3},
    ),
    Case(
        id="until-escalate-use",
        graph=graph_of(until(1, on_failure={"*": "escalate"}), gives={"n": out("u", "n"), "times": ref("u", "times")}),
        acts=(act("use", outputs={"n": 50}),),
        outputs={"n": 50, "times": 1},
    ),
    Case(
        id="until-cancel",
        graph=graph_of(until(every=DAY), gives={}),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        calls={"polls": 1},
    ),
    Case(
        id="until-timeout",
        graph=graph_of(until(every=4000, caps=Caps(timeout_seconds=5000)), gives={}),
        acts=(passes(4001), passes(1000)),
        status="retryable_error",
        code="timeout",
        calls={"polls": 2},
    ),
    Case(
        id="until-timeout-between-runs-escalate-skip",
        graph=graph_of(until(every=DAY, caps=Caps(timeout_seconds=5000), on_failure={"*": "escalate"}), gives=optional_n("u")),
        acts=(passes(5001), act("skip")),
        outputs={"n": -1},
        partial=True,
        states={"u": "skipped"},
        calls={"polls": 1},
    ),
    Case(
        id="until-when",
        graph=graph_of(worker_node(), until(when=When(value=out("a"), rules=(BIG,))), gives=optional_n("u")),
        outputs={"n": -1},
        states={"u": "skipped"},
        calls={"polls": 0},
    ),
)


def nested(worker: str = "q", **more: Any) -> PipelineNode:
    return PipelineNode(name="sub", worker=worker, inputs={"n": 4}, **more)


Q = graph_of(worker_node("x", n=ref("inputs", "n"), undo=Undo(worker="undo")), gives=out("x"), name="q")
SLOW = graph_of(*Q.nodes, worker_node("y", "slow", after=after("x")), gives=out("x"), name="q")
ASKS = graph_of(*Q.nodes, HumanNode(name="h", show=out("x")), gives=out("h"), name="q")
LOSSY = graph_of(*Q.nodes, failing(on_failure={"*": "skip"}), gives=out("x"), name="q")
BROKEN = graph_of(*Q.nodes, failing(after=after("x")), gives={}, name="q")

NESTED = (
    Case(id="pipeline-ok", graph=graph_of(nested(), gives=out("sub")), inner=(Q,), outputs={"n": 8}, states={"sub": "ok"}),
    Case(
        id="pipeline-partial",
        graph=graph_of(nested(), gives=out("sub")),
        inner=(LOSSY,),
        outputs={"n": 8},
        partial=True,
        states={"sub": "partial"},
    ),
    Case(
        id="pipeline-fails-and-undoes-itself",
        graph=graph_of(nested(), gives={}),
        inner=(BROKEN,),
        status="permanent_error",
        code="broken_part",
        states={"sub": "failed"},
        calls={"undo": 1},
    ),
    Case(
        id="pipeline-fallback",
        graph=graph_of(nested(fallback=("double",)), gives=out("sub")),
        inner=(BROKEN,),
        outputs={"n": 8},
        calls={"double": 2, "undo": 1},
    ),
    Case(
        id="pipeline-asks-a-person",
        graph=graph_of(nested(), gives=out("sub")),
        inner=(ASKS,),
        acts=(lambda made, _: made.answer("approve"),),
        outputs={"n": 8},
    ),
    Case(
        id="pipeline-cancel-undoes-inside",
        graph=graph_of(nested(), gives={}),
        inner=(SLOW,),
        acts=(cancel(),),
        status="permanent_error",
        code="cancelled",
        calls={"slow": 1, "undo": 1},
    ),
    Case(
        id="pipeline-timeout-undoes-inside",
        graph=graph_of(nested(caps=Caps(timeout_seconds=5000)), gives={}),
        inner=(SLOW,),
        acts=(passes(5001),),
        status="retryable_error",
        code="timeout",
        calls={"slow": 1, "undo": 1},
    ),
    Case(
        id="pipeline-undo",
        graph=graph_of(nested(undo=Undo(worker="undo")), failing(after=after("sub")), gives={}),
        inner=(Q,),
        status="permanent_error",
        code="broken_part",
        states={"sub": "undone"},
        calls={"double": 1, "undo": 1},
    ),
    Case(
        id="pipeline-runs-itself",
        graph=graph_of(nested("p"), gives={}),
        status="permanent_error",
        code="depth_exceeded",
    ),
    Case(
        id="pipeline-not-served",
        graph=graph_of(nested(), gives={}),
        status="invalid_request",
        code="worker_not_found",
    ),
)
