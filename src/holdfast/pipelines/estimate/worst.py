"""The worst case: the most that the runs of a graph can cost, by the caps of its workers and the bounds of its nodes.

A worker's caps hold for all its attempts together. The worst case of a node is the sum of these caps for its worker and its fallbacks,
multiplied by the items of a map, by the rounds of the validation loop around it, and by its own turns or repetitions; its undo is added.
The caps of the node and of the pipeline then limit the sum.

Two things are not in the worst case, because they are known only later: a person may let a node or an undo try again, and the last call of
a run may use more than it has reserved (the run reports that).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol, assert_never

import msgspec

from holdfast.contract.terms import Contract, RunLimits
from holdfast.pipelines.estimate.amounts import NOTHING, UNKNOWN, Amount, capped
from holdfast.pipelines.graph.contract import contract_in
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
    UntilNode,
    WaitNode,
    WorkerNode,
    kind_of,
    parted,
)
from holdfast.pipelines.graph.resolved_templates import resolved
from holdfast.pipelines.graph.structure import structure_of

MODEL_TOOL: Final = "language_model"
"""The only tool that an estimate counts: its calls cost tokens and money."""
_MOST_DEPTH: Final = 16
"""The worst case includes pipelines that are nested at most this deep. A run has the same limit."""
MOST_GRAPHS: Final = 256
"""One estimate reads at most this many graphs of nested pipelines. For every further pipeline, the worst case is its own cap."""
_NESTED_GAPS: Final = 10
"""At most this many gaps of a nested pipeline are reported for each node that runs it."""


class KnownWorkers(Protocol):
    """What an estimate must know in addition to the graph."""

    def contract(self, worker_id: str, version: str | None) -> Contract | None:
        """The contract of a worker or a pipeline; None if it is not known. `version` None: the version that new runs get."""
        ...

    def graph(self, worker_id: str, version: str | None) -> Graph | None:
        """The graph of a pipeline; None for a worker, and for a pipeline that is not known. `version` None: the version that new runs
        get."""
        ...

    def dearest(self) -> Decimal | None:
        """The highest price of one token among all allowed models, in US dollars. None if the price of any of them is not known."""
        ...


class Gap(msgspec.Struct, frozen=True):
    """Why the worst case of a node is not known. `node` is its name; for a node of a nested pipeline, the names from the outside to it,
    joined by `/`."""

    node: str
    why: str


class NodeMost(msgspec.Struct, frozen=True, kw_only=True):
    """The worst case of one node."""

    node: str
    kind: str
    most: Amount
    """The worst case of everything that the node may do in one run of the pipeline, including its undo."""
    undo: Amount = NOTHING
    """The part of `most` that its undo may cost."""
    runs: int = 0
    """The largest number of child runs that the node makes in one run of the pipeline, without those of its undo."""


class Worst(msgspec.Struct, frozen=True, kw_only=True):
    """The worst case of a graph."""

    nodes: tuple[NodeMost, ...]
    most: Amount
    gaps: tuple[Gap, ...] = ()
    people: tuple[str, ...] = ()
    """The nodes that a person may let try again after a failure. `most` does not include the cost of these further tries."""


def worst_of(graph: Graph, inputs: Mapping[str, Any] | None, known_workers: KnownWorkers, limits: RunLimits | None = None) -> Worst:
    """The worst case of a graph. `inputs`: the inputs of a run; None if they are not known. A map over a list in the inputs has as many
    items as that list, but at most `at_most`; every other map has `at_most` items. `limits`: the limits of a run; None: those of the
    contract."""
    return _Reckoning(known_workers).graph(graph, inputs, limits or contract_in(graph).limits)


def worker_most(worker_id: str, limits: RunLimits, known_workers: KnownWorkers) -> tuple[Amount, str | None]:
    """The most that one run of a worker can cost; and, if the money is not known, a text that says why (else None). For a worker without
    the tool `language_model` this is nothing: what other tools cost is not estimated."""
    if all(grant.name != MODEL_TOOL for grant in limits.tools):
        return NOTHING, None
    most = capped(limits.max_tokens, limits.max_cost_usd, known_workers.dearest())
    if most.nanos is not None:
        return most, None
    if limits.max_tokens is None:
        return most, f"{worker_id} has neither max_tokens nor max_cost_usd"
    return most, f"{worker_id} has no max_cost_usd, and the price of a model that it may ask is not known"


class _Reckoning:
    def __init__(self, known_workers: KnownWorkers) -> None:
        self._known_workers = known_workers
        self._dearest = known_workers.dearest()
        self._within: list[str] = []
        self._known: dict[str, tuple[Amount, tuple[Gap, ...]]] = {}
        """The worst case of each nested pipeline, with its gaps, by name with version. In these gaps, the names of nodes begin below the
        node that runs the pipeline. A pipeline inside which a bound was met is not kept, because its worst case depends on where it is
        nested."""
        self._graphs = 0
        self._bounds = 0
        """How often a bound was met: a pipeline that runs itself, the depth, or the number of graphs."""
        self._gaps: list[Gap] = []
        self._node = ""

    def graph(self, graph: Graph, inputs: Mapping[str, Any] | None, limits: RunLimits) -> Worst:
        structure, nodes = structure_of(graph), []
        for node in graph.nodes:
            loop = structure.loops.get(node.name)
            gate = None if loop is None else graph.node(loop.gate)
            rounds = 1 + gate.rounds if isinstance(gate, GateNode) else 1
            before = self._node
            self._node = f"{before}/{node.name}" if before else node.name
            nodes.append(self._of_node(node, rounds, inputs))
            self._node = before
        most = sum((one.most for one in nodes), NOTHING).at_most(capped(limits.max_tokens, limits.max_cost_usd, self._dearest))
        return Worst(nodes=tuple(nodes), most=most, gaps=tuple(dict.fromkeys(self._gaps)), people=_people(graph))

    def _of_node(self, node: AnyNode, rounds: int, inputs: Mapping[str, Any] | None) -> NodeMost:
        gaps, items = len(self._gaps), items_of(node, inputs)
        work, runs = self._work(node)
        back = self._back(node).times(items * rounds)
        caps = capped(node.caps.max_tokens, node.caps.max_cost_usd, self._dearest)
        most = (work.times(items * rounds) + back).at_most(caps)
        if most.nanos is not None:
            del self._gaps[gaps:]  # the node's own cap limits the cost
        return NodeMost(node=node.name, kind=kind_of(node), most=most, undo=back.at_most(caps), runs=runs * items * rounds)

    def _work(self, node: AnyNode) -> tuple[Amount, int]:
        """Two values, both for one round and one item, and without the undo: the most that the node may cost, and the largest number of
        child runs that it makes."""
        match node:
            case WorkerNode() | MapNode():
                return self._all((node.worker, *node.fallback))
            case MergeNode():
                return self._all(name for name in (node.worker, node.resolver) if name is not None)
            case GateNode() | RouteNode():
                return self._all(() if node.worker is None else (node.worker,))
            case UntilNode():
                return self._run(node.worker).times(node.at_most), node.at_most
            case SuperviseNode():
                # In its last turn a supervisor can only finish.
                chosen = self._dearest_of(node.choices.values()).times(node.turns - 1)
                return self._run(node.worker).times(node.turns) + chosen, 2 * node.turns - 1
            case HumanNode() | StepNode() | WaitNode():
                return NOTHING, 0
            case _:
                assert_never(node)

    def _back(self, node: AnyNode) -> Amount:
        """The most that it may cost to undo what the node did in one round for one item; nothing for a node without an undo."""
        if isinstance(node, SuperviseNode):
            return self._dearest_of(node.undo.values()).times(node.turns - 1)
        undo = node.undo if isinstance(node, WorkerNode | MapNode) else None
        return NOTHING if undo is None else self._run(undo.worker)

    def _all(self, workers: Iterable[str]) -> tuple[Amount, int]:
        amounts = [self._run(worker) for worker in workers]
        return sum(amounts, NOTHING), len(amounts)

    def _dearest_of(self, workers: Iterable[str]) -> Amount:
        most = NOTHING
        for worker in workers:
            most = most.or_more(self._run(worker))
        return most

    def _run(self, worker: str) -> Amount:
        """The most that one run of a worker or of a pipeline can cost. If that is not known, the reason is added to the gaps."""
        if (known := self._known.get(worker)) is not None:
            most, gaps = known
            self._gaps += [Gap(self._node + gap.node, gap.why) for gap in gaps]
            return most
        name, version = parted(worker)
        contract, graph = self._known_workers.contract(name, version), self._known_workers.graph(name, version)
        if contract is None:
            self._gaps.append(Gap(self._node, f"no worker {name} is known here"))
            return UNKNOWN
        if graph is None:
            most, why = worker_most(contract.worker_id, contract.limits, self._known_workers)
            if why is not None:
                self._gaps.append(Gap(self._node, why))
            return most
        bound = self._bound(name)
        if bound is not None:
            self._bounds += 1
            own = capped(contract.limits.max_tokens, contract.limits.max_cost_usd, self._dearest)
            if own.nanos is None:
                self._gaps.append(Gap(self._node, bound))
            return own
        return self._nested(worker, name, graph, contract.limits)

    def _bound(self, name: str) -> str | None:
        """Why the graph of a nested pipeline is not read for the estimate: it runs itself, it is nested too deep, or too many graphs were
        read. None if it is read."""
        if name in self._within or len(self._within) >= _MOST_DEPTH:
            return f"the pipeline {name} runs itself, or pipelines are nested more than {_MOST_DEPTH} levels deep"
        return (
            f"an estimate reads at most {MOST_GRAPHS} nested pipelines, and {name} would be one more"
            if self._graphs >= MOST_GRAPHS
            else None
        )

    def _nested(self, worker: str, name: str, graph: Graph, limits: RunLimits) -> Amount:
        """The most that one run of a nested pipeline can cost. The result is kept for other nodes that run the same pipeline, unless a
        bound (`_bound`) was met inside it."""
        first, bounds = len(self._gaps), self._bounds
        self._graphs += 1
        self._within.append(name)
        most = self.graph(graph, None, limits).most
        self._within.pop()
        gaps = [] if most.nanos is not None else list(dict.fromkeys(self._gaps[first:]))[:_NESTED_GAPS]
        self._gaps[first:] = gaps
        if self._bounds == bounds:
            self._known[worker] = (most, tuple(Gap(gap.node.removeprefix(self._node), gap.why) for gap in gaps))
        return most


def items_of(node: AnyNode, inputs: Mapping[str, Any] | None) -> int:
    """The most items of a map: the length of its list if the inputs have the list, but at most `at_most`; without the list, `at_most`. 1
    for any other node."""
    if not isinstance(node, MapNode):
        return 1
    over = None if inputs is None else resolved(node.over, {"inputs": inputs})
    return min(len(over), node.at_most) if isinstance(over, list) else node.at_most


def _people(graph: Graph) -> tuple[str, ...]:
    """The names of the nodes about whose failure a person may be asked."""
    return tuple(
        node.name
        for node in graph.nodes
        if "escalate" in node.on_failure.values()
        or any(getattr(node, name, None) == "escalate" for name in ("on_block", "on_reject", "on_silence", "conflicts"))
    )
