"""Runs: their state or response, their events as they happen, and how a caller cancels them.

    id: 12
    event: tool
    data: {"tool":"fetch_url","state":"began","attempt":1,"effect":"read","at":1763276400123}

An event whose id is a number is in the run's history. A client that sends such an id back (Last-Event-ID) gets every event of the history
after it. An event whose id is like `12.0a1b2c3d.7` is a live event: this process keeps it for a while, and no store has it. A client that
connects again and may have missed live events gets one event `gap`. The stream ends when the run has ended, when it is quarantined or
removed from the store (the last event is then `quarantined`), or when the server shuts down.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from holdfast.descriptions.pipeline_view import pipeline_view, why_no_view
from holdfast.model.clock import monotonic
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.draw.svg import draw_svg
from holdfast.server.protocol.request_parts import patience
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.web import sse
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.replies import Header, Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers.event_rings import position_of
from holdfast.workers.events import RunEvent
from holdfast.workers.run_lookup import find_run

_SVG: tuple[Header, ...] = (
    (b"content-type", b"image/svg+xml"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-content-type-options", b"nosniff"),
)
"""The headers of a picture: it may use its own styles, but a browser loads no other files for it, and runs no script in it."""


class Runs:
    """The handlers of runs."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/runs/([^/]+)", self.get, RoutePolicy("GetRun", Needs.VIEW, Reach.HANDLER, waits=Waits.WHEN_ASKED)),
            Route(
                "GET", "/v1/runs/([^/]+)/events", self.events, RoutePolicy("FollowRun", Needs.VIEW, Reach.HANDLER, waits=Waits.WHEN_ASKED)
            ),
            Route("GET", "/v1/runs/([^/]+)/graph", self.graph, RoutePolicy("GetRunGraph", Needs.VIEW, Reach.HANDLER)),
            Route("POST", "/v1/runs/([^/]+)/cancel", self.cancel, RoutePolicy("CancelRun", Needs.OPERATE, Reach.HANDLER)),
        ]

    async def get(self, request: Request) -> Reply:
        """The response of a run that has ended or is quarantined, else its state. With `?wait=` the reply waits until the run has ended or
        needs a person, at most this many seconds, and at most as long as the server allows. It does not wait if too many requests wait
        already."""
        header, accepted = find_run(self._served.store, request.label, caller_of(request))
        wait = patience(request, 0, self._served.limits.wait_seconds)
        if wait == 0:
            return await self._served.reply(header.id, accepted, look=True)
        return await self._served.reply(header.id, accepted, await self._served.watched(request, header, accepted, wait), look=True)

    async def cancel(self, request: Request) -> Reply:
        """Cancel a run, and wait for its end, but only a few seconds: the reply is 202 with its state if it has not ended by then. A run
        that has ended already does not change. Tool calls that have begun may still record their results."""
        header, accepted = find_run(self._served.store, request.label, caller_of(request))
        response = await self._served.worker_service.cancel(header.id, caller_of(request))
        return await self._served.reply(header.id, accepted, response, look=True)

    async def graph(self, request: Request) -> Reply:
        """The graph of a pipeline's run with the state of each node: as JSON, or as a picture for a client that accepts SVG. Raises
        ExecutionNotFound if there is no such run, if it is a run of a worker, or if the store does not have its graph."""
        header, accepted = find_run(self._served.store, request.label, caller_of(request))
        view = await in_thread(Purpose.STORE, pipeline_view, self._served.store, header, accepted)
        if view is None:
            raise ExecutionNotFound(why_no_view(header, accepted))
        if "image/svg+xml" in (request.header(b"accept") or ""):
            return Reply(200, draw_svg(view.graph, view.views()).encode(), headers=_SVG)
        return json_reply(view.document())

    async def events(self, request: Request) -> Reply:
        """The events of a run, as they happen, until the run has ended or is quarantined, or the server shuts down. The reply is 204 if the
        run has ended and the client has all its events already."""
        after = sse.last_event_text(request) or 0
        recorded = position_of(after).recorded
        header, _ = find_run(self._served.store, request.label, caller_of(request))
        if _is_over(header) and header.events <= recorded:
            return Reply(204)  # a browser does not connect again after a 204
        followed = self._served.worker_service.follow(header.id, caller_of(request), after=after)
        return Reply(200, headers=sse.HEADERS, chunks=_chunks(request, followed))


async def _chunks(request: Request, events: AsyncIterator[RunEvent | None]) -> AsyncGenerator[bytes, None]:
    with request.waiting():
        sent_at = 0.0
        async for event in events:
            if not sent_at:  # if there are too many followers, `follow` raises before its first event
                yield sse.RETRY
                sent_at = monotonic()
            if request.closing.is_set() and (event is None or isinstance(event.id, str)):
                return  # a run with many events must not delay the shutdown of the server
            if event is not None:
                yield sse.event_text(event.data, id=event.id, event=event.event)
                sent_at = monotonic()
            elif monotonic() - sent_at >= sse.HEARTBEAT_SECONDS:
                yield sse.HEARTBEAT
                sent_at = monotonic()


def _is_over(header: Execution) -> bool:
    return header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED
