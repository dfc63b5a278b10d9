"""Costs: what runs have cost, as the ledger has it, and estimates of what a run may cost. A caller of a tenant sees only the costs of that
tenant."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from holdfast.contract.protocol import request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.costs.reports import cost_report, question_of
from holdfast.descriptions.pipeline_view import why_no_view
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import document_reply
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers import accept
from holdfast.workers.run_lookup import find_run

_ASKED: Final = ("run", "by", "since", "until", "tenant", "pipeline", "worker")


class Costs:
    """The handlers of costs."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/cost", self.get, RoutePolicy("GetCost", Needs.VIEW, Reach.HANDLER)),
            Route("POST", "/v1/workers/([^/]+)/estimate", self.estimate, RoutePolicy("EstimateRun", Needs.VIEW, Reach.HANDLER)),
            Route("GET", "/v1/runs/([^/]+)/estimate", self.rest, RoutePolicy("EstimateRest", Needs.VIEW, Reach.HANDLER)),
        ]

    async def get(self, request: Request) -> Reply:
        """What one run and the runs below it have cost (`?run=`), or what the runs of some days have cost (from the day `?since=` to the
        day `?until=`). With `?tenant=`, only the runs of that tenant count; with `?pipeline=` or `?worker=`, only those of that pipeline or
        worker. `?run=` allows no days, pipeline or worker. `?by=` names the fields by which the costs are grouped."""
        asked = question_of({name: request.text(name) for name in _ASKED})
        mine = request.tenant
        if mine is not None and asked.tenant not in (None, mine):
            raise InvalidRequest("This credential sees only the costs of its own tenant. Leave out `tenant`.", error_code="access_denied")
        asked = msgspec.structs.replace(asked, tenant=mine or asked.tenant)
        if mine is not None and asked.run is not None:
            header = await in_thread(Purpose.STORE, self._served.store.find, asked.run)
            if header is not None and (header.tenant or "default") != mine:
                raise ExecutionNotFound(f"There is no run {asked.run}.")
        report = await in_thread(Purpose.STORE, cost_report, self._served.store, asked, self._served.clock.now())
        return document_reply(report.document())

    async def estimate(self, request: Request) -> Reply:
        """Estimate what a run with this request may cost. The body is the request, in the form of POST /v1/workers/ID/invoke. No run is
        started."""
        order = request_from(request.content, worker_id=request.label)
        service = self._served.worker_service
        served = accept.served_version(dict(service.served.get(order.worker_id, {})), order, service.served)
        limits = accept.limits_of(order, served.worker.contract)
        version = served.worker.contract.version
        about = partial(self._served.estimates().of, order.worker_id, order.inputs, version=version, limits=limits, tenant=request.tenant)
        told = await in_thread(Purpose.STORE, about)
        return document_reply(told.document())

    async def rest(self, request: Request) -> Reply:
        """Estimate what the rest of a pipeline's run may cost. Raises ExecutionNotFound if the caller can see no such run, if it is a run
        of a worker, or if the store does not have its graph."""
        header, accepted = await in_thread(Purpose.STORE, find_run, self._served.store, request.label, caller_of(request))
        told = await in_thread(Purpose.STORE, self._served.estimates().rest, header, accepted)
        if told is None:
            raise ExecutionNotFound(why_no_view(header, accepted))
        return document_reply(told.document())
