"""Kept runs: nested pipelines of a restarted run that took all their work from earlier runs. That work belongs to those runs, so it is not
undone if the restart of a good run fails.

A nested pipeline always begins, also where nothing is to be done again: its own nodes decide. So whether it did anything is read from the
runs below it. This is done once and recorded, because retention may remove these runs while a person is asked about an undo.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from holdfast.durable.journal import succeeded
from holdfast.model.operations import RUN, Type
from holdfast.pipelines.record.operations import KEPT_AT
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.workers.earlier_runs import ChildOf


async def kept_runs(run: PipelineRun) -> frozenset[str]:
    """The ids of the nested pipelines' runs below this run that are kept. Empty if this run restarts no good run (`Forerunners.keeps`)."""
    if run.forerunners is None or not run.forerunners.keeps:
        return frozenset()
    known = run.records.find(KEPT_AT)
    if known is not None:
        return frozenset(msgspec.json.decode(known.result or "[]"))
    found = frozenset([child.run_id async for child in _nested(run, run.header.id) if await _took_all(run, child)])
    run.records.note(succeeded(KEPT_AT, msgspec.json.encode(sorted(found)).decode()))
    return found


async def _nested(run: PipelineRun, parent: str) -> AsyncIterator[ChildOf]:
    """The nested pipelines' runs that the run `parent`, or a shard of one of its maps, asked for."""
    known = await run.service.earlier_run(parent, run.accepted.tenant)
    for child in () if known is None else known.children.values():
        if child.accepted.is_shard:
            async for item in _nested(run, child.run_id):
                yield item
        elif child.is_pipeline:
            yield child


async def _took_all(run: PipelineRun, child: ChildOf) -> bool:
    again = child.accepted.again
    return again is not None and again.kept and await _began_nothing(run, child.run_id)


async def _began_nothing(run: PipelineRun, run_id: str) -> bool:
    """Whether no worker ran for this run of a pipeline, or for a pipeline below it."""
    known = await run.service.earlier_run(run_id, run.accepted.tenant)
    if known is None:
        return False
    for operation in known.operations.values():
        if operation.type is not Type.CHAINED_INVOKE or operation.sub_type != RUN:
            continue
        child = known.children.get(operation.id)
        if child is None and operation.error is not None:
            continue  # the request was refused
        if child is None or not child.is_pipeline or not await _began_nothing(run, child.run_id):
            return False
    return True
