"""The builder: pipelines as authors write them give the graph that they mean, and mistakes teach at the author's line."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Pipeline
from holdfast.pipelines.graph.graph import (
    GIVES,
    After,
    AnyNode,
    Caps,
    MapNode,
    MergeNode,
    PipelineNode,
    RouteNode,
    Rule,
    StepNode,
    SuperviseNode,
    Undo,
    UntilNode,
    WaitNode,
    When,
    WorkerNode,
)
from holdfast.pipelines.graph.refusals import PipelineInvalid
from tests.pipelines.check_graphs import RULES, vendor_research


def test_the_example_of_the_design_builds_as_written() -> None:
    p = Pipeline("vendor-research.md")  # fmt: skip

    pages  = p.map("pages", "web-scrape-worker", p.inputs.urls, {"url": p.item, "extraction_spec": p.inputs.spec}, at_most=200, at_once=8, tolerate="20%")  # fmt: skip # noqa: E501
    facts  = p.worker("facts", "fact-worker", {"pages": pages.ok.outputs}, fallback=["fact-worker-small"])  # fmt: skip
    prices = p.worker("prices", "price-worker", {"vendor": p.inputs.vendor}, on_failure={"access_denied": "skip"})
    report = p.merge("report", [facts, prices], policy="union", conflicts="report")
    check  = p.gate("check", "validator-worker", {"candidate": report.outputs, "rules": p.const(RULES)}, revise=facts, rounds=2, on_block="escalate")  # fmt: skip # noqa: E501
    signed = p.human("sign-off", show=report.outputs, after=[check], approvers=["research-leads"], within="2d")
    post   = p.worker("publish", "publish-worker", {"report": report.outputs}, after=[signed], undo="unpublish-worker")  # fmt: skip
    p.gives({"report": report.outputs, "url": post.outputs.url})

    assert (p.draft().nodes, p.draft().gives) == (vendor_research().nodes, vendor_research().gives)


@pytest.fixture
def p() -> Pipeline:
    return Pipeline("trial", "1.0", inputs={}, outputs={})


def only(p: Pipeline) -> AnyNode:
    p.gives(None)
    (node,) = p.draft().nodes
    return node


def tidy(inputs: Any) -> Any:
    return inputs


def test_references_are_written_as_paths(p: Pipeline) -> None:
    pages = p.map("pages", "w", p.inputs.urls, p.item, at_most=5)
    gate = p.gate("gate", candidate=pages.ok.outputs, rules=RULES)
    route = p.route("way", "router", {}, labels=["a", "b"])
    merge = p.merge("all", {"web": pages, "gate": gate}, policy="best_effort")
    p.gives(
        [
            p.inputs["odd name"][0].each.x.default(None),
            p.inputs.urls.length.default(0),
            p.index,
            [
                pages,
                pages.ok,
                pages.ok[0],
                pages.ok.length,
                pages.ok.outputs.title,
                pages.failed.error,
                pages.counts.failed,
                pages.items.each,
            ],
            [gate.verdict, gate.reasons, gate.round, route, route.label],
            [merge, merge.conflicts, merge.completeness, merge.missing],
            p.concat(p.inputs.a, [1]),
            p.text("about {}", p.inputs.a),
            p.const({"$x": (1, 2)}),
            (1, None, True),
        ]
    )
    assert p.draft().gives == [
        {"$from": "inputs", "path": ["odd name", 0, "*", "x"], "default": None},
        {"$from": "inputs", "path": ["urls"], "length": True, "default": 0},
        {"$from": "index"},
        [
            {"$from": "pages", "path": ["ok", "*", "outputs"]},
            {"$from": "pages", "path": ["ok"]},
            {"$from": "pages", "path": ["ok", 0]},
            {"$from": "pages", "path": ["ok"], "length": True},
            {"$from": "pages", "path": ["ok", "*", "outputs", "title"]},
            {"$from": "pages", "path": ["failed", "*", "error"]},
            {"$from": "pages", "path": ["counts", "failed"]},
            {"$from": "pages", "path": ["items", "*"]},
        ],
        [
            {"$from": "gate", "path": ["verdict"]},
            {"$from": "gate", "path": ["reasons"]},
            {"$from": "gate", "path": ["round"]},
            {"$from": "way", "path": ["label"]},
            {"$from": "way", "path": ["label"]},
        ],
        [
            {"$from": "all", "path": ["outputs"]},
            {"$from": "all", "path": ["conflicts"]},
            {"$from": "all", "path": ["completeness"]},
            {"$from": "all", "path": ["missing"]},
        ],
        {"$concat": [{"$from": "inputs", "path": ["a"]}, [1]]},
        {"$text": "about {}", "with": [{"$from": "inputs", "path": ["a"]}]},
        {"$const": {"$x": [1, 2]}},
        [1, None, True],
    ]


def test_what_every_node_takes(p: Pipeline) -> None:
    p.wait(
        "pause",
        "10m",
        after="other",
        when=p.inputs.n.at_least(3),
        on_failure="skip",
        timeout="1h",
        max_tokens=10,
        max_cost_usd=0.1,
    )
    assert only(p) == WaitNode(
        name="pause",
        seconds=600,
        after=(After("other"),),
        when=When(value={"$from": "inputs"}, rules=(Rule(path=".n", op="at_least", value=3),)),
        on_failure={"*": "skip"},
        caps=Caps(timeout_seconds=3600, max_tokens=10, max_cost_usd=Decimal("0.1")),
    )


def test_several_conditions_are_asked_of_one_list(p: Pipeline) -> None:
    gate = p.gate("gate", candidate=1, rules=RULES)
    p.wait("pause", "1s", when=[p.inputs.n.exists(), gate.verdict.equals("allow"), p.inputs.tags.length.more(1)])
    p.gives(None)
    assert p.draft().nodes[1].when == When(
        value=[{"$from": "inputs"}, {"$from": "gate"}, {"$from": "inputs", "path": ["tags"], "length": True}],
        rules=(
            Rule(path="[0].n", op="exists"),
            Rule(path="[1].verdict", op="equals", value="allow"),
            Rule(path="[2]", op="more", value=1),
        ),
    )


def test_when_takes_a_value_and_rules_too(p: Pipeline) -> None:
    p.wait("pause", "1s", when=(p.inputs.n, [{"op": "in", "value": [1]}]))
    assert only(p).when == When(value={"$from": "inputs", "path": ["n"]}, rules=(Rule(path="", op="in", value=[1]),))


def test_every_condition_is_a_rule(p: Pipeline) -> None:
    n = p.inputs.n
    asked = [
        n.differs(1),
        n.less(1),
        n.at_most(1),
        n.more(1),
        n.is_in([1]),
        n.not_in([1]),
        n.missing(),
        n.matches("a"),
        n.default(1).equals(1),
    ]
    assert [(each.rule.op, each.rule.path) for each in asked] == [
        *((op, ".n") for op in ("differs", "less", "at_most", "more", "in", "not_in", "missing", "matches")),
        ("equals", ""),
    ]


def test_a_route_by_rules_and_a_route_by_worker(p: Pipeline) -> None:
    size = p.route("size", rules={"small": p.inputs.n.less(10), "mid": [p.inputs.n.less(99)]}, otherwise="large")
    kind = p.route("kind", "classifier", {"text": p.inputs.text}, labels=["a", "b"], otherwise="b")
    p.route("way", inputs=p.inputs.n, rules={"x": [{"op": "equals", "value": 1}]})
    p.wait("pause", "1s", after=[size.to("small"), kind.to("b")])
    p.gives(None)
    assert p.draft().nodes == (
        RouteNode(
            name="size",
            labels=("small", "mid", "large"),
            value={"$from": "inputs"},
            rules={"small": (Rule(path=".n", op="less", value=10),), "mid": (Rule(path=".n", op="less", value=99),)},
            otherwise="large",
        ),
        RouteNode(
            name="kind", labels=("a", "b"), value={"text": {"$from": "inputs", "path": ["text"]}}, worker="classifier", otherwise="b"
        ),
        RouteNode(name="way", labels=("x",), value={"$from": "inputs", "path": ["n"]}, rules={"x": (Rule(path="", op="equals", value=1),)}),
        WaitNode(name="pause", seconds=1, after=(After("size", "small"), After("kind", "b"))),
    )


def test_a_supervisor_a_loop_and_a_pipeline_inside(p: Pipeline) -> None:
    rule = {"path": ".state", "op": "equals", "value": "ready"}
    plan = p.supervise("plan", "s", {"goal": p.inputs.goal}, choices={"search": "a", "write": "b"}, turns=6, undo={"write": "c"})
    poll = p.until("poll", "status", {"id": plan.outputs.id}, rules=[rule], at_most=30, every="30s", timeout="1h")
    sub = p.pipeline("sub", "other@1.0", {"x": poll.outputs, "n": [poll.times, plan.turns, plan.choices]}, fallback=["w"], undo="u")
    p.gives(sub)
    assert p.draft().nodes == (
        SuperviseNode(
            name="plan",
            worker="s",
            inputs={"goal": {"$from": "inputs", "path": ["goal"]}},
            choices={"search": "a", "write": "b"},
            turns=6,
            undo={"write": "c"},
        ),
        UntilNode(
            name="poll",
            worker="status",
            inputs={"id": {"$from": "plan", "path": ["outputs", "id"]}},
            rules=(Rule(path=".state", op="equals", value="ready"),),
            at_most=30,
            every_seconds=30,
            caps=Caps(timeout_seconds=3600),
        ),
        PipelineNode(
            name="sub",
            worker="other@1.0",
            inputs={
                "x": {"$from": "poll", "path": ["outputs"]},
                "n": [{"$from": "poll", "path": ["times"]}, {"$from": "plan", "path": ["turns"]}, {"$from": "plan", "path": ["choices"]}],
            },
            fallback=("w",),
            undo=Undo(worker="u"),
        ),
    )


def test_a_step_names_a_function_of_the_file(p: Pipeline) -> None:
    step = p.step("tidy", tidy, {"x": p.inputs.x})
    p.gives(step.outputs.y)
    assert p.draft().nodes == (StepNode(name="tidy", function="tidy", inputs={"x": {"$from": "inputs", "path": ["x"]}}),)


def test_undo_takes_a_worker_and_its_inputs(p: Pipeline) -> None:
    one = p.worker("one", "w", {}, undo=("undoer", {"ids": [p.this.outputs.id, p.inputs.id], "all": p.concat(p.this.outputs.all)}))
    p.map("two", "w", [], p.item, at_most=1, tolerate=3, undo=("undoer", {"id": one.outputs.id}))
    p.merge("three", [one], worker="aggregator-worker", conflicts="judge-worker")
    p.gives(None)
    first, two, three = p.draft().nodes
    assert isinstance(first, WorkerNode)
    assert first.undo == Undo(
        worker="undoer",
        inputs={
            "ids": [{"$from": "one", "path": ["outputs", "id"]}, {"$from": "inputs", "path": ["id"]}],
            "all": {"$concat": [{"$from": "one", "path": ["outputs", "all"]}]},
        },
    )
    assert isinstance(two, MapNode)
    assert isinstance(three, MergeNode)
    assert (two.undo, two.tolerate, two.tolerate_percent) == (
        Undo(worker="undoer", inputs={"id": {"$from": "one", "path": ["outputs", "id"]}}),
        3,
        False,
    )
    assert (three.policy, three.worker, three.conflicts, three.resolver) == (None, "aggregator-worker", "worker", "judge-worker")


def test_each_call_records_the_authors_line(p: Pipeline) -> None:
    p.wait("one", "1s")
    helped(p)
    p.gives(None)
    lines = p.draft().lines
    assert {line.file for line in lines.values()} == {__file__}
    text = Path(__file__).read_text().splitlines()
    assert 'p.wait("one"' in text[lines["one"].line - 1]
    assert 'p.wait("two"' in text[lines["two"].line - 1]
    assert "p.gives(None)" in text[lines[GIVES].line - 1]


def helped(p: Pipeline) -> None:
    p.wait("two", "1s")


MISTAKES = {
    'p.worker("Facts", "w", {})': "The node 'Facts': 'Facts' is not a name of a node. Write 1 to 64 lower-case letters",
    "p.worker(5, 'w', {})": "The name of a node is 5; it must be a text, and the first argument.",
    'p.worker("inputs", "w", {})': "is reserved: in a reference it does not mean a node",
    'p.worker("a", "w", {}); p.worker("a", "w", {})': "Two nodes are named 'a'; the other is written in",
    'p.worker("a", 5, {})': "The node 'a': worker: Expected `str`, got `int`.",
    'p.worker("a", "no id", {})': "is not the id of a worker. Write `id` or `id@version`",
    'p.worker("a", "w", {"x": {1, 2}})': "inputs.x is of the type set, which is neither JSON nor a reference.",
    'p.worker("a", "w", {"x": float("nan")})': "inputs.x: The constant is not JSON",
    'p.worker("a", "w", {5: 1})': "inputs has the key 5; the keys of an object must be texts.",
    'p.worker("a", "w", {"$from": "x"})': "write p.const({…}) around it",
    'p.worker("a", "w", p.item)': "`item` is known only in the inputs of a map and of its undo.",
    'p.worker("a", "w", p.const("x" * 70_000))': "more than 65536 bytes",
    'p.worker("a", "w", {}, after=5)': "after= is 5; give the node itself",
    'p.worker("a", "w", {}, on_failure="retry")': "it must be 'fail', 'skip' or 'escalate'.",
    'p.worker("a", "w", {}, on_failure=3)': "on_failure= is 3; it must be 'fail', 'skip' or 'escalate', or a dict from error codes",
    'p.worker("a", "w", {}, on_faliure="skip")': "on_faliure= is unknown here. Did you mean on_failure=?",
    'p.worker("a", "w", {}, timeout=60)': "timeout= is 60. Write an integer above 0 and s, m, h or d as a text",
    'p.worker("a", "w", {}, timeout="1.5h")': "timeout= is '1.5h'. Write an integer",
    'p.worker("a", "w", {}, max_tokens="many")': "max_tokens= is 'many'; it must be a whole number.",
    'p.worker("a", "w", {}, max_cost_usd="cheap")': "it must be an amount in US dollars, 0.50 for instance.",
    'p.worker("a", "w", {}, undo=5)': "undo= is 5; it must be the id of a worker, or a pair (id, inputs).",
    'p.worker("a", "w", {"x": p.this.outputs})': "`this` is known only in the inputs of the undo= of a worker or pipeline node.",
    'p.map("a", "w", [], {}, at_most=1, undo=("u", p.this))': "`this` is known only in the inputs of the undo= of a worker",
    'p.worker("a", "w", {}, fallback=5)': "fallback= is 5; it must be a list of texts.",
    'p.worker("a", "w", {}, when={"op": "exists"})': "a pair (ref, [{'path': …, 'op': …, 'value': …}])",
    'p.worker("a", "w", {}, when=(p.inputs, [{"op": "is"}]))': "has a wrong rule: Invalid enum value 'is'",
    'p.map("a", "w", [], {})': "needs at_most=, the most elements that its list may have: at_most=200.",
    'p.map("a", "w", [], {}, at_most=10**6)': "at_most is 1000000; it must be at least 1 and at most 100000.",
    'p.map("a", "w", [], {}, at_most=1, tolerate="half")': "a whole percentage as a text: '20%'.",
    'p.merge("a", [p.inputs])': "needs policy= or worker=, one of the two",
    'p.merge("a", 5, policy="union")': "give a list of nodes, or a dict",
    'p.merge("a", [p.text("x")], policy="union")': "which has no name. Give the parts as a dict",
    'p.merge("a", [p.inputs], policy="best")': "Invalid enum value 'best'",
    'p.gate("a", candidate=1)': "A gate needs a worker, a schema or rules that judge the candidate.",
    'p.gate("a", "w", {}, revise="b")': "needs revise= and rounds= together",
    'p.gate("a", "w", {}, revise="b", rounds=100)': "rounds is 100; it must be at least 0 and at most 20.",
    'p.gate("a", candidate=1, rules=[{"path": "x", "op": "exists"}])': "is not understood from 'x' on",
    'p.human("a", show=1, within=5)': "within= is 5. Write an integer",
    'p.route("a")': "needs a worker with labels=, or rules=: one of the two.",
    'p.route("a", "w", {})': "A route needs at least one label.",
    'p.route("a", rules={"x": {"op": "exists"}})': "Rules that are dicts need the value that they judge",
    'p.route("a", "w", {}, labels=["x"]).to("y")': "'y' is not a label of <route a>; it has x.",
    'p.supervise("a", "w", {}, choices=["x"], turns=2)': "choices= is ['x']; it must be a dict from labels to workers",
    'p.supervise("a", "w", {}, choices={}, turns=2)': "A supervisor needs at least one choice.",
    'p.supervise("a", "w", {}, choices={"finish": "v"}, turns=2)': "'finish' is what the supervisor chooses to end the node",
    'p.supervise("a", "w", {}, choices={"x": "no id"}, turns=2)': "'no id' is not the id of a worker",
    'p.supervise("a", "w", {}, choices={"x": "v"}, turns=0)': "turns is 0; it must be at least 1 and at most 100.",
    'p.supervise("a", "w", {}, choices={"x": "v"}, turns=2, undo={"y": "v"})': "'y' is not one of the labels of `choices`.",
    'p.supervise("a", "w", {"so_far": []}, choices={"x": "v"}, turns=2)': "Holdfast adds an input `so_far` for the supervisor",
    'p.until("a", "w", {}, rules=[], at_most=2, every="1s")': "Rules say when the loop ends: give at least one.",
    'p.until("a", "w", {}, rules={"op": "exists"}, at_most=0, every="1s")': "at_most is 0; it must be at least 1 and at most 1000.",
    'p.until("a", "w", {}, rules={"op": "exists"}, at_most=2, every=30)': "every= is 30. Write an integer",
    'p.step("a", lambda inputs: 1, {})': "It must be a function at the top level of this file, with a name",
    'p.step("a", "tidy", {})': "It must be a function at the top level of this file, with a name",
    'p.wait("a", "soon")': "The duration is 'soon'. Write an integer",
    'p.worker("a", "w", {"x": p.wait("b", "1s")})': "<wait b> gives no value. Name it in after=",
    'p.worker("a", "w", {}).url': "<worker a> has no 'url'; it has name, outputs, status. Did you mean a.outputs.url?",
    "if p.inputs.x: pass": "`if`, `and` and `or` cannot use it",
    "if p.inputs.x == 1: pass": "`==` cannot compare it. Write ref.equals(…)",
    "if p.inputs.x < 1: pass": "cannot compare it",
    "if p.inputs.x.equals(1): pass": "A condition has no value while the pipeline is built",
    "for x in p.inputs.x: pass": "`for` cannot loop over it. Use p.map(…)",
    "len(p.inputs.x)": "Write ref.length.",
    "1 in p.inputs.x": "Write ref.is_in([…])",
    'f"about {p.inputs.x}"': 'Write p.text("… {} …", ref).',
    "p.inputs.x.length.y": "end a reference; write the path before them",
    'p.inputs["*"]': "Write ref.each",
    "p.inputs[-1]": "has the index -1",
    "p.inputs.x.default(p.inputs.y)": "A constant must be JSON",
    'p.text("no place", 1)': "it needs one for each place",
    "p.gives(1); p.gives(2)": "p.gives(…) was called before",
    "p.draft()": "has no outputs: call p.gives({…}) at the end.",
    "for n in range(1001): p.wait(f'w{n}', '1s')": "at most 1000 nodes. Use p.map(…)",
}


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_says_what_to_write(p: Pipeline, code: str) -> None:
    with pytest.raises(PipelineInvalid) as mistake:
        exec(code, {"p": p, "tidy": tidy})
    assert MISTAKES[code] in str(mistake.value)


def test_the_builder_loads_little() -> None:
    """It is loaded in the sandbox by every file that declares a pipeline."""
    code = "import sys; from holdfast import Pipeline; print(*sorted(sys.modules), sep='\\n')"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split())
    assert loaded & {"asyncio", "jsonschema_rs", "re2", "sqlite3", "holdfast.workers", "holdfast.hosts"} == set()
