"""Accepting a request: what the worker service checks and decides before it starts the run's execution.

read → trace id → served version → limits → inputs checked → accepted request → estimate → charges → engine.start (service.py)
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from holdfast.contract.checking import MAX_DEPTH, told_of
from holdfast.contract.codes import meaning_of
from holdfast.contract.limits import tighten
from holdfast.contract.notes import meant
from holdfast.contract.protocol import Observability, Response, ResponseError, WorkerRequest, request_from
from holdfast.contract.refusals import InvalidRequest, Overloaded
from holdfast.contract.terms import Contract, RateLimit, RunLimits
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.hosts.evaluator.schema_check import CheckTooCostly
from holdfast.hosts.evaluator.schema_check import problems as problems_of
from holdfast.model import codec
from holdfast.model.charges import Charge
from holdfast.model.errors import ExecutionAlreadyStarted, InvalidParameter, LimitReached, PayloadNotJson, PayloadTooLarge
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, Execution, Terms
from holdfast.model.graphs import GraphText
from holdfast.model.ids import new_span_id, new_trace_id
from holdfast.model.operations import Kind
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.counters import capped, day_of, key_part, utc
from holdfast.workers.logs import log_fields
from holdfast.workers.policy import Policy
from holdfast.workers.run import Worker
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.seam import ToolFailed

_LARGE = 256 * 1024
_SIMILAR = 200
"""The most worker ids that are compared with an unknown id, to find a similar one."""
_MADE_NAME: Final = re.compile(r"[0-9a-f]{40}-\d+")
_UNDO_SECONDS = 30 * 86_400
"""How many seconds a pipeline's execution may continue after its time limit, to undo its nodes and perhaps to ask a person."""


class ServedVersion(Protocol):
    """One version of a worker or a pipeline that this process serves to new runs."""

    @property
    def worker(self) -> Worker: ...
    @property
    def package(self) -> str: ...
    @property
    def kind(self) -> Kind:
        """Whether it is a worker or a pipeline."""
        ...

    @property
    def graph_text(self) -> GraphText | None:
        """The graph of a pipeline, which the store keeps with its runs; None for a worker."""
        ...


def read_request(asked: Mapping[str, Any]) -> WorkerRequest | Response:
    """The WorkerRequest whose members are `asked` (Python values); or, if they do not form a valid request, the response that refuses the
    request."""
    try:
        return request_from({key: dict(value) if isinstance(value, Mapping) else value for key, value in asked.items()})
    except InvalidRequest as refused:
        error = refused
    except (msgspec.ValidationError, TypeError, ValueError) as odd:  # values that JSON cannot hold, such as a key that is not a text
        error = InvalidRequest(f"The request does not fit: {odd}.")
    unknown = WorkerRequest(worker_id=str(asked.get("worker_id", "")), inputs={})
    return refusal(unknown, error.error_code, str(error), error.details)


def traced(request: WorkerRequest) -> WorkerRequest:
    """The request, with a new trace id if it has none."""
    if request.trace.trace_id is not None:
        return request
    return msgspec.structs.replace(request, trace=msgspec.structs.replace(request.trace, trace_id=new_trace_id()))


def not_served(worker_id: str, known: Iterable[str]) -> InvalidRequest:
    """The refusal of a request for a worker that is not served. It names a similar id, if there is one among the first 200 of `known`."""
    near = meant(worker_id, islice(known, _SIMILAR))
    return InvalidRequest(f"No worker {worker_id!r:.100} is served here.{near}", error_code="worker_not_found")


def served_version(versions: dict[str, ServedVersion] | None, request: WorkerRequest, known: Iterable[str] = ()) -> ServedVersion:
    """The version of a worker that a request gets: the version that the request names, else the version that was served last. `versions`
    are the served versions of the worker, None if there are none. Raises InvalidRequest if the worker, or the named version, is not served.
    `known` has ids of served workers, of which the error may name a similar one (`not_served`)."""
    if not versions:
        raise not_served(request.worker_id, known)
    if request.version is None:
        return next(reversed(versions.values()))
    if request.version not in versions:
        known = ", ".join(versions)
        raise InvalidRequest(
            f"{request.worker_id} is served here in version {known}, not in {request.version!r:.50}.", error_code="version_not_found"
        )
    return versions[request.version]


async def checked_inputs(request: WorkerRequest, contract: Contract, tenant: str, artifacts: Artifacts) -> str:
    """The inputs as JSON text, after the contract's input schema has accepted them. The check sees the values of artifacts that the inputs
    refer to; the text has only the references. Raises InvalidRequest if the inputs are refused or cannot be checked now, and
    ArtifactsUnreachable if a bucket does not answer."""
    text = _inputs_text(request)
    await _yield_if_large(text)
    try:
        await artifacts.check_together(tenant, request.inputs)
        inputs = await artifacts.resolved(tenant, request.inputs)
    except ToolFailed as large:
        raise InvalidRequest(str(large), error_code=large.code) from None
    except ArtifactMissing as missing:
        raise InvalidRequest(str(missing), error_code="artifact_not_found") from None
    except PayloadNotJson:
        message = (
            "An input refers to an artifact that is not JSON, or has too many values or levels. "
            "Pass its reference without `$artifact`; the worker can open it."
        )
        raise InvalidRequest(message) from None
    try:
        problems = await problems_of(contract.takes, inputs, party_of(tenant, contract.worker_id))
    except (CheckTooCostly, Overloaded) as refused:
        raise InvalidRequest(str(refused), error_code=refused.code) from None
    if problems:
        raise InvalidRequest(f"The inputs do not fit: {told_of(problems)}.", details=problems)
    await _yield_if_large(text)
    return text


async def _yield_if_large(inputs: str) -> None:
    """If the inputs are large, let other asyncio tasks run now. One pass over large inputs takes as long as many small requests, so there
    must be such a pause between two passes."""
    if len(inputs) > _LARGE:
        await asyncio.sleep(0)


def _inputs_text(request: WorkerRequest) -> str:
    """The inputs as JSON text. Two requests with the same idempotency key are the same request if these texts are equal. Raises
    InvalidRequest if the inputs are not JSON, are too large, or are nested too deep, or if the key or the user has characters that cannot
    be stored."""
    try:
        codec.storable(f"{request.idempotency_key}{request.user}")
        text = codec.dumps(request.inputs)
    except (PayloadNotJson, InvalidParameter) as odd:
        raise InvalidRequest(f"The request is not JSON: {odd}") from None
    try:
        codec.fitting(text, "Execution input")  # check this before any other pass over the inputs
    except PayloadTooLarge as large:
        raise InvalidRequest(f"The request cannot be stored: {large}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and codec.too_deep(request.inputs, MAX_DEPTH):
        raise InvalidRequest(f"The inputs are nested more than {MAX_DEPTH} levels deep.")
    return text


def limits_of(request: WorkerRequest, contract: Contract) -> RunLimits:
    """The contract's limits, tightened by the constraints of the request. Raises InvalidRequest if a constraint is wider than the
    contract."""
    return tighten(contract.limits, request.constraints, run_timeout_seconds=request.run_timeout_seconds)


def terms_of(limits: RunLimits, kind: Kind, retention_days: int) -> Terms:
    """The terms of a run's execution: its time limit, and how long it is kept. If a pipeline has a time limit, its execution gets 30 days
    more, because a pipeline that reaches its limit still undoes what it did. MAX_TIMEOUT_SECONDS is the longest time limit, and that of a
    run without one."""
    seconds = limits.run_timeout_seconds
    if seconds is not None and kind is Kind.PIPELINE:
        seconds += _UNDO_SECONDS
    timeout = MAX_TIMEOUT_SECONDS if seconds is None else max(1, round(min(seconds, MAX_TIMEOUT_SECONDS)))
    return Terms(timeout_seconds=timeout, retention_days=retention_days)


def first_run(request: WorkerRequest, served: ServedVersion, limits: RunLimits, caller: Caller, sampled: bool | None) -> AcceptedRequest:
    """The accepted request of a run that has no earlier runs: the first run of its idempotency key, or a run without a key."""
    contract = served.worker.contract
    return AcceptedRequest(
        request=request,
        version=contract.version,
        limits=limits,
        package=served.package,
        tenant=caller.tenant,
        # Never the request's `user`, which any caller can write: else a caller could decide its own request.
        requested_by=caller.principal,
        family=_family(request.idempotency_key, caller.tenant, contract.worker_id),
        trace_id=request.trace.trace_id or new_trace_id(),
        span_id=new_span_id(),
        sampled=sampled,
        log_fields=contract.log_fields,
    )


def after_run(accepted: AcceptedRequest, found: AcceptedRequest | None) -> AcceptedRequest:
    """The accepted request `accepted`, with the earlier runs that `found` names (`found.before`) added to its own. The run of `found`
    itself is not added. `found` is the accepted request of the run that has the idempotency key now; None if the execution that has the key
    is not a run: then nothing is added."""
    before = () if found is None else found.before
    return msgspec.structs.replace(accepted, before=tuple(dict.fromkeys((*accepted.before, *before))))


def next_run(accepted: AcceptedRequest, run_id: str) -> AcceptedRequest:
    """`accepted`, changed for the next run of the same family, which comes after the run `run_id` and inherits its receipts."""
    return msgspec.structs.replace(accepted, link=accepted.link + 1, before=(*accepted.before, run_id))


def name_of(accepted: AcceptedRequest) -> str | None:
    """The name of the run's execution, by which a second request with the same idempotency key finds the run; None for a request without a
    key."""
    return None if accepted.request.idempotency_key is None else f"{accepted.family[:40]}-{accepted.link}"


def called(execution: Execution) -> str:
    """What an execution is called in texts for people: its name; but its id, if the name looks like one that `name_of` made from an
    idempotency key."""
    return execution.id if is_made(execution.name) else execution.name


def is_made(name: str) -> bool:
    """Whether the name of an execution looks like one that `name_of` made from an idempotency key."""
    return _MADE_NAME.fullmatch(name) is not None


def _family(key: str | None, tenant: str, worker_id: str) -> str:
    return secrets.token_hex(32) if key is None else sha256(f"{tenant}\0{worker_id}\0{key}".encode()).hexdigest()


def rate_of(policy: Policy, contract: Contract) -> RateLimit | None:
    """The rate limit of a worker: the operator's, else that of its contract; None if neither has one."""
    return policy.rate_limits.get(contract.worker_id) or contract.rate_limit


def charges_of(accepted: AcceptedRequest, policy: Policy, rate: RateLimit | None, now: int) -> tuple[Charge, ...]:
    """The charges of a new run: one on its worker's rate limit, if `rate` is given, and one on the tenant's runs of the UTC day, if the
    operator has set a cap on them. For a queued run `rate` is None, because its queue applies the rate limit."""
    charges, worker_id = [], accepted.request.worker_id
    if rate is not None:
        who = accepted.tenant if rate.per == "tenant" else f"{accepted.tenant}\0{accepted.request.user or accepted.requested_by}"
        charges.append(Charge(f"rate/{worker_id}/{key_part(who)}", 1, rate.count, now + int(rate.per_seconds * 1000)))
    runs = policy.caps_of(accepted.tenant).runs
    if runs is not None:
        day, until = day_of(now)
        charges.append(Charge(f"day/{day}/{key_part(accepted.tenant)}/runs", 1, runs, until))
    return tuple(charges)


@contextlib.contextmanager
def start_refusals(key: str | None) -> Iterator[None]:
    """Inside this block, two refusals of the engine become InvalidRequest: the idempotency key `key` was used before with other inputs, and
    the request cannot be stored. Other errors, such as LimitReached, are not changed."""
    try:
        yield
    except ExecutionAlreadyStarted:
        cure = "Use another key, or send the inputs of the first request."
        message = f"The idempotency key {key!r:.100} was used before, with other inputs. {cure}"
        raise InvalidRequest(message, error_code="idempotency_conflict") from None
    except (PayloadTooLarge, InvalidParameter, RecursionError, UnicodeError) as odd:
        raise InvalidRequest(f"The request cannot be stored: {odd}") from None


# --- the response to a request that is refused


def refusal_of(request: WorkerRequest, error: InvalidRequest | LimitReached, contract: Contract | None, now: int) -> Response:
    """The response to a refused request, with the log fields of its worker's contract if `contract` is given. For a LimitReached, the
    response says in how many seconds, counted from `now`, the caller may try again."""
    if isinstance(error, InvalidRequest):
        response = refusal(request, error.error_code, str(error), error.details)
    else:
        seconds = max(0.0, (error.until - now) / 1000)
        details = capped(error) if error.key.startswith("day/") else None
        response = refusal(request, "rate_limited", _limit_message(error), details, retry_after_seconds=seconds)
    if contract is None:
        return response
    code = None if response.error is None else response.error.error_code
    known = {"worker_id": request.worker_id, "attempt": 0, "duration_ms": 0, "status": response.status.value, "error_code": code}
    fields = log_fields(contract.log_fields, {**known, **msgspec.to_builtins(request.trace)})
    return msgspec.structs.replace(response, observability=msgspec.structs.replace(response.observability, log_fields=fields))


def refusal(request: WorkerRequest, code: str, message: str, details: Any = None, retry_after_seconds: float | None = None) -> Response:
    """The response to a request that started no run: an error with this code and message."""
    meaning = meaning_of(code)
    return Response(
        run_id="",
        worker_id=request.worker_id,
        version=request.version or "",
        status=meaning.status,
        error=ResponseError(
            error_code=code, message=message, retryable=meaning.retryable, retry_after_seconds=retry_after_seconds, details=details or None
        ),
        observability=Observability(trace_id=request.trace.trace_id or new_trace_id(), attempt=0),
    )


def _limit_message(limit: LimitReached) -> str:
    if limit.key.startswith("rate/"):
        return f"The worker's rate limit allows {limit.limit} runs in a period, and they are used up. Try again at {utc(limit.until)}."
    return f"The tenant has used its {limit.limit} runs of this UTC day. Try again at {utc(limit.until)}."
