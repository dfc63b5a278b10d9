"""Advances the nodes of a run: it finds the nodes that may run, calls each of them, and records how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import started
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import OPEN, Action, Status, Type
from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    HumanNode,
    MapNode,
    MergeNode,
    PipelineNode,
    RouteNode,
    StepNode,
    SuperviseNode,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from holdfast.pipelines.nodes import gate, human, map, merge, route, step, supervise, until, wait, worker
from holdfast.pipelines.record.operations import TIME_AT, NodePosition, node_time_at
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled
from holdfast.pipelines.run.early_end import end_operation, ending_of
from holdfast.pipelines.run.readiness import missing_for, not_reached, skip_of
from holdfast.pipelines.run.troubles import passes
from holdfast.pipelines.scene.children import TimeOver
from holdfast.pipelines.scene.failure import AnotherTry, handled
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.scene import CannotRun, NotReached, Scene
from holdfast.workers.run_operations import CANCEL_AT

_Advance = Callable[[Any, Scene], Awaitable[NodeProgress]]
_KINDS: Final[Mapping[type[AnyNode], _Advance]] = {
    WorkerNode: worker.advance,
    PipelineNode: worker.advance,
    MapNode: map.advance,
    MergeNode: merge.advance,
    GateNode: gate.advance,
    HumanNode: human.advance,
    RouteNode: route.advance,
    SuperviseNode: supervise.advance,
    UntilNode: until.advance,
    StepNode: step.advance,
    WaitNode: wait.advance,
}


async def advance(run: PipelineRun) -> bool:
    """Call every node that may run, until each of them has ended or waits. Returns False if nodes wait, so that the run must rest. Returns
    True if no node waits, or if the run ends early.

    A node that ends lets others begin, and a gate that asks for a revision lets earlier nodes begin again. So this goes through the nodes
    again and again, until no node ends in one pass.
    """
    waiting: set[str] = set()
    """The nodes that returned None, because they wait. They are not called again before the next write."""
    is_new = True
    while is_new:
        is_new = False
        for node in run.unsettled():
            if ending_of(run) is not None:
                return True
            if node.name in waiting or missing_for(run, node):
                continue
            settled = await _looked(run, node)
            if settled is None:
                waiting.add(node.name)
            else:
                run.records.settle(node.name, run.round(node.name), settled)
                is_new = True
    run.records.awaits(CANCEL_AT)
    if run.seconds is not None:
        run.records.awaits(TIME_AT)
    return not waiting or ending_of(run) is not None


async def _looked(run: PipelineRun, node: AnyNode) -> Settled | None:
    """Call a node for its first try, and for each further try that a person has allowed. Returns how it ended; None while it waits."""
    round, try_number = run.round(node.name), 0
    while True:
        try_number += 1
        timer = node_time_at(node.name, try_number)
        is_over = (known := run.records.find(timer)) is not None and known.status is Status.SUCCEEDED
        scene = Scene(run, node, NodePosition(node.name, round, try_number), is_over=is_over)
        outcome = await _outcome(run, node, scene)
        if outcome is None and is_over:
            outcome = await _cut_off(run, node, scene)
        elif outcome is None and node.caps.timeout_seconds is not None:
            if known is None:
                run.records.wish(started(timer, wait_seconds=node.caps.timeout_seconds))
            scene.awaits(timer)
        if isinstance(outcome, NodeFailure):
            outcome = _late(node) if is_over else outcome
            answer = await handled(node, Scene(run, node, scene.position), outcome)
            if isinstance(answer, AnotherTry):
                continue
            outcome = answer
        if outcome is not None and node.name not in run.structure.loops:  # a node of a loop may need its timer again
            _stop_timer(run, timer)
        return outcome


async def _outcome(run: PipelineRun, node: AnyNode, scene: Scene) -> NodeProgress:
    try:
        skipped = await skip_of(run, node, scene)
        return skipped if skipped is not None else await _KINDS[type(node)](node, scene)
    except NotReached as none:
        return not_reached(run, node, none)
    except CannotRun as cannot:
        return NodeFailure(cannot.error)
    except TimeOver:
        return _late(node)
    except HoldfastError as trouble:
        if trouble.code not in _OWN_TROUBLES and not (passes(trouble) and run.is_last_try):
            raise
        return NodeFailure(NodeError(code=trouble.code, message=str(trouble)))


_OWN_TROUBLES: Final = frozenset({"artifact_not_found", "artifact_too_large", "payload_not_json", "schema_too_costly", "overloaded"})
"""An error with one of these codes fails the node. After an error that may pass (`passes`) the engine calls the run again; if it was the
last try, the error fails the node."""


async def _cut_off(run: PipelineRun, node: AnyNode, scene: Scene) -> NodeFailure | None:
    """End the open child runs and questions of a node whose time limit is over. Returns None until they have ended. Then it cancels the
    node's open waits, and returns that the node failed with `timeout`."""
    found = [(at, operation) for at in scene.awaited if (operation := run.records.find(at)) is not None]
    if not any(operation.type is not Type.WAIT and operation.status in OPEN for _, operation in found):
        for at, operation in found:
            if operation.type is Type.WAIT:
                run.records.note(at.update(Action.CANCEL, if_open=True))
        return _late(node)
    for _, operation in found:
        if operation.status in OPEN:
            await end_operation(run, operation)
    return None


def _late(node: AnyNode) -> NodeFailure:
    return NodeFailure(NodeError(code="timeout", message=f"{node.name} did not end within {node.caps.timeout_seconds} s."))


def _stop_timer(run: PipelineRun, timer: Identity) -> None:
    known = run.records.find(timer)
    if known is not None and known.status in OPEN:
        run.records.note(timer.update(Action.CANCEL, if_open=True))
