"""Which side effects count as gated, by the policy of the gate and the edge to the worker; and what a fallback may do."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.contract.terms import ProblemLevel
from holdfast.pipelines.check.known import known_worker
from holdfast.pipelines.check.whole import problems
from holdfast.pipelines.graph.graph import After, AnyNode, HumanNode, MergeNode, MergePart, Rule, When
from holdfast.workers.tools.declarations import declarations_of
from tests.pipelines.check_graphs import KNOWN, PLAIN, gate, graph, known, work, worker
from tests.pipelines.templates import out, ref

AFTER_GATE: dict[str, Any] = {"after": (After("g"),)}
SKIPS: dict[str, Any] = {"on_block": "skip"}
ALWAYS = When(value=ref("inputs"), rules=(Rule(path="", op="exists"),))


def person(**more: Any) -> HumanNode:
    return HumanNode(name="g", show=out("a"), **more)


def ungated(*nodes: AnyNode, **more: Any) -> bool:
    found = problems(graph(*nodes, gives={"text": "x"}, **more), KNOWN)
    return any(problem.code == "ungated_effect" for problem in found)


def write(source: str = "a", **more: Any) -> AnyNode:
    return work("w", source, worker="writer", **more)


A = work("a")


@pytest.mark.parametrize(
    "nodes, wrong",
    [
        pytest.param((A, write()), True, id="nothing stands before it"),
        pytest.param((A, gate("g", "a"), write()), True, id="the gate stands beside it"),
        pytest.param((A, gate("g", "a"), write(**AFTER_GATE)), False, id="after the gate"),
        pytest.param((A, gate("g", "a"), write("g")), False, id="it gets what the gate let pass"),
        pytest.param((A, person(), write(**AFTER_GATE)), False, id="after a person"),
        pytest.param((A, gate("g", "a", shadow=True), write(**AFTER_GATE)), True, id="a shadow gate lets everything pass"),
        pytest.param((A, gate("g", "a"), work("b", **AFTER_GATE), write(after=(After("b"),))), False, id="the run ends at the gate"),
        pytest.param((A, gate("g", "a", **SKIPS), write(**AFTER_GATE)), False, id="a skip reaches what comes right after"),
        pytest.param(
            (A, gate("g", "a", **SKIPS), work("b", **AFTER_GATE), write(after=(After("b"),))), True, id="a skip does not go on by order"
        ),
        pytest.param((A, gate("g", "a", **SKIPS), work("b", **AFTER_GATE), write("b")), False, id="a skip goes on by data"),
        pytest.param(
            (A, gate("g", "a", **SKIPS), work("b", **AFTER_GATE), write(inputs={"text": {**out("b", "text"), "default": ""}})),
            True,
            id="a default lives without it",
        ),
        pytest.param((A, person(on_silence="skip"), work("b", **AFTER_GATE), write(after=(After("b"),))), True, id="silence skips"),
        pytest.param(
            (
                A,
                gate("g", "a", when=ALWAYS),
                work("b", **AFTER_GATE),
                write(after=(After("b"),)),
            ),
            True,
            id="a gate that may be skipped",
        ),
        pytest.param(
            (
                A,
                gate("g", "a", **SKIPS),
                work("b", "g"),
                work("c"),
                MergeNode(name="m", parts=(MergePart("b", out("b")), MergePart("c", out("c"))), policy="first"),
                write("m"),
            ),
            True,
            id="one part of the merge is not gated",
        ),
        pytest.param(
            (
                A,
                gate("g", "a", **SKIPS),
                work("b", "g"),
                MergeNode(name="m", parts=(MergePart("b", out("b")),), policy="first"),
                write("m"),
            ),
            False,
            id="all parts of the merge are gated",
        ),
        pytest.param(
            (
                work("a", on_failure={"*": "skip"}),
                gate("g", "a"),
                work("b", **AFTER_GATE),
                write(after=(After("b"),), inputs={"text": "x"}),
            ),
            True,
            id="a gate that is skipped with its candidate",
        ),
        pytest.param((A, gate("g", "a", when=ALWAYS), write(**AFTER_GATE)), True, id="a gate whose own rules may leave it out"),
        pytest.param((A, gate("g", "a", when=ALWAYS), write(inputs={"text": out("g", "text")})), False, id="what such a gate lets pass"),
        pytest.param((A, gate("g", "a", **SKIPS), write(inputs={"text": ref("g", "verdict")})), True, id="a verdict is told with a no too"),
        pytest.param((A, gate("g", "a"), write(inputs={"text": ref("g", "verdict")})), False, id="a verdict of a run that goes on"),
        pytest.param((A, gate("g", "a", revise="a", rounds=1), write()), False, id="it waits for the gate that may revise its source"),
        pytest.param(
            (A, gate("g", "a", revise="a", rounds=1, **SKIPS), write()), True, id="the gate that may revise its source only skips"
        ),
        pytest.param((A, write(), gate("g", "w", revise="a", rounds=1)), True, id="the gate of its own loop comes later"),
    ],
)
def test_a_side_effect_is_gated_if_the_no_of_a_gate_or_a_person_reaches_it(nodes: tuple[AnyNode, ...], wrong: bool) -> None:
    assert ungated(*nodes) is wrong


def test_an_ungated_side_effect_is_an_error_where_gates_are_required() -> None:
    (problem,) = problems(graph(work("a", worker="writer"), gates="required"), KNOWN)
    assert (problem.code, problem.level) == ("ungated_effect", ProblemLevel.ERROR)


def test_a_tool_that_asks_a_person_before_every_call_needs_no_gate() -> None:
    asking = known(PLAIN, worker("writer", tools="post", asks="post"))
    assert problems(graph(work("a", worker="writer")), asking) == []


def test_a_fallback_that_writes_needs_a_gate_too() -> None:
    workers = known(worker("plain", tools="post fetch_url"), worker("reader", tools="fetch_url"))
    assert "ungated_effect" in {problem.code for problem in problems(graph(work("a", worker="reader", fallback=("plain",))), workers)}


def test_what_a_tool_does_is_read_from_the_workers_file() -> None:
    source = """
from holdfast import tool
@tool(effect="read")
def look(call): ...
@tool
def post(call): ...
@tool(approval=True)
def pay(call): ...
"""
    declared = declarations_of(source).tools
    found = known_worker(worker("w", tools="look post pay fetch_url unheard_of").contract, declared)
    assert (set(found.writes), set(found.asks)) == ({"post", "pay", "unheard_of"}, {"pay"})
