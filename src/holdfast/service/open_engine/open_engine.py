"""An open engine, with its methods for async programs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.descriptions.executions import listed, quarantined_of
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.hosts.inline import InlineHost
from holdfast.model import codec
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.ids import checked_version
from holdfast.model.operations import Failure
from holdfast.model.ports import Host
from holdfast.model.schedules import Origin
from holdfast.model.signals import Subscriber
from holdfast.model.threads import Purpose, in_thread
from holdfast.queues.store_queues import warn_of_new_queues
from holdfast.schedules.declarations import Schedule
from holdfast.schedules.store_schedules import declare_all
from holdfast.service.open_engine.interpreter_tuning import tune
from holdfast.service.open_engine.open_execution import OpenExecution, input_text, mentioned
from holdfast.service.open_engine.queue_verbs import QueueVerbs
from holdfast.service.open_engine.registered import registered
from holdfast.service.open_engine.restart_verbs import RestartVerbs
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter

if TYPE_CHECKING:  # a program without workers does not load their modules
    from holdfast.contract.protocol import Response
    from holdfast.costs.reports import CostReport
    from holdfast.descriptions.pipeline_view import PipelineView
    from holdfast.pipelines.estimate.estimate import Estimate
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime
    from holdfast.workers.events import RunEvent
    from holdfast.workers.service import WorkerService


class OpenEngine(QueueVerbs, RestartVerbs):
    """An open engine: starts executions and reads them. Made by `holdfast.open`."""

    def __init__(
        self, engine: Engine, host: InlineHost, functions: Sequence[DurableFunction], runtime: WorkerRuntime | None = None
    ) -> None:
        self._runtime = runtime
        self._functions = {(function.name, function.version): function for function in functions}
        self._engine = engine
        self._host = host
        self._store = engine.store

    @classmethod
    async def create(
        cls,
        where: str,
        functions: Sequence[DurableFunction],
        subscribers: Mapping[str, Subscriber],
        settings: Settings,
        wrap: Callable[[InlineHost], Host],
        runtime: WorkerRuntime | None = None,
        declared: Sequence[tuple[Schedule, Origin]] = (),
    ) -> OpenEngine:
        """Open the store at `where`, and an engine on it. `declared` are schedules to write into the store. If an error is raised after the
        store was opened, the store is closed again."""
        if settings.tune:
            tune()
        runner = settings.ids(settings.clock.now())
        store = open_store(where, runner, settings.codec, migrate=settings.migrate)
        try:
            clock = store.clock(settings.clock)
            host = InlineHost(functions, clock=clock, threads=settings.threads, resting=settings.resting)
            engine = Engine(
                store,
                registered(functions, settings),
                wrap(host),
                clock=clock,
                ids=settings.ids,
                chance=settings.chance(),
                runner=runner,
                subscribers=subscribers,
                observers=settings.observers,
                queues=[queue.row() for queue in settings.queues],
                only=settings.only,
            )
            warn_of_new_queues(engine)
            if runtime is not None:
                runtime.attach(engine)
            if declared:
                declare_all(store, clock, declared)
            await engine.open()
        except BaseException:
            store.close()
            raise
        return cls(engine, host, functions, runtime)

    async def close(self) -> None:
        """Stop the engine. Unfinished executions continue on another engine of this store, or when an engine opens it again."""
        try:
            await self._engine.close()
        finally:
            if self._runtime is not None:
                await self._runtime.close()
            self._host.close()
            self._store.close()

    async def start(
        self,
        function: str | DurableFunction,
        input: object = None,
        *,
        name: str | None = None,
        version: int | str | None = None,
        on_failed: str = "find",
    ) -> OpenExecution:
        """Start an execution. The same name with the same input finds the existing execution; with another input or version it raises
        `ExecutionAlreadyStarted`. Without a name, each call starts a new execution. Without `version`, a function object is started in its
        own version, and a name in the version `$LATEST`, or else in the highest one that this engine has. Raises `FunctionNotFound` if this
        engine does not have the function.

        `on_failed="restart"` needs a name: if the execution with that name failed, timed out, was stopped or is parked, a new one is
        started under the name, with any input. The old execution stays in the store, and its `superseded_by` names the new one.
        """
        wanted = None if version is None else checked_version(version)
        if isinstance(function, DurableFunction):
            called, wanted = function.name, wanted or function.version
        else:
            called = function
        header = await self._engine.start(called, input_text(input), name=name, version=wanted, on_failed=on_failed)
        return OpenExecution(self._engine, header, self._functions)

    async def run(
        self,
        worker: str,
        inputs: Mapping[str, Any],
        *,
        version: str | None = None,
        idempotency_key: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        run_timeout_seconds: float | None = None,
        trace: Mapping[str, Any] | None = None,
        tenant: str = "default",
        user: str | None = None,
        wait: float | None = None,
    ) -> Response:
        """Run a worker or a pipeline, and wait for its response. The wait ends when the run has ended, waits for a person or is
        quarantined, or after `wait` seconds (None: no limit). If the run has not ended, the response says that it is under way, or what it
        waits for. `constraints` are tighter limits for this run. Without `version`, the version that was added last runs.

        If the request does not fit the contract, or goes beyond a limit of the tenant, no error is raised: the response says so, as over
        HTTP. Raises InvalidParameter if the engine has no workers.
        """
        asked: dict[str, Any] = {"worker_id": worker, "inputs": inputs}
        may = {"version": version, "idempotency_key": idempotency_key, "constraints": constraints, "trace": trace, "user": user}
        asked |= {key: value for key, value in {**may, "run_timeout_seconds": run_timeout_seconds}.items() if value is not None}
        response = await self.worker_service.ask(asked, tenant, wait)
        return await in_thread(Purpose.STORE, self._serving().estimates.in_response, response) if response.approvals else response

    async def follow(self, run_id: str, *, after: int | str = 0) -> AsyncGenerator[RunEvent, None]:
        """The events of a run after the event with the id `after`, then new ones as they happen, until the run has ended. They also end
        when the run is quarantined or removed from the store; in both cases the last event is `quarantined`. Write `async for event in
        engine.follow(run_id)`.

        An event has `id`, `event` and `data`. If the id is a number, the event is recorded in the store. If the id is a text, it is a live
        event (progress, a log line, or text of a model): only the process that runs the worker has it. The event `quarantined` has no id.
        Raises `Overloaded` if there are too many followers.
        """
        from holdfast.workers.run_lookup import Caller

        async with contextlib.aclosing(self.worker_service.follow(run_id, Caller(), after=after)) as events:
            async for event in events:
                if event is not None:
                    yield event

    async def view(self, run_id: str) -> PipelineView | None:
        """The present state of a pipeline's run, from the store: the state, the items and the cost of each node. None for a run of a
        worker, and if the store does not have the pipeline's graph."""
        from holdfast.descriptions.pipeline_view import pipeline_view
        from holdfast.workers.run_lookup import Caller, find_run

        header, accepted = find_run(self._store, run_id, Caller())
        return await in_thread(Purpose.STORE, pipeline_view, self._store, header, accepted)

    async def cost(
        self,
        *,
        run: str | None = None,
        by: str | None = None,
        since: str | None = None,
        until: str | None = None,
        tenant: str | None = None,
        pipeline: str | None = None,
        worker: str | None = None,
    ) -> CostReport:
        """What runs have cost, from the ledger: one run with all runs below it, or all runs of certain days.

        `by` names the dimensions to sum by, with commas between them: `day`, `tenant`, `pipeline`, `node`, `worker`, `model`; if `run` is
        given, also `run`. `since` and `until` are the first and the last UTC day, such as `2026-11-01`; `since="30d"` means the last 30
        days. With `run`, give no days, no pipeline and no worker.
        """
        from holdfast.costs.reports import CostQuestion, cost_report

        asked = CostQuestion(run=run, by=by, since=since, until=until, tenant=tenant, pipeline=pipeline, worker=worker)
        return await in_thread(Purpose.STORE, cost_report, self._store, asked, self._engine.clock.now())

    async def estimate(self, worker: str, inputs: Mapping[str, Any] | None = None, *, version: str | None = None) -> Estimate:
        """What a run of a worker or a pipeline costs at most, and usually. If `inputs` are given, a map over a list in them is estimated
        with the number of its items. Raises InvalidParameter if the worker is not served, or if the engine has no workers."""
        estimates = self._serving().estimates
        return await in_thread(Purpose.STORE, partial(estimates.of, worker, inputs, version=version))

    async def estimate_rest(self, run_id: str) -> Estimate | None:
        """What the rest of a pipeline's run costs at most, and usually; None for a run of a worker, and if the store does not have the
        pipeline's graph. Raises InvalidParameter if the engine has no workers."""
        from holdfast.workers.run_lookup import Caller, find_run

        estimates, found = self._serving().estimates, find_run(self._store, run_id, Caller())
        return await in_thread(Purpose.STORE, estimates.rest, *found)

    @property
    def worker_service(self) -> WorkerService:
        """The worker service of this engine: invoke, runs, approvals, artifacts. Raises InvalidParameter if the engine has no workers. It
        is for Holdfast's own servers, and its methods may change without notice."""
        return self._serving().worker_service

    async def get(self, execution: str) -> OpenExecution:
        """The execution with this ARN or id. Raises ExecutionNotFound if there is none, and InvalidParameter if an ARN is not valid."""
        return OpenExecution(self._engine, mentioned(self._store, execution), self._functions)

    async def release_all(self, function: str | DurableFunction) -> int:
        """Let all quarantined executions of a function run again. Returns how many this call released."""
        called = function.name if isinstance(function, DurableFunction) else function
        count = 0
        for header in quarantined_of(self._store, called):
            with contextlib.suppress(InvalidParameter):  # another process has released it since the list was read
                await self._engine.release(header.id)
                count += 1
        return count

    async def list(self, wanted: Filter | None = None) -> AsyncGenerator[Execution, None]:
        """The executions that match the filter `wanted`, at most `wanted.limit`; without a filter, the newest ones, up to the default
        limit. They are read page by page while the caller iterates. Write `async for execution in engine.list()`."""
        for execution in listed(self._store, wanted):
            yield execution

    async def succeed_callback(self, callback_id: str, result: str | bytes | None = None) -> Execution:
        """Answer a callback with a result. The handler gets the text unchanged. Returns the record of the execution. Raises
        `CallbackNotFound` if there is no such callback. Raises `CallbackClosed` if it was answered before, has timed out, or its execution
        has ended."""
        return await self._engine.answer(callback_id, None if result is None else codec.text_of(result, "A callback's result"))

    async def fail_callback(self, callback_id: str, message: str | None = None, error_type: str | None = None) -> Execution:
        """Answer a callback with an error, its message and type. Raises `CallbackNotFound` if there is no such callback, and
        `CallbackClosed` if it was answered before, has timed out, or its execution has ended."""
        return await self._engine.answer(callback_id, error=Failure(message=message, type=error_type))

    async def heartbeat_callback(self, callback_id: str) -> Execution:
        """Send a heartbeat for a callback: its heartbeat timeout starts again. Raises `CallbackNotFound` if there is no such callback, and
        `CallbackClosed` if it was answered before, has timed out, or its execution has ended."""
        return await self._engine.heartbeat(callback_id)

    async def unsubscribe(self, subscriber: str) -> None:
        """End a subscription in every process: signals that were not delivered to it yet are not delivered any more, except those that
        a runner delivers within about 0.1 seconds. If a subscriber is given up without this call, the store keeps its undelivered signals
        forever."""
        self._store.unsubscribe(subscriber)
