"""The plan of a restart, made before it starts: which nodes are reused, and which run again and why. Pure.

The run decides about a node only when the node may begin: a node that uses the result of a node that runs again is still reused if its
inputs are the same as before. In the plan, such a node is marked `depends`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.model.restart_errors import NodeNotFound
from holdfast.pipelines.graph.edges import templates_of
from holdfast.pipelines.graph.graph import AnyNode, Graph, MapNode, kind_of
from holdfast.pipelines.graph.resolved_templates import resolved
from holdfast.pipelines.graph.structure import Structure
from holdfast.pipelines.graph.templates import INPUTS, references_in
from holdfast.pipelines.record.operations import node_at
from holdfast.pipelines.restart.forerunners import Forerunners
from holdfast.workers.accepted_request import SHARD

What: TypeAlias = Literal["reused", "again", "depends"]
PackageOf: TypeAlias = Callable[[str], tuple[str, str] | None]
"""A function from the id of a worker to the version and the package with which the worker is served now; None if they are not known
here."""
_MOST_NAMES = 20


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart does with one node."""

    node: str
    kind: str
    what: What
    """`reused`: its results are taken from an earlier run. `again`: it runs again, or for the first time. `depends`: it runs again only if
    its inputs differ from before."""
    why: str
    cost_usd: Decimal = Decimal(0)
    """What the node's child runs cost in the run that is restarted."""


class RestartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart will do with each node, and what it may cost."""

    run_id: str
    """The run that is restarted."""
    worker_id: str
    nodes: tuple[NodePlan, ...] = ()
    """The plans of the nodes, in the order of the graph; empty for a run of a worker, which runs again as a whole."""
    inherits: int = 0
    """The number of earlier runs from which the new run inherits receipts of writes."""
    may_cost_usd: Decimal | None = None
    """The most that the restart may cost; None if that is not known, and for a run of a worker."""
    may_use_tokens: int | None = None
    """The most tokens that the restart may use; None if that is not known, and for a run of a worker."""

    @property
    def last_cost_usd(self) -> Decimal:
        """What the nodes with the plan `again` or `depends` cost together in the run that is restarted."""
        return sum((one.cost_usd for one in self.nodes if one.what != "reused"), Decimal(0))

    def document(self) -> dict[str, Any]:
        """The plan as JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        nodes = [one | {"cost_usd": float(one["cost_usd"])} for one in document["nodes"]]
        may = None if self.may_cost_usd is None else float(self.may_cost_usd)
        return document | {"nodes": nodes, "last_cost_usd": float(self.last_cost_usd), "may_cost_usd": may}


def below(structure: Structure, names: Sequence[str]) -> tuple[str, ...]:
    """These nodes and every node that waits for one of them, directly or through others, in the order of the graph."""
    found = set(names)
    while more := {name for name, needs in structure.needs.items() if name not in found and found.intersection(needs)}:
        found |= more
    return tuple(name for name in structure.needs if name in found)


def check_names(graph: Graph, option: str, names: Sequence[str]) -> None:
    """Raises NodeNotFound if one of these names is not the name of a node of the graph. `option` is the command's option, for the error."""
    known = [node.name for node in graph.nodes]
    for name in names:
        if name not in known:
            told = ", ".join(known[:_MOST_NAMES]) + (", …" if len(known) > _MOST_NAMES else "")
            raise NodeNotFound(f"{option}: {graph.pipeline_id} has no node {name!r:.100}. Its nodes are {told}.")


def planned(
    graph: Graph,
    forerunners: Forerunners,
    given: Sequence[str],
    forced: Sequence[str],
    inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
    costs: Mapping[str, Decimal],
    package: PackageOf,
) -> tuple[NodePlan, ...]:
    """The plan of each node. `given`: the names of the nodes that the operator wants to run again. `forced`: the names of these nodes and
    of all nodes below them. `inputs`: the inputs of the earlier run, and those of the new run. `costs`: what each node cost in the earlier
    run. `package`: a function that gives the version and the package of a worker that is served now."""
    done: dict[str, NodePlan] = {}
    for node in graph.nodes:
        what, why = _node(node, forerunners, given, forced, inputs, package)
        if what == "reused" and (moved := _moved(node, done)):
            what, why = "depends", f"runs again if the result of {' or '.join(moved)} changes"
        done[node.name] = NodePlan(node=node.name, kind=kind_of(node), what=what, why=why, cost_usd=costs.get(node.name, Decimal(0)))
    return tuple(done.values())


def _node(
    node: AnyNode,
    forerunners: Forerunners,
    given: Sequence[str],
    forced: Sequence[str],
    inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
    package: PackageOf,
) -> tuple[What, str]:
    if node.name in given:
        return "again", "--from names it"
    if node.name in forced:
        return "again", f"is below {', '.join(given)}"
    past = next((past for past in forerunners.runs if node.name in past.names), None)
    if past is None:
        return "again", "did not run before"
    round = 1
    while node_at(node.name, round + 1).operation_id in past.run.operations:
        round += 1
    found, settled = forerunners.reuse(node, round), past.settled(node.name, round)
    if past.is_undone(node.name, round):
        return "again", "was undone" + (" (items of a good run are reused)" if isinstance(node, MapNode) and past.keeps else "")
    in_part = past.undone_in_part(node.name, round)
    if in_part.items or in_part.runs:
        return "again", "was undone in part (what was not undone is reused)"
    if found is None or found[1] != "all":
        state = "did not end" if settled is None else settled.state
        code = "" if settled is None or settled.error is None else f" with {settled.error.code}"
        kept = " (its good items are reused)" if isinstance(node, MapNode) and found is not None else ""
        return "again", f"ended {state}{code}{kept}" if settled is not None else state
    if _changed(node, *inputs):
        return "again", "its inputs changed"
    for result in past.results:
        if result.package.startswith(SHARD):  # a shard's package is the code of the pipeline, on which the items do not depend
            continue
        served = package(result.worker) if result.node == node.name and result.package else None
        if served is not None and served != (result.version, result.package):
            version = f"version {served[0]}" if served[0] != result.version else "other code"
            return "again", f"{result.worker} has {version} now"
    return "reused", f"ended {settled.state} in {past.id}" if settled is not None else past.id


def _changed(node: AnyNode, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a reference of the node to the run's inputs has another value in `now`, the inputs of the new run, than in `before`, those
    of the earlier run."""
    for _, template in templates_of(node):
        for reference in references_in(template):
            alone = {"$from": reference.source, "path": list(reference.path)}
            if reference.source == INPUTS and resolved(alone, {INPUTS: before}) != resolved(alone, {INPUTS: now}):
                return True
    return False


def _moved(node: AnyNode, done: Mapping[str, NodePlan]) -> list[str]:
    """The names of the nodes to which this node refers and whose plan in `done` is `again` or `depends`, so that their results may
    change."""
    sources = dict.fromkeys(reference.source for _, template in templates_of(node) for reference in references_in(template))
    return [name for name in sources if name in done and done[name].what != "reused"]
