"""Comparisons of two runs, read from the store."""

from __future__ import annotations

from typing import Any

from holdfast.contract.protocol import response_document
from holdfast.descriptions.pipeline_view import NodeCost, pipeline_view, results_of
from holdfast.model.errors import InvalidParameter
from holdfast.pipelines.graph.edges import templates_of
from holdfast.pipelines.graph.resolved_templates import Unresolved, resolved
from holdfast.pipelines.restart.compare import Comparison, NodePicture, Side, compared, differences, verdict_in
from holdfast.store.seam import ExecutionStore
from holdfast.workers.run_lookup import Caller, RunView, run_view


def compare_runs(store: ExecutionStore, a: str, b: str, caller: Caller) -> Comparison:
    """Compare two runs of the same worker or the same pipeline: inputs, outputs, status and, for a pipeline, each node. Raises
    InvalidParameter if the two runs are of different workers or pipelines."""
    first, second = run_view(store, a, caller), run_view(store, b, caller)
    if first.header.function != second.header.function:
        told = f"{a} is a run of {first.header.function}, and {b} is one of {second.header.function}"
        raise InvalidParameter(f"{told}: only runs of the same worker or pipeline can be compared.")
    outputs = [response_document(one.response).get("outputs") for one in (first, second)]
    return Comparison(
        a=first.header.id,
        b=second.header.id,
        inputs=differences(first.accepted.request.inputs, second.accepted.request.inputs),
        outputs=differences(*outputs),
        status=(_status(first), _status(second)),
        nodes=compared(_pictures(store, first), _pictures(store, second)),
    )


def _status(run_view: RunView) -> str:
    """How a run ended, with its error code if it has one; for a run that has not ended, its state."""
    if run_view.state != "done":
        return run_view.state
    error = run_view.response.error
    return run_view.response.status.value if error is None else f"{run_view.response.status.value}: {error.error_code}"


def _pictures(store: ExecutionStore, run_view: RunView) -> dict[str, NodePicture]:
    """What is compared of each node of a run, by the name of the node; empty for a run of a worker, and if the store does not have the
    graph."""
    view = pipeline_view(store, run_view.header, run_view.accepted)
    if view is None:
        return {}
    results, found = results_of(run_view.accepted, store.operations(run_view.header.id)), {}
    for node, at in zip(view.graph.nodes, view.nodes, strict=True):
        cost = view.costs.get(node.name, NodeCost())
        took = None if at.began_at is None or at.ended_at is None else at.ended_at - at.began_at
        document: Any = results.get(node.name)
        side = Side(
            state=at.state,
            round=at.round,
            reused=at.reused,
            verdict=verdict_in(document),
            duration_ms=took,
            cost_usd=cost.cost_usd,
            tokens=cost.tokens,
            runs=cost.runs,
        )
        # For a map, the whole list over which it runs is compared; the inputs of the single items are not read.
        values = {place: resolved(template, results) for place, template in templates_of(node) if at.state not in ("waiting", "skipped")}
        inputs = {place: None if isinstance(value, Unresolved) else value for place, value in values.items()}
        found[node.name] = NodePicture(side=side, inputs=inputs, document=document)
    return found
