"""Checks the safety of a graph: a fallback must not use more tools than its worker, an undo worker must accept its inputs, and a gate or a
person should guard side effects."""

from __future__ import annotations

from holdfast.contract.terms import ProblemLevel
from holdfast.pipelines.check.inputs import Fits
from holdfast.pipelines.check.known import WorkersById, doers_of, found
from holdfast.pipelines.check.shapes import all_of, closed, made
from holdfast.pipelines.check.table import Found, listed, named
from holdfast.pipelines.graph.edges import Edge
from holdfast.pipelines.graph.graph import AnyNode, GateNode, Graph, HumanNode, MapNode, MergeNode, SuperviseNode, WorkerNode
from holdfast.pipelines.graph.order import NodeOrder


def check_fallbacks(order: NodeOrder, workers: WorkersById, fits: Fits, problems: Found) -> None:
    """Add problems for fallbacks that may use more tools than the worker they replace, that do not accept its inputs, or that give other
    outputs."""
    for node in order.nodes.values():
        if not isinstance(node, WorkerNode | MapNode) or (first := found(workers, node.worker)) is None:
            continue
        for worker in node.fallback:
            if (instead := found(workers, worker)) is None:
                continue
            if more := instead.tools - first.tools:
                told = f"{named(worker)} may use {listed(sorted(more))}, and {named(node.worker)} may not."
                problems.add("fallback_not_safer", node.name, told)
            fits.takes(node, worker, fits.types.templates[node.name]["inputs"], "fallback")
            fits.gives(node, worker, node.worker)


def check_undo(order: NodeOrder, fits: Fits) -> None:
    """Add problems for undo workers that do not accept the inputs that they get: `{inputs, outputs}` of the node, or the inputs that the
    author gave."""
    for node in order.nodes.values():
        if isinstance(node, WorkerNode | MapNode) and node.undo is not None:
            if node.undo.inputs is None:
                own, outputs = fits.types.templates[node.name]["inputs"], fits.types.outputs_of(node.worker)
                whole = made(closed(inputs=all_of(own), outputs=all_of(outputs)))
            else:
                whole = fits.types.of_template(node.undo.inputs, node, own=True)
            fits.takes(node, node.undo.worker, whole, "undo")
        if isinstance(node, SuperviseNode):
            for label, worker in node.undo.items():
                if label in node.choices:
                    given = closed(inputs={"type": "object"}, outputs=all_of(fits.types.outputs_of(node.choices[label])))
                    fits.takes(node, worker, made(given), "undo")


def check_effects(graph: Graph, order: NodeOrder, workers: WorkersById, problems: Found) -> None:
    """Add problems for nodes whose workers may change something without approval and that may run without a gate or a person before them.

    A node waits for all nodes above it, so one gate above it is enough, if the node does not run after the gate has refused. A refusal that
    ends the run keeps every node below from running. A refusal that only skips keeps those nodes from running that name the gate in
    `after` or need its outputs, and those that need the result of a skipped node.
    """
    level = ProblemLevel.ERROR if graph.gates == "required" else None
    guarded = guarded_nodes(order)
    for name, node in order.nodes.items():
        unasked: set[str] = set()
        for worker in doers_of(node):
            if (known := found(workers, worker)) is not None:
                unasked |= known.writes - known.asks
        if unasked and not guarded & order.bit(name):
            told = f"{named(name)} may use {listed(sorted(unasked))}, and no gate and no person decides before it runs."
            problems.add("ungated_effect", name, told, level=level)


def guarded_nodes(order: NodeOrder) -> int:
    """The nodes that run only if a gate or a person before them has let them run, as an integer with one bit for each such node
    (`NodeOrder.bit`)."""
    guards = sum(order.bit(name) for name, node in order.nodes.items() if _is_guard(node))
    own = sum(order.bit(name) for name, node in order.nodes.items() if _may_skip(node))
    sure = guards & ~(own | _skipped_with(order, own, certain=False))  # a refusal of these always ends the run, or a person decides
    loops = _loops(order, sure)
    revised = 0
    for members in loops.values():
        revised |= members
    guarded = _skipped_with(order, guards, certain=True)
    for name in order.nodes:
        # A node below a revised one waits for the gate of that loop, also without an edge to the gate.
        if order.above[name] & (sure | revised & ~loops.get(name, 0)):
            guarded |= order.bit(name)
    return guarded


def _loops(order: NodeOrder, gates: int) -> dict[str, int]:
    """For each node that runs again when one of these gates asks for a revision: the bits (`NodeOrder.bit`) of all nodes that run again
    with it. `gates` has the bits of the gates.

    A node that is in two loops is counted only in the loop whose gate comes first in the graph. `structure_of` takes the last one; it does
    not matter, because `check_loops` reports such an overlap as an error.
    """
    loops: dict[str, int] = {}
    taken = 0
    for name in order.names(gates):
        node = order.nodes[name]
        if isinstance(node, GateNode) and node.revise is not None and node.revise in order.nodes:
            members = order.between(node.revise, name) & ~taken
            taken |= members
            loops |= dict.fromkeys(order.names(members), members)
    return loops


def _is_guard(node: AnyNode) -> bool:
    return isinstance(node, HumanNode) or (isinstance(node, GateNode) and not node.shadow)


def _may_skip(node: AnyNode) -> bool:
    """Whether the node may be skipped by one of its own settings: an action `skip` (for a failure, a block, a rejection or silence),
    `when`, or a label in `after`."""
    actions = set(node.on_failure.values())
    if isinstance(node, GateNode):
        actions.add(node.on_block)
    if isinstance(node, HumanNode):
        actions |= {node.on_reject, node.on_silence}
    return "skip" in actions or node.when is not None or any(after.label is not None for after in node.after)


def _skipped_with(order: NodeOrder, nodes: int, *, certain: bool) -> int:
    """The set of the nodes that are skipped because the nodes of the set `nodes` are skipped or refuse. With `certain`, it has only nodes
    that are certainly skipped; else all nodes that may be skipped."""
    reached = 0
    for group in order.groups:
        for name in group:
            out = nodes | reached
            edges = order.into[name]
            parts = [edge for edge in edges if edge.kind == "data" and isinstance(order.nodes[name], MergeNode)]
            if any(edge.kind == "after" or edge.needed for edge in edges if _skips(edge, order, out, certain)) or (
                parts and all(_skips(edge, order, out, certain) for edge in parts)
            ):
                reached |= order.bit(name)
    return reached


def _skips(edge: Edge, order: NodeOrder, out: int, certain: bool) -> bool:
    """Whether the target gets nothing over this edge (no value, or no permission to run) if the nodes of the set `out` are skipped or
    refuse. With `certain`, True only if that is certain."""
    if not out & order.bit(edge.source):
        return False
    source = order.nodes[edge.source]
    if edge.kind == "data":
        return edge.outputs or not (certain and _is_guard(source))  # a guard that refuses still gives its verdict and its reasons
    if edge.label is not None:
        return True
    return _is_guard(source) and not (certain and source.when is not None)  # a guard that its own `when` skips does not refuse
