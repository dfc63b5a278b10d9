"""The worker service: the workers of this process, and everything that a caller can ask about them.

A caller's request passes through these methods: `invoke` (or `ask`, or `begin_asked`) → `begin` → `accept` → engine.start.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.execution import DurableFunction
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import Item, indexed
from holdfast.model import codec
from holdfast.model.admission import Enqueue
from holdfast.model.audit import principal
from holdfast.model.errors import HoldfastError, InvalidParameter, LimitReached
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import ENQUEUE, RUN, Failure, Kind, Operation, Order, Queued, Type
from holdfast.model.run_port import EnqueueAsked, OccurrenceAsked, Ordered, RunAsked
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.observers import NO_OBSERVER, RunObserver
from holdfast.store.seam import Filter
from holdfast.workers import accept
from holdfast.workers.accept import ServedVersion
from holdfast.workers.accepted_request import AcceptedRequest, accepted_from
from holdfast.workers.approval_pages import undecided
from holdfast.workers.approvals import Approval, Decision
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.budgets import Settlements
from holdfast.workers.child_requests import ChildRequest, ancestry, check_depth, child_request, child_run, refusal_failure
from holdfast.workers.decisions import cancel_write, decision_write
from holdfast.workers.estimate_gate import EstimateGate, RunEstimates
from holdfast.workers.event_rings import position_of
from holdfast.workers.events import RunEvent
from holdfast.workers.followed_runs import FollowedRuns
from holdfast.workers.pipeline_parts import PipelineParts
from holdfast.workers.policy import Policy
from holdfast.workers.queued_runs import outcome_of, rate_now, run_again, set_rates
from holdfast.workers.run import Worker, run
from holdfast.workers.run_lookup import Caller, accepted_in, find_approval, find_run, is_run, response_of
from holdfast.workers.run_reporters import LiveRunReporter, RunReporters
from holdfast.workers.waiters import Waiters

PipelineHandler = Callable[[AcceptedRequest, AsyncDurableContext, Journal, "WorkerService"], Awaitable[Response]]
"""Runs a pipeline, and returns its response. The package above this one implements it (pipelines.run.run)."""
_FREES_ITS_KEY = (ResponseStatus.RETRYABLE_ERROR, ResponseStatus.INVALID_REQUEST)
"""If a run ended with one of these statuses, another request with its key starts a new run, which inherits the receipts."""


class WorkerService(PipelineParts):
    """Accepts requests, answers questions about their runs, and gives the runs what they need (run.RunEnvironment)."""

    def __init__(
        self,
        *,
        policy: Policy,
        artifacts: Artifacts,
        find: Callable[[str, str], Any],
        observer: RunObserver = NO_OBSERVER,
        pipelines: PipelineHandler | None = None,
    ) -> None:
        self.policy = policy
        self.artifacts = artifacts
        self._find = find
        self._pipelines = pipelines
        self._served: dict[str, dict[str, ServedVersion]] = {}
        self.retention_days = Terms().retention_days
        """How many days the store keeps a run after its end."""
        self.estimates: RunEstimates | None = None  # the package above this one sets it (holdfast.costs.estimates)
        self.settlements = Settlements()
        self._waiters = Waiters()
        self.followed_runs = FollowedRuns()
        self._reporters = RunReporters(observer, self.followed_runs)

    def serve(self, served: ServedVersion) -> None:
        """Serve a version of a worker to new runs, as its default version. Runs that began with an earlier package keep that package."""
        contract = served.worker.contract
        versions = self._served.setdefault(contract.worker_id, {})
        versions.pop(contract.version, None)  # the version that was served last is the default
        versions[contract.version] = served

    def functions(self) -> list[DurableFunction]:
        """The durable functions of the served workers, one for each worker id."""
        return [self._function(worker_id) for worker_id in self._served]

    def _function(self, worker_id: str) -> DurableFunction:
        kind = next(reversed(self._served[worker_id].values())).kind

        async def handler(accepted: AcceptedRequest, context: AsyncDurableContext) -> Response:
            journal = Journal.of(context)
            if journal.kind is not kind and not is_run(self._engine.store, journal.header):
                raise InvalidParameter("This execution is not a run: its function was started without a request to the worker.")
            if kind is Kind.PIPELINE and self._pipelines is not None:
                return await self._pipelines(accepted, context, journal, self)
            return await run(accepted, context, journal, self)

        def write(response: Response) -> Outcome:
            served = self._served[worker_id].get(response.version)
            attempts = None if served is None else served.worker.contract.retries.max_attempts
            return outcome_of(response, self._engine.clock.now(), attempts)

        terms = Terms(retention_days=self.retention_days)
        return DurableFunction(handler, name=worker_id, version=LATEST, terms=terms, read=accepted_from, write=write, kind=kind)

    def attach(self, engine: Engine) -> None:
        """Set the engine that runs the workers, and register this service with it."""
        self._engine = engine
        self._gate = EstimateGate(engine, self.estimates)
        self._reporters.attach(engine)
        engine.acceptor = self.accept_asked
        engine.occurrence_acceptor = self.accept_occurrence
        set_rates(engine.store, self._served, self.policy)
        engine.chores.append(self.follow_rates)

    async def follow_rates(self) -> None:
        """Set the present rate limits of the served workers on the lanes of queued runs. A runner repeats this, because another process or
        a redrive may have made a lane with an older rate limit or without one."""
        if await in_thread(Purpose.HOUSE, set_rates, self._engine.store, self._served, self.policy):
            self._engine.look_for_work()

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def served(self) -> Mapping[str, Mapping[str, ServedVersion]]:
        """The served workers, by worker id and version."""
        return self._served

    # --- accepting a request

    async def ask(self, asked: Mapping[str, Any], tenant: str, wait: float | None) -> Response:
        """Run a worker for the user of this process, and wait until the run ends, is quarantined or waits for a person, at most `wait`
        seconds (None: no limit). `asked` has the members of a WorkerRequest. If they do not form a valid request, the response says so."""
        request = accept.read_request(asked)
        begun = request if isinstance(request, Response) else await self.begin(request, Caller(tenant=tenant, principal=principal()))
        return begun if isinstance(begun, Response) else await self.wait_for(*begun, wait=wait)

    async def begin_asked(self, asked: Mapping[str, Any], tenant: str) -> Response | tuple[Execution, AcceptedRequest]:
        """Start a run for the user of this process; do not wait for its end. Returns the run's header and accepted request, or the response
        that refuses the request. `asked` has the members of a WorkerRequest."""
        request = accept.read_request(asked)
        return request if isinstance(request, Response) else await self.begin(request, Caller(tenant=tenant, principal=principal()))

    async def invoke(self, request: WorkerRequest, caller: Caller, *, wait: float | None = None, sampled: bool | None = None) -> Response:
        """Run a worker, and wait until the run ends, is quarantined or waits for a person, at most `wait` seconds (None: no limit). The
        response also tells why a request is refused, or what a run waits for. `sampled`: the sampling flag of a `traceparent`."""
        begun = await self.begin(request, caller, sampled=sampled)
        return begun if isinstance(begun, Response) else await self.wait_for(*begun, wait=wait)

    async def begin(
        self, request: WorkerRequest, caller: Caller, *, sampled: bool | None = None
    ) -> Response | tuple[Execution, AcceptedRequest]:
        """Start the run of a request, or find the run that its idempotency key has; do not wait for the run's end. Returns the run's header
        and accepted request, or the response that refuses the request."""
        request, began_at = accept.traced(request), self._engine.clock.now()
        try:
            return await self.accept(request, caller, sampled=sampled)
        except (InvalidRequest, LimitReached) as refused:
            return self._refused(request, caller, refused, began_at, sampled)

    def _refused(
        self, request: WorkerRequest, caller: Caller, refused: InvalidRequest | LimitReached, began_at: int, sampled: bool | None
    ) -> Response:
        """Report a refused request, and make the response that says why."""
        versions = self._served.get(request.worker_id)
        self._reporters.refused(request, caller, refused, began_at, known=bool(versions), sampled=sampled)
        served = None if not versions else versions.get(request.version or "") or next(reversed(versions.values()))
        return accept.refusal_of(request, refused, None if served is None else served.worker.contract, self._engine.clock.now())

    async def accept(
        self, request: WorkerRequest, caller: Caller, *, sampled: bool | None = None, queue: Enqueue | None = None
    ) -> tuple[Execution, AcceptedRequest]:
        """The run of a request: the run that has its idempotency key, unless that ended with RETRYABLE_ERROR or INVALID_REQUEST; else a new
        run, in `queue` if given. Raises InvalidRequest or LimitReached if the request is refused, QueueFull if the queue is full."""
        served, accepted, inputs = await self._checked(request, caller, sampled)
        contract, again = served.worker.contract, False
        engine, worker_id, tenant, rate = self._engine, contract.worker_id, caller.tenant, accept.rate_of(self.policy, contract)
        while True:
            name, payload = accept.name_of(accepted), msgspec.json.encode(accepted).decode()
            order, same = Order(served.kind, payload, graph=served.graph_text), None if name is None else inputs
            terms = accept.terms_of(accepted.limits, served.kind, self.retention_days)
            charges = accept.charges_of(accepted, self.policy, rate if queue is None else None, engine.clock.now())
            try:
                with accept.start_refusals(request.idempotency_key):
                    if queue is None:
                        header = await engine.start(
                            worker_id, payload, name=name, tenant=tenant, terms=terms, charges=charges, same=same, order=order
                        )
                    else:
                        placed = await self._gate.placed(queue, served, accepted, rate_now(self._served[worker_id], self.policy))
                        header = await engine.enqueue(
                            worker_id,
                            payload,
                            placed,
                            name=name,
                            tenant=tenant,
                            terms=terms,
                            charges=charges,
                            identity=same,
                            order=order,
                            again=again,
                        )
            except InvalidRequest as conflict:
                header = self._with_wrong_inputs(name, conflict, accepted)
            else:
                if name is None:
                    return header, accepted
                if self._end_of(header, accepted) not in _FREES_ITS_KEY:
                    return find_run(self._engine.store, header.id, caller)  # with the run's own accepted request: the run may be older
            again = queue is not None and header.parked
            accepted = accept.after_run(accepted, accepted_in(self._engine.store, header))
            accepted = run_again(accepted, header.id) if again else accept.next_run(accepted, header.id)

    async def enqueue(self, request: WorkerRequest, caller: Caller, queue: Enqueue, *, sampled: bool | None = None) -> Execution:
        """Enqueue the run of a request, or find the run that its idempotency key has. Raises InvalidRequest or LimitReached if the request
        is refused, and QueueFull if the queue is full."""
        header, _ = await self.accept(accept.traced(request), caller, sampled=sampled, queue=queue)
        return header

    async def enqueue_many(self, requests: Sequence[WorkerRequest], caller: Caller, queue: Enqueue) -> list[Execution | HoldfastError]:
        """Enqueue the runs of many requests to one worker, at most a thousand in each commit. If a request is refused before the first
        commit, raises InvalidRequest with its index. Returns the run or the error of each request in the commits that were made: if a
        request in a commit has an error, no further commit follows, so there may be fewer results than requests."""
        items: list[Item] = []
        with indexed(items):
            for request in map(accept.traced, requests):
                served, accepted, inputs = await self._checked(request, caller, None)
                items.append(
                    Item(
                        enqueue=await self._gate.placed(queue, served, accepted, rate_now(self._served[request.worker_id], self.policy)),
                        input=msgspec.json.encode(accepted).decode(),
                        name=accept.name_of(accepted),
                        kind=served.kind,
                        terms=accept.terms_of(accepted.limits, served.kind, self.retention_days),
                        charges=accept.charges_of(accepted, self.policy, None, self._engine.clock.now()),
                        identity=None if request.idempotency_key is None else inputs,
                        graph=served.graph_text,
                    )
                )
        done = await self._engine.enqueue_many(requests[0].worker_id, items, queue, tenant=caller.tenant) if items else ()
        return [one if isinstance(one, HoldfastError) else one.header for one in done]

    async def accept_child(
        self, parent: Execution, accepted: AcceptedRequest | None, at: Identity, request: ChildRequest, queued: Queued | None = None
    ) -> Order | Failure:
        """Accept a run that an execution asks for, or enqueues, at its operation `at`. Returns the order of the run, or the refusal as the
        operation's failure. Starts and charges nothing: the order contains the charges. `accepted` is the accepted request of the parent if
        it is a run. Tenant, requester, trace and budgets come from the parent."""
        began_at = self._engine.clock.now()
        above = ancestry(parent, accepted, at, request, self._engine.store.find)
        asked = child_request(request, above)
        if isinstance(asked, Response):
            return refusal_failure(asked)
        try:
            check_depth(above)
            served = accept.served_version(self._served.get(asked.worker_id), asked)
            contract, limits = served.worker.contract, accept.limits_of(asked, served.worker.contract)
            await accept.checked_inputs(asked, contract, above.tenant, self.artifacts)
            child = child_run(asked, served, limits, above, request)
            with accept.start_refusals(None):
                payload = codec.fitting(codec.storable(msgspec.json.encode(child).decode()), "Execution input")
        except InvalidRequest as refused:
            caller = Caller(tenant=above.tenant, principal=above.requested_by)
            return refusal_failure(self._refused(asked, caller, refused, began_at, above.sampled))
        terms, rate = accept.terms_of(limits, served.kind, self.retention_days), accept.rate_of(self.policy, contract)
        charges = accept.charges_of(child, self.policy, rate if queued is None else None, self._engine.clock.now())
        if queued is not None:
            queued = await self._gate.placed(queued, served, child, rate_now(self._served[contract.worker_id], self.policy))
        return Order(served.kind, payload, terms, above.tenant, charges=charges, graph=served.graph_text, queued=queued)

    async def accept_asked(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept a run that a durable function asks for or enqueues. Returns its order, or the refusal. Starts nothing."""
        if isinstance(asked, EnqueueAsked):
            at = Identity(operation_id, Type.STEP, ENQUEUE)
            request = ChildRequest(worker_id=asked.target, version=asked.version, inputs=asked.input)
            return await self.accept_child(parent, None, at, request, asked.queued)
        at = Identity(operation_id, Type.CHAINED_INVOKE, RUN)
        request = ChildRequest(worker_id=asked.worker_id, version=asked.version, inputs=asked.inputs, constraints=asked.constraints)
        return await self.accept_child(parent, None, at, request)

    async def accept_occurrence(self, asked: OccurrenceAsked) -> Ordered | Failure:
        """Accept the run of a schedule's occurrence. Returns its order, or the refusal. Starts and charges nothing: the write that starts
        the run does both, and sets the schedule's next time."""
        request = WorkerRequest(worker_id=asked.worker_id, version=asked.version, inputs=asked.inputs, idempotency_key=asked.key)
        request, began_at = accept.traced(request), self._engine.clock.now()
        caller = Caller(tenant=asked.tenant, principal=asked.requested_by)
        try:
            served, accepted, inputs = await self._checked(request, caller, None)
            with accept.start_refusals(None):
                payload = codec.fitting(codec.storable(msgspec.json.encode(accepted).decode()), "Execution input")
        except InvalidRequest as refused:
            return refusal_failure(self._refused(request, caller, refused, began_at, None))
        terms = accept.terms_of(accepted.limits, served.kind, self.retention_days)
        rate = accept.rate_of(self.policy, served.worker.contract)
        charges = accept.charges_of(accepted, self.policy, rate, self._engine.clock.now())
        order = Order(served.kind, payload, terms, accepted.tenant, charges=charges, graph=served.graph_text)
        return Ordered(order=order, name=accept.name_of(accepted) or "", same=inputs)

    async def _checked(self, request: WorkerRequest, caller: Caller, sampled: bool | None) -> tuple[ServedVersion, AcceptedRequest, str]:
        """Check a request that does not come from another run. Returns the worker that it gets, the accepted request of its first run, and
        its inputs as JSON text. Raises InvalidRequest if the request is refused."""
        served = accept.served_version(self._served.get(request.worker_id), request, self._served)
        limits = accept.limits_of(request, served.worker.contract)
        inputs = await accept.checked_inputs(request, served.worker.contract, caller.tenant, self.artifacts)
        accepted = accept.first_run(request, served, limits, caller, sampled)
        await self._gate.check(served, accepted)
        return served, accepted, inputs

    def _with_wrong_inputs(self, name: str | None, conflict: InvalidRequest, accepted: AcceptedRequest) -> Execution:
        """The run that used the key with other inputs, if it ended with `invalid_request`: such a key may be used again, with better
        inputs. Otherwise raises `conflict`."""
        if name is not None and conflict.error_code == "idempotency_conflict":
            for taken in self._engine.store.list(Filter(function=accepted.request.worker_id, name=name, limit=1)):
                if self._end_of(taken, accepted) is ResponseStatus.INVALID_REQUEST:
                    return taken
        raise conflict

    def _end_of(self, header: Execution, accepted: AcceptedRequest) -> ResponseStatus | None:
        """The status in the response of a run that has ended; None if the run has not ended."""
        return None if header.status is ExecutionStatus.RUNNING else response_of(self._engine.store, header, accepted).status

    # --- runs

    async def response(self, run_id: str, caller: Caller, *, wait: float | None = None) -> Response:
        """The response of a run. Waits until the run ends, is quarantined or waits for a person, or until `wait` seconds have passed (None:
        no limit). Raises ExecutionNotFound if the caller can see no such run."""
        return await self.wait_for(*find_run(self._engine.store, run_id, caller), wait=wait)

    async def wait_for(self, header: Execution, accepted: AcceptedRequest, *, wait: float | None = None) -> Response:
        """The response of a run, when the run ends, is quarantined or waits for a person, or after `wait` seconds (None: no limit)."""
        return await self._waiters.response(self._engine, header, accepted, wait)

    def follow(self, run_id: str, caller: Caller, *, after: int | str = 0) -> AsyncGenerator[RunEvent | None, None]:
        """The events of a run after the event `after`, then new ones as they happen, until the run has ended or is quarantined. Yields None
        when nothing happens for a while. Raises ExecutionNotFound if there is no such run, InvalidParameter if `after` is no event's id."""
        header, accepted = find_run(self._engine.store, run_id, caller)
        return self.followed_runs.follow(self._engine.store, header, accepted, position_of(after))

    # --- people

    def approvals(self, caller: Caller) -> list[Approval]:
        """The approvals that wait for a decision and that the caller may see, oldest run first (`undecided`)."""
        return list(undecided(self._engine.store, caller))

    async def decide(self, approval_id: str, decision: Decision, caller: Caller, *, in_batch: bool = False) -> Approval:
        """Write the decision or the vote of a person, and return the approval as it is after that; with `in_batch` (as part of a batch),
        without what was spent. The run continues when the approval is closed. Raises ApprovalNotFound, CallbackClosed if the approval is
        closed, ApprovalRefused if the decision is not allowed, and CheckTooCostly or Overloaded if its value could not be checked."""
        write = await in_thread(Purpose.STORE, decision_write, self._engine.store, approval_id, decision, caller, in_batch=in_batch)
        await self._engine.wake(lambda by: msgspec.structs.replace(write, by=by), write.execution)
        return await in_thread(Purpose.STORE, find_approval, self._engine.store, approval_id, caller, spent=not in_batch)

    async def cancel(self, run_id: str, caller: Caller) -> Response:
        """Cancel a run, and wait some seconds for its response. If the run has not ended by then, the response says so."""
        write = cancel_write(self._engine.store, run_id, caller, self._engine.clock.now())
        if write is not None:
            await self._engine.wake(lambda by: msgspec.structs.replace(write, by=by), run_id)
        return await self.response(run_id, caller, wait=self.policy.grace_seconds + 1)

    def observe(self, observer: RunObserver) -> None:
        """Add an observer: it is told of refused requests, and of the runs that this process takes up from now on."""
        self._reporters.observe(observer)

    # --- the environment of a run: run.RunEnvironment says what each method does

    async def worker(self, worker_id: str, package: str) -> Worker:
        """The worker with a run's code (`package`), also if not served any more. Raises WorkerMissing or WorkerChanged if it is lost."""
        for served in self._served.get(worker_id, {}).values():
            if served.package == package:
                return served.worker
        found: Worker = await self._find(worker_id, package)
        return found

    def reporter(self, header: Execution, accepted: AcceptedRequest, contract: Contract) -> LiveRunReporter:
        return self._reporters.on(header, accepted, contract, self._engine.clock)

    def operations(self, run_id: str, tenant: str) -> Iterable[Operation] | None:
        header = self._engine.store.find(run_id)
        if header is None:
            return None
        return () if header.tenant != tenant else self._engine.store.operations(run_id)

    def waits(self, run_id: str) -> None:
        self._waiters.waits(run_id)
