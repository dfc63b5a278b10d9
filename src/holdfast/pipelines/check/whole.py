"""Everything that is wrong with a graph, at once."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.pipelines.check import safety, structure
from holdfast.pipelines.check.fit import Comparison
from holdfast.pipelines.check.inputs import Fits, check_inputs
from holdfast.pipelines.check.known import Workers
from holdfast.pipelines.check.references import Types
from holdfast.pipelines.check.table import Found, Problem
from holdfast.pipelines.graph.graph import Graph, Line
from holdfast.pipelines.graph.order import Order


def problems(graph: Graph, workers: Workers, lines: Mapping[str, Line] | None = None) -> list[Problem]:
    """Every problem of a graph: errors before warnings, each in the order of the nodes; at most `Found.MOST`.

    `workers` are all that the graph may name, with their contracts and what they may change. `lines` says where the author wrote each node,
    and what the pipeline gives (GIVES).
    """
    found = Found(lines or {})
    order = Order(graph)
    comparison = Comparison()
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
        found.add("compared_in_part", None, "Not every pair of schemas was compared in full.", whole=True)
    return found.sorted(order.position)
