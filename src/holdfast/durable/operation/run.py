"""run: accept a request to a worker, start its run as an execution of its own, and wait for its response.

A refused request fails the operation in the write that starts it. A run that a rate refuses is asked for again when the rate allows it:
each time is an operation of its own, after a wait.
"""

from __future__ import annotations

import contextlib
import math
from hashlib import blake2b
from typing import Final

import msgspec

from holdfast.durable.identifier import Identity, operation_id
from holdfast.durable.operation.wait import wait
from holdfast.durable.plan import Accept, Lookup, Plan, Record, Suspend
from holdfast.durable.run_response import RunResponse, WorkerFailed, response_from, without_response
from holdfast.durable.scope import Scope
from holdfast.model import json_structs
from holdfast.model.operations import RUN, Action, Failure, Operation, Order, Status, SubType, Type
from holdfast.model.run_port import RunAsked
from holdfast.model.transitions import MAX_WAIT_SECONDS

MOST_ASKED: Final = 100
"""How often a run is asked for if a rate refuses it; then its response is `rate_limited`."""
_MOST_SPREAD: Final = 10
_LIMIT: Final = "LimitReached"
_CODES: Final = {"ResourceNotFoundException": "worker_not_found", _LIMIT: "rate_limited"}
"""The codes of runs that did not begin, by the type of the failure."""


def run(at: Identity, scope: Scope, asked: RunAsked, *, check: bool) -> Plan[RunResponse]:
    """The response of a run. With `check`, a response that is not `ok` is raised as WorkerFailed."""
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
    """Ask for the run once, and wait until the operation is over."""
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
    """The identity of another operation of the same call: it takes no number of the context."""
    return Identity(operation_id(at.operation_id, number), kind, sub_type, at.parent_id, at.name)


def _pause(seen: Operation, until: int, number: int) -> int:
    """Seconds until the run is asked for again. If many runs were refused at the same moment, each asks again at another moment, and the
    spread grows with each refusal."""
    seconds = max(1.0, (until - (seen.ended_at or seen.started_at)) / 1000)
    chance = int.from_bytes(blake2b(seen.id.encode(), digest_size=4).digest(), "big") / (1 << 32)
    return min(MAX_WAIT_SECONDS, math.ceil(seconds * (1 + chance * min(number - 1, _MOST_SPREAD))))


def refused_until(seen: Operation) -> int | None:
    """When a run that a rate limit refused may be asked for again; None if no rate limit refused it."""
    if seen.error is None or seen.error.type != _LIMIT:
        return None
    return json_structs.decoded(seen.error.data or "{}", _Limit).until


class _Limit(msgspec.Struct):
    """What the failure of an operation says about the limit that refused it."""

    until: int = 0


def response_in(seen: Operation, asked: RunAsked) -> RunResponse:
    """The response that a closed operation has, also if the run ended without one."""
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
    """The error that says that a run did not end well."""
    error = response.error
    told = f"{response.worker_id} ended with {response.status}" if error is None else f"{response.worker_id}: {error.message}"
    where = f" (run {response.run_id})" if response.run_id else ""
    code = response.status if error is None else error.error_code
    return WorkerFailed(f"{told} [{code}]{where}", data=msgspec.json.encode(response).decode())
