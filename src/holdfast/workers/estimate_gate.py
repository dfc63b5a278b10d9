"""The gate before a run begins: it refuses a run whose estimate is above a cap, and gives the estimated cost to queues that limit the cost
of their waiting runs.

A package above this one makes the estimates (holdfast.costs.estimates), because a pipeline's estimate needs its graph.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from holdfast.contract.terms import RateLimit
from holdfast.engine.engine import Engine
from holdfast.model.admission import Enqueue
from holdfast.model.operations import Queued
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.accept import ServedVersion, name_of
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.queued_runs import placed

Q = TypeVar("Q", Enqueue, Queued)


class RunEstimates(Protocol):
    """Estimates what a run may cost."""

    @property
    def refuses(self) -> bool:
        """Whether the operator wants runs to be refused if their estimate is above a cap (`policy.estimate` is not `none`)."""
        ...

    def check(self, served: ServedVersion, accepted: AcceptedRequest, now: int) -> None:
        """Raise InvalidRequest with `estimate_exceeded` if the run's estimate is above its caller's cap, or above what is left of the
        tenant's daily caps, or if there is such a cap and the estimate is not known."""
        ...

    def money(self, served: ServedVersion, accepted: AcceptedRequest) -> int:
        """What a run usually costs, in billionths of a dollar; 0 if that is not known. A queue that limits cost adds up these amounts of
        its waiting runs."""
        ...


class EstimateGate:
    """Refuses new runs of one worker service whose estimate is above a cap, and gives estimates to queues that limit cost."""

    def __init__(self, engine: Engine, estimates: RunEstimates | None) -> None:
        self._engine = engine
        self._estimates = estimates

    async def check(self, served: ServedVersion, accepted: AcceptedRequest) -> None:
        """Raise InvalidRequest if the operator wants runs to be refused by their estimate, and the estimate of this new run is above a cap,
        or is not known although there is a cap. If the request's idempotency key already has a run, nothing is checked."""
        estimates, store = self._estimates, self._engine.store
        if estimates is None or not estimates.refuses:
            return
        name = name_of(accepted)
        if name is not None and store.find_named(served.worker.contract.worker_id, name) is not None:
            return
        await in_thread(Purpose.STORE, estimates.check, served, accepted, self._engine.clock.now())

    async def placed(self, queue: Q, served: ServedVersion, accepted: AcceptedRequest, rate: RateLimit | None) -> Q:
        """`queue` (the place that a run asks for in a queue), completed with the rate limit `rate`, and with the run's estimated cost if
        the queue limits the cost of its waiting runs."""
        asked = placed(queue, accepted, rate)
        if self._estimates is None:
            return asked
        row = self._engine.store.queue(queue.queue)
        if row is None or row.settings().most_waiting_usd is None:
            return asked
        money = await in_thread(Purpose.STORE, self._estimates.money, served, accepted)
        return msgspec.structs.replace(asked, money=money)
