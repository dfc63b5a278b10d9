"""A route node chooses one of its labels. Nodes that wait for another label of the route are skipped."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.rules import holds
from holdfast.pipelines.graph.graph import RouteNode
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.large_values import computed
from holdfast.pipelines.scene.scene import Scene


async def advance(node: RouteNode, scene: Scene) -> NodeProgress:
    """Choose the label that the worker gives, or the first label whose rules hold. If the worker gives no label of the node, or no rules
    hold, `otherwise` is chosen; without `otherwise` the node fails."""
    offers = {"type": "object", "required": ["label"], "properties": {"label": {"enum": list(node.labels)}}}
    said: Any
    if node.worker is not None:
        last = await ran(scene, (node.worker,), partial(scene.inputs, node.value), template=node.value)
        if last is None:
            return None
        if last.response.status is not ResponseStatus.OK:
            return NodeFailure(error_of(last.response), offers=offers)
        said = (last.response.outputs or {}).get("label")
    else:
        value = await scene.whole(node.value)
        said = await computed(value, _label_of, node, value)
    label = said if isinstance(said, str) and said in node.labels else node.otherwise
    if label is None:
        told = "no rules hold, or the worker gave no label" if said is None else f"the worker gave {said!r:.100}"
        message = f"{node.name} chose none of {', '.join(node.labels)}: {told}, and it has no `otherwise`."
        return NodeFailure(NodeError(code="route_unknown", message=message), offers=offers)
    return Settled(state="ok", document={"label": label})


def _label_of(node: RouteNode, value: Any) -> str | None:
    """The first label whose rules hold for the value; None if there is none."""
    return next((label for label in node.labels if node.rules.get(label) and holds(node.rules[label], value)), None)
