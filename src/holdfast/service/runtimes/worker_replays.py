"""Replays of workers' runs, from a store or an exported document: the code runs again with the recorded results of its tool calls, and both
responses are compared."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from holdfast.contract.protocol import Response, response_from
from holdfast.exports.importing import ExportSource, read
from holdfast.model import json_structs
from holdfast.model.errors import ExportInvalid, InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings, home_beside
from holdfast.workers.accept import ServedVersion
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.replay import Finished, RunReplay, replay


def exported_run(document: ExportSource) -> Finished:
    """The run in a document that `executions export` wrote. Raises ExportInvalid or InvalidParameter if the document has no run that can be
    replayed."""
    imported = read(document)
    snapshot = imported.snapshot
    header = snapshot.header
    if not imported.data:
        raise ExportInvalid("The document was exported without data, so it cannot be replayed. Export the execution with its data.")
    if header.status is not ExecutionStatus.SUCCEEDED:
        raise InvalidParameter(f"The execution {header.id} did not end with a response, so there is nothing to compare a replay with.")
    try:
        accepted = json_structs.decoded(snapshot.events[0].payload or "", AcceptedRequest)
        response: Response = response_from(snapshot.events[-1].payload or "")
    except (msgspec.DecodeError, RecursionError):
        raise InvalidParameter(f"The document is an execution of {header.function!r}, not a run of a worker.") from None
    if accepted.before:
        raise InvalidParameter(
            f"The run {header.id} used receipts of earlier runs, which the document does not have: replay it from its store."
        )
    return Finished(header=header, accepted=accepted, response=response, operations=snapshot.operations)


async def replay_run(finished: Finished, where: str, settings: WorkerSettings, files: Sequence[str | os.PathLike[str]] = ()) -> RunReplay:
    """Replay a run that has ended, with the worker's code in `files`; without files, with the code that the run is pinned to, from the
    folder beside the store `where`. Raises InvalidParameter if `files` do not have the worker."""
    runtime = WorkerRuntime(files, settings, home_beside(where))
    await runtime.open()
    try:
        package = _served(runtime, finished).package if files else finished.accepted.package
        worker = await runtime.worker_service.worker(finished.header.function, package)
        return await replay(finished, worker, package, runtime.worker_service.artifacts, settings.policy)
    finally:
        await runtime.close()


def _served(runtime: WorkerRuntime, finished: Finished) -> ServedVersion:
    versions = runtime.worker_service.served.get(finished.header.function)
    if not versions:
        known = ", ".join(runtime.worker_service.served)
        raise InvalidParameter(f"The run is one of {finished.header.function}, and the file has {known}. Give the file of that worker.")
    return versions.get(finished.accepted.version) or list(versions.values())[-1]
