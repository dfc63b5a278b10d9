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
from holdfast.server.protocol.desk import Desk
from holdfast.server.protocol.visit import Visit, Way
from holdfast.server.replies import Reply
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

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Way]:
        """Where they are."""
        return [
            Way("GET", "/v1/runs/([^/]+)", self.get),
            Way("GET", "/v1/runs/([^/]+)/events", self.events),
            Way("POST", "/v1/runs/([^/]+)/cancel", self.cancel),
        ]

    async def get(self, visit: Visit) -> Reply:
        """What a run came to, or where it is; `?wait=` waits for its end, or for its waiting for a person."""
        header, accepted = find_run(self._desk.store, visit.label, visit.asker)
        wait = visit.patience(0, self._desk.limits.wait_seconds)
        if wait == 0:
            return self._desk.reply(header.id, accepted, look=True)
        return self._desk.reply(header.id, accepted, await self._desk.watched(visit, header, accepted, wait), look=True)

    async def cancel(self, visit: Visit) -> Reply:
        """End a run. One that is over stays what it is; calls in flight may still record what they did."""
        header, accepted = find_run(self._desk.store, visit.label, visit.asker)
        response = await self._desk.workforce.cancel(header.id, visit.asker)
        return self._desk.reply(header.id, accepted, response, look=True)

    async def events(self, visit: Visit) -> Reply:
        """A run's events as they come."""
        after = _last(visit)
        header, _ = find_run(self._desk.store, visit.label, visit.asker)
        if _is_over(header) and header.events <= after:
            return Reply(204)  # which tells a browser that it need not come back
        followed = self._desk.workforce.follow(header.id, visit.asker, after=after)
        return Reply(200, headers=_STREAM, chunks=self._told(visit, followed))

    async def _told(self, visit: Visit, events: AsyncIterator[RunEvent | None]) -> AsyncGenerator[bytes, None]:
        with visit.waiting():
            yield _RETRY
            said_at = monotonic()
            async for event in events:
                if event is not None:
                    yield _text(event)
                    said_at = monotonic()
                elif self._desk.closing.is_set():
                    return
                elif monotonic() - said_at >= _HEARTBEAT_SECONDS:
                    yield _HEARTBEAT
                    said_at = monotonic()


def _last(visit: Visit) -> int:
    last = visit.header(b"last-event-id") or visit.text("last_event_id") or "0"
    if _ID.fullmatch(last) is None:
        raise InvalidParameter("Last-Event-ID must be the id of an event of this stream, a number.")
    return int(last)


def _is_over(header: Execution) -> bool:
    return header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED


def _text(event: RunEvent) -> bytes:
    named = "" if event.id is None else f"id: {event.id}\n"
    return f"{named}event: {event.event}\ndata: {codec.dumps(event.data)}\n\n".encode()
