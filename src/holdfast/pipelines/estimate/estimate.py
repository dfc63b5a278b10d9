"""The estimate of a run: the most that it can cost, what such runs usually cost, and what the rest of a run may cost that has begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.terms import RunLimits
from holdfast.model.ledger import CostSample
from holdfast.pipelines.estimate.amounts import NOTHING, Amount, capped
from holdfast.pipelines.estimate.worst import MOST_GRAPHS, Gap, KnownWorkers, Worst, items_of, worst_of
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph, MapNode, parted
from holdfast.pipelines.graph.structure import structure_of

Samples = Callable[[str], Sequence[CostSample]]
"""A function from the id of a pipeline to what past runs of the pipeline spent for each of its nodes."""
_MOST_DEPTH: Final = 4
"""The usual cost includes nested pipelines up to this depth; deeper ones are left out."""
_SETTLED: Final = frozenset({"ok", "partial", "skipped", "blocked", "failed", "undone"})


class Usual(msgspec.Struct, frozen=True):
    """What past runs cost, for tokens and money separately: half of them cost at most `p50`, and 95 % of them at most `p95`. `samples` is
    the number of past runs from which this is computed: runs of the worker; for a map, runs of its items; for another node, runs of the
    pipeline that had this node. For a nested pipeline it is the smallest of these numbers among its nodes."""

    p50: Amount
    p95: Amount
    samples: int


class NodeEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate of one node, or of one worker outside of pipelines. `most` is the worst case; `runs` is the largest number of runs."""

    node: str
    kind: str
    most: Amount
    usual: Usual | None = None
    """What past runs cost; None if no past run is known."""
    runs: int = 1

    def document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        told: dict[str, Any] = {"node": self.node, "kind": self.kind, "runs": self.runs, "most": self.most.document()}
        if self.usual is not None:
            told |= {"p50": self.usual.p50.document(), "p95": self.usual.p95.document(), "samples": self.usual.samples}
        return told


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may cost."""

    worker_id: str
    version: str
    most: Amount
    p50: Amount | None = None
    """The sum of the `p50` of those nodes for which past runs are known, but not more than `most`; None if there are no such nodes."""
    p95: Amount | None = None
    """The sum of the `p95` of those nodes for which past runs are known, but not more than `most`; None if there are no such nodes."""
    nodes: tuple[NodeEstimate, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """The nodes for which it is not known how much money they can cost at most, and why. Empty if it is known for the whole run."""
    people: tuple[str, ...] = ()
    """The nodes that a person may let try again after a failure. `most` does not include the cost of these further tries."""

    def brief(self) -> dict[str, Any]:
        """Only `most`, `p50` and `p95` as JSON."""
        usual = {"p50": self.p50, "p95": self.p95}
        return {"most": self.most.document(), **{name: None if one is None else one.document() for name, one in usual.items()}}

    def document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return {
            "worker_id": self.worker_id,
            "version": self.version,
            **self.brief(),
            "nodes": [node.document() for node in self.nodes],
            "unknown": [{"node": gap.node, "why": gap.why} for gap in self.gaps],
            "people_may_add": list(self.people),
        }


def estimate(
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    known_workers: KnownWorkers,
    *,
    samples: Samples = lambda pipeline: (),
    limits: RunLimits | None = None,
) -> Estimate:
    """What a run of this graph may cost. `inputs`: the inputs of the run; None if they are not known. `samples`: what past runs spent.
    `limits`: the limits of the run; None: those of the contract."""
    worst = worst_of(graph, inputs, known_workers, limits)
    usual = usual_of(graph, inputs, known_workers, samples)
    nodes = tuple(
        NodeEstimate(node=one.node, kind=one.kind, most=one.most, usual=usual.get(one.node), runs=one.runs) for one in worst.nodes
    )
    return _estimate(graph, nodes, worst.most, worst)


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has begun: what its nodes have done so far, its inputs and its limits."""

    states: Mapping[str, str]
    """The state of each node, by its name."""
    spent: Mapping[str, Amount]
    """What each node has spent, by its name."""
    inputs: Mapping[str, Any]
    limits: RunLimits


def rest_of(graph: Graph, begun: Begun, known_workers: KnownWorkers, *, samples: Samples = lambda pipeline: ()) -> Estimate:
    """What the rest of a run may cost: its nodes that have not ended, further rounds of its loops, and the undo of what it has done.
    `nodes` of the result has only the nodes that have not ended, or whose loop has not."""
    worst, structure = worst_of(graph, begun.inputs, known_workers, begun.limits), structure_of(graph)
    usual = usual_of(graph, begun.inputs, known_workers, samples)
    nodes, most = [], NOTHING
    for one in worst.nodes:
        loop, spent = structure.loops.get(one.node), begun.spent.get(one.node, NOTHING)
        over = _is_settled(begun, one.node) and (loop is None or _is_settled(begun, loop.gate))
        left = (one.undo if begun.states.get(one.node) in ("ok", "partial") else NOTHING) if over else one.most.less(spent)
        most += left
        if not over:
            nodes.append(NodeEstimate(node=one.node, kind=one.kind, most=left, usual=usual.get(one.node), runs=one.runs))
    limits, all_spent = begun.limits, sum(begun.spent.values(), NOTHING)
    most = most.at_most(capped(limits.max_tokens, limits.max_cost_usd, known_workers.dearest()).less(all_spent))
    open_nodes = {node.node for node in nodes}
    gaps = tuple(gap for gap in worst.gaps if gap.node.partition("/")[0] in open_nodes)
    return _estimate(graph, tuple(nodes), most, msgspec.structs.replace(worst, gaps=gaps))


def _is_settled(begun: Begun, node: str) -> bool:
    return begun.states.get(node) in _SETTLED


def _estimate(graph: Graph, nodes: tuple[NodeEstimate, ...], most: Amount, worst: Worst) -> Estimate:
    known, contract = [node.usual for node in nodes if node.usual is not None], contract_in(graph)
    return Estimate(
        worker_id=contract.worker_id,
        version=contract.version,
        most=most,
        p50=sum((usual.p50 for usual in known), NOTHING).at_most(most) if known else None,
        p95=sum((usual.p95 for usual in known), NOTHING).at_most(most) if known else None,
        nodes=nodes,
        gaps=() if most.nanos is not None else worst.gaps,
        people=worst.people,
    )


def usual_of(graph: Graph, inputs: Mapping[str, Any] | None, known_workers: KnownWorkers, samples: Samples) -> dict[str, Usual]:
    """What each node usually costs, by its name. The cost of a map is computed from the cost of one item. If a node has no past runs and
    runs a pipeline, its cost is computed from the nodes of that pipeline. Nodes for which no past run is known are left out."""
    return _UsualCosts(known_workers, samples).graph(graph, inputs)


class _UsualCosts:
    def __init__(self, known_workers: KnownWorkers, samples: Samples) -> None:
        self._known_workers = known_workers
        self._samples = samples
        self._known: dict[tuple[str, int], Usual | None] = {}
        """What one run of a nested pipeline usually costs, by its name with version and by the depth at which it is nested."""
        self._graphs = 0

    def graph(self, graph: Graph, inputs: Mapping[str, Any] | None, depth: int = 0) -> dict[str, Usual]:
        by_node: dict[str, list[CostSample]] = {}
        for sample in self._samples(graph.pipeline_id):
            by_node.setdefault(sample.node, []).append(sample)
        found: dict[str, Usual] = {}
        for node in graph.nodes:
            own, items = by_node.get(node.name, []), items_of(node, inputs)
            if own:
                found[node.name] = _of_map(own, items) if isinstance(node, MapNode) else _of_samples(own)
            elif (one := self._run(getattr(node, "worker", None) or "", depth)) is not None:
                found[node.name] = Usual(one.p50.times(items), one.p95.times(items), one.samples)
        return found

    def _run(self, worker: str, depth: int) -> Usual | None:
        """What one run of the pipeline `worker` usually costs: the sum over its nodes. None if it is a worker and no pipeline, if no past
        runs are known for its nodes and for the pipelines that they run, if it is nested too deep (_MOST_DEPTH), and once MOST_GRAPHS
        graphs were read."""
        if (worker, depth) not in self._known:
            nested = self._known_workers.graph(*parted(worker)) if depth < _MOST_DEPTH and self._graphs < MOST_GRAPHS else None
            self._graphs += nested is not None
            inner = [] if nested is None else list(self.graph(nested, None, depth + 1).values())
            p50, p95 = (sum((getattr(each, name) for each in inner), NOTHING) for name in ("p50", "p95"))
            self._known[worker, depth] = Usual(p50, p95, min(each.samples for each in inner)) if inner else None
        return self._known[worker, depth]


def usual_of_runs(runs: Sequence[CostSample]) -> Usual | None:
    """What one run usually costs, computed from past runs; None if there are none."""
    return _percentiles([Amount(run.tokens, run.nanos) for run in runs]) if runs else None


def _of_map(own: Sequence[CostSample], items: int) -> Usual:
    """What a map usually costs: what one past child run of an item usually cost, times the number of items. That an item may run several
    times, in further rounds or with fallbacks, is not included."""
    one = _percentiles([Amount(sample.tokens, sample.nanos) for sample in own])
    return Usual(one.p50.times(items), one.p95.times(items), one.samples)


def _of_samples(own: Sequence[CostSample]) -> Usual:
    """What a node usually costs in one run of the pipeline. For each past run of the pipeline, the costs of all child runs of the node are
    summed: those of all rounds, fallbacks and turns."""
    sums: dict[str, Amount] = {}
    for sample in own:
        sums[sample.owner] = sums.get(sample.owner, NOTHING) + Amount(sample.tokens, sample.nanos)
    return _percentiles(list(sums.values()))


def _percentiles(amounts: Sequence[Amount]) -> Usual:
    tokens, nanos = sorted(amount.tokens or 0 for amount in amounts), sorted(amount.nanos or 0 for amount in amounts)
    p50, p95 = (Amount(_rank(tokens, percent), _rank(nanos, percent)) for percent in (50, 95))
    return Usual(p50, p95, len(amounts))


def _rank(ordered: Sequence[int], percent: int) -> int:
    """The smallest of the ordered values for which at least `percent` % of the values are not larger than it."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
