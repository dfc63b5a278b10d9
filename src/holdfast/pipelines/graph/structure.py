"""The structure of a graph: which nodes a node waits for, and which nodes run again when a gate asks for a revision. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.pipelines.graph.edges import Edge
from holdfast.pipelines.graph.graph import GateNode, Graph
from holdfast.pipelines.graph.order import NodeOrder


class Loop(msgspec.Struct, frozen=True):
    """A validation loop. `gate` is its gate. `first` is the node with which each further round begins. `members` are all nodes that run in
    each round, these two included."""

    gate: str
    first: str
    members: frozenset[str]


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """What a graph alone says about its nodes: for each name, what the node waits for, and in which validation loop it is."""

    needs: Mapping[str, tuple[str, ...]]
    """For each node, the nodes that must have ended before it may begin."""
    loops: Mapping[str, Loop]
    """For each node of a validation loop, that loop. Other nodes have no entry."""


def structure_of(graph: Graph) -> Structure:
    """Compute the structure of a graph. A node that is in two loops is counted only in the loop whose gate comes last in the graph
    (`holdfast check` reports such an overlap)."""
    order = NodeOrder(graph)
    loops: dict[str, Loop] = {}
    for node in graph.nodes:
        if isinstance(node, GateNode) and node.revise in order.nodes:
            members = frozenset({node.revise, node.name, *order.names(order.between(node.revise, node.name))})
            loops |= dict.fromkeys(members, Loop(node.name, node.revise, members))
    return Structure(needs={name: _needs(name, edges, loops) for name, edges in order.into.items()}, loops=loops)


def _needs(name: str, edges: Sequence[Edge], loops: Mapping[str, Loop]) -> tuple[str, ...]:
    """The nodes that a node waits for. If a node outside of a loop waits for a node inside the loop, it also waits for the gate of the
    loop. Only after the gate has ended is it certain that the inner node does not run again."""
    sources = [edge.source for edge in edges]
    gates = [loops[source].gate for source in sources if source in loops and loops.get(name) is not loops[source]]
    return tuple(dict.fromkeys([*sources, *gates]))
