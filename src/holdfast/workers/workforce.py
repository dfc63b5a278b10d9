"""The workforce: the workers that are served here, and everything one can ask of them. A run is accepted once, and runs as often as it takes."""

from __future__ import annotations

import asyncio
import getpass
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from holdfast.contract.checking import checker_of
from holdfast.contract.codes import Status, meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Observability, Request, Response, ResponseError, response_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.model import codec
from holdfast.model.charging import Charge
from holdfast.model.errors import ExecutionAlreadyStarted, ExecutionNotFound, LimitReached
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, Execution, ExecutionStatus, State, Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import Failure, Operation
from holdfast.model.outside import Answering
from holdfast.workers.approvals import (
    Approval,
    ApprovalNotFound,
    Decision,
    approvals_of,
    checked,
    request_of,
    run_of,
    status_of,
    waiting,
)
from holdfast.workers.artifacts import ArtifactMissing, Artifacts, brought_in
from holdfast.workers.attempt import Watcher
from holdfast.workers.gateway import day_of, key_part
from holdfast.workers.journal import REQUEST
from holdfast.workers.policy import Policy
from holdfast.workers.running import CANCEL_AT, Accepted, Worker, run

_POLL_SECONDS = 0.25
_PAGE = 100


class Served(Protocol):
    """A worker that is served: a version of it that new runs get."""

    @property
    def worker(self) -> Worker: ...
    @property
    def package(self) -> str: ...


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: from the credential, never from the request."""

    tenant: str = "default"
    principal: str = "local"
    logged_in: bool = False


def principal() -> str:
    """Who works here where nobody logs in."""
    try:
        return f"local:{getpass.getuser()}"
    except (KeyError, OSError):
        return "local:unknown"


class Workforce:
    """Accepts requests, and is what their runs stand in."""

    def __init__(self, *, policy: Policy, artifacts: Artifacts, find: Callable[[str, str], Any]) -> None:
        self.policy = policy
        self.artifacts = artifacts
        self._find = find
        self._served: dict[str, dict[str, Served]] = {}
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self.watch: Callable[[str, Accepted], Watcher] = lambda run_id, accepted: _NOBODY
        self.announce: Callable[[Accepted, Response], None] = lambda accepted, response: None

    def serve(self, served: Served) -> None:
        """Serve a worker; what was served of the same version before is what older runs go on with."""
        contract = served.worker.contract
        self._served.setdefault(contract.worker_id, {})[contract.version] = served

    def functions(self) -> list[DurableFunction]:
        """The durable functions that the served workers are."""
        return [self._function(worker_id) for worker_id in self._served]

    def _function(self, worker_id: str) -> DurableFunction:
        async def handler(event: Any, context: AsyncDurableContext) -> Any:
            return await run(event, context, self)

        return DurableFunction(handler, name=worker_id, version=LATEST, terms=Terms())

    def attach(self, engine: Engine) -> None:
        """The engine that runs them."""
        self._engine = engine

    @property
    def served(self) -> Mapping[str, Mapping[str, Served]]:
        """All that is served, by worker and version."""
        return self._served

    # --- accept: once

    async def invoke(self, request: Request, asker: Asker, *, wait: float | None = None) -> Response:
        """Run a worker and wait for what it comes to: its end, a person, or the end of patience."""
        try:
            header = await self.accept(request, asker)
        except InvalidRequest as refused:
            return refusal(request, refused.error_code, str(refused), refused.details)
        except LimitReached as limit:
            seconds = max(0.0, (limit.until - self._engine.clock.now()) / 1000)
            return refusal(request, "rate_limited", _limited(limit), retry_after_seconds=seconds)
        return await self.response(header.id, asker, wait=wait)

    async def accept(self, request: Request, asker: Asker) -> Execution:
        """The run of a request: the one its key knows, else a new one. Refused requests leave nothing behind."""
        served = self._wanted(request)
        contract = served.worker.contract
        limits = tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)
        self._check(request, contract.input_schema, asker.tenant)
        family = sha256(f"{asker.tenant}\0{contract.worker_id}\0{request.idempotency_key or secrets.token_hex(16)}".encode()).hexdigest()
        seconds = limits.run_timeout_seconds
        terms = Terms(timeout_seconds=MAX_TIMEOUT_SECONDS if seconds is None else max(1, round(seconds)))
        same = codec.dumps([request.inputs, msgspec.to_builtins(request.constraints)])
        link, before = 1, None
        while True:
            accepted = Accepted(
                request=request,
                version=contract.version,
                limits=limits,
                package=served.package,
                tenant=asker.tenant,
                requested_by=request.user or asker.principal,
                family=family,
                link=link,
                before=before,
                trace_id=request.trace.trace_id or secrets.token_hex(16),
                span_id=secrets.token_hex(8),
            )
            name = None if request.idempotency_key is None else f"{family[:40]}-{link}"
            header = await self._started(contract.worker_id, accepted, name, terms, same)
            if name is None or not self._ended_retryable(header):
                return header
            link, before = link + 1, header.id

    def _wanted(self, request: Request) -> Served:
        versions = self._served.get(request.worker_id)
        if not versions:
            raise InvalidRequest(f"No worker {request.worker_id!r:.100} is served here.", error_code="worker_not_found")
        if request.version is None:
            return next(reversed(versions.values()))
        if request.version not in versions:
            known = ", ".join(versions)
            raise InvalidRequest(f"{request.worker_id} is served here as {known}, not as {request.version!r:.50}.", error_code="version_not_found")
        return versions[request.version]

    def _check(self, request: Request, schema: dict[str, Any], tenant: str) -> None:
        try:
            inputs = brought_in(request.inputs, lambda identity: self.artifacts.value(tenant, identity))
        except ArtifactMissing as missing:
            raise InvalidRequest(str(missing), error_code="artifact_not_found") from None
        problems = checker_of(schema).problems(inputs)
        if problems:
            told = "; ".join(f"{problem.path or '/'}: {problem.reason}" for problem in problems)
            raise InvalidRequest(f"The inputs do not fit: {told}.", details=problems)

    async def _started(self, worker_id: str, accepted: Accepted, name: str | None, terms: Terms, same: str) -> Execution:
        payload = codec.dumps(msgspec.to_builtins(accepted))
        try:
            return await self._engine.start(
                worker_id, payload, name=name, tenant=accepted.tenant, terms=terms, charges=self._charges(worker_id, accepted), same=same
            )
        except ExecutionAlreadyStarted:
            message = f"The idempotency key {accepted.request.idempotency_key!r:.100} was used before, with other inputs."
            raise InvalidRequest(message, error_code="idempotency_conflict") from None

    def _charges(self, worker_id: str, accepted: Accepted) -> tuple[Charge, ...]:
        """What a new run uses up: its worker's rate, and one of the tenant's runs of the day."""
        charges, now = [], self._engine.clock.now()
        rate = self.policy.rate_limits.get(worker_id) or self._served[worker_id][accepted.version].worker.contract.rate_limit
        if rate is not None:
            who = accepted.tenant if rate.per == "tenant" else f"{accepted.tenant}\0{accepted.requested_by}"
            charges.append(Charge(f"rate/{worker_id}/{key_part(who)}", 1, rate.count, now + int(rate.per_seconds * 1000)))
        runs = self.policy.caps_of(accepted.tenant).runs
        if runs is not None:
            day, until = day_of(now)
            charges.append(Charge(f"day/{day}/{key_part(accepted.tenant)}/runs", 1, runs, until))
        return tuple(charges)

    def _ended_retryable(self, header: Execution) -> bool:
        """Whether a run of the same key ended in a way that lets the key begin again."""
        if header.state is State.QUARANTINED:
            return False
        if header.status is ExecutionStatus.RUNNING:
            return False
        response = self._response(header, self._engine.store.operations(header.id))
        return response.status is Status.RETRYABLE_ERROR

    # --- looking

    async def response(self, run_id: str, asker: Asker, *, wait: float | None = None) -> Response:
        """What a run came to, or that it waits for a person; waits for either, for `wait` seconds or as long as it takes."""
        header = self._of(run_id, asker)
        async with _patience(wait):
            ending = asyncio.ensure_future(self._engine.ending(run_id))
            event = asyncio.Event()
            self._waiters.setdefault(run_id, set()).add(event)
            try:
                while not ending.done():
                    event.clear()
                    header = self._of(run_id, asker)
                    if header.state is State.QUARANTINED or (header.state is State.SUSPENDED and self._approvals(header)):
                        break
                    waits = {ending, asyncio.ensure_future(event.wait())}
                    await asyncio.wait(waits, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ending.cancel()
                self._waiters[run_id].discard(event)
                if not self._waiters[run_id]:
                    del self._waiters[run_id]
        header = self._of(run_id, asker)
        return self._response(header, self._engine.store.operations(run_id))

    def _of(self, run_id: str, asker: Asker) -> Execution:
        header = self._engine.store.find(run_id)
        if header is None or header.function not in self._served or (asker.logged_in and header.tenant != asker.tenant):
            raise ExecutionNotFound(f"There is no run {run_id!r:.100}.")
        return header

    def _approvals(self, header: Execution) -> list[Approval]:
        return waiting(header, self._engine.store.operations(header.id))

    def _response(self, header: Execution, operations: Sequence[Operation]) -> Response:
        if header.status is ExecutionStatus.SUCCEEDED:
            return response_from(self._engine.store.result(header) or "{}")
        accepted = msgspec.json.decode(self._engine.store.input(header.id) or "{}", type=Accepted)
        code, message = _ended_as(header)
        approvals = waiting(header, operations)
        if header.status is ExecutionStatus.RUNNING and approvals:
            status, code = status_of(approvals)
            first = approvals[0]
            message = f"A person must decide: {first.approval_id} {first.question or first.tool}."
        meaning = meaning_of(code)
        return Response(
            run_id=header.id,
            worker_id=header.function,
            version=accepted.version,
            status=meaning.status,
            error=ResponseError(error_code=code, message=message, retryable=meaning.retryable),
            approvals=tuple(msgspec.to_builtins(approval) for approval in approvals),
            observability=Observability(trace_id=accepted.trace_id, span_id=accepted.span_id),
        )

    # --- people

    def approvals(self, asker: Asker) -> list[Approval]:
        """All that waits for a decision, oldest first."""
        found: list[Approval] = []
        beyond = ""
        while page := self._engine.store.undecided(beyond, _PAGE):
            for run_id in page:
                header = self._engine.store.find(run_id)
                if header is not None and not (asker.logged_in and header.tenant != asker.tenant):
                    found += self._approvals(header)
            beyond = page[-1]
        return found

    async def decide(self, approval_id: str, decision: Decision, asker: Asker) -> Approval:
        """Write a decision; whether it comes too late is settled by the write itself."""
        header = self._of(run_of(approval_id), asker)
        operations = self._engine.store.operations(header.id)
        found = next((pair for pair in approvals_of(header, operations) if pair[0].approval_id == approval_id), None)
        if found is None:
            raise ApprovalNotFound(f"There is no approval {approval_id!r:.100}.")
        approval, callback = found
        request = next(op for op in operations if op.sub_type == REQUEST and op.place == callback.place + 1)
        text = msgspec.json.encode(checked(request_of(request), decision, logged_in=asker.logged_in)).decode()
        await self._engine.wake(lambda by: Answering(header.id, callback.id, text, None, by, decision=True), header.id)
        return msgspec.structs.replace(approval, state=decision.verdict, decided_by=decision.decided_by, decided_at=decision.decided_at)

    async def cancel(self, run_id: str, asker: Asker) -> Response:
        """End a run. A call that is in flight may still record what it did."""
        header = self._of(run_id, asker)
        if header.status is ExecutionStatus.RUNNING:
            found = [op for op in self._engine.store.operations(run_id) if op.id == CANCEL_AT.operation_id]
            if found and header.state is not State.QUARANTINED:
                write = Answering(run_id, CANCEL_AT.operation_id, None, Failure("cancelled"))
                await self._engine.wake(lambda by: msgspec.structs.replace(write, by=by), run_id)
            else:
                await self._engine.stop(run_id, Failure("Somebody cancelled the run.", "cancelled"))
        return await self.response(run_id, asker, wait=self.policy.grace_seconds + 1)

    # --- what runs stand in

    async def worker(self, worker_id: str, package: str) -> Worker:
        """The worker that a run is pinned to, whether or not it is the one that is served now."""
        for served in self._served.get(worker_id, {}).values():
            if served.package == package:
                return served.worker
        found: Worker = await self._find(worker_id, package)
        return found

    def watcher(self, run_id: str, accepted: Accepted) -> Watcher:
        """Who looks on."""
        return self.watch(run_id, accepted)

    def operations(self, run_id: str) -> Iterable[Operation]:
        """What a run has written."""
        return self._engine.store.operations(run_id)

    def waits(self, run_id: str) -> None:
        """A run waits for a person: tell those who wait for it, once it is on disk that it rests."""
        for event in self._waiters.get(run_id, ()):
            asyncio.get_running_loop().call_later(0.005, event.set)

    def over(self, accepted: Accepted, response: Response) -> None:
        """A run is over."""
        self.announce(accepted, response)


class _Nobody:
    def progressed(self, data: Any) -> None:
        pass

    def logged(self, record: dict[str, Any]) -> None:
        pass


_NOBODY = _Nobody()


def _patience(wait: float | None) -> Any:
    return _Patience(wait)


class _Patience:
    """A timeout that is no error: whoever waits gets how things stand."""

    def __init__(self, wait: float | None) -> None:
        self._timeout = asyncio.timeout(wait)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> bool:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            return True
        return False


def refusal(request: Request, code: str, message: str, details: Any = None, retry_after_seconds: float | None = None) -> Response:
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
    kind = limit.key.partition("/")[0]
    return f"At most {limit.limit} runs are allowed here in this time." if kind == "rate" else f"The day's {limit.limit} runs are used up."


def _ended_as(header: Execution) -> tuple[str, str]:
    """The code of a run that did not come to a response of its own."""
    if header.state is State.QUARANTINED:
        return "worker_crashed", "The runner died again and again under this run; it waits until an operator releases it."
    if header.status is ExecutionStatus.TIMED_OUT:
        return "timeout", "The run took longer than run_timeout_seconds."
    if header.status is ExecutionStatus.STOPPED:
        return "cancelled", "Somebody cancelled the run."
    if header.status is ExecutionStatus.FAILED:
        return "worker_crashed", "The run failed inside the runtime; its execution's history says why."
    return "overloaded", "The run is not over yet."
