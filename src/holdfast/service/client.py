"""Client: reads a store and writes to it without running functions, so it can work beside any number of runners."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.costs.reports import CostQuestion, CostReport, cost_report
from holdfast.descriptions.executions import Description, Trouble, describe, listed, quarantined_of, trouble_of
from holdfast.descriptions.history import HistoryEvent, events_of
from holdfast.descriptions.open_callbacks import OpenCallback, open_callbacks
from holdfast.engine.restarts import failed_as, is_restart
from holdfast.exports.exporting import exported
from holdfast.exports.importing import ExportSource, ImportedExecution, copied, read
from holdfast.model.audit import Actor, Note, Noted, NoteFilter
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.codec import text_of
from holdfast.model.errors import ExecutionNotFound, FunctionNotFound, InvalidParameter, Rejected, StoreNotFound
from holdfast.model.execution import Execution, ExecutionStatus, State, goes_on_as
from holdfast.model.ids import Arn, IdSource, checked_mention, id_at
from holdfast.model.life import new_execution
from holdfast.model.operations import Failure, Kind, Operation
from holdfast.model.outside import Answering, Heartbeat, Release, Stop, Stopped
from holdfast.model.payloads import PayloadCodec
from holdfast.model.verbs import Answer, Start, Started, Write
from holdfast.store.backends import open_store, placed
from holdfast.store.one_write import write_one
from holdfast.store.seam import Filter, Store
from holdfast.store.shown_address import shown

if TYPE_CHECKING:
    from holdfast.descriptions.pipeline_view import PipelineView
    from holdfast.durable.execution import DurableFunction
    from holdfast.queues.places import QueuePlace
    from holdfast.queues.store_queues import StoreQueues
    from holdfast.restarts.store_restarts import StoreRestarts
    from holdfast.schedules.store_schedules import Schedules
    from holdfast.service.runtimes.worker_runtime import WorkerSettings
    from holdfast.service.store_approvals import StoreApprovals
    from holdfast.service.store_runs import StoreRuns
    from holdfast.workers.day_usage import DayCapUsage
    from holdfast.workers.events import RunEvent

_PAGE, _ALL, _SHOWN_CANDIDATES = 200, 1 << 62, 5
_RUNNER_GONE = "Its runner has died. It goes on as soon as a runner that has its function opens this store."


class Client:
    """Blocking methods for the executions of a store. Name an execution by its ARN, its id, `function/name`, or a name that is unique.

    The methods take the same arguments as those of `OpenEngine` and `OpenExecution`, after the text that names the execution. A client runs
    no function: a method that writes returns after the write, and waits for no runner. Methods for runs raise ExecutionNotFound for any
    other execution."""

    def __init__(self, store: Store, where: str, *, clock: Clock, ids: IdSource, actor: Actor | None = None) -> None:
        self._store = store
        self._where = where
        self._clock = clock
        self._ids = ids
        self._actor = actor

    @classmethod
    def open(
        cls,
        where: str,
        *,
        create: bool = False,
        codec: PayloadCodec | None = None,
        clock: Clock | None = None,
        ids: IdSource = id_at,
        actor: Actor | None = None,
    ) -> Client:
        """Open the store at a path, or at the address of a Postgres database. Raises StoreNotFound if there is no file at the path, unless
        `create` is set: so reading does not make a new store.

        Decisions that are made through this client are noted in the audit log, under `actor`; without an actor they are not noted.
        """
        clock, where = clock or SystemClock(), placed(where)
        if not create and "://" not in where and not Path(where).exists():
            raise StoreNotFound(f"There is no store at {where}. Check the path. The first execution that starts there makes it.")
        store = open_store(where, ids(clock.now()), codec)
        return cls(store, shown(where), clock=store.clock(clock), ids=ids, actor=actor)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    # --- schedules

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store, with the methods of an operator."""
        from holdfast.schedules.store_schedules import Schedules

        return Schedules(self._store, self._clock, actor=self._actor)

    def is_hosted(self, function: str) -> bool:
        """Whether a runner of this store has ever hosted a function, a worker or a pipeline of this name."""
        return bool(self._store.hosted(function))

    # --- reading

    def list(self, wanted: Filter | None = None) -> Iterator[Execution]:
        """The executions that match the filter `wanted`, at most `wanted.limit`; without a filter, the newest ones, up to the default
        limit. They are read page by page while the caller iterates, so that a large limit needs little memory."""
        return listed(self._store, wanted)

    def get(self, execution: str) -> Execution:
        """The execution that a text names. Raises ExecutionNotFound if there is none. Raises InvalidParameter if several executions have
        the name (the error lists some of them), or if an ARN is not valid."""
        found = self._meant(execution)
        if found is None:
            raise ExecutionNotFound(f"There is no execution {execution!r} in {self._where}.")
        return found

    def _meant(self, execution: str) -> Execution | None:
        if checked_mention(execution).startswith("arn:"):
            return self._store.find(Arn.parse(execution).id)
        if "/" in execution:
            function, _, name = execution.partition("/")
            return self._store.find_named(function, name)
        found = self._store.find(execution)
        if found is not None:
            return found
        called = self._store.list(Filter(name=execution, limit=_PAGE))
        namesakes = [x for x in called if x.superseded_by is None] or called[:1]
        if len(namesakes) > 1:
            some = ", ".join(f"{x.function}/{x.name}" for x in namesakes[:_SHOWN_CANDIDATES])
            more = " and others" if len(namesakes) > _SHOWN_CANDIDATES else ""
            raise InvalidParameter(f"Several executions are called {execution!r}: {some}{more}. Name one in this form, or by its id.")
        return namesakes[0] if namesakes else None

    def describe(self, execution: str) -> Description:
        """A description of the execution. If it waits, the description says why."""
        header = self.get(execution)
        told = describe(self._store, header)
        # `dead(0)` has only runners that are surely dead, not those whose heartbeat is late: the machine may only have slept.
        if header.state in (State.RUNNING, State.CLOSING) and header.runner in self._store.dead(0):
            return msgspec.structs.replace(told, why=_RUNNER_GONE)
        return told

    def trouble(self, header: Execution) -> Trouble | None:
        """How many invocations of the execution failed in a row, and the latest error. None if none did, or if it is quarantined or closed.
        A checkpoint with updates, or a suspension, begins the count anew."""
        return trouble_of(self._store, header)

    def operations(self, execution: str) -> Sequence[Operation]:
        """The operations of an execution in their present state, in the order in which they began."""
        return self._store.operations(self.get(execution).id)

    def callbacks(self, function: str | None = None, limit: int = 50) -> Iterator[OpenCallback]:
        """At most `limit` open callbacks that can be answered by their id, of all functions or of `function`; oldest execution first."""
        going_on = Filter(function=function, statuses=(ExecutionStatus.RUNNING,), oldest_first=True, limit=_ALL)
        return itertools.islice(open_callbacks(self._store, self.list(going_on)), limit)

    def history(self, execution: str, *, include_data: bool = True) -> Sequence[HistoryEvent]:
        """All events of an execution, in order; `include_data=False` leaves inputs, results and errors out."""
        return events_of(self._store, self.get(execution), include_data=include_data)

    def export(self, execution: str, *, include_data: bool = True) -> dict[str, Any]:
        """An execution as one JSON document, for `import_execution` and `holdfast.replay`. Payloads are plain text in it. With
        `include_data=False` they are left out; then the document cannot be replayed."""
        found = self._store.snapshot(self.get(execution).id)
        if found is None:
            raise ExecutionNotFound(f"There is no execution {execution!r} in {self._where} any more.")
        return exported(found, self._clock.now(), include_data=include_data)

    # --- writing

    def import_execution(self, document: ExportSource) -> ImportedExecution:
        """Write a copy of an exported execution into the store; no runner runs it. Returns the copy, and whether this call wrote it. Raises
        ExportInvalid if the document is not an export, and ExecutionAlreadyStarted if its id or name belongs to a different execution."""
        copy = copied(read(document).snapshot, self._clock.now())
        created = self._store.adopt(copy)
        return ImportedExecution(self.get(copy.header.id), created)

    def start(self, function: DurableFunction, input: object = None, *, name: str | None = None, on_failed: str = "find") -> Started:
        """Write an execution that is ready for a runner. The same name with the same input finds the existing execution; with another input
        or version it raises ExecutionAlreadyStarted.

        `on_failed="restart"` needs a name: if the execution with that name failed, timed out, was stopped or is parked, a new one is
        written under the name, with any input. The old execution stays, superseded. Give the function itself: its version and timeouts are
        written with the execution. Raises FunctionNotFound if a runner of this store has hosted a worker or a pipeline with its name."""
        from holdfast.service.open_engine.open_execution import input_text

        again = is_restart(on_failed, name)
        if any(hosted.kind is not Kind.FUNCTION for hosted in self._store.hosted(function.name)):
            raise FunctionNotFound(f"{function.name!r} is a worker or a pipeline, not a function. Run it with `holdfast run` or over HTTP.")
        now, payload = self._clock.now(), input_text(input)
        header = new_execution(self._ids(now), name, function.name, function.version, payload=payload, now=now, terms=function.terms)
        before = failed_as(self._store, function.name, name) if again else None
        started = self._write(Start(header, payload, again=again, failed_as=before))
        assert isinstance(started, Started)
        return started

    def stop(self, execution: str, message: str | None = None, error_type: str | None = None, *, cascade: bool = True) -> Stopped:
        """Stop an execution, with this message and type as its error. With `cascade`, executions below it are stopped too (runs are
        cancelled), except those that were invoked with `cascade=False`. If another execution continues this one, that one is stopped
        instead. Returns the record of the execution, and whether this call stopped it. Raises InvalidParameter for an imported copy that
        was not closed."""
        error = Failure(message=message, type=error_type)
        while True:
            before = self.get(execution)
            after = self._write(Stop(before.id, error, cascade, notes=self._did("stop", before.id, "stopped")))
            assert isinstance(after, Execution)
            if after.continued_as is None or not goes_on_as(after, self._store.find(after.continued_as)):
                break
            execution = after.continued_as
        return Stopped(after, before.status is ExecutionStatus.RUNNING and after.status is ExecutionStatus.STOPPED)

    def release(self, execution: str) -> Execution:
        """Let an execution run again. It must be quarantined, or wait for another try after its runners died; else this raises
        InvalidParameter. Returns its record."""
        found = self.get(execution).id
        header = self._write(Release(found, self._did("release", found, "released")))
        assert isinstance(header, Execution)
        return header

    def release_all(self, function: str | DurableFunction) -> int:
        """Let all quarantined executions of a function run again. Returns how many this call released."""
        count = 0
        for header in quarantined_of(self._store, function if isinstance(function, str) else function.name):
            with contextlib.suppress(InvalidParameter):  # another process has released it since the list was read
                self.release(header.id)
                count += 1
        return count

    def succeed_callback(self, callback_id: str, result: str | bytes | None = None) -> Execution:
        """Answer a callback with a result; the handler gets the text unchanged. Returns the record of the execution. Raises
        CallbackNotFound if there is no such callback. Raises CallbackClosed if it was answered before, has timed out, or its execution has
        ended."""
        return self._answer(callback_id, None if result is None else text_of(result, "A callback's result"), None)

    def fail_callback(self, callback_id: str, message: str | None = None, error_type: str | None = None) -> Execution:
        """Answer a callback with an error, its message and type. Raises CallbackNotFound, or CallbackClosed if it is not open any more."""
        return self._answer(callback_id, None, Failure(message=message, type=error_type))

    def heartbeat_callback(self, callback_id: str) -> Execution:
        """Start the heartbeat timeout of a callback again. Raises CallbackNotFound, or CallbackClosed if it is not open any more."""
        header = self._write(Heartbeat(*self._store.seal.callback_target(callback_id)))
        assert isinstance(header, Execution)
        return header

    # --- approvals

    @property
    def approvals(self) -> StoreApprovals:
        """The approvals of the store, with the methods by which a person at this machine decides them."""
        from holdfast.service.store_approvals import StoreApprovals

        return StoreApprovals(self._store, self._clock, self._actor)

    # --- runs of workers

    @property
    def runs(self) -> StoreRuns:
        """The runs of workers and pipelines."""
        from holdfast.service.store_runs import StoreRuns

        return StoreRuns(self._store, self._clock, self.get, self._actor)

    def follow(self, run: str, after: int | str = 0) -> Iterator[RunEvent]:
        """The recorded events of a run after the event with the id `after`, then new ones, until the run has ended, or is quarantined or
        removed from the store: then the last event is `quarantined`. Blocks between them. Progress and text of models are not on disk: ask
        the process that runs the worker (`OpenEngine.follow`, or over HTTP)."""
        from holdfast.descriptions.run_events import followed
        from holdfast.workers.run_lookup import Caller, find_run

        return followed(self._store, *find_run(self._store, self.get(run).id, Caller()), after)

    def view(self, run: str) -> PipelineView | None:
        """The present state of the nodes of a pipeline's run; None for a run of a worker, or if its graph is not stored."""
        from holdfast.descriptions.pipeline_view import pipeline_view
        from holdfast.workers.run_lookup import Caller, find_run

        return pipeline_view(self._store, *find_run(self._store, self.get(run).id, Caller()))

    def spent_today(self, settings: WorkerSettings, tenants: Sequence[str] = ()) -> Sequence[DayCapUsage]:
        """What each of these tenants has used today (in UTC) of the amounts that the policy of the settings caps. Without `tenants`: the
        tenant `default`, and those of the policy's caps and of the credentials."""
        from holdfast.workers.day_usage import spent_today

        named = {credential.tenant for credential in self._store.credentials() if credential.tenant} | set(settings.policy.tenant_caps)
        return spent_today(self._store, settings.policy, tenants or ["default", *sorted(named - {"default"})], self._clock.now())

    @property
    def restarts(self) -> StoreRestarts:
        """Restarts of runs and executions, and comparisons of runs."""
        from holdfast.restarts.store_restarts import StoreRestarts

        return StoreRestarts(self._store, self._clock, self._ids, self._actor)

    def cost(
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
        """What runs have cost, from the ledger. `by` names the dimensions to sum by (`node,model`); `since` and `until` are the first and
        the last UTC day, such as `2026-11-01`. `OpenEngine.cost` has more about them."""
        asked = CostQuestion(run=run, by=by, since=since, until=until, tenant=tenant, pipeline=pipeline, worker=worker)
        return cost_report(self._store, asked, self._clock.now())

    # --- queues

    def place(self, execution: str) -> QueuePlace | None:
        """The place of an execution or run in its queue; None if it was not enqueued."""
        from holdfast.queues.places import queue_place

        return queue_place(self._store, self.get(execution), self._clock.now())

    @property
    def queues(self) -> StoreQueues:
        """The queues of the store, with the methods of an operator."""
        from holdfast.queues.store_queues import StoreQueues

        return StoreQueues(self._store, self._clock, self._ids, self._actor)

    def _answer(self, callback_id: str, result: str | None, error: Failure | None) -> Execution:
        execution, operation = self._store.seal.callback_target(callback_id)
        notes = self._did("callback", execution, "succeeded" if error is None else "failed")
        with self._noting_refusals("callback", execution):
            header = self._write(Answering(execution, operation, result, error, notes=notes))
        assert isinstance(header, Execution)
        return header

    # --- the audit log

    def audit(self, wanted: NoteFilter | None = None) -> Iterator[Noted]:
        """At most `wanted.limit` notes of the audit log, the newest first. They are read from the store page by page."""
        wanted = wanted or NoteFilter()
        left, before = wanted.limit, wanted.before
        while left > 0 and (page := self._store.audit(msgspec.structs.replace(wanted, before=before, limit=min(left, _PAGE)))):
            yield from page
            left, before = left - len(page), page[-1].number

    def _did(self, what: str, on: str, outcome: str) -> tuple[Note, ...]:
        return () if self._actor is None else self._actor.did(what, on, outcome, self._clock.now())

    @contextlib.contextmanager
    def _noting_refusals(self, what: str, on: str) -> Iterator[None]:
        """If the `with` block raises Rejected, note that in the audit log, if the client has an actor. Raises the error again."""
        try:
            yield
        except Rejected as refused:
            if self._actor is not None:
                self._store.note([self._actor.refused(what, on, refused.code, self._clock.now())])
            raise

    def _write(self, write: Write) -> Answer:
        return write_one(self._store, write, self._clock.now())
