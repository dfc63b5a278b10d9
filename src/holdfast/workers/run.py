"""A run: the handler that every worker's durable function has. The engine may replay it, so everything it does is either recorded or pure.

attempt → (wait as long as attempt_retries.py says, attempt again)* → response
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.contract.checking import told_of
from holdfast.contract.codes import Meaning, ResponseStatus, meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Observability, Response, ResponseError
from holdfast.contract.terms import Contract, RunLimits
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal, started, succeeded
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.hosts.evaluator.schema_check import problems as problems_of
from holdfast.hosts.sandbox.jail import BodyEnd
from holdfast.model import json_structs
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.operations import OPEN, Action, Failure, Operation
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import ApprovalPlace, request_of
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.attempt import Attempt, AttemptResult, Body
from holdfast.workers.attempt_retries import LONGEST_DELAY, is_retried, retry_delay
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.budgets import Settlements
from holdfast.workers.call_records import CallRecords
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import Calls, run_usage
from holdfast.workers.frames import BodyError, order_of
from holdfast.workers.gateway import Gateway
from holdfast.workers.inherited_calls import carry, read_earlier
from holdfast.workers.ledger import Payer
from holdfast.workers.logs import joined, log_fields
from holdfast.workers.lost_calls import settle_lost_reads
from holdfast.workers.outputs import checked_outputs
from holdfast.workers.packages import WorkerChanged
from holdfast.workers.policy import Policy
from holdfast.workers.response_error import error_shown
from holdfast.workers.run_operations import CANCEL_AT, EFFECTS_AT, REQUEST, attempt_at, wait_at
from holdfast.workers.run_reporters import LiveRunReporter
from holdfast.workers.tools.seam import Tool

_OPENING = {at: started(at) for at in (CANCEL_AT, EFFECTS_AT)}
"""The updates that a run writes first: they begin the callback for a cancellation, and the context of all effects."""
_SECONDS_AFTER_WAIT = 5.0
"""After an attempt has waited for a person, it has at least this many seconds (or its whole time limit, if that is shorter) to repeat its
calls and to make the call that was decided."""
_CANCELLED = AttemptResult(error=BodyError(error_code="cancelled", message="The run was cancelled."))

Jitter = Callable[[], float]
"""Returns a random number: at least 0, less than 1. A replay gets the same numbers."""


class Worker(Protocol):
    """A worker as a run needs it: one version of its code and its page."""

    @property
    def contract(self) -> Contract: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def approvals(self) -> frozenset[str]: ...
    async def turn(self, tenant: str, seconds: float) -> None:
        """Wait until this tenant may start another body. Raises Overloaded if that takes longer than `seconds`."""
        ...

    async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
        """Start a new body. Its time limit of `timeout` seconds begins with this call."""
        ...


class RunEnvironment(Protocol):
    """What a run needs from the worker service."""

    @property
    def policy(self) -> Policy: ...
    @property
    def artifacts(self) -> Artifacts: ...
    @property
    def settlements(self) -> Settlements: ...
    async def worker(self, worker_id: str, package: str) -> Worker: ...
    def reporter(self, header: Execution, accepted: AcceptedRequest, contract: Contract) -> LiveRunReporter:
        """The object that reports this run to the observers of this process (RunObserver) and to the run's followers."""
        ...

    def operations(self, run_id: str, tenant: str) -> Iterable[Operation] | None:
        """The operations of a run of this tenant: empty for a run of another tenant, None if the store has no such run (any more)."""
        ...

    def waits(self, run_id: str) -> None:
        """Tell the callers that wait for this run that it now waits for a person."""
        ...


class WorkerRun:
    """One run during one invocation of its execution; each invocation makes a new object."""

    def __init__(self, accepted: AcceptedRequest, worker: Worker, journal: Journal, chance: Jitter, environment: RunEnvironment) -> None:
        self._accepted = accepted
        self._worker = worker
        self._journal = journal
        self._chance = chance
        self._environment = environment
        self._id = journal.header.id
        self._who = party_of(accepted.tenant, worker.contract.worker_id)
        self._calls = Calls(accepted.limits, environment.policy.most.tool_calls)
        self._contract = worker.contract
        self._dying: asyncio.Future[BodyEnd] | None = None
        self._reporter = environment.reporter(journal.header, accepted, worker.contract)
        self._logs: tuple[dict[str, Any], ...] = ()

    async def respond(self) -> Response:
        """Make attempts until one succeeds, no further attempt is allowed, or the run is cancelled. Returns the response. If an earlier run
        whose writes this run must know is not kept any more, no attempt is made, and the response says so."""
        if self._journal.header.epoch == 1:
            self._reporter.began()
        gone = read_earlier(self._calls, self._accepted, self._journal, self._environment.operations)  # before the run's own calls
        self._calls.read(self._journal.operations)
        for at, update in _OPENING.items():
            if self._journal.find(at) is None:
                self._journal.write_first(update)
        if gone is not None:
            return self._response(1, AttemptResult(error=BodyError(error_code="unknown_outcome", message=gone)))
        await carry(self._calls, self._accepted, self._journal)
        number, first = 1, None
        while True:
            outcome = await self._attempt(number)
            self._logs = joined(self._logs, outcome.logs)
            error = outcome.error
            if error is None or not is_retried(error, self._meaning(error), self._contract.retries, number):
                error = error_shown(first, error, self._calls.tries, number)
                return self._response(number, msgspec.structs.replace(outcome, error=error))
            first = first or error
            await self._wait(number, error.retry_after_seconds)
            if self._journal.is_closed(CANCEL_AT):
                return self._response(number, _CANCELLED)
            number += 1

    async def _wait(self, number: int, retry_after: float | None) -> None:
        """Wait until the next attempt may begin, or until the run is cancelled."""
        at = wait_at(number)
        if self._journal.find(at) is None and not self._journal.is_closed(CANCEL_AT):
            seconds = retry_delay(self._contract.retries, number, retry_after, self._chance())
            await self._journal.write(started(at, wait_seconds=seconds))
        await self._journal.until_closed(at, CANCEL_AT)

    # --- one attempt

    async def _attempt(self, number: int) -> AttemptResult:
        """The result of an attempt: the recorded result; without one, the result of a body that runs now. If a person must decide, the body
        is ended, and when the approval is closed it runs again from its start."""
        at = attempt_at(number)
        known = self._journal.find(at)
        if known is not None and known.status not in OPEN:
            return _recorded(known)
        if known is None:
            self._journal.write_first(started(at))
            self._reporter.attempt_began(number)
        began_at = self._journal.clock.now() if known is None else known.started_at
        while True:
            if self._journal.is_closed(CANCEL_AT):
                return await self._closed(number, at, _CANCELLED, began_at)
            outcome = await self._worked(number, at)
            if isinstance(outcome, AttemptResult):
                return await self._closed(number, at, outcome, began_at)
            self._environment.waits(self._id)
            await self._journal.until_closed(outcome.callback, CANCEL_AT)

    async def _worked(self, number: int, at: Identity) -> AttemptResult | ApprovalPlace:
        """Run a body once, from its start. Returns its result, or the approval that the attempt must wait for. If the body cannot start,
        the result is an error."""
        limits, policy = self._accepted.limits, self._environment.policy
        requests = [request_of(op) for op in self._journal.operations if op.sub_type == REQUEST]
        used_ms = max((request.used_ms for request in requests if request.attempt == number), default=0)
        timeout = max(limits.timeout_seconds - used_ms / 1000, min(limits.timeout_seconds, _SECONDS_AFTER_WAIT))
        try:
            inputs = await self._environment.artifacts.resolved(self._accepted.tenant, self._accepted.request.inputs)
            if problems := await problems_of(self._contract.takes, inputs, self._who):
                return AttemptResult(error=BodyError(error_code="schema_mismatch", message=f"The inputs do not fit: {told_of(problems)}."))
            await self._worker.turn(self._accepted.tenant, timeout)
            if self._journal.is_closed(CANCEL_AT):
                return _CANCELLED
            state = AttemptState(number=number, time=AttemptTime(timeout, used_ms))
            body = await self._worker.body(limits, timeout, self._accepted.tenant)
        except HoldfastError as unavailable:
            return AttemptResult(error=BodyError(error_code=unavailable.code, message=str(unavailable)))
        artifacts, tenant = self._environment.artifacts, self._accepted.tenant
        attempt = Attempt(state, at, tenant, self._gateway(state), self._journal, artifacts, self._reporter, policy.most)
        self._reporter.begins(number, requests)
        rest = self._journal.find(wait_at(number - 1))
        contract = self._contract if limits is self._contract.limits else msgspec.structs.replace(self._contract, limits=limits)
        now = (None if rest is None else rest.ended_at) or self._journal.header.started_at
        order = order_of(self._id, number, contract, inputs, self._worker.tools, now, timeout)
        outcome = await attempt.run(body, order, policy.grace_seconds)
        self._dying = attempt.dying
        return outcome

    def _gateway(self, state: AttemptState) -> Gateway:
        policy, clock, settlements = self._environment.policy, self._journal.clock, self._environment.settlements
        return Gateway(self._terms(), self._journal, self._calls, self._worker.tools, policy, clock, state, settlements)

    def _terms(self) -> CallTerms:
        accepted = self._accepted
        return CallTerms(
            run_id=self._id,
            family=accepted.family,
            tenant=accepted.tenant,
            worker_id=self._contract.worker_id,
            requested_by=accepted.requested_by,
            limits=accepted.limits,
            egress=self._contract.egress,
            approvals=self._worker.approvals | frozenset(self._contract.approvals_required) | self._environment.policy.approvals,
            reporter=self._reporter,
            budgets=accepted.budgets,
            payer=self._payer(),
            restarts=accepted.again is not None,
        )

    def _payer(self) -> Payer:
        accepted, labels = self._accepted, self._accepted.labels
        return Payer(
            run_id=self._id,
            tenant=accepted.tenant,
            worker_id=self._contract.worker_id,
            lineage=accepted.lineage,
            pipeline=labels.pipeline or "",
            node=labels.node or "",
        )

    async def _closed(self, number: int, at: Identity, outcome: AttemptResult, began_at: int) -> AttemptResult:
        """Check the outputs of an attempt, write its end, and return its result. If the attempt failed, this waits until its body is dead:
        only then may the next attempt begin."""
        environment, tenant = self._environment, self._accepted.tenant
        checked = await checked_outputs(outcome, self._contract, environment.artifacts, tenant, environment.policy.inline_artifact_bytes)
        if checked.error is not None and self._dying is not None:  # the body had returned outputs, and they do not fit
            await self._dying
        if self._calls.abandoned():
            policy, clock = environment.policy, self._journal.clock
            records = CallRecords(self._terms(), self._journal, self._calls, policy, clock, environment.settlements)
            await settle_lost_reads(self._calls, records)
        error = checked.error
        if error is not None:
            text = msgspec.json.encode(checked).decode()
            await self._journal.write(at.update(Action.FAIL, error=Failure(error.message, error.error_code, text)))
        elif self._journal.has_updates:  # written together with the run's end; a run without any update leaves only its response
            self._journal.write_later(succeeded(at, msgspec.json.encode(checked).decode()))
        status = ResponseStatus.OK if error is None else self._meaning(error).status
        told = None if error is None else (error.error_code, error.message)
        self._reporter.attempt_ended(number, began_at, checked.duration_ms, status.value, told, checked.isolation)
        return checked

    # --- the response

    def _meaning(self, error: BodyError) -> Meaning:
        codes = self._environment.policy.retry_codes.get(self._contract.worker_id)
        return meaning_of(
            error.error_code, deployed=self._contract.errors, retry_codes=codes, needs_human=error.needs_human, retryable=error.retryable
        )

    def _response(self, number: int, outcome: AttemptResult) -> Response:
        """The response of a run whose last attempt, `number`, had this result."""
        accepted, error = self._accepted, outcome.error
        status, told = ResponseStatus.OK, None
        if error is not None:
            meaning = self._meaning(error)
            status, message, details = meaning.status, error.message, error.details
            lost = sorted({attempted.intent.tool for attempted in self._calls.unresolved()})
            if lost and error.error_code != "unknown_outcome":  # for example if the run was cancelled: then no person is asked
                message = f"{message} It is unknown whether the last call of {', '.join(lost)} took place."
                details = {"unknown_outcome": lost} if details is None else details
            told = ResponseError(
                error_code=error.error_code,
                message=message,
                retryable=meaning.retryable,
                retry_after_seconds=None if error.retry_after_seconds is None else min(error.retry_after_seconds, LONGEST_DELAY),
                details=details,
            )
        usage, partial = self._calls.usage, error is not None and error.partial is not None
        took = self._journal.clock.now() - self._journal.header.started_at
        fields = {
            "worker_id": self._contract.worker_id,
            "attempt": number,
            "duration_ms": took,
            "status": status.value,
            "error_code": None if error is None else error.error_code,
            "version": self._contract.version,
            "run_id": self._id,
            "tenant": accepted.tenant,
            **self._reporter.run.trace,
            "isolation": outcome.isolation,
            "tool_calls": self._calls.count,
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
                usage=run_usage(usage, self._calls.count),
                isolation=outcome.isolation,
                partial=partial,
                log_fields=log_fields(self._contract.log_fields, fields, self._logs),
            ),
        )


async def run(accepted: AcceptedRequest, context: AsyncDurableContext, journal: Journal, environment: RunEnvironment) -> Response:
    """The handler of every worker: run the worker for the accepted request, and return the response. Raises InvalidParameter if the request
    does not belong to this execution."""
    header = journal.header
    if (accepted.tenant, accepted.request.worker_id) != (header.tenant, header.function):
        raise InvalidParameter("This execution was not accepted as a run: its request is of another tenant, or for another worker.")
    try:
        worker = await environment.worker(header.function, accepted.package)
    except WorkerChanged as changed:
        return _not_run(header, accepted, changed)
    contract, request = worker.contract, accepted.request
    # The limits are those of the contract that the run is pinned to, even if the stored request has others.
    limits = tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)
    accepted = msgspec.structs.replace(accepted, limits=limits)
    return await WorkerRun(accepted, worker, journal, context.random, environment).respond()


def _not_run(header: Execution, accepted: AcceptedRequest, changed: WorkerChanged) -> Response:
    """The response of a run whose code on disk changed after the run was accepted. The changed code is not run."""
    meaning = meaning_of(changed.code)
    return Response(
        run_id=header.id,
        worker_id=header.function,
        version=accepted.version,
        status=meaning.status,
        error=ResponseError(error_code=changed.code, message=str(changed), retryable=meaning.retryable),
        observability=Observability(trace_id=accepted.trace_id, span_id=accepted.span_id, attempt=0),
    )


_responses = msgspec.json.Encoder()


def text_of(response: Response) -> str:
    """The response as JSON text: the result of the run's execution."""
    return _responses.encode(response).decode()


def _recorded(known: Operation) -> AttemptResult:
    text = known.result if known.error is None else known.error.data
    return json_structs.decoded(text or "{}", AttemptResult)
