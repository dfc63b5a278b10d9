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
    """One edge. A `revise` edge leads from a gate back to the node that runs again. The other edges lead from a node to one that waits for
    it."""

    source: str
    target: str
    kind: EdgeKind
    label: str | None = None
    """The label that the route must have chosen for the target to run; None if the edge has no label."""
    needed: bool = True
    """For a `data` edge: whether at least one reference to the source has no default and is not in a part of a merge, so that the target
    cannot run without the source's result. True for every other edge."""
    outputs: bool = False
    """For a `data` edge with `needed`: whether one of the references that make it needed is to the `outputs` of the source. A gate or a
    person that refuses gives no outputs. For a `data` edge without `needed`: whether all references to the source are to its `outputs` and
    have no default. False for every other edge."""


def templates_of(node: AnyNode) -> Iterator[tuple[str, Template]]:
    """The templates of a node whose references make edges, each with the name of its field (`when`, `inputs`, …). The inputs of an undo
    make no edges."""
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
