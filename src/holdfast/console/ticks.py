"""Ticks: the server tells open pages that something has changed, and each page then asks for its changed part again.

    data: {"id":"0190…","revision":12}      one execution has changed
    data: {"id":"","revision":3}            something in the store has changed: for lists

One task looks at the store, at most twice a second, for all pages together. While no page listens, the task does not run. The store
reports only what other connections wrote, so this console reports the writes of its own actions and jobs itself (`Ticks.touch`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from holdfast.console.page_errors import PREFIX
from holdfast.model.clock import monotonic
from holdfast.model.credentials import tenant_of
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import ExecutionStore
from holdfast.web import sse
from holdfast.web.identity import WITHOUT_CREDENTIAL
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.refusals import too_many
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_PAUSE: Final = 0.5
_MOST_STREAMS: Final = 500
_MOST_OF_ONE: Final = 100
"""One credential may have at most this many open streams, so that other callers can open streams too. On a server without credentials, only
the number of all streams together is limited."""
_MOST_ID: Final = 100
_POLICY: Final = RoutePolicy("FollowConsole", Needs.VIEW, Reach.HANDLER, waits=Waits.STREAM, session=True)


class Ticks:
    """The streams of all pages, and the one task that feeds them."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._streams: dict[_Stream, None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._changes = 0
        self._acted = False

    def routes(self) -> list[Route]:
        return [Route("GET", f"{PREFIX}ticks", self.stream, _POLICY)]

    def touch(self) -> None:
        """Say that this console may have written to the store: the store reports only the writes of other connections. Any thread may call
        it."""
        self._acted = True

    async def close(self) -> None:
        """Tell all streams to end. Does not wait until they have ended."""
        if self._looking is not None:
            self._looking.cancel()
        for stream in self._streams:
            stream.end()

    async def stream(self, request: Request) -> Reply:
        """A stream of ticks: of one execution (`?run=`), or of the changes of the store. The reply is 204, without a stream, if there is no
        such execution, or if the caller may not see it. Raises Refused (status 429) if too many streams are open, and InvalidParameter if
        the id is too long."""
        run = request.text("run") or ""
        if len(run) > _MOST_ID:
            raise InvalidParameter(f"run: the text is too long. The id of an execution has at most {_MOST_ID} characters.")
        who = "" if request.identity == WITHOUT_CREDENTIAL else request.identity.name
        theirs = sum(stream.who == who for stream in self._streams) if who else 0
        if len(self._streams) >= _MOST_STREAMS or theirs >= _MOST_OF_ONE:
            raise too_many("Too many pages are open. Close some, and load this one again.", "TooManyStreams")
        if run and not await self._may_see(request, run):
            return Reply(204)
        return Reply(200, headers=sse.HEADERS, chunks=self._chunks(request, _Stream(run, who)))

    async def _may_see(self, request: Request, run: str) -> bool:
        header = await in_thread(Purpose.CONSOLE, self._store.find, run)
        return header is not None and (request.tenant is None or tenant_of(header.tenant) == request.tenant)

    async def _chunks(self, request: Request, stream: _Stream) -> AsyncGenerator[bytes, None]:
        self._streams[stream] = None
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield sse.RETRY
            sent_at = monotonic()
            while not request.closing.is_set():
                revision = await stream.next(_PAUSE * 2)
                if revision is not None:
                    yield sse.event_text({"id": stream.run, "revision": revision})
                    sent_at = monotonic()
                elif stream.ended:
                    return
                elif monotonic() - sent_at >= sse.HEARTBEAT_SECONDS:
                    yield sse.HEARTBEAT
                    sent_at = monotonic()
        finally:
            self._streams.pop(stream, None)

    async def _look(self) -> None:
        """While a page listens, look at the store again and again, and give each change to the streams that it concerns."""
        while self._streams:
            with contextlib.suppress(HoldfastError):  # if the store cannot be read now, the loop asks it again later
                if await in_thread(Purpose.CONSOLE, self._store.changed) or self._acted:
                    self._acted = False  # before the store is read: what is written from now on is another change
                    self._changes += 1
                    watched = {stream.run for stream in self._streams if stream.run}
                    revisions = await in_thread(Purpose.CONSOLE, self._revisions, watched)
                    for stream in self._streams:
                        stream.offer(revisions.get(stream.run) if stream.run else self._changes)
            await asyncio.sleep(_PAUSE)

    def _revisions(self, runs: set[str]) -> dict[str, int]:
        """The number that the next tick of each run carries; a page loads anew when the number has changed. For an open run it is the count
        of all changes of the store, because the page also shows the child runs. For a run that has ended it is the revision of the run. A
        run that is not in the store is left out."""
        found = {run: self._store.find(run) for run in runs}
        return {run: self._changes if header.ended_at is None else header.revision for run, header in found.items() if header is not None}


class _Stream:
    """One page that listens. If the page has not received a tick yet when the next one comes, it receives only the newer one."""

    def __init__(self, run: str, who: str = "") -> None:
        self.run = run
        self.who = who
        self.ended = False
        self._last: int | None = None
        self._news = asyncio.Event()
        self._told: int | None = None

    def offer(self, revision: int | None) -> None:
        if revision is not None and revision != self._told:
            self._last = revision
            self._news.set()

    def end(self) -> None:
        self.ended = True
        self._news.set()

    async def next(self, seconds: float) -> int | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        told, self._last = self._last, None
        self._told = told if told is not None else self._told
        return told
