"""Undo: when a run fails, is cancelled, takes too long or has no valid outputs, what its nodes did is taken back by their `undo`. The node
that ended last is undone first.

A worker or map node is undone if it ended ok or partial. So is a node that failed and whose outputs a person then gave (`use`): the undo
gets these outputs, because they say what was done in place of the worker. The undo of a worker node is one child run. The undo of a map has
one child run for each item that succeeded, and the undo of a supervise node one for each choice that succeeded and has an undo. If an undo
fails, a person is asked, without a time limit, and the run stays open until the person has answered or the question is withdrawn.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.durable.journal import succeeded
from holdfast.pipelines.graph.graph import AnyNode, MapNode, SuperviseNode, WorkerNode, has_undo
from holdfast.pipelines.nodes import map as map_node
from holdfast.pipelines.nodes import supervise
from holdfast.pipelines.record.operations import NodePosition, node_at, undone_at
from holdfast.pipelines.record.results import NodeError, Settled, error_of
from holdfast.pipelines.run.early_end import can_undo
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.kept_runs import kept_runs
from holdfast.pipelines.scene.scene import CannotRun, NotReached, Scene, Silence

_Undoable: TypeAlias = WorkerNode | MapNode | SuperviseNode
RETRY, DONE, LEAVE = "retry", "done", "leave"
"""What a person may answer about an undo that failed: `retry` (try the undo again), `done` (a person has undone by hand what the node did)
or `leave` (what the node did stays as it is)."""
_MOST_TRIES: Final = 100
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["action"],
    "properties": {"action": {"enum": [RETRY, DONE, LEAVE]}},
}


class Unfinished(msgspec.Struct, frozen=True):
    """A node that was not undone: a person chose to leave what it did as it is, the question was rejected or withdrawn, or the undo failed
    too often."""

    node: str
    error: NodeError


async def undo_all(run: PipelineRun) -> list[Unfinished]:
    """Undo every node that has an `undo` and something to undo, in the reverse of the order in which they ended. Returns the nodes that
    were not undone."""
    if can_undo(run):
        run.kept_runs = await kept_runs(run)
    left = []
    for node, round in _finished(run):
        unfinished = await _undone(run, node, round)
        if unfinished is not None:
            left.append(unfinished)
    return left


def _finished(run: PipelineRun) -> list[tuple[_Undoable, int]]:
    """The nodes to undo, each with the round that is to be undone; the node that ended last is the first. A node may be in the list several
    times, with different rounds."""
    found: list[tuple[tuple[int, int], _Undoable, int]] = []
    for place, node in enumerate(run.graph.nodes):
        if not isinstance(node, _Undoable) or not has_undo(node):
            continue
        for round in range(1, run.round(node.name) + 1):
            settled, operation = run.records.settled(node.name, round), run.records.find(node_at(node.name, round))
            if settled is not None and operation is not None and _did_something(run, node, round, settled):
                found.append(((operation.revision, place), node, round))
    return [(node, round) for _, node, round in sorted(found, key=lambda one: one[0], reverse=True)]


def _did_something(run: PipelineRun, node: _Undoable, round: int, settled: Settled) -> bool:
    """Whether there is something to undo. For a worker node: whether it ended ok or partial. For a map so too, but it may have no item to
    undo (`map_node.effects`). For a supervise node, in whatever state it ended: whether the run of a worker that it chose succeeded and the
    label of that choice has an undo. Work that a restart took from an earlier run of the pipeline is not undone
    if that run succeeded (`Forerunners.keeps`)."""
    if isinstance(node, SuperviseNode):
        return bool(supervise.effects(node, Scene(run, node, NodePosition(node.name, round))))
    return settled.state in ("ok", "partial") and not _is_kept(run, settled)


def _is_kept(run: PipelineRun, settled: Settled) -> bool:
    """Whether the result of a worker node was taken from an earlier run and is kept (`Forerunners.keeps`), by the node itself or by the
    nested pipeline that it ran. Such a node is not undone. For other nodes False: of them, each item or choice is kept or not."""
    if run.forerunners is None or not run.forerunners.keeps or settled.run is None:
        return False
    return run.records.is_reused(settled.run) or run.records.response_by_id(settled.run).run_id in run.kept_runs


async def _undone(run: PipelineRun, node: _Undoable, round: int) -> Unfinished | None:
    """Undo what one node did in one round. After each failure a person is asked. Returns None if the node is undone, by its undo or by
    hand, or had nothing to undo; else an Unfinished with the error."""
    done = undone_at(node.name, round)
    if run.records.find(done) is not None:
        return None
    if isinstance(node, MapNode) and not await map_node.effects(node, Scene(run, node, NodePosition(node.name, round))):
        return None  # without a record: a restart does again what is recorded as undone
    error = NodeError(code="undo_failed", message="The undo was tried too often.")
    for try_number in range(1, _MOST_TRIES + 1):
        scene = Scene(run, node, NodePosition(node.name, round, try_number), results=run.results_in(node.name, round))
        while (tried := await _tried(scene, node, round)) is None:
            await run.records.rest()
        if not isinstance(tried, NodeError):
            run.records.note(succeeded(done, '{"state":"undone"}'))
            return None
        error = NodeError(
            code="undo_failed", message=f"The undo of {node.name} failed: {tried.message}", details=msgspec.to_builtins(tried)
        )
        while (action := _asked(scene, node, error)) is None:
            run.service.waits(run.header.id)
            await run.records.rest()
        if action == DONE:
            run.records.note(succeeded(done, '{"state":"undone","by_hand":true}'))
            return None
        if action == LEAVE:
            break
    return Unfinished(node.name, error)


async def _tried(scene: Scene, node: _Undoable, round: int) -> NodeError | bool | None:
    """Run the undo of a node. Returns True if it succeeded, an error if not, and None while it runs."""
    try:
        if isinstance(node, MapNode):
            return await map_node.undo(node, scene)
        if isinstance(node, SuperviseNode):
            return await supervise.undo(node, scene)
        assert node.undo is not None
        last = await ran(scene, (node.undo.worker,), lambda: _inputs(scene, node, round), part="undo", template=node.undo.inputs)
    except NotReached as none:
        return NodeError(code="edge_mismatch", message=f"The undo refers to {none.source}, which has no result.")
    except CannotRun as cannot:
        return cannot.error
    if last is None:
        return None
    return True if last.response.status is ResponseStatus.OK else error_of(last.response)


async def _inputs(scene: Scene, node: WorkerNode, round: int) -> dict[str, Any]:
    """The inputs of the undo worker: the value of the author's template for them. Without such a template: `{inputs, outputs}` of the
    node."""
    assert node.undo is not None
    run = scene.run_state
    if node.undo.inputs is not None:
        return await scene.inputs(node.undo.inputs)
    return {"inputs": await scene.inputs(node.inputs), "outputs": (run.document(node.name, round) or {}).get("outputs")}


def _asked(scene: Scene, node: AnyNode, error: NodeError) -> str | None:
    decision = scene.ask(
        "question",
        "undo",
        {"node": node.name, "round": scene.position.round, "error": msgspec.to_builtins(error), "answers": [RETRY, DONE, LEAVE]},
        question=f"{error.message} Answer with an action: {RETRY}, {DONE} (it is undone by hand) or {LEAVE} (it stays as it is).",
        within=0,
        schema=_ANSWER,
    )
    if decision is None:
        return None
    if isinstance(decision, Silence) or decision.verdict != "answer" or not isinstance(decision.result, dict):
        return LEAVE
    return str(decision.result.get("action"))
