"""run: ask for a run of a worker, which is an execution of its own, and wait for its response.

If the request is refused, one write starts and fails the operation. If a rate limit refused the request, the run is requested again when
the limit allows it, at most `MOST_ASKED` times. Each further request is an operation of its own, and so is the wait before it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from holdfast.durable import argument_checks
from holdfast.durable.identifier import Identity, operation_id
from holdfast.durable.operation.wait import wait
from holdfast.durable.plan import Accept, Lookup, Plan, Record, Suspend
from holdfast.durable.run_arguments import run_asked
from holdfast.durable.run_response import RunResponse, WorkerFailed, response_from, without_response
from holdfast.durable.scope import Scope
from holdfast.model import json_structs
from holdfast.model.operations import RUN, Action, Failure, Operation, Order, Status, SubType, Type
from holdfast.model.run_port import RunAsked
from holdfast.model.transitions import MAX_WAIT_SECONDS

MOST_ASKED: Final = 100
"""The most requests for one run. If rate limits refuse all of them, the response has the error code `rate_limited`."""
_MOST_SPREAD: Final = 10
_LIMIT: Final = "LimitReached"
_CODES: Final = {"ResourceNotFoundException": "worker_not_found", _LIMIT: "rate_limited"}
"""For a run that did not begin: the error code of its response, by the type of the failure."""


def run_call(
    scope: Scope,
    worker: str,
    inputs: Mapping[str, Any],
    name: str | None,
    version: str | None,
    constraints: Mapping[str, Any] | None,
    check: bool,
) -> tuple[Identity, Plan[RunResponse]]:
    """Check the arguments of `context.run`. Returns the identity of the call, and its plan."""
    asked = run_asked(worker, inputs, version, constraints)
    at = scope.next_identity(Type.CHAINED_INVOKE, RUN, argument_checks.name(name, "run") or asked.worker_id)
    return at, run(at, scope, asked, check=check)


def run(at: Identity, scope: Scope, asked: RunAsked, *, check: bool) -> Plan[RunResponse]:
    """Request a run, wait until it has ended, and return its response. If the request is refused, the response has an error that says so.
    With `check`, this raises WorkerFailed if the status of the response is not `ok`."""
    place, number = at, 1
    while True:
        seen: Operation = yield from _over(place, asked)
        until = refused_until(seen)
        if until is None or number == MOST_ASKED:
            break
        yield from wait(_beside(at, 2 * number - 1, Type.WAIT, SubType.WAIT.value), _pause(seen, until, number))
        place, number = _beside(at, 2 * number, Type.CHAINED_INVOKE, RUN), number + 1
    scope.passed(seen)
    response = response_in(seen, asked)
    if check and response.status != "ok":
        raise failure_of(response)
    return response


def _over(at: Identity, asked: RunAsked) -> Plan[Operation]:
    """Request the run once, unless the history has this request already, and wait until the operation of the request has ended. Returns
    that operation."""
    seen: Operation | None = yield Lookup(at)
    if seen is None:
        accepted: Order | Failure = yield Accept(at, asked)
        refused = accepted if isinstance(accepted, Failure) else None
        order = accepted if isinstance(accepted, Order) else None
        yield Record(at.update(Action.START, function_name=asked.worker_id, order=order, error=refused))
        seen = yield Lookup(at)
    while seen is None or seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)
    return seen


def _beside(at: Identity, number: int, kind: Type, sub_type: str) -> Identity:
    """The identity of a further operation (a wait or another request) of the call `at`. Its id is made from the id of the call and from
    `number`, so it takes no number in the context's order of calls."""
    return Identity(operation_id(at.operation_id, number), kind, sub_type, at.parent_id, at.name)


def _pause(seen: Operation, until: int, number: int) -> int:
    """How many seconds to wait until the run is requested again. `seen` is the refused request, `until` the time until which the limit
    refuses (in milliseconds since the epoch), `number` how often it has refused this run. From the second refusal on, the wait is longer by
    a part that differs from request to request, so that runs which were refused together are not requested again together."""
    seconds = max(1.0, (until - (seen.ended_at or seen.started_at)) / 1000)
    chance = int.from_bytes(blake2b(seen.id.encode(), digest_size=4).digest(), "big") / (1 << 32)
    return min(MAX_WAIT_SECONDS, math.ceil(seconds * (1 + chance * min(number - 1, _MOST_SPREAD))))


def refused_until(seen: Operation) -> int | None:
    """The time from which on a refused run may be requested again, in milliseconds since the epoch. `seen` is the operation of the request.
    None if no rate limit refused the request."""
    if seen.error is None or seen.error.type != _LIMIT:
        return None
    return json_structs.decoded(seen.error.data or "{}", _Limit).until


class _Limit(msgspec.Struct):
    """The data of a failure that a rate limit caused: until when the limit refuses, in milliseconds since the epoch."""

    until: int = 0


def response_in(seen: Operation, asked: RunAsked) -> RunResponse:
    """The response of the run whose operation `seen` has ended. If the run did not begin, or ended without a response, this makes a
    response with an error code such as `timeout`."""
    error = seen.error
    if seen.status is Status.SUCCEEDED:
        return response_from(seen.result or "{}")
    if seen.status is Status.TIMED_OUT:
        return without_response(asked.worker_id, asked.version, "timeout", "The run took longer than run_timeout_seconds.")
    if seen.status is Status.STOPPED:
        return without_response(asked.worker_id, asked.version, "cancelled", "The run was cancelled.")
    if error is not None and error.data is not None and error.type not in _CODES:
        with contextlib.suppress(msgspec.DecodeError):  # an execution that failed for another reason may have any data
            return response_from(error.data)
    code = _CODES.get((error and error.type) or "", "worker_crashed")
    return without_response(asked.worker_id, asked.version, code, (error and error.message) or "The run failed.")


def failure_of(response: RunResponse) -> WorkerFailed:
    """The WorkerFailed for a response whose status is not `ok`."""
    error = response.error
    told = f"{response.worker_id} ended with {response.status}" if error is None else f"{response.worker_id}: {error.message}"
    where = f" (run {response.run_id})" if response.run_id else ""
    code = response.status if error is None else error.error_code
    return WorkerFailed(f"{told} [{code}]{where}", data=msgspec.json.encode(response).decode())
