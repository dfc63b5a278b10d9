"""Why a run ends before all its nodes have ended (a node failed, the run was cancelled, or its time limit is over), and how its open child
runs and questions are ended."""

from __future__ import annotations

import msgspec

from holdfast.contract.protocol import ResponseError
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import succeeded
from holdfast.model import json_structs
from holdfast.model.operations import APPROVAL, OPEN, RUN, Operation, Status, Type
from holdfast.pipelines.graph.graph import has_undo
from holdfast.pipelines.record.operations import ENDED_AT, ENDING_AT, TIME_AT, node_at
from holdfast.pipelines.record.results import NodeError, Settled
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.workers.run_operations import CANCEL_AT


class EarlyEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a run ends early."""

    error: NodeError
    node: str | None = None
    """The node that failed; None if the run ends for another reason."""


_CUT_OFF = NodeError(code="cancelled", message="The run ended before the node did.")
_endings = json_structs.decoder(EarlyEnd)


def ending_of(run: PipelineRun) -> EarlyEnd | None:
    """Why the run ends early: a node failed, the run was cancelled, or its time limit is over. None if it does not end early. After a
    reason is recorded, it stays the reason, also if another one occurs later."""
    records = run.records
    if (known := records.find(ENDING_AT)) is not None:
        return _endings.decode(known.result or "{}")
    for node in run.graph.nodes:
        settled = run.settled(node.name)
        if settled is not None and settled.state == "failed" and settled.error is not None:
            return EarlyEnd(error=settled.error, node=node.name)
    if records.is_closed(CANCEL_AT):
        return EarlyEnd(error=NodeError(code="cancelled", message="The run was cancelled."))
    late = records.find(TIME_AT)
    if late is not None and late.status is Status.SUCCEEDED:
        return EarlyEnd(error=NodeError(code="timeout", message=f"The run did not end within {run.seconds:g} s."))
    return None


def ending_by(error: ResponseError) -> EarlyEnd:
    """The EarlyEnd of a run whose nodes have all ended, but which has no valid outputs. `error` says why."""
    return EarlyEnd(error=NodeError(code=error.error_code, message=error.message, details=error.details, retryable=error.retryable))


def can_undo(run: PipelineRun) -> bool:
    """Whether any node of the graph has an `undo`."""
    return any(map(has_undo, run.graph.nodes))


async def end_open(run: PipelineRun, ending: EarlyEnd) -> None:
    """End all child runs and questions that are still open, and wait until they have ended: none of them outlives the run. What nodes asked
    for is dropped if it is not written yet (`Records.drop_wishes`). A node that had begun and not ended is recorded as failed."""
    run.records.drop_wishes()
    if run.records.find(ENDED_AT) is not None:
        return
    opened = _open(run)
    if opened or can_undo(run):
        _record(run, ending)
        await run.records.write()
    told: set[str] = set()
    while opened := _open(run):
        for operation in opened:
            if operation.id not in told:
                told.add(operation.id)
                await end_operation(run, operation)
        await run.records.journal.until_closed(*(_identity(operation) for operation in opened))
    if cut_off := [(node.name, run.round(node.name)) for node in run.graph.nodes if _is_under_way(run, node.name)]:
        _record(run, ending)  # else the next invocation would take the failure of a cut-off node as the reason
    for name, round in cut_off:
        run.records.settle(name, round, Settled(state="failed", error=_CUT_OFF, lost=True, passes=False))
    if run.records.find(ENDING_AT) is not None:
        run.records.note(succeeded(ENDED_AT, "null"))


def _record(run: PipelineRun, ending: EarlyEnd) -> None:
    """Add the reason why the run ends to the next write, unless a reason is already recorded."""
    if run.records.find(ENDING_AT) is None:
        run.records.note(succeeded(ENDING_AT, msgspec.json.encode(ending).decode()))


def _is_under_way(run: PipelineRun, node: str) -> bool:
    round = run.round(node)
    known = run.records.find(node_at(node, round))
    return known is not None and known.status in OPEN and run.records.settled(node, round) is None


def _identity(operation: Operation) -> Identity:
    return Identity(operation.id, operation.type, operation.sub_type or "", operation.parent_id, operation.name)


async def end_operation(run: PipelineRun, operation: Operation) -> None:
    """Cancel a child run, or withdraw a question, without waiting until it has ended. An operation of another type is left as it is."""
    if operation.type is Type.CHAINED_INVOKE:
        await run.service.cancel_child(run.header.id, operation.id)
    elif operation.type is Type.CALLBACK:
        await run.service.withdraw(run.header.id, operation.id)


def _open(run: PipelineRun) -> list[Operation]:
    kinds = {(Type.CHAINED_INVOKE, RUN), (Type.CALLBACK, APPROVAL)}
    return [op for op in run.records.journal.operations if op.status in OPEN and (op.type, op.sub_type) in kinds]
