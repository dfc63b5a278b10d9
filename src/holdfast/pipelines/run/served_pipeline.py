"""A pipeline as the worker service serves it: like a worker, with the graph in place of code."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.contract.terms import Contract, RunLimits
from holdfast.model.graphs import GraphText
from holdfast.model.operations import Kind
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.graph_json import graph_text, text_id
from holdfast.workers.attempt import Body
from holdfast.workers.tools.seam import Tool

PACKAGE = "graph:"
"""The package of a pipeline's accepted request is this text, followed by the graph's hash."""


class PipelineWorker:
    """A pipeline with the attributes of a worker. It has no tools of its own and no body, because the interpreter runs it."""

    tools: Mapping[str, Tool] = {}
    approvals: frozenset[str] = frozenset()

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    async def turn(self, tenant: str, seconds: float) -> None:
        """Return at once. (For a worker, this waits until the tenant may start a body; a pipeline has none.)"""

    async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
        """Raises AssertionError, because a pipeline has no body."""
        raise AssertionError("the interpreter runs a pipeline; it has no body")


class ServedPipeline:
    """One version of a pipeline that is served: new runs may use it."""

    kind = Kind.PIPELINE

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        text = graph_text(graph)
        self.id = text_id(text)
        self.graph_text: GraphText | None = GraphText(self.id, text)
        self.package = f"{PACKAGE}{self.id}"
        self.worker = PipelineWorker(contract_in(graph))
