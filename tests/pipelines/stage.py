"""Pipelines on a real engine: graphs made of plain values, workers that are functions of this process, and virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import holdfast
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.terms import Contract, Retries, RunLimits
from holdfast.costs.estimates import Estimates
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Execution
from holdfast.model.ids import Ids
from holdfast.model.queues import Mode, QueueRow
from holdfast.pipelines.graph.graph import AnyNode, Graph
from holdfast.pipelines.run.run import Pipelines
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.service.runtimes.pipeline_runtime import GraphFinder
from holdfast.service.settings import Settings
from holdfast.testing.crashing import Crash, Crashing
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import Decision
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.decisions import Cancel
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller, find_run
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.language_model import ModelSettings
from tests.workers.harness import InlineWorker

ANY: dict[str, Any] = {"type": "object"}
LOCAL = Caller()
_LONGEST_SKIP = 3_600_000


def graph_of(*nodes: AnyNode, gives: Any = None, name: str = "p", takes: Any = None, schema: Any = None, **limits: Any) -> Graph:
    """A pipeline with these nodes."""
    contract = Contract(worker_id=name, version="1.0", input_schema=takes or ANY, output_schema=schema or ANY, limits=RunLimits(**limits))
    return Graph(contract=msgspec.to_builtins(contract), nodes=nodes, gives=gives if gives is not None else {}, steps="steps")


def worker(name: str, body: Callable[..., Any], *tools: Any, takes: Any = None, gives: Any = None, **more: Any) -> InlineWorker:
    """A worker that is a function of this process, tried once."""
    limits = more.pop("limits", RunLimits(tools=more.pop("grants", ())))
    contract = Contract(
        worker_id=name,
        version="1.0",
        input_schema=takes or ANY,
        output_schema=gives or ANY,
        retries=more.pop("retries", Retries()),
        limits=limits,
        **more,
    )
    return InlineWorker(contract, body, *tools)


class Stage:
    """An engine with workers and pipelines."""

    def __init__(self, service: WorkerService, engine: Any, clock: VirtualClock, estimates: Estimates) -> None:
        self.service = service
        self.estimates = estimates
        self.engine = engine
        self.clock = clock

    async def run(self, inputs: Mapping[str, Any] | None = None, *, name: str = "p", wait: float | None = 20, **more: Any) -> Response:
        """The response of a new run."""
        return await self.service.invoke(WorkerRequest(worker_id=name, inputs=dict(inputs or {}), **more), LOCAL, wait=wait)

    async def answer(self, verdict: str = "approve", **more: Any) -> None:
        """Answer the one question that is open."""
        (approval,) = self.service.approvals(LOCAL)
        decision = Decision(verdict=verdict, decided_by=more.pop("by", "ann"), decided_at=self.clock.now(), **more)
        await self.service.decide(approval.approval_id, decision, LOCAL)

    async def found(self, run_id: str) -> tuple[Execution, AcceptedRequest]:
        """A run with its accepted request."""
        return find_run(self.engine._store, run_id, LOCAL)

    def paused(self, row: QueueRow) -> QueueRow:
        """A queue that takes runs and admits none."""
        return msgspec.structs.replace(row, mode=Mode.PAUSED)

    async def cancel(self, run_id: str) -> None:
        """Cancel a run, and do not wait for its end."""
        await self.engine._engine.wake(lambda by: Cancel(run_id, by), run_id)

    async def act(self, action: str, **more: Any) -> None:
        """Answer an escalation."""
        await self.answer("answer", result={"action": action, **more})


@contextlib.asynccontextmanager
async def stage(
    graphs: Graph | Sequence[Graph],
    *workers: InlineWorker,
    folder: Path,
    where: str = ":memory:",
    policy: Policy | None = None,
    resting: int = 1000,
    clock: VirtualClock | None = None,
    seed: int = 0,
    observer: Any = None,
    steps: Any = None,
    crash: Crash | None = None,
    model: ModelSettings | None = None,
    functions: Sequence[DurableFunction] = (),
) -> AsyncIterator[Stage]:
    """A stage on which these pipelines, workers and durable functions are served."""
    policy = policy or Policy()
    known = GraphFinder()

    async def not_found(worker_id: str, package: str) -> Any:
        raise AssertionError("every package of these tests is served")

    more = {} if observer is None else {"observer": observer}
    service = WorkerService(
        policy=policy,
        artifacts=Artifacts(Folder(folder), policy.artifact_bytes),
        find=not_found,
        pipelines=Pipelines(known, steps).run,
        **more,
    )
    for served in workers:
        service.serve(served)
    for graph in [graphs] if isinstance(graphs, Graph) else graphs:
        pipeline = ServedPipeline(graph)
        known.add(pipeline)
        service.serve(pipeline)
    estimates = service.estimates = Estimates(service.served, model or ModelSettings(), policy)
    clock = clock or VirtualClock()
    settings = Settings(clock=clock, ids=Ids(Random(seed)), resting=resting, tune=False)
    opening = holdfast.open(where, functions=[*functions, *service.functions()], settings=settings)
    if crash is not None:
        opening.wrap = lambda host: Crashing(host.unhurried(), ["p"], crash)
    async with opening as engine:
        estimates.store = engine._store
        service.attach(engine._engine)
        yield Stage(service, engine, clock, estimates)


class PatientClock(VirtualClock):
    """Skips waits and back-offs of up to an hour, but not the time that a person may take: the test is the person."""

    def skip_to(self, at: int) -> None:
        if at - self.now() <= _LONGEST_SKIP:
            super().skip_to(at)
