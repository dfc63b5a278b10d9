"""A worker node runs a worker or a pipeline. If its run fails, the node runs its fallbacks one after the other, until one succeeds."""

from __future__ import annotations

from functools import partial

from holdfast.contract.codes import ResponseStatus
from holdfast.pipelines.graph.graph import WorkerNode
from holdfast.pipelines.record.results import NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.scene import Scene


async def advance(node: WorkerNode, scene: Scene) -> NodeProgress:
    """Run the worker and, if it fails, its fallbacks. The node ends with the response of the first run that succeeds. If none succeeds, or
    if a run is cancelled, the node fails with the error of the last run."""
    last = await ran(scene, (node.worker, *node.fallback), partial(scene.inputs, node.inputs), template=node.inputs)
    if last is None:
        return None
    if last.response.status is not ResponseStatus.OK:
        return NodeFailure(error_of(last.response), offers=scene.output_schema(node.worker))
    partly = last.response.observability.partial
    return Settled(state="partial" if partly else "ok", run=last.operation_id, lost=partly)
