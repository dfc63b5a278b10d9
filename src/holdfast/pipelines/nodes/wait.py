"""A wait node waits for a number of seconds. While it waits, it holds no thread and no capacity."""

from __future__ import annotations

from holdfast.pipelines.graph.graph import WaitNode
from holdfast.pipelines.record.results import NodeProgress, Settled
from holdfast.pipelines.scene.scene import Scene


async def advance(node: WaitNode, scene: Scene) -> NodeProgress:
    """Begin the wait, or look whether it has ended. Returns that the node is ok if the wait has ended; before that, None."""
    return Settled(state="ok", document={}) if scene.wait("wait", node.seconds) else None
