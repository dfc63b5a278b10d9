"""A pipeline's run: one durable function interprets every pipeline. The engine may replay it, so everything it does is recorded or pure.

call every node that may run → write what the nodes ask for → rest until an operation that they wait for has ended → … → response
"""

from __future__ import annotations

import msgspec

from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Observability, Response
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.journal import Journal, started
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.structure import Structure, structure_of
from holdfast.pipelines.record.operations import TIME_AT
from holdfast.pipelines.record.records import Records
from holdfast.pipelines.record.responses import made_response
from holdfast.pipelines.restart.forerunners import Forerunners
from holdfast.pipelines.run.advance import advance
from holdfast.pipelines.run.early_end import can_undo, end_open, ending_by, ending_of
from holdfast.pipelines.run.response import responded
from holdfast.pipelines.run.served_pipeline import PACKAGE
from holdfast.pipelines.run.troubles import passes
from holdfast.pipelines.run.undo import undo_all
from holdfast.pipelines.scene.environment import Graphs, RunService, StepCalls
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.shards import run_shard
from holdfast.workers.accepted_request import AcceptedRequest


async def respond(run: PipelineRun) -> Response:
    """Run a pipeline to its end, and return its response. If the run ends early, its open child runs and questions are ended first. Then,
    and also if the run has no valid outputs, nodes that have an `undo` are undone (`undo_all`)."""
    open_run(run)
    while not await advance(run):
        await rest(run)
    ending = ending_of(run)
    if ending is None:
        response = await responded(run, None)
        if response.error is None or not can_undo(run):
            return response
        ending = ending_by(response.error)
    await end_open(run, ending)
    left = await undo_all(run)
    return await responded(run, ending, left)


def open_run(run: PipelineRun) -> None:
    """Add to the next write the callback by which a cancel reaches the run and, if the run has a time limit, its timer, unless they are
    recorded already. In the first invocation, report that the run has begun."""
    if run.header.epoch == 1:
        run.reporter.began()
    run.records.open(*([] if run.seconds is None else [started(TIME_AT, wait_seconds=max(1, round(run.seconds)))]))


async def rest(run: PipelineRun) -> None:
    """Write what the nodes asked for, and rest until an awaited operation has ended. If the write asks a person, the callers who wait for
    the run's response are told that the run waits for a person."""
    if run.records.is_asking:
        run.service.waits(run.header.id)
    await run.records.rest()


class Pipelines:
    """The handler of all pipelines, with the graphs and the steps that it needs in addition to the worker service."""

    def __init__(self, graphs: Graphs, steps: StepCalls | None = None) -> None:
        self._graphs = graphs
        self._steps = steps
        self._structures: dict[str, Structure] = {}

    async def run(self, accepted: AcceptedRequest, context: AsyncDurableContext, journal: Journal, service: RunService) -> Response:
        """Run the pipeline, or the shard of a map, that this request is for, and return its response. If this runner does not know the
        graph, the response has the error `package_changed`. Raises InvalidParameter if the request does not belong to the execution.
        Raises BackgroundThreadError after a trouble that may pass: then this invocation fails, and the engine invokes the run again."""
        try:
            return await self._run(accepted, journal, service)
        except HoldfastError as trouble:
            if not passes(trouble):
                raise
            raise BackgroundThreadError(str(trouble), trouble) from trouble

    async def _run(self, accepted: AcceptedRequest, journal: Journal, service: RunService) -> Response:
        header = journal.header
        if (accepted.tenant, accepted.request.worker_id) != (header.tenant, header.function):
            raise InvalidParameter(
                "This execution was not accepted as a run: its request is of another tenant, or for another pipeline. "
                "Start the pipeline as a run, for example with `holdfast run`."
            )
        if accepted.is_shard:
            return await run_shard(accepted, journal, service)
        identity = accepted.package.removeprefix(PACKAGE)
        graph = self._graphs.find(identity)
        if graph is None:
            return _unknown(header, accepted)
        contract, request = contract_in(graph), accepted.request
        limits = tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)
        accepted = msgspec.structs.replace(accepted, limits=limits)
        reporter = service.reporter(header, accepted, contract)
        records = Records(journal, reporter)
        forerunners = await _forerunners(accepted, service)
        records.restarts = forerunners is not None
        structure = self._structure(identity, graph)
        run = PipelineRun(graph, structure, contract, accepted, records, reporter, service, self._steps, forerunners)
        response = await respond(run)
        await records.write()
        return response

    def _structure(self, identity: str, graph: Graph) -> Structure:
        known = self._structures.get(identity)
        if known is None:
            known = self._structures[identity] = structure_of(graph)
        return known


async def _forerunners(accepted: AcceptedRequest, service: RunService) -> Forerunners | None:
    """The earlier runs of a restarted run, the newest first; None if this run restarts no other. Runs that retention has removed are left
    out."""
    if not accepted.before:
        return None
    found = [await service.earlier_run(run_id, accepted.tenant) for run_id in reversed(accepted.before)]
    return Forerunners(accepted, [run for run in found if run is not None])


def _unknown(header: Execution, accepted: AcceptedRequest) -> Response:
    return msgspec.structs.replace(
        made_response("package_changed", f"This runner does not know the graph {accepted.package} of this run."),
        run_id=header.id,
        worker_id=header.function,
        version=accepted.version,
        observability=Observability(trace_id=accepted.trace_id, attempt=0),
    )
