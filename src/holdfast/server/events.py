"""GET /events: the signals of executions as they happen, as server-sent events.

    id: 12
    data: {"version":"0","id":"…","detail-type":"Durable Execution Status Change",…}

`?pattern=` is an event pattern: only events that match it are sent. The header Last-Event-ID, which a browser sends by itself when it
connects again, or `?last_event_id=` asks for the signals after the signal with this id. An event with the name `gap` tells the client that
it may have missed some signals.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, Protocol

from holdfast.model.credentials import tenant_of
from holdfast.model.errors import HoldfastError, InvalidParameter, Rejected
from holdfast.model.ids import Arn
from holdfast.model.signals import StatusSignal
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.broadcast import Broadcaster, Listener, SignalGap
from holdfast.signals.event import event_of
from holdfast.signals.patterns import Pattern
from holdfast.store.seam import ExecutionStore, OutboxStore
from holdfast.web import sse
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

PATH: Final = "/events"
_GAP: Final = sse.event_text({}, event="gap")
_COME_BACK: Final[Header] = (b"retry-after", b"5")
_POLICY: Final = RoutePolicy("StreamEvents", Needs.VIEW, Reach.HANDLER, waits=Waits.STREAM)


class EventsStore(OutboxStore, ExecutionStore, Protocol):
    """The part of a store that has signals and the tenants of their executions."""


class Events:
    """The handler of the stream. The server must close the broadcaster when it shuts down, because open streams do not end by
    themselves."""

    def __init__(self, broadcaster: Broadcaster, store: EventsStore, *, heartbeat_seconds: float = sse.HEARTBEAT_SECONDS) -> None:
        self._broadcaster = broadcaster
        self._store = store
        self._heartbeat_seconds = heartbeat_seconds

    def routes(self) -> list[Route]:
        return [Route("GET", PATH, self.stream, _POLICY), Route("HEAD", PATH, self.head, _POLICY)]

    async def head(self, request: Request) -> Reply:
        """The reply to a HEAD request: the headers that the stream would have, or the same refusal as for the stream."""
        return await self._begun(request, stream=False)

    async def stream(self, request: Request) -> Reply:
        """A stream of signals, as server-sent events. A caller who belongs to a tenant gets only the signals of that tenant's executions
        that are still in the store. An execution without a tenant belongs to the tenant `default`."""
        return await self._begun(request, stream=True)

    async def _begun(self, request: Request, *, stream: bool) -> Reply:
        try:
            pattern, after = _asked(request)
            listener = self._broadcaster.listen(after, self._store.kept_signals)
        except HoldfastError as error:
            return _refusal(error)
        if stream:
            return Reply(200, headers=sse.HEADERS, chunks=self._chunks(listener, pattern, request.tenant))
        async with listener:
            return Reply(200, headers=sse.HEADERS)

    async def _chunks(self, listener: Listener, pattern: Pattern | None, tenant: str | None) -> AsyncGenerator[bytes, None]:
        async with listener:
            yield sse.RETRY
            async for signal in listener.signals(self._heartbeat_seconds):
                if signal is None:
                    yield sse.HEARTBEAT
                elif isinstance(signal, SignalGap):
                    yield _GAP
                elif (text := await self._text(signal, pattern, tenant)) is not None:
                    yield text

    async def _text(self, signal: StatusSignal, pattern: Pattern | None, tenant: str | None) -> bytes | None:
        """The bytes to send for a signal. None if the signal does not match the pattern; also None if `tenant` is given, and the execution
        of the signal belongs to another tenant or is no longer in the store."""
        event = event_of(signal)
        if pattern is not None and not pattern.matches(event):
            return None
        if tenant is not None:
            found = await in_thread(Purpose.STORE, self._store.find, Arn.parse(signal.arn).id)
            if found is None or tenant_of(found.tenant) != tenant:
                return None
        return sse.event_text(event, id=signal.number)


def _asked(request: Request) -> tuple[Pattern | None, int | None]:
    unknown = sorted(request.field_names - {"pattern", "last_event_id"})
    if unknown:
        raise InvalidParameter(f"{unknown[0]!r} is not a parameter of {PATH}. The parameters are pattern and last_event_id.")
    pattern = request.text("pattern")
    return None if pattern is None else Pattern(pattern), sse.last_event_id(request)


def _refusal(error: HoldfastError) -> Reply:
    """The reply if a stream cannot begin: 400 if the request is wrong; else 503 with the header Retry-After, because there are too many
    streams or the server shuts down."""
    body = {"error": error.code, "message": str(error)}
    return json_reply(body, 400) if isinstance(error, Rejected) else json_reply(body, 503, (_COME_BACK,))
