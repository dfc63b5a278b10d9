"""PipelineRuntime: builds the pipelines of files in the sandbox, checks them, and finds the graphs of runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from holdfast.contract.terms import ProblemLevel
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.check.known import Known, WorkersById, known_worker
from holdfast.pipelines.check.known import workers_of as workers_named
from holdfast.pipelines.check.nested import with_pipelines
from holdfast.pipelines.check.whole import problems
from holdfast.pipelines.graph.graph import Built, Graph, parted
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.pipelines.steps.steps import Steps
from holdfast.workers.packages import Package, Packages
from holdfast.workers.policy import Policy

_log = logging.getLogger("holdfast.service")
_MOST_GRAPHS: Final = 200
"""At most this many graphs that were read from the store are kept in memory."""


class GraphReader(Protocol):
    """The part of a store that reads graphs."""

    def graph(self, graph: str) -> str | None: ...


class GraphFinder:
    """Finds graphs by their hash: first among the pipelines that are served here, then in the store."""

    def __init__(self) -> None:
        self._served: dict[str, Graph] = {}
        self._read: dict[str, Graph] = {}
        self.store: GraphReader | None = None

    def add(self, served: ServedPipeline) -> None:
        self._served[served.id] = served.graph

    def find(self, sha256: str) -> Graph | None:
        """The graph with this hash; None if there is none."""
        known = self._served.get(sha256) or self._read.get(sha256)
        if known is not None or self.store is None:
            return known
        text = self.store.graph(sha256)
        if text is None:
            return None
        if len(self._read) >= _MOST_GRAPHS:
            self._read.pop(next(iter(self._read)))
        found = self._read[sha256] = graph_from(text)
        return found


class PipelineRuntime:
    """The pipelines of one worker runtime."""

    def __init__(self, packages: Packages, policy: Policy, server_limits: ServerLimits) -> None:
        self._packages = packages
        self._policy = policy
        self._server_limits = server_limits
        self.graphs = GraphFinder()
        self.steps = Steps(packages, policy, server_limits)
        self.stand_ins: Mapping[str, Mapping[str, Known]] = {}
        """Workers without a file, by id and version; for holdfast.testing."""

    async def built(self, files: Sequence[Path], packages: Sequence[Package]) -> list[ServedPipeline]:
        """Build and check the pipelines of these files. `packages` are the workers that the pipelines may name. Raises PipelineInvalid if
        one has errors; warnings are logged."""
        found: list[tuple[Path, Built]] = []
        for file in files:
            found += [(file, each) for each in await build(file, self._packages, self._policy, server_limits=self._server_limits)]
        return self.checked(found, packages)

    def checked(self, found: Sequence[tuple[Path, Built]], packages: Sequence[Package]) -> list[ServedPipeline]:
        """Check these pipelines, which were built from these files, and make them ready to be served. Raises PipelineInvalid if one has
        errors; warnings are logged."""
        workers = {**{name: dict(versions) for name, versions in self.stand_ins.items()}, **workers_of(packages)}
        _check_apart(found)
        known = with_pipelines(workers, [each.graph for _, each in found])
        for file, each in found:
            self._check(file, each, known)
        pipelines = [ServedPipeline(each.graph) for _, each in found]
        for served in pipelines:
            self.graphs.add(served)
        return pipelines

    def _check(self, file: Path, each: Built, workers: WorkersById) -> None:
        told = problems(each.graph, workers, each.lines)
        errors = [problem for problem in told if problem.level is ProblemLevel.ERROR]
        if errors:
            raise PipelineInvalid("\n".join(map(str, errors)), str(file))
        for problem in told:
            _log.warning("%s: %s", file, problem)
        for warning in each.warnings:
            _log.warning("%s: %s", file, warning)


def _check_apart(found: Sequence[tuple[Path, Built]]) -> None:
    """Raise PipelineInvalid if two different pipelines have the same id and version."""
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for file, each in found:
        name, graph = (each.graph.pipeline_id, each.graph.version), ServedPipeline(each.graph).id
        other, known = first.setdefault(name, (file, graph))
        if known != graph:
            told = f"{other} and {file} declare {' '.join(name)} differently: give one of them another id, or another version."
            raise PipelineInvalid(told)


def workers_of(packages: Sequence[Package]) -> dict[str, dict[str, Known]]:
    """The workers of these packages, by id and version, in the form that the checks of a graph need."""
    known: dict[str, dict[str, Known]] = {}
    for package in packages:
        versions = known.setdefault(package.contract.worker_id, {})
        versions.pop(package.contract.version, None)
        versions[package.contract.version] = known_worker(package.contract, package.tools)
    return known


def with_their_workers(chosen: Collection[str], pipelines: Sequence[ServedPipeline]) -> set[str]:
    """These workers and pipelines, and all workers and pipelines that the nodes of these pipelines run, directly or inside other
    pipelines."""
    graphs = {pipeline.graph.pipeline_id: pipeline.graph for pipeline in pipelines}
    found, left = set(chosen), list(chosen)
    while left:
        graph = graphs.get(left.pop())
        named = () if graph is None else (parted(worker)[0] for node in graph.nodes for worker in workers_named(node))
        new = {*named} - found
        found |= new
        left += new
    return found
