"""Rows of the table that are made, not written: every kind of node with every outcome. `NOT_THERE` says why a pair has no row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.pipelines.graph.graph import (
    AnyNode,
    Caps,
    FailureAction,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    MergePart,
    PipelineNode,
    RouteNode,
    Rule,
    StepNode,
    SuperviseNode,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from tests.pipelines.cases import Act, Case, act, answer, cancel, passes
from tests.pipelines.rows import DAY, worker_node
from tests.pipelines.stage import graph_of
from tests.pipelines.templates import out, ref

FAILS, SLOW, BUYS, LOSES = "fails", "slow", "buys", "loses"
NAME, LIMIT, LATE = "x", 5000, passes(5001)
ALLOW = {"verdict": "allow", "reasons": []}
FINISH = {"$const": [{"choice": "finish", "outputs": {"n": 1}, "reason": "It is enough."}]}
Make = Callable[..., AnyNode]


class Kind(NamedTuple):
    """A kind of node: how it is made with the worker that does its work, and what differs from other kinds."""

    make: Make
    good: str
    """The worker with which it ends well. Its twin `GOOD-once` fails the first time."""
    given: Mapping[str, Any] | None = {"n": 7}
    """What a person gives instead of its outputs; None: no person can."""
    code: str = "broken_part"
    status: str = "permanent_error"
    failing: tuple[Act, ...] = ()
    """What must happen before it fails."""
    asked_again: tuple[Act, ...] = ()
    """What must happen for it to end well after a person let it try again."""
    skipped: str = "skipped"


def _worker(worker: str, **more: Any) -> WorkerNode:
    return WorkerNode(name=NAME, worker=worker, inputs={"n": 1}, **more)


def _pipeline(worker: str, **more: Any) -> PipelineNode:
    """`inner` has the pipeline."""
    return PipelineNode(name=NAME, worker="q", inputs={"n": 1}, **more)


def _map(worker: str, **more: Any) -> MapNode:
    return MapNode(name=NAME, worker=worker, over={"$const": [1]}, inputs={"n": 1}, at_most=2, **more)


def _merge(worker: str, **more: Any) -> MergeNode:
    return MergeNode(name=NAME, parts=(MergePart("a", {"n": 1}), MergePart("b", {"n": 2})), worker=worker, **more)


def _gate(worker: str, **more: Any) -> GateNode:
    return GateNode(name=NAME, candidate=ALLOW, worker=worker, **more)


def _human(worker: str, on_failure: Mapping[str, FailureAction] | None = None, **more: Any) -> HumanNode:
    """A person is the worker: a rejection is its failure."""
    action = (on_failure or {}).get("*", "fail")
    return HumanNode(name=NAME, show={"n": 1}, within_seconds=20 * DAY, on_reject=action, on_failure=dict(on_failure or {}), **more)


def _route(worker: str, **more: Any) -> RouteNode:
    return RouteNode(name=NAME, labels=("big", "small"), value={"label": "big"}, worker=worker, **more)


def _supervise(worker: str, **more: Any) -> SuperviseNode:
    return SuperviseNode(name=NAME, worker=worker, inputs={"script": FINISH}, choices={"echo": "echo"}, turns=2, **more)


def _until(worker: str, **more: Any) -> UntilNode:
    always = (Rule(path=".n", op="at_least", value=1),)
    return UntilNode(name=NAME, worker=worker, inputs={"n": 1}, rules=always, at_most=2, every_seconds=30, **more)


def _step(worker: str, **more: Any) -> StepNode:
    return StepNode(name=NAME, function="broken" if worker == FAILS else worker, inputs={"n": 1}, **more)


def _wait(worker: str, caps: Caps | None = None, **more: Any) -> WaitNode:
    """Its only failure is its time limit, and a person who lets it wait again lets it wait as long again."""
    usual = Caps() if worker == SLOW else Caps(timeout_seconds=LIMIT)
    return WaitNode(name=NAME, seconds=60 if worker == "good" else DAY, caps=usual if caps is None else caps, **more)


KINDS: dict[str, Kind] = {
    "worker": Kind(_worker, "echo"),
    "pipeline": Kind(_pipeline, "echo"),
    "map": Kind(_map, "echo", given=None),
    "merge": Kind(_merge, "merges"),
    "gate": Kind(_gate, "echo", skipped="blocked"),
    "human": Kind(
        _human, "ann", code="approval_rejected", failing=(answer("reject"),), asked_again=(answer("approve"),), skipped="blocked"
    ),
    "route": Kind(_route, "labels", given={"label": "small"}),
    "supervise": Kind(_supervise, "chooses"),
    "until": Kind(_until, "echo"),
    "step": Kind(_step, "up", code="worker_crashed", status="retryable_error"),
    "wait": Kind(_wait, "good", given=None, code="timeout", status="retryable_error", failing=(LATE,)),
}


def _row(kind: str, outcome: str, worker: str, *, acts: tuple[Act, ...] = (), **expected: Any) -> Case:
    """A pipeline with one node of this kind."""
    made = {name: expected.pop(name) for name in ("on_failure", "caps", "fallback") if name in expected}
    limits = {name: expected.pop(name) for name in ("run_timeout_seconds",) if name in expected}
    graph = graph_of(KINDS[kind].make(worker, **made), gives={"x": 1}, **limits)
    within = (_around(worker),) if kind == "pipeline" else ()
    is_ok = "code" not in expected
    return Case(id=f"{kind}-{outcome}", graph=graph, inner=within, acts=acts, outputs={"x": 1} if is_ok else None, **expected)


def _around(worker: str) -> Graph:
    """The pipeline that a node of the kind `pipeline` runs."""
    lossy = worker == LOSES
    node = worker_node("y", FAILS if lossy else worker, n=1, on_failure={"*": "skip"} if lossy else {})
    return graph_of(node, gives={"n": out("y", "n", default=0)}, name="q")


ESCALATES: dict[str, Any] = {"on_failure": {"*": "escalate"}}


def _ok(name: str) -> Case:
    kind = KINDS[name]
    return _row(name, "ok", kind.good, acts=kind.asked_again, states={NAME: "ok"})


def _fail(name: str) -> Case:
    kind = KINDS[name]
    return _row(name, "fail", FAILS, acts=kind.failing, status=kind.status, code=kind.code, states={NAME: "failed"})


def _skip(name: str) -> Case:
    kind = KINDS[name]
    return _row(name, "skip", FAILS, acts=kind.failing, on_failure={"*": "skip"}, partial=True, states={NAME: kind.skipped})


def _fallback(name: str) -> Case:
    return _row(name, "fallback", FAILS, fallback=("denied", "echo"), states={NAME: "ok"}, calls={"denied": 1, "echo": 1})


def _partial(name: str) -> Case:
    """A part of the node is lost, and the rest of it is there."""
    if name == "map":
        items = MapNode(name=NAME, worker="odd-fails", over={"$const": [1, 2]}, inputs={"n": ref("item")}, at_most=2, tolerate=1)
        graph = graph_of(items, gives={"x": 1})
    elif name == "merge":
        lost = worker_node("y", FAILS, on_failure={"*": "skip"})
        rest = MergeNode(name=NAME, parts=(MergePart("y", out("y")), MergePart("b", {"n": 2})), policy="best_effort")
        graph = graph_of(lost, rest, gives={"x": 1})
    else:
        return _row(name, "partial", LOSES, partial=True, states={NAME: "partial"})
    return Case(id=f"{name}-partial", graph=graph, outputs={"x": 1}, partial=True, states={NAME: "partial"})


def _escalate_retry(name: str) -> Case:
    kind = KINDS[name]
    acts = (*kind.failing, act("retry"), *kind.asked_again)
    return _row(name, "escalate-retry", f"{kind.good}-once", acts=acts, states={NAME: "ok"}, **ESCALATES)


def _escalate_use(name: str) -> Case:
    kind = KINDS[name]
    return _row(name, "escalate-use", FAILS, acts=(*kind.failing, act("use", outputs=kind.given)), states={NAME: "ok"}, **ESCALATES)


def _escalate_skip(name: str) -> Case:
    kind = KINDS[name]
    acts = (*kind.failing, act("skip"))
    return _row(name, "escalate-skip", FAILS, acts=acts, partial=True, states={NAME: kind.skipped}, **ESCALATES)


def _escalate_stop(name: str) -> Case:
    kind = KINDS[name]
    acts = (*kind.failing, act("stop"))
    return _row(name, "escalate-stop", FAILS, acts=acts, status=kind.status, code=kind.code, states={NAME: "failed"}, **ESCALATES)


def _escalate_silent(name: str) -> Case:
    acts = (*KINDS[name].failing, passes(8 * DAY))
    told = {"status": "permanent_error", "code": "approval_expired", "states": {NAME: "failed"}}
    return _row(name, "escalate-silent", FAILS, acts=acts, **told, **ESCALATES)


def _escalate_rejected(name: str) -> Case:
    """A person who rejects the question itself wants the run to stop."""
    kind = KINDS[name]
    acts = (*kind.failing, answer("reject"))
    return _row(name, "escalate-rejected", FAILS, acts=acts, status=kind.status, code=kind.code, states={NAME: "failed"}, **ESCALATES)


def _cancel(name: str) -> Case:
    return _row(name, "cancel", SLOW, acts=(cancel(),), status="permanent_error", code="cancelled")


def _cancel_question(name: str) -> Case:
    acts = (*KINDS[name].failing, cancel())
    return _row(name, "cancel-question", FAILS, acts=acts, status="permanent_error", code="cancelled", **ESCALATES)


def _timeout(name: str) -> Case:
    told = {"status": "retryable_error", "code": "timeout", "states": {NAME: "failed"}}
    return _row(name, "timeout", SLOW, acts=(LATE,), caps=Caps(timeout_seconds=LIMIT), **told)


def _timeout_skip(name: str) -> Case:
    told: dict[str, Any] = {"partial": True, "states": {NAME: KINDS[name].skipped}}
    return _row(name, "timeout-skip", SLOW, acts=(LATE,), caps=Caps(timeout_seconds=LIMIT), on_failure={"timeout": "skip"}, **told)


def _run_timeout(name: str) -> Case:
    return _row(name, "run-timeout", SLOW, acts=(LATE,), status="retryable_error", code="timeout", run_timeout_seconds=LIMIT)


def _budget(name: str) -> Case:
    """The worker asks its model for more than the node may spend."""
    told: dict[str, Any] = {"status": "permanent_error", "code": "budget_exceeded", "states": {NAME: "failed"}, "calls": {BUYS: 1}}
    return _row(name, "budget", BUYS, caps=Caps(max_tokens=9), **told)


def _budget_skip(name: str) -> Case:
    told: dict[str, Any] = {"partial": True, "states": {NAME: KINDS[name].skipped}}
    return _row(name, "budget-skip", BUYS, caps=Caps(max_tokens=9), on_failure={"budget_exceeded": "skip"}, **told)


def _silent(name: str) -> Case:
    told = {"status": "permanent_error", "code": "approval_expired", "states": {NAME: "failed"}}
    return _row(name, "silent", SLOW, acts=(passes(20 * DAY + 1),), **told)


OUTCOMES: dict[str, Callable[[str], Case]] = {
    "ok": _ok,
    "partial": _partial,
    "fail": _fail,
    "fallback": _fallback,
    "skip": _skip,
    "escalate-retry": _escalate_retry,
    "escalate-use": _escalate_use,
    "escalate-skip": _escalate_skip,
    "escalate-stop": _escalate_stop,
    "escalate-silent": _escalate_silent,
    "escalate-rejected": _escalate_rejected,
    "cancel": _cancel,
    "cancel-question": _cancel_question,
    "timeout": _timeout,
    "timeout-skip": _timeout_skip,
    "run-timeout": _run_timeout,
    "budget": _budget,
    "budget-skip": _budget_skip,
    "silent": _silent,
}
_NO_FALLBACK = "only workers, pipelines and maps have fallbacks"
_NO_CALLS = "it runs no worker, so it spends nothing"
_WHOLE = "it is there or it is not: it has no parts"
_ASKS_NOBODY = "it asks no person by itself; its escalation is a row"
_AT_ONCE = "a step is no wait: it ends within seconds, inside one invocation"
NOT_THERE: dict[tuple[str, str], str] = {
    **{(kind, "fallback"): _NO_FALLBACK for kind in KINDS if kind not in ("worker", "pipeline", "map")},
    **{(kind, outcome): _NO_CALLS for kind in ("human", "step", "wait") for outcome in ("budget", "budget-skip")},
    **{(kind, "partial"): _WHOLE for kind in KINDS if kind not in ("pipeline", "map", "merge")},
    **{(kind, "silent"): _ASKS_NOBODY for kind in KINDS if kind != "human"},
    **{("step", outcome): _AT_ONCE for outcome in ("cancel", "timeout", "timeout-skip", "run-timeout")},
    **{(kind, "escalate-use"): "a person cannot give what it gives" for kind in ("map", "wait")},
}
"""The pairs without a row, and why."""
PAIRS = [(kind, outcome) for kind in KINDS for outcome in OUTCOMES]
PRODUCT = tuple(OUTCOMES[outcome](kind) for kind, outcome in PAIRS if (kind, outcome) not in NOT_THERE)
