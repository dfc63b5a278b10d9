"""Runs: what they came to or how they stand, their events as they come, and their end from outside.

    id: 12
    event: tool
    data: {"tool":"fetch_url","state":"began","attempt":1,"effect":"read","at":1763276400123}

An event with an id is in the run's history, and comes again to whoever asks for what is after an earlier one (Last-Event-ID); one
without is live only. The stream ends with the run.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from holdfast.model import codec
from holdfast.model.clock import monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.request import ProtocolRoute, RunRequest
from holdfast.web.replies import Reply
from holdfast.workers.events import RunEvent
from holdfast.workers.looking import find_run

_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b":\n\n"
_HEARTBEAT_SECONDS: Final = 15.0
_ID: Final = re.compile(r"[0-9]{1,18}")
_STREAM: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else some proxies keep events until there are many
)


class Runs:
    """Their handlers."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling

    def routes(self) -> list[ProtocolRoute]:
        """Where they are."""
        return [
            ProtocolRoute("GET", "/v1/runs/([^/]+)", self.get),
            ProtocolRoute("GET", "/v1/runs/([^/]+)/events", self.events),
            ProtocolRoute("POST", "/v1/runs/([^/]+)/cancel", self.cancel),
        ]

    async def get(self, asked: RunRequest) -> Reply:
        """What a run came to, or where it is; `?wait=` waits for its end, or for its waiting for a person."""
        header, accepted = find_run(self._handling.store, asked.label, asked.asker)
        wait = asked.patience(0, self._handling.limits.wait_seconds)
        if wait == 0:
            return self._handling.reply(header.id, accepted, look=True)
        return self._handling.reply(header.id, accepted, await self._handling.watched(asked, header, accepted, wait), look=True)

    async def cancel(self, asked: RunRequest) -> Reply:
        """End a run. One that is over stays what it is; calls in flight may still record what they did."""
        header, accepted = find_run(self._handling.store, asked.label, asked.asker)
        response = await self._handling.worker_service.cancel(header.id, asked.asker)
        return self._handling.reply(header.id, accepted, response, look=True)

    async def events(self, asked: RunRequest) -> Reply:
        """A run's events as they come."""
        after = _last(asked)
        header, _ = find_run(self._handling.store, asked.label, asked.asker)
        if _is_over(header) and header.events <= after:
            return Reply(204)  # which tells a browser that it need not come back
        followed = self._handling.worker_service.follow(header.id, asked.asker, after=after)
        return Reply(200, headers=_STREAM, chunks=self._told(asked, followed))

    async def _told(self, asked: RunRequest, events: AsyncIterator[RunEvent | None]) -> AsyncGenerator[bytes, None]:
        with asked.waiting():
            yield _RETRY
            said_at = monotonic()
            async for event in events:
                if event is not None:
                    yield _text(event)
                    said_at = monotonic()
                elif self._handling.closing.is_set():
                    return
                elif monotonic() - said_at >= _HEARTBEAT_SECONDS:
                    yield _HEARTBEAT
                    said_at = monotonic()


def _last(asked: RunRequest) -> int:
    last = asked.header(b"last-event-id") or asked.text("last_event_id") or "0"
    if _ID.fullmatch(last) is None:
        raise InvalidParameter("Last-Event-ID must be the id of an event of this stream, a number.")
    return int(last)


def _is_over(header: Execution) -> bool:
    return header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED


def _text(event: RunEvent) -> bytes:
    named = "" if event.id is None else f"id: {event.id}\n"
    return f"{named}event: {event.event}\ndata: {codec.dumps(event.data)}\n\n".encode()
