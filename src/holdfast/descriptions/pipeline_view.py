"""A pipeline's run as people see it: the graph, the state of each node, the items of each map, and what each node has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.model import json_structs
from holdfast.model.execution import Execution
from holdfast.model.operations import OPEN, RUN, Operation, Type
from holdfast.pipelines.draw.captions import Counts, NodeView, Views
from holdfast.pipelines.graph.graph import Graph, MapNode
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.pipelines.graph.resolved_templates import resolved
from holdfast.pipelines.graph.structure import structure_of
from holdfast.pipelines.record.operations import node_at
from holdfast.pipelines.record.responses import child_response
from holdfast.pipelines.record.results import settled_of, worker_document
from holdfast.pipelines.record.states import NodeStatus, node_history, node_states
from holdfast.pipelines.run.served_pipeline import PACKAGE
from holdfast.pipelines.scene.shards import items_over
from holdfast.store.seam import ExecutionStore
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.run_lookup import open_child
from holdfast.workers.run_operations import NODE


class NodeCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the finished runs of a node have used."""

    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    runs: tuple[str, ...] = ()
    """The ids of these runs, in the order in which they began; for a map with shards, the ids of its shards."""


class PipelineView(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pipeline, as people see it."""

    run_id: str
    graph: Graph
    nodes: tuple[NodeStatus, ...]
    """The present state of each node, in the order of the graph."""
    history: tuple[NodeStatus, ...] = ()
    """Every end of a node in every round, and every undo, in order."""
    counts: dict[str, Counts] = {}
    """The items of each map that has begun or was skipped, by the name of its node."""
    costs: dict[str, NodeCost] = {}
    """What each node has used, by its name. A node without finished runs is not in it."""

    def views(self) -> Views:
        """The nodes as drawings show them."""
        return {node_status.node: self.view_of(node_status) for node_status in self.nodes}

    def view_of(self, node_status: NodeStatus) -> NodeView:
        """One node as drawings show it."""
        cost, counts = self.costs.get(node_status.node), self.counts.get(node_status.node)
        asks = [one for one in node_status.waits_for if one.startswith("a_")]
        detail = node_status.message or (f"waits for {', '.join(node_status.waits_for)}" if node_status.waits_for else "")
        if node_status.error_code is not None:
            detail = f"{node_status.error_code}: {detail}"
        state = "person" if asks else node_status.state
        return NodeView(state=state, detail=detail, counts=counts, cost=None if cost is None else cost.cost_usd)

    def runs_of(self, node: str) -> tuple[str, ...]:
        """The ids of the finished runs of a node; for a map with shards, of its finished shards."""
        return self.costs.get(node, NodeCost()).runs

    def document(self) -> dict[str, Any]:
        """The view as JSON, for HTTP and `--json`."""
        told = []
        for node_status in self.nodes:
            one: dict[str, Any] = msgspec.to_builtins(node_status)
            if (counts := self.counts.get(node_status.node)) is not None:
                one["counts"] = msgspec.to_builtins(counts)
            cost = self.costs.get(node_status.node, NodeCost())
            one["usage"] = {"tokens": cost.tokens, "cost_usd": float(cost.cost_usd), "tool_calls": cost.tool_calls}
            one["runs"] = list(cost.runs)
            told.append(one)
        graph = msgspec.to_builtins(self.graph)
        return {"run_id": self.run_id, "pipeline": self.graph.pipeline_id, "version": self.graph.version, "nodes": told, "graph": graph}


def pipeline_view(store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> PipelineView | None:
    """The view of a run; None for a run of a worker, and if the store does not have the graph."""
    if not accepted.package.startswith(PACKAGE):
        return None
    text = store.graph(accepted.package.removeprefix(PACKAGE))
    if text is None:
        return None
    graph, operations = graph_from(text), store.operations(header.id)
    structure = structure_of(graph)
    view = PipelineView(
        run_id=header.id,
        graph=graph,
        nodes=tuple(node_states(graph, structure, header, operations)),
        history=tuple(node_history(graph, structure, header, operations)),
        costs=_costs(operations),
    )
    return msgspec.structs.replace(view, counts=_counts(view, store, accepted, operations))


def why_no_view(header: Execution, accepted: AcceptedRequest) -> str:
    """Why `pipeline_view` returned None for a run, as a sentence."""
    if not accepted.package.startswith(PACKAGE):
        return f"Run {header.id} is a run of a worker, which has no graph."
    return (
        f"Run {header.id} is a run of the pipeline {header.function}, and this store does not have its graph. "
        "Ask in the store in which the run was started."
    )


def _runs(operations: Sequence[Operation]) -> list[Operation]:
    return [op for op in operations if op.type is Type.CHAINED_INVOKE and op.sub_type == RUN]


def _costs(operations: Sequence[Operation]) -> dict[str, NodeCost]:
    found: dict[str, NodeCost] = {}
    for op in _runs(operations):
        if op.status in OPEN or op.name is None:
            continue
        response, before = child_response(op), found.get(op.name, NodeCost())
        usage = response.observability.usage
        found[op.name] = NodeCost(
            tokens=before.tokens + usage.tokens.input + usage.tokens.output,
            cost_usd=before.cost_usd + usage.cost_usd,
            tool_calls=before.tool_calls + usage.tool_calls,
            runs=(*before.runs, response.run_id) if response.run_id else before.runs,
        )
    return found


def _counts(view: PipelineView, store: ExecutionStore, accepted: AcceptedRequest, operations: Sequence[Operation]) -> dict[str, Counts]:
    """The counts of each map that has begun or was skipped, in the present round of its node."""
    known, found = {op.id: op for op in operations}, {}
    for node, node_status in zip(view.graph.nodes, view.nodes, strict=True):
        begun = known.get(node_at(node.name, node_status.round).operation_id)
        if not isinstance(node, MapNode) or begun is None:
            continue
        document = None if begun.status in OPEN else settled_of(begun).document
        if document is not None and "counts" in document:
            found[node.name] = json_structs.converted(document["counts"], Counts)
            continue
        over = resolved(node.over, results_of(accepted, operations))
        total = len(over) if isinstance(over, list) else 0
        ok, failed = items_over(node, node_status.round, known, lambda shard: _operations_of(store, view.run_id, shard))
        found[node.name] = Counts(total, min(ok, total - failed) if total else ok, failed)
    return found


def results_of(accepted: AcceptedRequest, operations: Sequence[Operation]) -> dict[str, Any]:
    """The inputs of the run, under `inputs`, and the result document of each node that has ended, under its name: that of its latest
    round."""
    results: dict[str, Any] = {"inputs": accepted.request.inputs}
    by_id: Mapping[str, Operation] = {op.id: op for op in operations}
    for op in operations:
        if op.sub_type != NODE or op.type is not Type.CONTEXT or op.status in OPEN or op.name is None:
            continue
        settled = settled_of(op)
        if settled.document is not None:
            results[op.name] = settled.document
        elif settled.run is not None and settled.run in by_id:
            results[op.name] = worker_document(child_response(by_id[settled.run]))
    return results


def _operations_of(store: ExecutionStore, run_id: str, shard: Operation) -> dict[str, Operation]:
    """The operations of a shard by id; empty if the execution of the shard has not begun, or has ended. A shard is a part of a map's
    items."""
    running = open_child(store, run_id, shard.id)
    return {} if running is None else {op.id: op for op in store.operations(running)}
