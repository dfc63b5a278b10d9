"""Replaying a worker's run, of a store or of an exported document: run again on its receipts, compared with what it came to."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from holdfast.contract.protocol import Response, response_from
from holdfast.model.errors import ExportInvalid, InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.service.importing import Source, read
from holdfast.service.worker_runtime import WorkerRuntime, WorkerSettings, home_beside
from holdfast.workers.replaying import Finished, Replayed, replay
from holdfast.workers.running import Accepted
from holdfast.workers.service import Served


def exported_run(document: Source) -> Finished:
    """A run that `executions export` wrote down."""
    imported = read(document)
    snapshot = imported.snapshot
    header = snapshot.header
    if not imported.data:
        raise ExportInvalid("The document was exported without data: it can be looked at, but not replayed.")
    if header.status is not ExecutionStatus.SUCCEEDED:
        raise InvalidParameter(f"The run {header.id} did not come to a response, so there is nothing to compare a replay with.")
    try:
        accepted = msgspec.json.decode(snapshot.events[0].payload or "", type=Accepted)
        response: Response = response_from(snapshot.events[-1].payload or "")
    except msgspec.DecodeError:
        raise InvalidParameter(f"The document is an execution of {header.function!r}, which is no worker.") from None
    if accepted.before:
        raise InvalidParameter(f"The run {header.id} went on with the receipts of earlier runs of its key: replay it from its store.")
    return Finished(header=header, accepted=accepted, response=response, operations=snapshot.operations)


async def replay_run(finished: Finished, where: str, settings: WorkerSettings, files: Sequence[str | os.PathLike[str]] = ()) -> Replayed:
    """Run it again: with the code it was pinned to, or with today's of these files."""
    runtime = WorkerRuntime(files, settings, home_beside(where))
    await runtime.open()
    try:
        package = _served(runtime, finished).package if files else finished.accepted.package
        worker = await runtime.worker_service.worker(finished.header.function, package)
        return await replay(finished, worker, package, runtime.worker_service.artifacts, settings.policy)
    finally:
        await runtime.close()


def _served(runtime: WorkerRuntime, finished: Finished) -> Served:
    versions = runtime.worker_service.served.get(finished.header.function)
    if not versions:
        known = ", ".join(runtime.worker_service.served)
        raise InvalidParameter(f"The run is one of {finished.header.function}, and the file has {known}.")
    return versions.get(finished.accepted.version) or list(versions.values())[-1]
