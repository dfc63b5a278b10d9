"""A run: the durable function that every worker is. It replays; whatever it does is recorded, or pure.

attempt → judge → (wait, attempt again)* → response
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from holdfast.contract.checking import told_of
from holdfast.contract.codes import Meaning, Status, meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.protocol import (
    Observability,
    Response,
    ResponseError,
    RunUsage,
    Tokens,
    WorkerRequest,
)
from holdfast.contract.terms import Contract, Limits, Retries
from holdfast.durable.awaiting import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.identifier import Identity
from holdfast.hosts.evaluator.checking import problems as problems_of
from holdfast.hosts.sandbox.description import Ended
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.operations import OPEN, Action, Failure, Operation, SubType, Type
from holdfast.workers.approvals import ApprovalPlace, request_of
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.attempt import Attempt, AttemptResult, Body
from holdfast.workers.calls import Calls
from holdfast.workers.causes import by_day, shown
from holdfast.workers.delivering import delivered
from holdfast.workers.frames import BodyError
from holdfast.workers.gateway import EFFECTS_AT, CallTerms, Gateway
from holdfast.workers.journal import ATTEMPT, CANCEL_AT, REQUEST, Journal, begun, ended, place
from holdfast.workers.observing import OpenEye, joined, log_fields
from holdfast.workers.packages import WorkerChanged
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Effect, Tool

_OPENING = {at: begun(at) for at in (CANCEL_AT, EFFECTS_AT)}
"""The subtree of all effects is never closed, so that a replay sees everything in it."""
_PARKED_TIME_LEFT = 5.0
"""Seconds an attempt has at least after it waited for a person: it repeats what it did, and makes the call that was decided on."""


_CANCELLED = AttemptResult(error=BodyError(error_code="cancelled", message="Somebody cancelled the run."))
_KEPT_PLACES = 64
_LONGEST_DELAY = 86_400.0
"""Seconds that somebody outside, or a body, may have the next attempt wait."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A run's order: what its execution is started with."""

    request: WorkerRequest
    version: str
    limits: Limits
    package: str
    """The snapshot of the code and the page that this run is pinned to."""
    tenant: str
    requested_by: str
    family: str
    link: int = 1
    """Which run of its idempotency key it is."""
    before: tuple[str, ...] = ()
    """The runs of its key before it, oldest first: it inherits their receipts."""
    trace_id: str
    span_id: str
    sampled: bool | None = None
    """The caller's word on whether its trace is recorded."""
    log_fields: tuple[str, ...] = ()
    """The contract's, also for those who look without it."""


class Worker(Protocol):
    """A worker as a run needs it: one version of its code and page."""

    @property
    def contract(self) -> Contract: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def approvals(self) -> frozenset[str]: ...
    async def body(self, limits: Limits, timeout: float) -> Body:
        """A fresh body; its time runs from the call on."""
        ...


class Surroundings(Protocol):
    """What runs stand in."""

    @property
    def policy(self) -> Policy: ...
    @property
    def artifacts(self) -> Artifacts: ...
    async def worker(self, worker_id: str, package: str) -> Worker: ...
    def eye(self, header: Execution, accepted: Accepted, contract: Contract) -> OpenEye:
        """Who looks on."""
        ...

    def operations(self, run_id: str, tenant: str) -> Iterable[Operation]: ...
    def waits(self, run_id: str) -> None:
        """The run waits for a person."""
        ...


class Run:
    """One run, as one invocation of it sees it."""

    def __init__(self, accepted: Accepted, worker: Worker, context: AsyncDurableContext, around: Surroundings) -> None:
        state = context._scope.state
        assert isinstance(state, AsyncState)
        self._accepted = accepted
        self._worker = worker
        self._context = context
        self._around = around
        self._state = state
        self._id = state.header.id
        self._who = f"{accepted.tenant}/{worker.contract.worker_id}"
        self._journal = Journal(state)
        self._ledger = Calls(accepted.limits, EFFECTS_AT, around.policy.most.tool_calls)
        self._contract = worker.contract
        self._dying: asyncio.Future[Ended] | None = None
        self._eye = around.eye(state.header, accepted, worker.contract)
        self._logs: tuple[dict[str, Any], ...] = ()

    async def respond(self) -> Response:
        """From the first attempt to the response."""
        if self._state.header.epoch == 1:
            self._eye.began()
        for run_id in self._accepted.before:  # before its own: the last try of a call is the latest
            self._ledger.read(self._around.operations(run_id, self._accepted.tenant), inherited=True)
        self._ledger.read(self._journal.operations)
        for at, update in _OPENING.items():
            if self._journal.find(at) is None:
                self._journal.write_first(update)
        number, first = 1, None
        while True:
            outcome = await self._attempt(number)
            self._logs = joined(self._logs, outcome.logs)
            error = outcome.error
            if error is None or number >= self._contract.retries.max_attempts or by_day(error) or not self._meaning(error).retryable:
                error = shown(first, error, self._ledger.tries, number)
                return self._judged(number, msgspec.structs.replace(outcome, error=error))
            first = first or error
            await self._rested(number, error.retry_after_seconds)
            if self._journal.cancelled:
                return self._judged(number, _CANCELLED)
            number += 1

    async def _rested(self, number: int, told: float | None) -> None:
        """Wait for the next attempt, unless somebody cancels the run meanwhile."""
        at = _rest_at(number)
        if self._journal.find(at) is None and not self._journal.cancelled:
            await self._journal.write(begun(at, wait_seconds=self._delay(number, told)))
        await self._journal.closed(at, CANCEL_AT)

    # --- one attempt

    async def _attempt(self, number: int) -> AttemptResult:
        """An attempt's outcome: the recorded one, or that of a body run now, to the end or to a person and on again."""
        at = _attempt_at(number)
        known = self._journal.find(at)
        if known is not None and known.status not in OPEN:
            return _recorded(known)
        if known is None:
            self._journal.write_first(begun(at))
            self._eye.attempt_began(number)
        began_at = self._state.clock.now() if known is None else known.started_at
        while True:
            if self._journal.cancelled:
                return await self._closed(number, at, _CANCELLED, began_at)
            outcome = await self._worked(number, at)
            if isinstance(outcome, AttemptResult):
                return await self._closed(number, at, outcome, began_at)
            self._around.waits(self._id)
            await self._journal.closed(outcome.callback, CANCEL_AT)

    async def _worked(self, number: int, at: Identity) -> AttemptResult | ApprovalPlace:
        """Run a body once, from the top."""
        limits, policy = self._accepted.limits, self._around.policy
        requests = [request_of(op) for op in self._journal.operations if op.sub_type == REQUEST]
        used_ms = max((request.used_ms for request in requests if request.attempt == number), default=0)
        timeout = max(limits.timeout_seconds - used_ms / 1000, min(limits.timeout_seconds, _PARKED_TIME_LEFT))
        gateway = self._gateway()
        gateway.begin(number, monotonic() + timeout, used_ms)
        try:
            inputs = await self._around.artifacts.resolved(self._accepted.tenant, self._accepted.request.inputs)
            if problems := await problems_of(self._contract.takes, inputs, self._who):
                return AttemptResult(error=BodyError(error_code="schema_mismatch", message=f"The inputs do not fit: {told_of(problems)}."))
            body = await self._worker.body(limits, timeout)
        except HoldfastError as unavailable:
            return AttemptResult(error=BodyError(error_code=unavailable.code, message=str(unavailable)))
        attempt = Attempt(
            number,
            at,
            self._accepted.tenant,
            gateway,
            self._journal,
            self._around.artifacts,
            self._eye,
            policy.most,
        )
        self._eye.begins(number, requests)
        rest = self._journal.find(_rest_at(number - 1))
        order = {
            "op": "run",
            "inputs": inputs,
            "contract": self._contract if limits is self._contract.limits else msgspec.structs.replace(self._contract, limits=limits),
            "attempt": number,
            "run_id": self._id,
            "seed": f"{self._id}/{number}",
            "now": (None if rest is None else rest.ended_at) or self._state.header.started_at,
            "remaining": timeout,
            "writes": [name for name, tool in self._worker.tools.items() if tool.effect is Effect.WRITE],
        }
        outcome = await attempt.run(body, order, policy.grace_seconds)
        self._dying = attempt.dying
        return outcome

    def _gateway(self) -> Gateway:
        accepted = self._accepted
        terms = CallTerms(
            run_id=self._id,
            family=accepted.family,
            tenant=accepted.tenant,
            worker_id=self._contract.worker_id,
            requested_by=accepted.requested_by,
            limits=accepted.limits,
            egress=self._contract.egress,
            approvals=self._worker.approvals | frozenset(self._contract.approvals_required) | self._around.policy.approvals,
            eye=self._eye,
        )
        return Gateway(terms, self._journal, self._ledger, self._worker.tools, self._around.policy, self._state.clock)

    async def _closed(self, number: int, at: Identity, outcome: AttemptResult, began_at: int) -> AttemptResult:
        """Write an attempt's end, after its body's death is certain; the next one begins only after that."""
        around, tenant = self._around, self._accepted.tenant
        checked = await delivered(outcome, self._contract, around.artifacts, tenant, around.policy.inline_artifact_bytes)
        if checked.error is not None and self._dying is not None:  # it had thought it was done
            await self._dying
        error = checked.error
        if error is not None:
            text = msgspec.json.encode(checked).decode()
            await self._journal.write(at.update(Action.FAIL, error=Failure(error.message, error.error_code, text)))
        elif self._journal.begun:  # with the run's own end; of a run that has written nothing the response is all that is left
            self._journal.write_later(ended(at, msgspec.json.encode(checked).decode()))
        status = Status.OK if error is None else self._meaning(error).status
        told = None if error is None else (error.error_code, error.message)
        self._eye.attempt_ended(number, began_at, checked.duration_ms, status.value, told, checked.isolation)
        return checked

    # --- what it comes to

    def _delay(self, number: int, told: float | None) -> int:
        """Seconds until the next attempt: what somebody outside said, else by the contract's policy, with jitter."""
        wanted = max(min(told or 0.0, _LONGEST_DELAY), backoff(self._contract.retries, number, self._context.random()))
        return max(1, round(wanted))

    def _meaning(self, error: BodyError) -> Meaning:
        codes = self._around.policy.retry_codes.get(self._contract.worker_id)
        return meaning_of(
            error.error_code, deployed=self._contract.errors, retry_codes=codes, needs_human=error.needs_human, retryable=error.retryable
        )

    def _judged(self, number: int, outcome: AttemptResult) -> Response:
        accepted, error = self._accepted, outcome.error
        status, told = Status.OK, None
        if error is not None:
            meaning = self._meaning(error)
            status, message, details = meaning.status, error.message, error.details
            lost = sorted({attempted.intent.tool for attempted in self._ledger.unresolved()})
            if lost and error.error_code != "unknown_outcome":  # nobody is asked about a run that was cancelled
                message = f"{message} Nobody knows whether its last call of {', '.join(lost)} took place."
                details = {"unknown_outcome": lost} if details is None else details
            told = ResponseError(
                error_code=error.error_code,
                message=message,
                retryable=meaning.retryable,
                retry_after_seconds=None if error.retry_after_seconds is None else min(error.retry_after_seconds, _LONGEST_DELAY),
                details=details,
            )
        usage, partial = self._ledger.usage, error is not None and error.partial is not None
        took = self._state.clock.now() - self._state.header.started_at
        fields = {
            "worker_id": self._contract.worker_id,
            "attempt": number,
            "duration_ms": took,
            "status": status.value,
            "error_code": None if error is None else error.error_code,
            "version": self._contract.version,
            "run_id": self._id,
            "tenant": accepted.tenant,
            **self._eye.run.trace,
            "isolation": outcome.isolation,
            "tool_calls": self._ledger.calls,
        }
        return Response(
            run_id=self._id,
            worker_id=self._contract.worker_id,
            version=self._contract.version,
            status=status,
            outputs=error.partial if error is not None else outcome.outputs,
            error=told,
            artifacts=outcome.artifacts,
            logs=self._logs,
            observability=Observability(
                trace_id=accepted.trace_id,
                span_id=accepted.span_id,
                attempt=number,
                duration_ms=took,
                usage=RunUsage(
                    tokens=Tokens(usage.input_tokens, usage.output_tokens), cost_usd=Decimal(usage.cost_usd), tool_calls=self._ledger.calls
                ),
                isolation=outcome.isolation,
                partial=partial,
                log_fields=log_fields(self._contract.log_fields, fields, self._logs),
            ),
        )


def backoff(retries: Retries, number: int, chance: float) -> float:
    """Seconds to wait after an attempt: growing, at most the cap, and spread out so that neighbours do not come together."""
    first, most = retries.initial_delay_seconds, retries.max_delay_seconds
    grown: float = {"exponential": first * 2 ** (number - 1), "linear": first * number, "fixed": first, "none": 0.0}[retries.backoff]
    return min(most, grown) * (0.5 + chance / 2)


async def run(accepted: Accepted, context: AsyncDurableContext, around: Surroundings) -> Response:
    """The handler of every worker: the order in, the response out."""
    header = context._scope.state.header
    if (accepted.tenant, accepted.request.worker_id) != (header.tenant, header.function):
        raise InvalidParameter("This execution was not begun as a run: its order is another tenant's, or another worker's.")
    try:
        worker = await around.worker(header.function, accepted.package)
    except WorkerChanged as changed:
        return _not_run(header, accepted, changed)
    contract, request = worker.contract, accepted.request
    # Whoever wrote the order, what binds a run is the contract that it is pinned to.
    limits = tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)
    return await Run(msgspec.structs.replace(accepted, limits=limits), worker, context, around).respond()


def _not_run(header: Execution, accepted: Accepted, changed: WorkerChanged) -> Response:
    """The end of a run whose code is not what it began with: none of it is run."""
    meaning = meaning_of(changed.code)
    return Response(
        run_id=header.id,
        worker_id=header.function,
        version=accepted.version,
        status=meaning.status,
        error=ResponseError(error_code=changed.code, message=str(changed), retryable=meaning.retryable),
        observability=Observability(trace_id=accepted.trace_id, span_id=accepted.span_id, attempt=0),
    )


_orders = msgspec.json.Decoder(Accepted)
_responses = msgspec.json.Encoder()


def order_of(text: str | None) -> Accepted:
    """The order that an execution was started with."""
    return _orders.decode(text or "{}")


def text_of(response: Response) -> str:
    """The response as its execution's result."""
    return _responses.encode(response).decode()


@lru_cache(maxsize=_KEPT_PLACES)
def _attempt_at(number: int) -> Identity:
    """Where an attempt is kept."""
    return place(Type.CONTEXT, ATTEMPT, f"attempt-{number}", number)


@lru_cache(maxsize=_KEPT_PLACES)
def _rest_at(number: int) -> Identity:
    """Where the wait after an attempt is kept."""
    return place(Type.WAIT, SubType.WAIT.value, f"retry-{number}", number)


def _recorded(known: Operation) -> AttemptResult:
    text = known.result if known.error is None else known.error.data
    return msgspec.json.decode(text or "{}", type=AttemptResult)
