"""One invocation of a pipeline's run: its graph, its request, its records, and what can be computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.contract.terms import Contract
from holdfast.model.execution import Execution
from holdfast.model.life import MAX_FAILURES
from holdfast.pipelines.graph.contract import time_limit
from holdfast.pipelines.graph.graph import AnyNode, Graph
from holdfast.pipelines.graph.structure import Structure
from holdfast.pipelines.graph.templates import INPUTS
from holdfast.pipelines.record.records import Records
from holdfast.pipelines.record.results import Settled, worker_document
from holdfast.pipelines.restart.forerunners import Forerunners
from holdfast.pipelines.scene.environment import RunService, StepCalls
from holdfast.pipelines.scene.run_values import Values
from holdfast.workers.accepted_request import AcceptedRequest, Budget
from holdfast.workers.run_reporters import LiveRunReporter

_KEPT_AFTER_MS: Final = 86_400_000
"""The counters of a budget are kept this long after the deadline of the run that owns the budget."""


class PipelineRun:
    """One invocation of a pipeline's run: the data that all parts of the interpreter use."""

    def __init__(
        self,
        graph: Graph,
        structure: Structure,
        contract: Contract,
        accepted: AcceptedRequest,
        records: Records,
        reporter: LiveRunReporter,
        service: RunService,
        steps: StepCalls | None,
        forerunners: Forerunners | None = None,
    ) -> None:
        self.graph = graph
        self.structure = structure
        self.contract = contract
        self.accepted = accepted
        self.records = records
        self.reporter = reporter
        self.service = service
        self.steps = steps
        self.forerunners = forerunners
        """The earlier runs; None if this run restarts no other run."""
        self.kept_runs: frozenset[str] = frozenset()
        """The runs of nested pipelines that are not undone (scene/kept_runs.py). Known when the undo begins."""
        self.values = Values(service.artifacts, accepted.tenant, service.policy.inline_artifact_bytes)
        self._documents: dict[tuple[str, int], dict[str, Any]] = {}

    @property
    def header(self) -> Execution:
        """The execution of the run."""
        return self.records.journal.header

    @property
    def is_last_try(self) -> bool:
        """Whether the engine does not invoke the run again if this invocation fails, because so many failed before it."""
        return self.header.failures >= MAX_FAILURES - 1

    # --- where the run stands

    def round(self, node: str) -> int:
        """The present round of a node: one more than the number of revisions that the gate of its loop has asked for; 1 for a node outside
        of all loops."""
        loop, round = self.structure.loops.get(node), 1
        while loop is not None and (settled := self.records.settled(loop.gate, round)) is not None and settled.revise:
            round += 1
        return round

    def settled(self, node: str) -> Settled | None:
        """How a node ended in its present round; None if it has not ended."""
        return self.records.settled(node, self.round(node))

    def unsettled(self) -> list[AnyNode]:
        """The nodes that have not ended, in the order of the graph."""
        return [node for node in self.graph.nodes if self.settled(node.name) is None]

    @property
    def is_partial(self) -> bool:
        """Whether a result that the author wanted is missing or partial (`Settled.lost`), for any node."""
        return any((settled := self.settled(node.name)) is not None and settled.lost for node in self.graph.nodes)

    # --- results

    def document(self, node: str, round: int) -> dict[str, Any] | None:
        """The result document of a node in a round; None if the node has not ended in this round, or ended without a result."""
        known = self._documents.get((node, round))
        if known is not None:
            return known
        settled = self.records.settled(node, round)
        if settled is None:
            return None
        found = settled.document
        if found is None and settled.run is not None:
            found = worker_document(self.records.response_by_id(settled.run))
        if found is not None:
            self._documents[node, round] = found
        return found

    def results(self, names: Mapping[str, Any] | tuple[str, ...] | None = None) -> dict[str, Any]:
        """The result documents by the names that references use: `inputs` for the inputs of the run, and the name of each node that has a
        result. `names`: only these nodes; None: all nodes."""
        wanted = [node.name for node in self.graph.nodes] if names is None else list(names)
        found = {name: document for name in wanted if (document := self.document(name, self.round(name))) is not None}
        return {INPUTS: self.accepted.request.inputs, **found}

    def results_in(self, node: str, round: int) -> dict[str, Any]:
        """The result documents for the undo of a node in a round, by the names that references use. The node itself and the other nodes of
        its loop have their documents of that round (none if they have none in that round); all other nodes have their present ones."""
        loop = self.structure.loops.get(node)
        members = frozenset({node}) if loop is None else loop.members
        found = {name: document for name, document in self.results().items() if name not in members}
        return found | {name: document for name in members if (document := self.document(name, round)) is not None}

    # --- limits

    @property
    def seconds(self) -> float | None:
        """How many seconds the run may take; None: no limit."""
        return time_limit(self.accepted.limits)

    def budgets(self, node: AnyNode) -> tuple[Budget, ...]:
        """The budgets of tokens and money that all child runs of a node share: the node's own, then the run's. A budget without limits is
        left out."""
        caps, limits, key = node.caps, self.accepted.limits, f"budget/{self.header.id}"
        until = self.header.deadline + _KEPT_AFTER_MS
        own = Budget(key=f"{key}/{node.name}", max_tokens=caps.max_tokens, max_cost=caps.max_cost_usd, until=until)
        whole = Budget(key=key, max_tokens=limits.max_tokens, max_cost=limits.max_cost_usd, until=until)
        return tuple(budget for budget in (own, whole) if budget.max_tokens is not None or budget.max_cost is not None)
