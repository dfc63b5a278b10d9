"""A step node calls a small pure function of the pipeline's file. The function runs in the sandbox, or in the runner if the policy's
isolation is `inline`."""

from __future__ import annotations

from holdfast.pipelines.graph.graph import StepNode
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled
from holdfast.pipelines.scene.scene import Scene
from holdfast.pipelines.steps.steps import StepFailure
from holdfast.workers.packages import WorkerChanged, WorkerMissing


async def advance(node: StepNode, scene: Scene) -> NodeProgress:
    """Call the function. The node ends with the value that the function returns. The node fails if the function fails, and if this runner
    does not have the package of the function, or has a changed one. If the runner dies before the value is written, the function is called
    again, which is safe because it is pure. Raises Overloaded or SandboxUnavailable if no sandbox can run the function."""
    run, package = scene.run_state, scene.run_state.graph.steps
    if run.steps is None or package is None:
        return NodeFailure(
            NodeError(
                code="sandbox_unavailable",
                message=f"This runner has no sandbox for steps, or the graph names no package with {node.function}.",
            )
        )
    inputs = await scene.whole(node.inputs)
    scene.check_time()
    try:
        done = await run.steps.call(package, node.function, inputs, tenant=run.accepted.tenant)
    except (WorkerMissing, WorkerChanged) as away:
        return NodeFailure(NodeError(code=away.code, message=str(away)))
    if isinstance(done, StepFailure):
        return NodeFailure(NodeError(code=done.code, message=done.message))
    return Settled(state="ok", document=await scene.kept({"outputs": done.outputs}))
