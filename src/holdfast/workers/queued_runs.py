"""Queued runs: what a worker's contract says about the lane of its runs, and what a run reports to its lane when it ends.

The rate limit of the contract is charged when a queued run is admitted, and not when it is accepted. All lanes of a worker share this rate
limit, so a caller cannot avoid it with another key or another queue. At admission a run is counted with the units that its caller gave,
else with all tokens that its limits allow. When the run ends, it reports how many tokens it used, whether it failed, and how long its lane
should cool down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.contract.terms import RateLimit
from holdfast.engine.enqueues import redriven
from holdfast.model.admission import Enqueue
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import Queued
from holdfast.model.rates import Rate
from holdfast.model.starts import Start
from holdfast.model.summary import PARTIAL, Summary, error_word
from holdfast.store.seam import ExecutionStore, QueueStore
from holdfast.workers.accept import ServedVersion, rate_of
from holdfast.workers.accepted_request import AcceptedRequest, accepted_from
from holdfast.workers.earlier_runs import check_kept
from holdfast.workers.policy import Policy
from holdfast.workers.run import text_of

Q = TypeVar("Q", Enqueue, Queued)
_CANCELLED: Final = "cancelled"
_RATE_LIMITED: Final = "rate_limited"


def placed(queue: Q, accepted: AcceptedRequest, rate: RateLimit | None) -> Q:
    """The place that a run asks for in its queue, with the rate limit `rate`. If the rate limit holds for each user separately, the run is
    counted for its user, whatever the queue's key is. In that case, if the caller gave no key, the user becomes the key. If the caller gave
    no units, the most tokens of the run's limits are its units (0 if they set no limit)."""
    user = (accepted.request.user or accepted.requested_by) if rate is not None and rate.per == "user" else None
    of_lane = lane_rate(rate)
    rates = () if of_lane is None else (of_lane,)
    key = user if queue.key is None else queue.key
    return msgspec.structs.replace(queue, key=key, user=user, units=queue.units or accepted.limits.max_tokens or 0, rates=rates)


def lane_rate(rate: RateLimit | None) -> Rate | None:
    """A worker's rate limit in the form in which lanes store it; None if `rate` is None."""
    return None if rate is None else Rate(rate.count, max(1, math.ceil(rate.per_seconds)), rate.count)


def rate_now(versions: Mapping[str, ServedVersion], policy: Policy) -> RateLimit | None:
    """The rate limit of a worker's queued runs; None: no limit. All versions of a worker share lanes. So one rate limit holds for all of
    them: the operator's, else that of the version that was served last."""
    return rate_of(policy, next(reversed(list(versions.values()))).worker.contract)


def set_rates(store: QueueStore, served: Mapping[str, Mapping[str, ServedVersion]], policy: Policy) -> bool:
    """Set the present rate limits of these workers on their lanes. Returns whether at least one lane had another rate limit before.
    Blocks."""
    changed = [store.set_rate(worker, lane_rate(rate_now(versions, policy))) for worker, versions in list(served.items())]
    return any(changed)


def run_again(accepted: AcceptedRequest, run_id: str) -> AcceptedRequest:
    """The accepted request of the new run that replaces the parked run `run_id`. The new run has the same name, and inherits the receipts
    of the parked run."""
    return msgspec.structs.replace(accepted, before=(*accepted.before, run_id))


def redriven_run(store: ExecutionStore, header: Execution, identity: str, now: int) -> Start:
    """The start that enqueues a parked run again, under its name and with the new id `identity`. The new run inherits the receipts of the
    parked one. The worker does not need to be served in this process. Raises RestartRefused if the store has removed an earlier run whose
    writes the new run must know, and InvalidParameter if the run is not parked or was started again already.
    """
    accepted = accepted_from(store.input(header.id))
    check_kept(store, (*accepted.before, header.id), accepted.tenant)
    payload = msgspec.json.encode(run_again(accepted, header.id)).decode()
    return redriven(store, header, identity, now, payload=payload)


def outcome_of(response: Response, now: int, attempts: int | None = None) -> Outcome:
    """The outcome of the execution of a run that ended with this response. If the run failed and was not cancelled, `parked` is true in the
    outcome: a queue that parks failed runs then parks it. `attempts` is how many attempts the contract allows; None if that is not
    known."""
    tokens, error = response.observability.usage.tokens, response.error
    failed = response.status is not ResponseStatus.OK and (error is None or error.error_code != _CANCELLED)
    cool_until = None
    if error is not None and error.error_code == _RATE_LIMITED and error.retry_after_seconds is not None:
        cool_until = now + math.ceil(error.retry_after_seconds * 1000)
    return Outcome(
        OutcomeStatus.SUCCEEDED,
        text_of(response),
        parked=failed,
        used=tokens.input + tokens.output,
        cool_until=cool_until,
        summary=summary_of(response, attempts),
    )


def summary_of(response: Response, attempts: int | None = None) -> Summary:
    """The summary by which people find a run. If the run failed with partial outputs, its outcome is `partial`."""
    told, error = response.observability, response.error
    return Summary(
        outcome=PARTIAL if told.partial else response.status.value,
        error_code=None if error is None else error_word(error.error_code),
        cost=nanos_of(told.usage.cost_usd),
        attempt=told.attempt,
        attempts=attempts,
    )
