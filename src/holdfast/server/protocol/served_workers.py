"""The workers that are served, with their store and their limits, and the reply for a run: what all handlers of the protocol share."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from holdfast.contract.protocol import Response
from holdfast.costs.estimates import Estimates
from holdfast.costs.reports import CostStore
from holdfast.descriptions.executions import DescriptionStore
from holdfast.model.clock import Clock
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, State
from holdfast.model.threads import Purpose, in_thread
from holdfast.queues.places import place_document, queue_place
from holdfast.server.protocol.worker_replies import open_reply, response_reply
from holdfast.web.limits import WebLimits
from holdfast.web.refusals import Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.decisions import DecisionStore
from holdfast.workers.run_lookup import response_of, state_of
from holdfast.workers.service import WorkerService

_DONE = "done"


class ProtocolStore(DescriptionStore, CostStore, DecisionStore, Protocol):
    """The part of a store that the handlers of the protocol use."""


class ServedWorkers:
    """The workers of one server, and the replies for their runs."""

    def __init__(self, worker_service: WorkerService, store: ProtocolStore, clock: Clock, limits: WebLimits) -> None:
        self.worker_service = worker_service
        self.store = store
        self.clock = clock
        self.limits = limits

    def estimates(self) -> Estimates:
        """The object that estimates what runs of these workers may cost."""
        found = self.worker_service.estimates
        assert isinstance(found, Estimates), "the runtime that serves workers sets the estimates"
        return found

    async def watched(self, request: Request, header: Execution, accepted: AcceptedRequest, seconds: float) -> Response | None:
        """Wait at most `seconds` until a run has ended, is quarantined or needs a person, and return its response. If the run has not ended
        by then, or if the server shuts down, the response describes its state at that time. Returns None at once if too many requests wait
        already."""
        try:
            with request.waiting():
                return await self._watched(request.closing, header, accepted, seconds)
        except Refused:
            return None

    async def _watched(self, shutdown: asyncio.Event, header: Execution, accepted: AcceptedRequest, seconds: float) -> Response:
        answered = asyncio.create_task(self.worker_service.wait_for(header, accepted, wait=seconds))
        closing = asyncio.create_task(shutdown.wait())
        try:
            await asyncio.wait({answered, closing}, return_when=asyncio.FIRST_COMPLETED)
            return answered.result() if answered.done() else await self.worker_service.wait_for(header, accepted, wait=0)
        finally:
            answered.cancel()
            closing.cancel()

    async def reply(self, run_id: str, accepted: AcceptedRequest, response: Response | None = None, *, look: bool = False) -> Reply:
        """The reply for a run: its response if it has ended or is quarantined, else 202 with its state. `response`: the response, if the
        calling handler has it already. If it is None, or if its run may still be open, the response is read from the store. `look`: for a
        run that has ended, the HTTP status is 200 even if the run failed; without `look`, the HTTP status follows from the response. Raises
        ExecutionNotFound if the run must be read and the store has removed it."""
        if response is None or _may_be_open(response):
            header = self._header(run_id)
            state = state_of(header)
            response = response_of(self.store, header, accepted)
            if state != _DONE:
                return open_reply(await self._with_rest(response), state, await self._place(header))
        return response_reply(response, 200 if look else None)

    async def begun(self, header: Execution, accepted: AcceptedRequest) -> Reply:
        """The reply for a caller who does not wait: 202, with the state that the run has in `header`. The run is new, or it is the run that
        has the request's idempotency key already."""
        return open_reply(await self._with_rest(response_of(self.store, header, accepted)), state_of(header))

    async def _place(self, header: Execution) -> dict[str, Any] | None:
        """Where a run stands in its queue, as a JSON object; None if it does not wait in a queue."""
        if header.state not in (State.QUEUED, State.DELAYED):
            return None
        place = await in_thread(Purpose.STORE, queue_place, self.store, header, self.clock.now())
        return None if place is None else place_document(place)

    async def _with_rest(self, response: Response) -> Response:
        """The response. If the run waits for approvals, each of them also says what the rest of the outermost run may cost."""
        return await in_thread(Purpose.STORE, self.estimates().in_response, response) if response.approvals else response

    def _header(self, run_id: str) -> Execution:
        header = self.store.find(run_id)
        if header is None:
            raise ExecutionNotFound(f"There is no run {run_id} any more.")
        return header


def _may_be_open(response: Response) -> bool:
    """Whether the run of this response may still be open, so that its state must be read again: the response has approvals, or the error
    `overloaded`."""
    return bool(response.approvals) or (response.error is not None and response.error.error_code == "overloaded")
