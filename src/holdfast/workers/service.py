"""The worker service: the workers of this process, and all that a caller can ask of them. A request is accepted once; its run replays."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from holdfast.contract.checking import MAX_DEPTH, told_of
from holdfast.contract.codes import Status, meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Observability, Response, ResponseError, WorkerRequest, request_from
from holdfast.contract.refusals import InvalidRequest, Overloaded
from holdfast.contract.terms import Contract
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.hosts.evaluator.checking import CheckTooCostly
from holdfast.hosts.evaluator.checking import problems as problems_of
from holdfast.model import codec
from holdfast.model.auditing import principal
from holdfast.model.charging import Charge
from holdfast.model.errors import ExecutionAlreadyStarted, InvalidParameter, LimitReached, PayloadNotJson, PayloadTooLarge
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, Execution, ExecutionStatus, Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import Kind, Operation, Order
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.observing import NOBODY, Observer
from holdfast.store.seam import Filter
from holdfast.workers.announcing import Eyes
from holdfast.workers.approvals import Approval, Decision
from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.counting import capped, day_of, key_part, utc
from holdfast.workers.events import RunEvent, RunEvents
from holdfast.workers.looking import (
    Asker,
    cancelling,
    deciding,
    find_approval,
    find_run,
    order_in,
    response_of,
    undecided,
)
from holdfast.workers.observing import OpenEye, log_fields
from holdfast.workers.policy import Policy
from holdfast.workers.running import Accepted, Worker, order_of, run, text_of
from holdfast.workers.waiting import Waiting

_LARGE = 256 * 1024

_FREES_ITS_KEY = (Status.RETRYABLE_ERROR, Status.INVALID_REQUEST)
"""After these the same key begins again, with the receipts of what was done."""


class Served(Protocol):
    """A worker that is served: a version of it that new runs get."""

    @property
    def worker(self) -> Worker: ...
    @property
    def package(self) -> str: ...


class WorkerService:
    """Accepts requests, and is what their runs stand in."""

    def __init__(self, *, policy: Policy, artifacts: Artifacts, find: Callable[[str, str], Any], observer: Observer = NOBODY) -> None:
        self.policy = policy
        self.artifacts = artifacts
        self._find = find
        self._served: dict[str, dict[str, Served]] = {}
        self._waiting = Waiting()
        self._events = RunEvents()
        self._eyes = Eyes(observer, self._events)

    def serve(self, served: Served) -> None:
        """Serve a worker; what was served of the same version before is what older runs go on with."""
        contract = served.worker.contract
        versions = self._served.setdefault(contract.worker_id, {})
        versions.pop(contract.version, None)  # what came last is what a request gets that names no version
        versions[contract.version] = served

    def functions(self) -> list[DurableFunction]:
        """The durable functions that the served workers are."""
        return [self._function(worker_id) for worker_id in self._served]

    def _function(self, worker_id: str) -> DurableFunction:
        async def handler(accepted: Accepted, context: AsyncDurableContext) -> Response:
            if order_in(self._engine.store, context._scope.state.header) is None:
                raise InvalidParameter("This execution was not accepted as a run: a worker is no function.")
            return await run(accepted, context, self)

        return DurableFunction(handler, name=worker_id, version=LATEST, terms=Terms(), read=order_of, write=text_of, kind=Kind.WORKER)

    def attach(self, engine: Engine) -> None:
        """The engine that runs them."""
        self._engine = engine
        self._eyes.attach(engine)

    @property
    def served(self) -> Mapping[str, Mapping[str, Served]]:
        """All that is served, by worker and version."""
        return self._served

    # --- accept: once

    async def ask(self, asked: Mapping[str, Any], tenant: str, wait: float | None) -> Response:
        """Run a worker for whoever works here, as `invoke`; what does not fit is answered, and nothing is raised."""
        request = _read(asked)
        if isinstance(request, Response):
            return request
        return await self.invoke(request, Asker(tenant=tenant, principal=principal()), wait=wait)

    async def invoke(self, request: WorkerRequest, asker: Asker, *, wait: float | None = None, sampled: bool | None = None) -> Response:
        """Run a worker and wait for what it comes to: its end, a person, or the end of patience.

        `sampled` is what a `traceparent` says beside its ids (signals.traceparent).
        """
        begun = await self.begin(request, asker, sampled=sampled)
        return begun if isinstance(begun, Response) else await self._waiting.response(self._engine, *begun, wait)

    async def begin(self, request: WorkerRequest, asker: Asker, *, sampled: bool | None = None) -> Response | tuple[Execution, Accepted]:
        """The run of a request, without waiting for it; the response to one that is refused."""
        request = _traced(request)
        try:
            return await self._accepted(request, asker, sampled)
        except InvalidRequest as refused:
            return self._refusal(request, refused.error_code, str(refused), refused.details)
        except LimitReached as limit:
            seconds = max(0.0, (limit.until - self._engine.clock.now()) / 1000)
            details = capped(limit) if limit.key.startswith("day/") else None
            return self._refusal(request, "rate_limited", _limited(limit), details, retry_after_seconds=seconds)

    async def come_to(self, header: Execution, accepted: Accepted, *, wait: float | None = None) -> Response:
        """What a run comes to that `begin` or a look has found; as `response`, without finding it again."""
        return await self._waiting.response(self._engine, header, accepted, wait)

    async def accept(self, request: WorkerRequest, asker: Asker, *, sampled: bool | None = None) -> Execution:
        """The run of a request: the one its key knows, else a new one. Refused requests leave nothing behind."""
        return (await self._accepted(_traced(request), asker, sampled))[0]

    async def _accepted(self, request: WorkerRequest, asker: Asker, sampled: bool | None) -> tuple[Execution, Accepted]:
        began_at = self._engine.clock.now()
        try:
            return await self._admitted(request, asker, sampled)
        except (InvalidRequest, LimitReached) as refused:
            self._eyes.refused(request, asker, refused, began_at, known=request.worker_id in self._served, sampled=sampled)
            raise

    def _refusal(self, request: WorkerRequest, code: str, message: str, details: Any = None, **more: Any) -> Response:
        """The response to a request that made no run; its worker's log fields are in it all the same."""
        response = refusal(request, code, message, details, **more)
        versions = self._served.get(request.worker_id)
        if not versions:
            return response
        contract = (versions.get(request.version or "") or next(reversed(versions.values()))).worker.contract
        known = {"worker_id": request.worker_id, "attempt": 0, "duration_ms": 0, "status": response.status.value, "error_code": code}
        seen = msgspec.structs.replace(
            response.observability, log_fields=log_fields(contract.log_fields, {**known, **msgspec.to_builtins(request.trace)})
        )
        return msgspec.structs.replace(response, observability=seen)

    async def _admitted(self, request: WorkerRequest, asker: Asker, sampled: bool | None) -> tuple[Execution, Accepted]:
        served = self._wanted(request)
        contract = served.worker.contract
        limits = tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)
        inputs = _text_of(request)
        await _turns(inputs)
        await self._check(request, contract, asker.tenant)
        await _turns(inputs)
        family = _family(request.idempotency_key, asker.tenant, contract.worker_id)
        seconds = limits.run_timeout_seconds
        terms = Terms(timeout_seconds=MAX_TIMEOUT_SECONDS if seconds is None else max(1, round(min(seconds, MAX_TIMEOUT_SECONDS))))
        link = 1
        before: tuple[str, ...] = ()
        while True:
            accepted = Accepted(
                request=request,
                version=contract.version,
                limits=limits,
                package=served.package,
                tenant=asker.tenant,
                # Never the request's `user`, which anybody can write: else a caller could decide what it asked for itself.
                requested_by=asker.principal,
                family=family,
                link=link,
                before=before,
                trace_id=request.trace.trace_id or secrets.token_hex(16),
                span_id=secrets.token_hex(8),
                sampled=sampled,
                log_fields=contract.log_fields,
            )
            if request.idempotency_key is None:
                return await self._started(contract.worker_id, accepted, None, terms, None), accepted
            name = f"{family[:40]}-{link}"
            try:
                header = await self._started(contract.worker_id, accepted, name, terms, inputs)
            except InvalidRequest as conflict:
                header = self._refused_before(name, conflict, accepted)
            else:
                if self._end_of(header, accepted) not in _FREES_ITS_KEY:
                    return find_run(self._engine.store, header.id, asker)  # its own order: it may have been there before
            link, before = link + 1, (*before, header.id)

    def _wanted(self, request: WorkerRequest) -> Served:
        versions = self._served.get(request.worker_id)
        if not versions:
            raise InvalidRequest(f"No worker {request.worker_id!r:.100} is served here.", error_code="worker_not_found")
        if request.version is None:
            return next(reversed(versions.values()))
        if request.version not in versions:
            known = ", ".join(versions)
            raise InvalidRequest(
                f"{request.worker_id} is served here as {known}, not as {request.version!r:.50}.", error_code="version_not_found"
            )
        return versions[request.version]

    async def _check(self, request: WorkerRequest, contract: Contract, tenant: str) -> None:
        try:
            inputs = await self.artifacts.resolved(tenant, request.inputs)
        except ArtifactMissing as missing:
            raise InvalidRequest(str(missing), error_code="artifact_not_found") from None
        except PayloadNotJson:
            message = "An input is an artifact that holds no JSON: hand over its reference without `$artifact`, and let the worker open it."
            raise InvalidRequest(message) from None
        try:
            problems = await problems_of(contract.takes, inputs, f"{tenant}/{contract.worker_id}")
        except (CheckTooCostly, Overloaded) as refused:
            raise InvalidRequest(str(refused), error_code=refused.code) from None
        if problems:
            raise InvalidRequest(f"The inputs do not fit: {told_of(problems)}.", details=problems)

    async def _started(self, worker_id: str, accepted: Accepted, name: str | None, terms: Terms, same: str | None) -> Execution:
        try:
            payload = msgspec.json.encode(accepted).decode()
            charges, order = self._charges(worker_id, accepted), Order(Kind.WORKER, payload)
            return await self._engine.start(
                worker_id, payload, name=name, tenant=accepted.tenant, terms=terms, charges=charges, same=same, order=order
            )
        except ExecutionAlreadyStarted:
            message = f"The idempotency key {accepted.request.idempotency_key!r:.100} was used before, with other inputs."
            raise InvalidRequest(message, error_code="idempotency_conflict") from None
        except (PayloadTooLarge, InvalidParameter, RecursionError, UnicodeError) as odd:
            raise InvalidRequest(f"The request cannot be kept: {odd}") from None

    def _charges(self, worker_id: str, accepted: Accepted) -> tuple[Charge, ...]:
        """What a new run uses up: its worker's rate, and one of the tenant's runs of the day."""
        charges, now = [], self._engine.clock.now()
        rate = self.policy.rate_limits.get(worker_id) or self._served[worker_id][accepted.version].worker.contract.rate_limit
        if rate is not None:
            who = accepted.tenant if rate.per == "tenant" else f"{accepted.tenant}\0{accepted.request.user or accepted.requested_by}"
            charges.append(Charge(f"rate/{worker_id}/{key_part(who)}", 1, rate.count, now + int(rate.per_seconds * 1000)))
        runs = self.policy.caps_of(accepted.tenant).runs
        if runs is not None:
            day, until = day_of(now)
            charges.append(Charge(f"day/{day}/{key_part(accepted.tenant)}/runs", 1, runs, until))
        return tuple(charges)

    def _refused_before(self, name: str, conflict: InvalidRequest, accepted: Accepted) -> Execution:
        """The run that has the key with other inputs, if its body found those wrong: whoever mends them may ask again."""
        for taken in self._engine.store.list(Filter(function=accepted.request.worker_id, name=name, limit=1)):
            if conflict.error_code == "idempotency_conflict" and self._end_of(taken, accepted) is Status.INVALID_REQUEST:
                return taken
        raise conflict

    def _end_of(self, header: Execution, accepted: Accepted) -> Status | None:
        """What a run came to, if it is over."""
        return None if header.status is ExecutionStatus.RUNNING else response_of(self._engine.store, header, accepted).status

    # --- looking

    async def response(self, run_id: str, asker: Asker, *, wait: float | None = None) -> Response:
        """What a run came to, or that it waits for a person; waits for either, for `wait` seconds or as long as it takes."""
        header, accepted = find_run(self._engine.store, run_id, asker)
        return await self._waiting.response(self._engine, header, accepted, wait)

    def follow(self, run_id: str, asker: Asker, *, after: int = 0) -> AsyncIterator[RunEvent | None]:
        """The events of a run after an id, then those that come, until it is done; None whenever nothing came for a while."""
        header, accepted = find_run(self._engine.store, run_id, asker)
        return self._events.follow(self._engine.store, header, accepted, after)

    # --- people

    def approvals(self, asker: Asker) -> list[Approval]:
        """All that waits for a decision, oldest first."""
        return undecided(self._engine.store, asker)

    async def decide(self, approval_id: str, decision: Decision, asker: Asker) -> Approval:
        """Write a decision, and let the run go on."""
        write = await in_thread(Purpose.STORE, deciding, self._engine.store, approval_id, decision, asker)
        await self._engine.wake(lambda by: msgspec.structs.replace(write, by=by), write.execution)
        return find_approval(self._engine.store, approval_id, asker)

    async def cancel(self, run_id: str, asker: Asker) -> Response:
        """End a run. A call that is in flight may still record what it did."""
        write = cancelling(self._engine.store, run_id, asker, self._engine.clock.now())
        if write is not None:
            await self._engine.wake(lambda by: msgspec.structs.replace(write, by=by), run_id)
        return await self.response(run_id, asker, wait=self.policy.grace_seconds + 1)

    # --- what runs stand in

    async def worker(self, worker_id: str, package: str) -> Worker:
        """The worker that a run is pinned to, whether or not it is the one that is served now."""
        for served in self._served.get(worker_id, {}).values():
            if served.package == package:
                return served.worker
        found: Worker = await self._find(worker_id, package)
        return found

    def observe(self, observer: Observer) -> None:
        """One more who looks on, at the runs that begin from now on."""
        self._eyes.observe(observer)

    def eye(self, header: Execution, accepted: Accepted, contract: Contract) -> OpenEye:
        """Who looks on."""
        return self._eyes.on(header, accepted, contract, self._engine.clock)

    def operations(self, run_id: str, tenant: str) -> Iterable[Operation]:
        """What a run of this tenant has written; nothing of anybody else's."""
        header = self._engine.store.find(run_id)
        return () if header is None or header.tenant != tenant else self._engine.store.operations(run_id)

    def waits(self, run_id: str) -> None:
        """A run waits for a person."""
        self._waiting.waits(run_id)


def _read(asked: Mapping[str, Any]) -> WorkerRequest | Response:
    """A request of Python's own values, or the response to one that does not fit."""
    try:
        return request_from({key: dict(value) if isinstance(value, Mapping) else value for key, value in asked.items()})
    except InvalidRequest as refused:
        error = refused
    except (msgspec.ValidationError, TypeError, ValueError) as odd:  # what JSON has no word for, such as a key that is no text
        error = InvalidRequest(f"The request does not fit: {odd}.")
    unknown = WorkerRequest(worker_id=str(asked["worker_id"]), inputs={})
    return refusal(unknown, error.error_code, str(error), error.details)


async def _turns(inputs: str) -> None:
    """Everybody else has a turn before the next look at large inputs: each look takes as long as many requests."""
    if len(inputs) > _LARGE:
        await asyncio.sleep(0)


def _text_of(request: WorkerRequest) -> str:
    """The inputs as text, which is what makes two requests of one key the same."""
    try:
        codec.storable(f"{request.idempotency_key}{request.user}")
        text = codec.dumps(request.inputs)
    except (PayloadNotJson, InvalidParameter) as odd:
        raise InvalidRequest(f"The request is no JSON: {odd}") from None
    try:
        codec.fitting(text, "Execution input")  # before it is looked at any further
    except PayloadTooLarge as large:
        raise InvalidRequest(f"The request cannot be kept: {large}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and codec.too_deep(request.inputs, MAX_DEPTH):
        raise InvalidRequest(f"The inputs are nested more than {MAX_DEPTH} levels deep.")
    return text


def _family(key: str | None, tenant: str, worker_id: str) -> str:
    """The same for all runs of one key, and nobody else's."""
    return secrets.token_hex(32) if key is None else sha256(f"{tenant}\0{worker_id}\0{key}".encode()).hexdigest()


def _traced(request: WorkerRequest) -> WorkerRequest:
    """A missing trace id is made at the door."""
    if request.trace.trace_id is not None:
        return request
    return msgspec.structs.replace(request, trace=msgspec.structs.replace(request.trace, trace_id=secrets.token_hex(16)))


def refusal(request: WorkerRequest, code: str, message: str, details: Any = None, retry_after_seconds: float | None = None) -> Response:
    """The response to a request that made no run."""
    meaning = meaning_of(code)
    return Response(
        run_id="",
        worker_id=request.worker_id,
        version=request.version or "",
        status=meaning.status,
        error=ResponseError(
            error_code=code, message=message, retryable=meaning.retryable, retry_after_seconds=retry_after_seconds, details=details or None
        ),
        observability=Observability(trace_id=request.trace.trace_id or secrets.token_hex(16), attempt=0),
    )


def _limited(limit: LimitReached) -> str:
    if limit.key.startswith("rate/"):
        return f"At most {limit.limit} runs are allowed here in this time. The next one may begin at {utc(limit.until)}."
    return f"The day's {limit.limit} runs of the tenant are used up. The cap holds until {utc(limit.until)}: try again then."
