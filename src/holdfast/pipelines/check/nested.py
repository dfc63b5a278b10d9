"""Pipelines inside pipelines: what each pipeline runs, and with which tools its workers may change something without a gate or a person
before them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.contract.terms import Contract
from holdfast.pipelines.check.known import Inside, Known, WorkersById, doers_of, found, workers_of
from holdfast.pipelines.check.safety import guarded_nodes
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph, parted
from holdfast.pipelines.graph.order import NodeOrder


def with_pipelines(workers: WorkersById, graphs: Iterable[Graph]) -> WorkersById:
    """The workers, together with the pipelines of these graphs. A pipeline that is already among the workers in the same version is
    replaced.

    Pipelines may run each other, also in a cycle. So the function looks at all of them again and again until nothing new is found. The sets
    only grow, so it ends.
    """
    known = {name: dict(versions) for name, versions in workers.items()}
    orders = [(order := NodeOrder(graph), guarded_nodes(order), contract_in(graph)) for graph in graphs]
    for _, _, contract in orders:
        versions = known.setdefault(contract.worker_id, {})
        versions.pop(contract.version, None)  # the version that a graph gets if it names none must be the last
        versions[contract.version] = Known(contract, inside=Inside())
    is_new = True
    while is_new:
        is_new = False
        for order, guarded, contract in orders:
            looked, versions = _looked(contract, order, guarded, known), known[contract.worker_id]
            if looked != versions[contract.version]:
                versions[contract.version], is_new = looked, True
    return known


def _looked(contract: Contract, order: NodeOrder, guarded: int, workers: WorkersById) -> Known:
    """What is known of a pipeline, derived from the workers that its nodes run. `guarded` has a bit (`NodeOrder.bit`) for each node that
    runs only if a gate or a person let it run."""
    runs: set[str] = set()
    tools: set[str] = set()
    writes: set[str] = set()
    unasked: set[str] = set()
    for name, node in order.nodes.items():
        for worker in workers_of(node):
            runs.add(parted(worker)[0])
            if (one := found(workers, worker)) is not None:
                runs |= frozenset() if one.inside is None else one.inside.runs
                tools |= one.tools
        for worker in doers_of(node):
            if (one := found(workers, worker)) is not None:
                writes |= one.writes
                unasked |= frozenset() if guarded & order.bit(name) else one.writes - one.asks
    inside = Inside(runs=frozenset(runs), tools=frozenset(tools))
    return Known(contract, frozenset(writes), frozenset(writes - unasked), inside)
