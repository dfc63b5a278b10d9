"""A wait node waits for a time. It holds no thread, no slot and no lease meanwhile."""

from __future__ import annotations

from holdfast.pipelines.graph.graph import WaitNode
from holdfast.pipelines.record.results import NodeProgress, Settled
from holdfast.pipelines.scene.scene import Scene


async def advance(node: WaitNode, scene: Scene) -> NodeProgress:
    """The node ends when its time is over."""
    return Settled(state="ok", document={}) if scene.wait("wait", node.seconds) else None
