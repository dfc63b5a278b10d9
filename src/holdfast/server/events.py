"""GET /events: signals as they happen, as server-sent events. An ASGI app around another, which answers everything else.

    id: 12
    data: {"version":"0","id":"…","detail-type":"Durable Execution Status Change",…}

`?pattern=` is an event pattern; the header Last-Event-ID (browsers send it by themselves) or `?last_event_id=` goes on after that signal.
An event called `gap` says that some may have been missed. A comment comes when nothing else does, so that both ends know the other lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final
from urllib.parse import parse_qsl

from holdfast.model import codec
from holdfast.model.errors import HoldfastError, InvalidParameter, Rejected
from holdfast.model.ids import Arn
from holdfast.model.signals import StatusSignal
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.broadcast import Broadcaster, Gap, Listener
from holdfast.signals.event import event_of
from holdfast.signals.patterns import Pattern
from holdfast.store.seam import Store
from holdfast.web.asgi import ASGIApp, Receive, Scope, Send
from holdfast.web.auth.identity import identity_of

PATH: Final = "/events"
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b":\n\n"
_GAP: Final = b"event: gap\ndata: {}\n\n"
_COME_BACK: Final = (b"retry-after", b"5")
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else some proxies keep events until there are many
]


def with_events(
    app: ASGIApp, broadcaster: Broadcaster, store: Store, *, heartbeat_seconds: float = 15.0, send_seconds: float = 30.0
) -> EventStream:
    """The app with /events beside it. Close the broadcaster when the server begins to shut down: streams end by no other means."""
    return EventStream(app, broadcaster, store, heartbeat_seconds, send_seconds)


class EventStream:
    """An ASGI app."""

    def __init__(self, app: ASGIApp, broadcaster: Broadcaster, store: Store, heartbeat_seconds: float, send_seconds: float) -> None:
        self._app = app
        self._broadcaster = broadcaster
        self._store = store
        self._heartbeat_seconds = heartbeat_seconds
        self._send_seconds = send_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        try:
            pattern, after = _asked(scope)
            listener = self._broadcaster.listen(after, self._store.kept_signals)
        except HoldfastError as error:
            await _refuse(error, send)
            return
        async with listener:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            gone = asyncio.create_task(_until_gone(receive, listener))
            try:
                await self._stream(listener, pattern, identity_of(scope).tenant, send)
            finally:
                gone.cancel()

    async def _stream(self, listener: Listener, pattern: Pattern | None, tenant: str | None, send: Send) -> None:
        async def say(text: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(self._send_seconds):
                await send({"type": "http.response.body", "body": text, "more_body": more})

        with contextlib.suppress(TimeoutError):  # whoever reads nothing for so long is not there
            await say(_RETRY)
            async for told in listener.signals(self._heartbeat_seconds):
                if told is None:
                    await say(_HEARTBEAT)
                elif isinstance(told, Gap):
                    await say(_GAP)
                elif (text := await self._text(told, pattern, tenant)) is not None:
                    await say(text)
            await say(b"", more=False)

    async def _text(self, signal: StatusSignal, pattern: Pattern | None, tenant: str | None) -> bytes | None:
        """A signal as it is sent, if it is wanted and may be seen."""
        event = event_of(signal)
        if pattern is not None and not pattern.matches(event):
            return None
        if tenant is not None:
            found = await in_thread(Purpose.STORE, self._store.find, Arn.parse(signal.arn).id)
            if found is None or found.tenant != tenant:
                return None
        return f"id: {signal.number}\ndata: {codec.dumps(event)}\n\n".encode()


def _asked(scope: Scope) -> tuple[Pattern | None, int | None]:
    asked = dict(parse_qsl(scope.get("query_string", b"").decode("utf-8", "replace"), keep_blank_values=True))
    unknown = sorted(asked.keys() - {"pattern", "last_event_id"})
    if unknown:
        raise InvalidParameter(f"{unknown[0]!r} is not a parameter of {PATH}. There are pattern and last_event_id.")
    pattern = Pattern(asked["pattern"]) if "pattern" in asked else None
    headers = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"last-event-id"]
    last = headers[0] if headers else asked.get("last_event_id")
    if last is None:
        return pattern, None
    if not re.fullmatch(r"[0-9]{1,18}", last):
        raise InvalidParameter("Last-Event-ID must be the id of an event of this stream, a number.")
    return pattern, int(last)


async def _until_gone(receive: Receive, listener: Listener) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.end()


async def _refuse(error: HoldfastError, send: Send) -> None:
    body = codec.dumps({"error": error.code, "message": str(error)}).encode()
    mine = not isinstance(error, Rejected)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *([_COME_BACK] if mine else [])]
    await send({"type": "http.response.start", "status": 503 if mine else 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
