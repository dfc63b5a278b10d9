"""An until node runs a worker again and again until rules hold for its outputs. Between two runs it waits, without holding a process or
capacity."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.rules import Reason, broken
from holdfast.pipelines.graph.graph import UntilNode
from holdfast.pipelines.record.operations import wait_at
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.large_values import computed
from holdfast.pipelines.scene.scene import Scene

EVERY = "every"
"""The name of the node's waits in the journal."""


async def advance(node: UntilNode, scene: Scene) -> NodeProgress:
    """Run the worker until its outputs break no rule of severity `error`; the node ends with these outputs, and is partial if their run was
    partial. The node fails if a run fails, and if the rules do not hold after `at_most` runs."""
    document: dict[str, Any] = {}
    reasons: list[Reason] = []
    for number in range(1, node.at_most + 1):
        if scene.records.is_closed(wait_at(scene.position, EVERY, number)):
            continue  # the rules did not hold for this run, so the node waited
        last = await ran(scene, (node.worker,), partial(scene.inputs, node.inputs), part=f"work-{number}", template=node.inputs)
        if last is None:
            return None
        if last.response.status is not ResponseStatus.OK:
            return NodeFailure(error_of(last.response), offers=scene.output_schema(node.worker))
        outputs = last.response.outputs
        document = await scene.kept({"outputs": outputs, "times": number})
        value = await scene.run_state.values.whole(outputs)
        reasons = [reason for reason in await computed(value, broken, node.rules, value) if reason.severity == "error"]
        if not reasons:
            partly = last.response.observability.partial
            return Settled(state="partial" if partly else "ok", document=document, lost=partly)
        if number < node.at_most and not scene.wait(EVERY, node.every_seconds, number):
            return None
    return NodeFailure(_not_reached(node, reasons), offers=scene.output_schema(node.worker), document=document)


def _not_reached(node: UntilNode, reasons: list[Reason]) -> NodeError:
    told = "; ".join(f"{reason.code}{' at ' + reason.path if reason.path else ''}" for reason in reasons[:3])
    message = (
        f"The rules of {node.name} did not hold after {node.at_most} runs of {node.worker}. In the last run these were broken: {told}."
    )
    return NodeError(code="until_not_reached", message=message, details={"reasons": msgspec.to_builtins(reasons)})
