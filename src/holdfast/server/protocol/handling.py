"""What all handlers of the worker protocol share: the workers, the store, the limits; and how the server answers for a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.contract.protocol import Response
from holdfast.model.clock import Clock
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution
from holdfast.server.protocol.request import RunRequest
from holdfast.store.seam import Store
from holdfast.web.errors import Refused
from holdfast.web.limits import Limits
from holdfast.web.replies import Reply
from holdfast.web.responses import open_reply, response_reply
from holdfast.workers.looking import response_of, state_of
from holdfast.workers.running import Accepted
from holdfast.workers.service import WorkerService

_DONE = "done"


class Handling:
    """The workers that are served, and what they are kept in."""

    def __init__(self, worker_service: WorkerService, store: Store, clock: Clock, *, limits: Limits, metrics: Callable[[], str]) -> None:
        self.worker_service = worker_service
        self.store = store
        self.clock = clock
        self.limits = limits
        self.metrics = metrics
        self.closing = asyncio.Event()
        """The server is leaving: nobody waits any longer, and runs go on elsewhere."""

    async def watched(self, asked: RunRequest, header: Execution, accepted: Accepted, seconds: float) -> Response | None:
        """What a run comes to within the time, or how it stands then; None where too many wait already, who then come back."""
        try:
            with asked.waiting():
                return await self._watched(header, accepted, seconds)
        except Refused:
            return None

    async def _watched(self, header: Execution, accepted: Accepted, seconds: float) -> Response:
        answered = asyncio.create_task(self.worker_service.come_to(header, accepted, wait=seconds))
        closing = asyncio.create_task(self.closing.wait())
        try:
            await asyncio.wait({answered, closing}, return_when=asyncio.FIRST_COMPLETED)
            return answered.result() if answered.done() else await self.worker_service.come_to(header, accepted, wait=0)
        finally:
            answered.cancel()
            closing.cancel()

    def reply(self, run_id: str, accepted: Accepted, response: Response | None = None, *, look: bool = False) -> Reply:
        """A run as whoever asks gets it: its response, or where it is. A look at it succeeds however the run ended."""
        if response is None or _may_be_open(response):
            header = self._header(run_id)
            state = state_of(self.store, header)
            response = response_of(self.store, header, accepted)
            if state != _DONE:
                return open_reply(response, state)
        return response_reply(response, 200 if look else None)

    def begun(self, header: Execution, accepted: Accepted) -> Reply:
        """Where a run is, for whoever does not wait."""
        return open_reply(response_of(self.store, header, accepted), state_of(self.store, header))

    def _header(self, run_id: str) -> Execution:
        header = self.store.find(run_id)
        if header is None:
            raise ExecutionNotFound(f"There is no run {run_id} any more.")
        return header


def _may_be_open(response: Response) -> bool:
    """Whether a response may be how a run stood, and not what it came to."""
    return bool(response.approvals) or (response.error is not None and response.error.error_code == "overloaded")
