"""The edges of a graph: they follow from references, from `after` and from the loops of gates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, assert_never

import msgspec

from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    RouteNode,
    StepNode,
    SuperviseNode,
    Template,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from holdfast.pipelines.graph.templates import RESERVED, Reference, references_in

EdgeKind: TypeAlias = Literal["data", "after", "revise"]


class Edge(msgspec.Struct, frozen=True):
    """One edge. A `revise` edge leads back, from a gate to the node that runs again; the others lead forward."""

    source: str
    target: str
    kind: EdgeKind
    label: str | None = None
    """The label that the route must have chosen for the target to run; None for other edges."""
    needed: bool = True
    """Whether the target needs a result of the source. It does not if the reference has a default, or if the source is a part of a merge.
    """
    outputs: bool = False
    """Whether the target needs the `outputs` of the source; a gate or a person that says no gives no outputs. For a part of a merge it only
    says that all references to the source are to its outputs."""


def templates_of(node: AnyNode) -> Iterator[tuple[str, Template]]:
    """The templates that make edges, each with its place in the node."""
    if node.when is not None:
        yield "when", node.when.value
    match node:
        case WorkerNode() | SuperviseNode() | UntilNode() | StepNode():
            yield "inputs", node.inputs
        case MapNode():
            yield "over", node.over
            yield "inputs", node.inputs
        case MergeNode():
            yield from (("parts", part.value) for part in node.parts)
        case GateNode():
            yield "candidate", node.candidate
        case HumanNode():
            yield "show", node.show
        case RouteNode():
            yield "value", node.value
        case WaitNode():
            pass
        case _:
            assert_never(node)


def edges_of(graph: Graph) -> list[Edge]:
    """Every edge once, in the order of the nodes. Edges from or to a name that no node has are left out."""
    names = {node.name for node in graph.nodes}
    return [edge for node in graph.nodes for edge in _edges_to(node) if edge.source in names and edge.target in names]


def _edges_to(node: AnyNode) -> Iterator[Edge]:
    data: dict[str, list[tuple[str, Reference]]] = {}
    for place, template in templates_of(node):
        for reference in references_in(template):
            if reference.source not in RESERVED:
                data.setdefault(reference.source, []).append((place, reference))
    for source, found in data.items():
        wanted = [reference for place, reference in found if place != "parts" and not reference.has_default]
        of_outputs = any(map(_to_outputs, wanted)) or (not wanted and all(_to_outputs(reference) for _, reference in found))
        yield Edge(source, node.name, "data", needed=bool(wanted), outputs=of_outputs)
    yield from (Edge(after.node, node.name, "after", after.label) for after in dict.fromkeys(node.after))
    if isinstance(node, GateNode) and node.revise is not None:
        yield Edge(node.name, node.revise, "revise")


def _to_outputs(reference: Reference) -> bool:
    return reference.path[:1] == ("outputs",) and not reference.has_default
