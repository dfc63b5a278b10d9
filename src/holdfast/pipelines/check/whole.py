"""Runs all checks of a graph, and returns the problems that they found."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.pipelines.check import safety, structure
from holdfast.pipelines.check.fit import SchemaComparison
from holdfast.pipelines.check.inputs import Fits, check_inputs
from holdfast.pipelines.check.known import WorkersById
from holdfast.pipelines.check.reference_types import Types
from holdfast.pipelines.check.table import Found, GraphProblem
from holdfast.pipelines.graph.graph import Graph, SourceLine
from holdfast.pipelines.graph.order import NodeOrder


def problems(graph: Graph, workers: WorkersById, lines: Mapping[str, SourceLine] | None = None) -> list[GraphProblem]:
    """The problems of a graph, at most `Found.MOST`: first the errors, then the warnings, both in the order of the nodes.

    `workers` are all workers and pipelines that the graph may name. `lines` has the lines on which the author wrote each node and the
    outputs (GIVES), for the messages.
    """
    found = Found(lines or {})
    order = NodeOrder(graph)
    comparison = SchemaComparison()
    structure.check_names(graph, found)
    structure.check_workers(graph, workers, found)
    structure.check_order(order, found)
    structure.check_labels(order, found)
    structure.check_loops(order, workers, found)
    structure.check_limits(graph, found)
    fits = Fits(Types(graph, workers, order, comparison, found), comparison, found)
    check_inputs(graph, list(order.nodes.values()), fits)
    safety.check_fallbacks(order, workers, fits, found)
    safety.check_undo(order, fits)
    safety.check_effects(graph, order, workers, found)
    structure.check_needed(graph, order, workers, found)
    if comparison.exhausted:
        found.add("compared_in_part", None, "Some pairs of schemas were not compared completely.", whole=True)
    return found.sorted(order.position)
