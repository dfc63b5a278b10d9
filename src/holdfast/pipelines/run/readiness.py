"""Says whether a node may begin, and whether it is skipped instead of run."""

from __future__ import annotations

from holdfast.contract.rules import holds
from holdfast.pipelines.graph.graph import AnyNode, GateNode, HumanNode, RouteNode
from holdfast.pipelines.record.results import Settled
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.large_values import computed
from holdfast.pipelines.scene.scene import NotReached, Scene


def missing_for(run: PipelineRun, node: AnyNode) -> list[str]:
    """The names of the nodes that this node waits for and that have not ended."""
    return [name for name in run.structure.needs[node.name] if run.settled(name) is None]


async def skip_of(run: PipelineRun, node: AnyNode, scene: Scene) -> Settled | None:
    """If the node is skipped because of its `after` or `when`: how it ends. None if neither skips it. Call this only when every node that
    it waits for has ended. If `when` refers to a value that is not there, raises NotReached (a node has no result), ArtifactMissing or
    PayloadNotJson (an artifact cannot be read), or else CannotRun."""
    for after in node.after:
        before, settled = run.graph.node(after.node), run.settled(after.node)
        assert settled is not None
        if after.label is not None and isinstance(before, RouteNode):
            chosen = (settled.document or {}).get("label")
            if chosen != after.label:
                return skipped(node, f"{after.node} chose {chosen or 'nothing'}, not {after.label}.", lost=settled.lost)
        elif isinstance(before, GateNode | HumanNode) and not settled.passes:
            return skipped(node, f"{after.node} did not let this node run.", lost=settled.lost)
    if node.when is not None:
        value = await scene.whole(node.when.value)
        if not await computed(value, holds, node.when.rules, value):
            return Settled(state="skipped", why="The rules of `when` do not hold.")
    return None


def skipped(node: AnyNode, why: str, *, lost: bool) -> Settled:
    """The end of a node that is skipped because of another node. If the skipped node is a gate or a person, the nodes that name it in
    `after` are skipped too. `lost`: whether a result that the author wanted is missing because of this (`Settled.lost`)."""
    return Settled(state="skipped", why=why, lost=lost, passes=not isinstance(node, GateNode | HumanNode))


def not_reached(run: PipelineRun, node: AnyNode, none: NotReached) -> Settled:
    """The end of a node that is skipped because it refers to another node that has no result."""
    settled = run.settled(none.source)
    return skipped(node, f"{none.source} has no result.", lost=settled is not None and settled.lost)
