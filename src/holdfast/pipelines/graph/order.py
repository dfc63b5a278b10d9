"""For each node, the nodes above it (it waits for them, directly or through others) and below it (they wait for it). A set of nodes is an
integer with one bit for each node, so that hostile graphs cost little.

A graph may have cycles: nodes that wait for each other are one group, and each of them is above itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.contract.groups import grouped
from holdfast.pipelines.graph.edges import Edge, edges_of
from holdfast.pipelines.graph.graph import AnyNode, Graph


class NodeOrder:
    """The nodes of a graph with their positions and edges. If several nodes have the same name, only the first is kept."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[str, AnyNode] = {}
        for node in graph.nodes:
            self.nodes.setdefault(node.name, node)
        self.position = {name: at for at, name in enumerate(self.nodes)}
        self._names = list(self.nodes)
        self.edges = edges_of(graph)
        self.into: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for edge in self.edges:
            if edge.kind != "revise":
                self.into[edge.target].append(edge)
        incoming = {name: [edge.source for edge in edges] for name, edges in self.into.items()}
        self.groups = list(grouped(self.nodes, incoming))
        """The names of the nodes in groups. A group comes after all groups above it. Usually a group has one node. A group of several
        nodes, or of a node that waits for itself, is a cycle."""
        self.above = self._spread(self.groups, incoming)
        """For each node the set of the nodes above it."""
        outgoing: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in self.edges:
            if edge.kind != "revise":
                outgoing[edge.source].append(edge.target)
        self.below = self._spread(self.groups[::-1], outgoing)
        """For each node the set of the nodes below it."""

    def cycles(self) -> Iterator[list[str]]:
        """The groups of nodes that wait for each other, each in the order of the graph."""
        for group in self.groups:
            if self.above[group[0]] & self.bit(group[0]):
                yield sorted(group, key=self.position.__getitem__)

    def bit(self, name: str) -> int:
        """The set that has only this node."""
        return 1 << self.position[name]

    def names(self, nodes: int) -> Iterator[str]:
        """The names of the nodes in this set, in the order of the graph."""
        while nodes:
            lowest = nodes & -nodes
            yield self._names[lowest.bit_length() - 1]
            nodes ^= lowest

    def between(self, first: str, last: str) -> int:
        """The set of all nodes that are on any path from `first` to `last`, both included; empty if there is no path."""
        if not self.above[last] & self.bit(first):
            return 0
        return self.bit(first) | self.bit(last) | (self.below[first] & self.above[last])

    def _spread(self, groups: list[list[str]], nearest: dict[str, list[str]]) -> dict[str, int]:
        """For each node the set of all nodes that can be reached from it through `nearest`. `groups` must be in an order in which `nearest`
        leads only into the same group and into groups before it."""
        reached: dict[str, int] = {}
        for group in groups:
            inside = set(group)
            own = sum(self.bit(name) for name in group)
            nodes = 0
            for name in group:
                for near in nearest[name]:
                    nodes |= own if near in inside else reached[near] | self.bit(near)
            for name in group:
                reached[name] = nodes
        return reached
