"""Every problem of the table, by the smallest graph that has it; and graphs that have none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast.contract.terms import ProblemLevel
from holdfast.pipelines.check.known import WorkersById
from holdfast.pipelines.check.nested import with_pipelines
from holdfast.pipelines.check.table import MEANINGS, Found
from holdfast.pipelines.check.whole import problems
from holdfast.pipelines.graph.graph import (
    GIVES,
    After,
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
    SourceLine,
    SuperviseNode,
    Undo,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from tests.conftest import ROOT
from tests.drawings.pipeline_problems import page
from tests.pipelines.check_graphs import (
    KNOWN,
    NUMBER,
    PLAIN,
    TEXT,
    VENDOR_WORKERS,
    WRITER,
    gate,
    graph,
    known,
    shape,
    vendor_research,
    with_node,
    work,
    worker,
)
from tests.pipelines.templates import out, ref


class Case(NamedTuple):
    code: str
    node: str | None
    graph: Graph
    workers: WorkersById = KNOWN
    says: str = ""


LISTS = shape("*", texts={"type": "array", "items": TEXT})
OBJECTS = shape("*", list={"type": "array", "items": shape("*", text=TEXT)})


def _mapped(text: Any) -> MapNode:
    """A map whose undo takes one text."""
    undo = Undo(worker="plain", inputs={"text": text})
    return MapNode(name="m", worker="plain", over=ref("inputs", "list"), inputs=ref("item"), at_most=9, undo=undo)


ROUTE = RouteNode(name="r", labels=("a", "b"), value=ref("inputs", "text"), rules={})
NUMBERS = known(PLAIN, worker("numbers", shape("*", text=NUMBER), shape("*", text=NUMBER)))
LOOSE = known(PLAIN, worker("loose", None, shape("", closed=False, text=TEXT, more=TEXT)))
SAFER = known(worker("main", tools="fetch_url"), worker("wider", tools="fetch_url post"), worker("numbers", gives=shape("*", text=NUMBER)))
MERGER = known(PLAIN, worker("merger", shape("parts", parts={"type": "array"}, merge_policy={}), shape("*", something=TEXT)))
HUGE: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {}}
for one, two in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True):
    HUGE["$defs"][one] = shape("*", x={"$ref": f"#/$defs/{two}"}, y={"$ref": f"#/$defs/{two}"})
HUGE["$defs"]["q"] = TEXT
LARGE = known(worker("large", HUGE, HUGE))


def looped(**more: Any) -> GateNode:
    return gate("g", "a", revise="a", **{"rounds": 2, **more})


SUPERVISOR = worker(
    "supervisor",
    shape("*", text=TEXT, choices={"type": "array"}, so_far={"type": "array"}, turns_left={"type": "integer"}),
    shape("choice reason", choice=TEXT, reason=TEXT, inputs={"type": "object"}, outputs=shape("*", text=TEXT)),
)
SILENT = worker(
    "silent", SUPERVISOR.contract.input_schema, shape("choice reason", choice={"enum": ["a", "finish"]}, reason=TEXT, outputs={})
)
SUPERVISED = known(PLAIN, WRITER, SUPERVISOR, SILENT, worker("numbers", shape("*", n=NUMBER)))


def supervise(worker: str = "supervisor", **more: Any) -> SuperviseNode:
    given = {"inputs": {"text": ref("inputs", "text")}, "choices": {"a": "plain"}, "turns": 3, **more}
    return SuperviseNode(name="s", worker=worker, **given)


def until(worker: str = "plain", path: str = ".text", **more: Any) -> UntilNode:
    given = {"inputs": {"text": ref("inputs", "text")}, "at_most": 9, "every_seconds": 30, **more}
    return UntilNode(name="u", worker=worker, rules=(Rule(path=path, op="equals", value="ready"),), **given)


OF_S, OF_U, OF_SUB = {"text": out("s", "text")}, {"text": out("u", "text")}, {"text": out("sub", "text")}


def nested(worker: str = "inner", **more: Any) -> PipelineNode:
    return PipelineNode(name="sub", worker=worker, inputs={"text": ref("inputs", "text")}, **more)


def named(name: str, of: Graph) -> Graph:
    return msgspec.structs.replace(of, contract={**of.contract, "worker_id": name})


def _guarded() -> WorkerNode:
    return work("w", "x", "writer", after=(After("g"),))


INNER = with_pipelines(KNOWN, [named("inner", graph(work("x")))])
ROUND = with_pipelines(
    KNOWN, [named("inner", graph(nested("middle"), gives=OF_SUB)), named("middle", graph(nested("tested-pipeline"), gives=OF_SUB))]
)
WRITES = with_pipelines(KNOWN, [named("inner", graph(work("x", worker="writer")))])

CASES = [
    Case("duplicate_name", "a", graph(work("a"), work("a"))),
    Case("reserved_name", "item", graph(work("item"), gives={"text": ref("inputs", "text")}, gates="advised")),
    Case("unknown_worker", "a", graph(work("a", worker="plane")), says="Did you mean `plain`?"),
    Case("unknown_worker", "a", graph(work("a", fallback=("nothing",)))),
    Case("unknown_worker", "a", graph(work("a", undo=Undo(worker="nothing")))),
    Case("unknown_version", "a", graph(work("a", worker="plain@2.0")), says="known in `1.0`"),
    Case("cycle", "a", graph(work("a", "b"), work("b", "a")), says="`a`, `b` wait for each other"),
    Case("cycle", "a", graph(work("a", "a")), says="waits for itself"),
    Case("cycle", "a", graph(work("a", after=(After("b"),)), work("b", "a"))),
    Case("unknown_node", "a", graph(work("a", "gone"))),
    Case("unknown_node", "a", graph(work("a", after=(After("gone"),)))),
    Case("unknown_node", "g", graph(work("a"), gate("g", "a", revise="gone", rounds=1))),
    Case("unknown_node", None, graph(work("a"), gives={"text": out("gone", "text")})),
    Case("not_upstream", "a", graph(work("a", undo=Undo(worker="plain", inputs={"text": out("b", "text")})), work("b", "a"))),
    Case("item_outside_map", "a", graph(work("a", inputs={"text": ref("item")}))),
    Case("unreachable_node", "b", graph(work("a"), work("b"), gives={"text": out("a", "text")})),
    Case("never_runs", "a", graph(ROUTE, work("a", after=(After("r", "a"), After("r", "b"))))),
    Case("unknown_label", "a", graph(ROUTE, work("a", after=(After("r", "c"),))), says="it has `a`, `b`"),
    Case("unknown_label", "b", graph(work("a"), work("b", after=(After("a", "x"),))), says="is not a route"),
    Case("unknown_label", "r", graph(RouteNode(name="r", labels=("a",), value=1, rules={"b": ()}), work("a", after=(After("r", "a"),)))),
    Case("unbounded_loop", "g", graph(work("a"), looped(rounds=0))),
    Case("unbounded_loop", "a", graph(work("a", worker="tested-pipeline")), says="the pipeline to which it belongs"),
    Case(
        "unbounded_map",
        "m",
        graph(
            MapNode(name="m", worker="plain", over=ref("inputs", "texts"), inputs={"text": ref("item")}, at_most=0),
            inputs=LISTS,
            gives={"text": "done"},
        ),
    ),
    Case("revise_not_upstream", "g", graph(work("a"), work("b"), gate("g", "a", revise="b", rounds=1))),
    Case("revise_overlaps", "h", graph(work("a"), looped(), gate("h", "a", revise="a", rounds=1)), says="for `h` and for `g`"),
    Case("revise_overlaps", "h", graph(work("a"), work("b", "a"), looped(candidate=out("b")), gate("h", "b", revise="b", rounds=1))),
    Case("revise_repeats_effect", "g", graph(work("z"), gate("y", "z"), work("a", worker="writer", after=(After("y"),)), looped())),
    Case("gate_judges_nothing", "g", graph(work("a"), gate("g", "a", rules=()))),
    Case("gate_judges_twice", "g", graph(work("a"), gate("g", "a", worker="plain", schema={}))),
    Case("time_above_pipeline", "a", graph(work("a", caps=Caps(timeout_seconds=100)), limits={"run_timeout_seconds": 99})),
    Case(
        "time_above_pipeline", "w", graph(WaitNode(name="w", seconds=100), work("a", after=(After("w"),)), limits={"timeout_seconds": 99})
    ),
    Case("time_above_pipeline", "h", graph(HumanNode(name="h", show=1, within_seconds=100), work("a"), limits={"timeout_seconds": 99})),
    Case("budget_above_pipeline", "a", graph(work("a", caps=Caps(max_cost_usd=Decimal("1.01"))), limits={"max_cost_usd": "1"})),
    Case("budget_above_pipeline", "a", graph(work("a", caps=Caps(max_tokens=11)), limits={"max_tokens": 10})),
    Case("impossible_field", "b", graph(work("a"), work("b", inputs={"text": out("a", "txt")})), says="the fields are `text`"),
    Case("impossible_field", "b", graph(work("a"), work("b", inputs={"text": ref("a", "output")}))),
    Case(
        "impossible_field", "b", graph(work("a"), work("b", inputs={"text": out("a", "text", "more")})), says="`a.outputs.text` is a text"
    ),
    Case("impossible_field", "b", graph(work("a"), work("b", inputs={"text": ref("a", "partial", length=True)})), says="no length"),
    Case("impossible_field", None, graph(work("a"), gives={"text": out("a", "txt")})),
    Case("uncertain_field", "b", graph(work("a", worker="loose"), work("b", "a")), LOOSE, says="need not have `text`"),
    Case("uncertain_field", "b", graph(work("a", worker="loose"), work("b", inputs={"text": out("a", "txt")})), LOOSE, says="not name"),
    Case("uncertain_field", "b", graph(work("a"), work("b", inputs={"text": ref("a", "error", "message")})), says="may be null"),
    Case(
        "not_a_list",
        "m",
        graph(
            MapNode(name="m", worker="plain", over=ref("inputs", "text"), inputs={"text": ref("item")}, at_most=9),
            gives={"text": {"$text": "{}", "with": [ref("m", "counts")]}},
        ),
        says="needs a list, and gets a text",
    ),
    Case("not_a_list", "a", graph(work("a", inputs={"text": {"$concat": [ref("inputs", "text")]}}))),
    Case("missing_input", "a", graph(work("a", inputs={})), says="requires inputs.text, which is not given"),
    Case("input_misfit", "a", graph(work("a", inputs={"text": 5}))),
    Case("input_misfit", "a", graph(work("a", inputs={"text": ref("inputs", "text"), "more": 1})), says="inputs.more is not accepted"),
    Case(
        "input_misfit",
        "b",
        graph(work("a", worker="numbers", inputs={"text": 1.5}), work("b", "a")),
        NUMBERS,
        says="is a number; a text is",
    ),
    Case("input_may_misfit", "a", graph(work("a"), inputs=shape("*", text={"type": ["string", "null"]})), says="may be null"),
    Case("input_may_misfit", "a", graph(work("a", inputs={"text": ref("inputs", "text", default=0)}), inputs=shape(text=TEXT))),
    Case("gives_misfit", None, graph(work("a"), gives={"text": out("a")}), says="outputs.text is an object; a text is needed"),
    Case("gives_misfit", None, graph(work("a"), gives={"txt": out("a", "text")})),
    Case("gives_may_misfit", None, graph(work("a"), outputs=shape("*", text={"enum": ["yes", "no"]})), says="'yes' or 'no' is accepted"),
    Case("answer_misfit", "g", graph(work("a"), gate("g", "a", worker="plain")), says="must give a verdict"),
    Case(
        "answer_misfit",
        "r",
        graph(RouteNode(name="r", labels=("a",), value={"text": "x"}, worker="plain"), work("a", after=(After("r", "a"),))),
    ),
    Case(
        "answer_misfit",
        "m",
        graph(work("a"), MergeNode(name="m", parts=(MergePart("a", out("a")),), worker="merger"), gives={"text": "x"}),
        MERGER,
    ),
    Case("answer_may_misfit", "g", graph(work("a"), gate("g", "a", worker="loose")), LOOSE, says="is not promised"),
    Case("compared_in_part", None, graph(work("a", worker="large", inputs=ref("inputs")), inputs=HUGE, gives={"text": "x"}), LARGE),
    Case("fallback_not_safer", "a", graph(work("a", worker="main", fallback=("wider",))), SAFER, says="may use `post`, and `main` may not"),
    Case("fallback_misfit", "a", graph(work("a", worker="main", fallback=("numbers",))), SAFER, says="outputs.text is a number"),
    Case("fallback_may_misfit", "a", graph(work("a", fallback=("loose",))), LOOSE, says="may be missing"),
    Case("undo_misfit", "a", graph(work("a", undo=Undo(worker="plain"))), says="inputs.inputs is not accepted"),
    Case(
        "undo_may_misfit",
        "a",
        graph(
            work("a", undo=Undo(worker="plain", inputs={"text": ref("inputs", "more")})),
            inputs=shape("*", text=TEXT, more={"type": ["string", "null"]}),
        ),
    ),
    Case(
        "impossible_field",
        "m",
        graph(_mapped(ref("item", "text")), inputs=OBJECTS, gives={"text": "x", "c": ref("m", "counts")}, outputs={}),
        says="item.text",
    ),
    Case("ungated_effect", "a", graph(work("a", worker="writer")), says="may use `post`"),
    # --- supervisors, loops, pipelines inside pipelines
    Case("unknown_worker", "s", graph(supervise(choices={"a": "gone"}), gives=OF_S), SUPERVISED),
    Case("unknown_worker", "s", graph(supervise(undo={"a": "gone"}), gives=OF_S), SUPERVISED),
    Case("unknown_label", "b", graph(supervise(), work("b", after=(After("s", "a"),))), SUPERVISED, says="is not a route"),
    Case("unbounded_loop", "s", graph(supervise(turns=0), gives=OF_S), SUPERVISED, says="`turns` is 0"),
    Case(
        "input_misfit", "s", graph(supervise("plain", inputs={"text": "x"}), gives={"text": "x"}), SUPERVISED, says="inputs.so_far is not"
    ),
    Case("missing_input", "s", graph(supervise(inputs={}), gives=OF_S), SUPERVISED, says="requires inputs.text"),
    Case("answer_misfit", "s", graph(supervise("plain"), gives={"text": "x"}), SUPERVISED, says="must give a choice"),
    Case("missing_input", "s", graph(supervise("silent", choices={"a": "numbers"}), gives={"text": "x"}), SUPERVISED, says="`numbers`"),
    Case("ungated_effect", "s", graph(supervise(choices={"a": "plain", "b": "writer"}), gives=OF_S), SUPERVISED, says="may use `post`"),
    Case("undo_misfit", "s", graph(supervise(undo={"a": "plain"}), gives=OF_S), SUPERVISED, says="inputs.inputs is not accepted"),
    Case("impossible_field", None, graph(supervise(), gives={"text": out("s", "txt")}), SUPERVISED, says="the fields are `text`"),
    Case("unbounded_loop", "u", graph(until(at_most=0), gives=OF_U), says="`at_most` is 0"),
    Case("impossible_field", "u", graph(until(path=".state"), gives=OF_U), says="The rule about `outputs.state` never holds"),
    Case("input_misfit", "u", graph(until(inputs={"text": 5}), gives=OF_U)),
    Case("time_above_pipeline", "u", graph(until(), gives=OF_U, limits={"timeout_seconds": 239}), says="up to 240 s"),
    Case("until_repeats_effect", "u", graph(until("writer"), gives=OF_U), says="may use `post` again"),
    Case("not_a_pipeline", "sub", graph(nested("plain"), gives=OF_SUB), says="`plain` is a worker"),
    Case("unknown_worker", "sub", graph(nested(), gives=OF_SUB)),
    Case(
        "input_misfit",
        "sub",
        graph(nested(), gives={"text": out("sub", "text"), "more": 1}, outputs={}, inputs=shape("*", text=NUMBER)),
        INNER,
    ),
    Case("unbounded_loop", "sub", graph(nested(), gives=OF_SUB), ROUND, says="which runs `tested-pipeline`"),
    Case("ungated_effect", "sub", graph(nested(), gives=OF_SUB), WRITES, says="may use `post`"),
    Case("fallback_not_safer", "a", graph(work("a", fallback=("inner",))), WRITES, says="may use `post`"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.code}-{at}") for at, case in enumerate(CASES)])
def test_each_problem_is_found_in_the_smallest_graph_that_has_it(case: Case) -> None:
    found = [problem for problem in problems(case.graph, case.workers) if problem.code == case.code]
    assert {problem.node for problem in found} == {case.node}
    assert any(case.says in problem.message for problem in found)
    assert {(problem.level, problem.cure) for problem in found} == {(MEANINGS[case.code].level, MEANINGS[case.code].cure)}


def test_the_table_of_cases_has_every_code() -> None:
    assert {case.code for case in CASES} == set(MEANINGS)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.code}-{at}") for at, case in enumerate(CASES)])
def test_one_mistake_is_told_by_few_problems(case: Case) -> None:
    """A reader looks for the mistake in what is told: what only follows from it is left out."""
    codes = {problem.code for problem in problems(case.graph, case.workers)}
    assert len(codes - {"ungated_effect", "unreachable_node"} | {case.code}) <= 3


@pytest.mark.parametrize(
    "good, workers",
    [
        (graph(supervise(), gives=OF_S), SUPERVISED),
        (graph(supervise("silent"), gives={"text": "x", "n": ref("s", "turns")}, outputs={}), SUPERVISED),
        (graph(until(), gives=OF_U), KNOWN),
        (graph(nested(), gives=OF_SUB), INNER),
        (graph(_mapped(ref("item", "item", "text")), inputs=OBJECTS, gives={"text": "x", "c": ref("m", "counts")}, outputs={}), KNOWN),
        (graph(_mapped(ref("item", "outputs", "text")), inputs=OBJECTS, gives={"text": "x", "c": ref("m", "counts")}, outputs={}), KNOWN),
        (graph(nested(), gives=OF_SUB), with_pipelines(KNOWN, [named("inner", graph(work("x"), gate("g", "x"), _guarded()))])),
    ],
)
def test_loops_and_pipelines_that_are_good_have_no_problem(good: Graph, workers: WorkersById) -> None:
    assert [str(problem) for problem in problems(good, workers)] == []


def test_a_good_graph_has_no_problem() -> None:
    assert [str(problem) for problem in problems(vendor_research(), VENDOR_WORKERS)] == []


def test_all_problems_are_told_at_once_with_the_authors_lines_and_errors_first() -> None:
    lines = {"a": SourceLine("p.py", 3), "b": SourceLine("p.py", 4), GIVES: SourceLine("p.py", 9)}
    wrong = graph(work("a", worker="writer"), work("b", worker="gone"), gives={"text": 1})
    found = problems(wrong, KNOWN, lines)
    assert [(problem.level, problem.code, problem.line and problem.line.line) for problem in found] == [
        (ProblemLevel.ERROR, "unknown_worker", 4),
        (ProblemLevel.ERROR, "gives_misfit", 9),
        (ProblemLevel.WARNING, "ungated_effect", 3),
    ]
    assert str(found[0]).startswith("p.py:4: error[unknown_worker] b: There is no worker `gone`. Put the worker's file")


def test_any_number_of_warnings_leaves_the_errors_in_the_list() -> None:
    loose = [work(f"n{at}", f"n{at - 1}" if at else "inputs", worker="loose") for at in range(Found.MOST + 100)]
    found = problems(graph(*loose, work("odd"), gives={"text": out(loose[-1].name, "text")}), LOOSE)
    assert (len(found), found[0].code, found[0].node) == (Found.MOST, "unreachable_node", "odd")
    assert {problem.level for problem in found[1:]} == {ProblemLevel.WARNING}


def test_a_change_of_the_good_graph_is_found_where_it_was_made() -> None:
    """The gate reads the report and not the merge's document; the publisher gets a list."""
    good = vendor_research()
    wrong = with_node(
        with_node(good, "publish", inputs={"reports": out("report")}), "facts", inputs={"pages": ref("pages", "ok", "*", "url")}
    )
    found = {(problem.node, problem.code) for problem in problems(wrong, VENDOR_WORKERS)}
    assert found == {("facts", "impossible_field"), ("publish", "missing_input"), ("publish", "input_misfit")}


def test_the_page_of_problems_is_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "pipeline-problems.md").read_text(encoding="utf-8")
    assert text == page(), "python -m tests.drawings.pipeline_problems > docs/reference/pipeline-problems.md"
