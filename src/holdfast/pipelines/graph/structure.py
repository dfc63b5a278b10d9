"""The structure of a graph: which nodes a node waits for, and which nodes run again when a gate asks for a revision. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.pipelines.graph.edges import Edge
from holdfast.pipelines.graph.graph import GateNode, Graph
from holdfast.pipelines.graph.order import Order


class Loop(msgspec.Struct, frozen=True):
    """A validation loop: the gate, the node that is revised first, and every node that runs again with it."""

    gate: str
    first: str
    members: frozenset[str]


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from a graph alone."""

    needs: Mapping[str, tuple[str, ...]]
    """The nodes that must have ended before a node may begin."""
    loops: Mapping[str, Loop]
    """The loop that a node is part of, by the node's name."""


def structure_of(graph: Graph) -> Structure:
    """The structure of a graph."""
    order = Order(graph)
    loops: dict[str, Loop] = {}
    for node in graph.nodes:
        if isinstance(node, GateNode) and node.revise in order.nodes:
            members = frozenset({node.revise, node.name, *order.names(order.between(node.revise, node.name))})
            loops |= dict.fromkeys(members, Loop(node.name, node.revise, members))
    return Structure(needs={name: _needs(name, edges, loops) for name, edges in order.into.items()}, loops=loops)


def _needs(name: str, edges: Sequence[Edge], loops: Mapping[str, Loop]) -> tuple[str, ...]:
    """What each node waits for. A node that is below a revised node but not above the gate also waits for the gate: only after the gate it
    is certain that no node above will run again."""
    sources = [edge.source for edge in edges]
    gates = [loops[source].gate for source in sources if source in loops and loops.get(name) is not loops[source]]
    return tuple(dict.fromkeys([*sources, *gates]))
