"""JSON, templates and graphs: strategies of property tests, and one graph that has everything."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from holdfast.pipelines.graph.graph import (
    After,
    AnyNode,
    Caps,
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
    Then,
    Undo,
    UntilNode,
    WaitNode,
    When,
    WorkerNode,
)

CONTRACT: dict[str, Any] = {"worker_id": "trial", "version": "1.0", "input_schema": {}, "output_schema": {}}
FIELDS = st.sampled_from(["a", "b", "", "*", "$from", "odd name", 'with " quote', "é"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
PATHS = st.lists(st.sampled_from(["a", "b", "outputs", "*", 0, 1, "odd name"]), max_size=4)
SOURCES = st.sampled_from(["inputs", "one", "two", "item", "index"])


@st.composite
def _references(draw: st.DrawFn) -> dict[str, Any]:
    reference: dict[str, Any] = {"$from": draw(SOURCES), "path": draw(PATHS)}
    if draw(st.booleans()):
        reference["default"] = draw(JSON)
    if draw(st.booleans()):
        reference["length"] = True
    return reference


REFERENCES = _references()
TEMPLATES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | REFERENCES | JSON.map(lambda value: {"$const": value}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda each: {"$concat": each})
        | st.lists(inner, max_size=2).map(lambda each: {"$text": "{}".join(["x"] * (len(each) + 1)), "with": each})
    ),
    max_leaves=8,
)
"""Templates of every form."""

_OPS = ["equals", "differs", "less", "at_most", "more", "at_least", "in", "not_in", "exists", "missing", "matches"]
RULES = st.builds(
    Rule,
    path=st.sampled_from(["", ".a", "[0]", "[*]", ".a[*].b", '["odd name"]', ".b[1]"]),
    op=st.sampled_from([*_OPS, "length_at_least", "length_at_most"]),
    value=JSON | st.sampled_from(["a+", "(", 3]),
)
_NAMES = st.sampled_from(["one", "two", "three", "sign-off", "a_b"])
_FREE = TEMPLATES.filter(lambda template: "'item'" not in repr(template) and "'index'" not in repr(template))
_COMMON: dict[str, Any] = {
    "name": _NAMES,
    "after": st.lists(st.builds(After, _NAMES, st.none() | _NAMES), max_size=2).map(tuple),
    "when": st.none() | st.builds(When, value=_FREE, rules=st.lists(RULES, max_size=2).map(tuple)),
    "on_failure": st.dictionaries(st.sampled_from(["*", "access_denied"]), st.sampled_from(["fail", "skip", "escalate"])),
    "caps": st.builds(
        Caps,
        timeout_seconds=st.none() | st.integers(1, 1000),
        max_tokens=st.none() | st.integers(0, 1000),
        max_cost_usd=st.none() | st.decimals(0, 100, places=3) | st.just(Decimal("0.50")),
    ),
}
_SAFETY: dict[str, Any] = {
    "fallback": st.lists(st.just("other@2.0"), max_size=2).map(tuple),
    "undo": st.none() | st.builds(Undo, worker=st.just("undoer"), inputs=_FREE),
}


def _chain(times: list[int]) -> tuple[Then, ...]:
    return tuple(Then(at, ("eve", "heads")) for at in sorted(times))


NODES: st.SearchStrategy[AnyNode] = st.one_of(
    st.builds(WorkerNode, worker=st.just("w"), inputs=_FREE, **_SAFETY, **_COMMON),
    st.builds(
        MapNode,
        worker=st.just("w"),
        over=_FREE,
        inputs=TEMPLATES,
        at_most=st.integers(1, 100_000),
        at_once=st.integers(1, 100),
        tolerate=st.integers(0, 100),
        tolerate_percent=st.booleans(),
        **_SAFETY,
        **_COMMON,
    ),
    st.builds(MergeNode, parts=_FREE.map(lambda value: (MergePart("one", value),)), policy=st.sampled_from(["union", "first"]), **_COMMON),
    st.builds(GateNode, candidate=_FREE, rules=st.lists(RULES, min_size=1, max_size=2).map(tuple), rounds=st.integers(0, 20), **_COMMON),
    st.builds(HumanNode, show=_FREE, question=st.text(max_size=5), within_seconds=st.integers(1, 1000), **_COMMON),
    st.builds(
        HumanNode,
        show=_FREE,
        approvers=st.just(("ann", "leads")),
        form=st.none() | st.dictionaries(st.sampled_from(["type", "title", "enum"]), JSON),
        votes=st.integers(1, 20),
        then=st.lists(st.integers(1, 600_000), max_size=3, unique=True).map(_chain),
        risk=st.sampled_from([None, "low", "high"]),
        **_COMMON,
    ),
    st.builds(RouteNode, labels=st.just(("small", "large")), value=_FREE, rules=RULES.map(lambda rule: {"small": (rule,)}), **_COMMON),
    st.builds(PipelineNode, worker=st.just("q@1.0"), inputs=_FREE, **_SAFETY, **_COMMON),
    st.builds(
        SuperviseNode,
        worker=st.just("w"),
        inputs=_FREE.filter(lambda template: "so_far" not in repr(template)),
        choices=st.just({"left": "w", "right": "other@2.0"}),
        turns=st.integers(1, 100),
        undo=st.sampled_from([{}, {"left": "undoer"}]),
        **_COMMON,
    ),
    st.builds(
        UntilNode,
        worker=st.just("w"),
        inputs=_FREE,
        rules=st.lists(RULES, min_size=1, max_size=2).map(tuple),
        at_most=st.integers(1, 1000),
        every_seconds=st.integers(1, 1000),
        **_COMMON,
    ),
    st.builds(StepNode, function=st.just("tidy"), inputs=_FREE, **_COMMON),
    st.builds(WaitNode, seconds=st.integers(1, 1000), **_COMMON),
)
GRAPHS = st.builds(
    Graph,
    contract=st.just(CONTRACT),
    nodes=st.lists(NODES, max_size=4, unique_by=lambda node: node.name).map(tuple),
    gives=_FREE,
    gates=st.sampled_from(["advised", "required"]),
    steps=st.none() | st.just(f"{'0' * 64}/file.py"),
)
RULE = Rule(path=".a", op="equals", value=1, code="odd", message="Odd.", severity="warning")
WHOLE = Graph(
    contract=CONTRACT,
    nodes=(
        WorkerNode(
            name="facts",
            worker="fact-worker@1.0",
            inputs={"a": {"$from": "inputs", "path": ["a", 0, "*"], "default": None, "length": True}},
            fallback=("small",),
            undo=Undo(worker="undoer", inputs={"$const": {"$x": 1}}),
            after=(After("way", "left"),),
            when=When(value={"$from": "inputs"}, rules=(RULE,)),
            on_failure={"*": "skip"},
            caps=Caps(timeout_seconds=5, max_tokens=10, max_cost_usd=Decimal("0.50")),
        ),
        MapNode(name="pages", worker="w", over=[], inputs={"$from": "item"}, at_most=3, tolerate=20, tolerate_percent=True),
        MergeNode(
            name="all", parts=(MergePart("facts", {"$concat": [[1]]}),), policy="union", key="id", conflicts="worker", resolver="judge"
        ),
        GateNode(name="gate", candidate={"$text": "{}", "with": [1]}, schema={"type": "object"}, rules=(RULE,), revise="facts", rounds=2),
        HumanNode(name="sign-off", show=1, question="Well?", approvers=("ann",), within_seconds=60, on_reject="skip"),
        RouteNode(name="way", labels=("left", "right"), value=1, rules={"left": (RULE,)}, otherwise="right"),
        PipelineNode(name="sub", worker="other@1.0", inputs={}, fallback=("w",), undo=Undo(worker="undoer")),
        SuperviseNode(name="plan", worker="w", inputs={}, choices={"left": "w", "right": "v"}, turns=6, undo={"left": "undoer"}),
        UntilNode(name="poll", worker="w", inputs={}, rules=(RULE,), at_most=30, every_seconds=30),
        StepNode(name="tidy", function="tidy", inputs={}),
        WaitNode(name="pause", seconds=60),
        HumanNode(name="form", show=1, approvers=("leads",), form={"type": "object"}, votes=2, then=(Then(60, ("eve",)),), risk="high"),
    ),
    gives={"x": {"$from": "pages", "path": ["ok"]}},
    gates="required",
    steps=f"{'0' * 64}/file.py",
)
"""A graph with every kind of node, and with every member that a node can have."""
