"""The workers that a graph may name: their contracts, and which of their tools change something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from holdfast.contract.terms import BUILT_IN_TOOLS, Contract
from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    MapNode,
    MergeNode,
    RouteNode,
    SuperviseNode,
    UntilNode,
    WorkerNode,
    parted,
)
from holdfast.workers.tools.declarations import Declared
from holdfast.workers.tools.seam import Effect


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline runs, itself and through the pipelines that it runs, at every depth. Pipelines whose graphs are not known are not
    looked into."""

    runs: frozenset[str] = frozenset()
    """The ids of the workers and pipelines that the pipeline runs."""
    tools: frozenset[str] = frozenset()
    """The names of the tools that these workers may use."""


class Known(msgspec.Struct, frozen=True):
    """One version of a worker, or of a pipeline."""

    contract: Contract
    writes: frozenset[str] = frozenset()
    """The tools that the worker may use and that may change something outside. For a pipeline: such tools of all workers that it runs at
    every depth, except workers that only undo."""
    asks: frozenset[str] = frozenset()
    """The tools of `writes` that a person must approve before every call. For a pipeline: a tool of `writes` is here if each node that may
    use it needs such an approval, or runs only after a gate or a person of the pipeline has let the node run."""
    inside: Inside | None = None
    """What the pipeline runs; None for a worker."""

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools that the worker, or the workers of the pipeline, may use."""
        own = frozenset(grant.name for grant in self.contract.tools)
        return own if self.inside is None else own | self.inside.tools


WorkersById: TypeAlias = Mapping[str, Mapping[str, Known]]
"""The workers by id and then by version, in the order in which the versions were declared. A graph that names no version gets the version
that was declared last, also if another one has a higher number."""


def known_worker(contract: Contract, declared: Iterable[Declared] = ()) -> Known:
    """The Known of a worker with this contract, whose file declares the tools `declared`. A tool that is neither declared nor built in is
    treated as one that writes, which is also the default of `@tool`. A built-in tool is treated as one that changes nothing."""
    tools = {tool.name: tool for tool in declared}
    granted = [grant.name for grant in contract.tools]
    writes = {name for name in granted if (tools[name].effect is Effect.WRITE if name in tools else name not in BUILT_IN_TOOLS)}
    asks = {name for name in writes if name in contract.approvals_required or (name in tools and tools[name].approval)}
    return Known(contract, frozenset(writes), frozenset(asks))


def found(workers: WorkersById, worker: str) -> Known | None:
    """The worker that a graph names as `id` or `id@version`. For `id` it is the version that was declared last (`WorkersById`). None if the
    id or the version is not known."""
    name, version = parted(worker)
    versions = workers.get(name)
    if not versions:
        return None
    return versions[list(versions)[-1]] if version is None else versions.get(version)


def workers_of(node: AnyNode) -> Iterator[str]:
    """Every worker that a node may run, as `id` or `id@version`: its main worker first, the workers that undo it last."""
    yield from doers_of(node)
    if isinstance(node, WorkerNode | MapNode) and node.undo is not None:
        yield node.undo.worker
    if isinstance(node, SuperviseNode):
        yield from node.undo.values()


def doers_of(node: AnyNode) -> Iterator[str]:
    """The workers that may run when the node runs: all its workers except those that undo it."""
    match node:
        case WorkerNode() | MapNode():
            yield node.worker
            yield from node.fallback
        case SuperviseNode():
            yield node.worker
            yield from node.choices.values()
        case UntilNode():
            yield node.worker
        case MergeNode():
            yield from (worker for worker in (node.worker, node.resolver) if worker is not None)
        case GateNode() | RouteNode():
            if node.worker is not None:
                yield node.worker
        case _:
            pass  # the other kinds run no worker
