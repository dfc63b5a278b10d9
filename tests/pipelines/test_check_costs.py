"""What a check costs, counted in calls: hostile graphs cost about as much more as they are larger."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from holdfast.pipelines.check.table import Found
from holdfast.pipelines.check.whole import problems
from holdfast.pipelines.draw.svg import draw_svg
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.graph import After, AnyNode, Graph, MergeNode, MergePart, StepNode
from tests.pipelines.check_graphs import KNOWN, gate, graph, work
from tests.pipelines.templates import out, ref


def chain(size: int) -> Graph:
    return graph(*(work(f"n{at}", f"n{at - 1}" if at else "inputs") for at in range(size)))


def ring(size: int) -> Graph:
    return graph(*(work(f"n{at}", f"n{(at - 1) % size}") for at in range(size)))


def ladder(size: int) -> Graph:
    """Every node refers to the five before it: 5ⁿ ways from the first to the last."""
    parts = [tuple(MergePart(f"n{up}", out(f"n{up}")) for up in range(max(0, at - 5), at)) for at in range(size)]
    return graph(work("n0"), *(MergeNode(name=f"n{at}", parts=parts[at], policy="union") for at in range(1, size)), gives={"text": "x"})


def doubling(size: int) -> Graph:
    """The type of each candidate has the one before it twice."""
    nodes: list[AnyNode] = [work("n0")]
    nodes += [gate(f"n{at}", "", candidate={"l": out(f"n{at - 1}"), "r": out(f"n{at - 1}")}) for at in range(1, size)]
    return graph(*nodes, gives={"text": out(f"n{size - 1}")})


def loops(size: int) -> Graph:
    """Every gate would run everything above it again."""
    gates = (gate(f"g{at}", "a", revise="a", rounds=1, after=(After(f"g{at - 1}"),) if at else ()) for at in range(size))
    return graph(work("a"), *gates)


def strangers(size: int) -> Graph:
    """Nothing in it exists."""
    return graph(*(work(f"n{at}", f"gone{at}", worker=f"gone{at}") for at in range(size)))


def wide(size: int) -> Graph:
    steps = [StepNode(name=f"n{at}", function="f", inputs=ref("inputs", "text")) for at in range(size)]
    return graph(*steps, gives={"text": {"$text": "{}" * size, "with": [out(f"n{at}") for at in range(size)]}})


SHAPES = [chain, ring, ladder, doubling, loops, strangers, wide]


def calls(function: Callable[[], Any]) -> int:
    """How many functions were called, Python's own included."""
    count = 0

    def heard(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(heard)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_a_check_costs_in_proportion_to_the_graph(shape: Callable[[int], Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Found, "MOST", 10_000)  # else a large graph would be cheaper, for what it does not tell
    small, large = shape(60), shape(240)
    assert calls(lambda: problems(large, KNOWN)) < 6 * calls(lambda: problems(small, KNOWN))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hostile_graph_of_a_thousand_nodes_is_checked_and_the_problems_are_bounded(shape: Callable[[int], Graph]) -> None:
    assert len(problems(shape(1000), KNOWN)) <= Found.MOST


@pytest.mark.parametrize("shape", SHAPES)
def test_a_drawing_costs_at_most_a_little_more_than_the_graph_grows(shape: Callable[[int], Graph]) -> None:
    """Edges over many layers have a point in each: a graph of n nodes can have n layers, so the points may grow faster than the nodes."""
    small, large = shape(30), shape(60)

    def draw(graph: Graph) -> None:
        draw_svg(graph)
        draw_text(graph)

    assert calls(lambda: draw(large)) < 8 * calls(lambda: draw(small))
