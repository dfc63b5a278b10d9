"""Server-sent events: the text format of an event stream, which browsers and curl read.

    id: 12
    event: tool
    data: {"tool":"fetch_url"}

A client that lost its connection sends the id of the last event it has (Last-Event-ID), and the stream continues after it. If the server no
longer keeps some of the events after that id, an event `gap` says so.
"""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.model import codec
from holdfast.model.errors import InvalidParameter
from holdfast.web.refusals import Header
from holdfast.web.requests import Request

HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else some proxies hold events back until there are many
)
RETRY: Final = b"retry: 2000\n\n"
"""The first text of a stream. It tells the client how many milliseconds to wait before it connects again after a lost connection."""
HEARTBEAT: Final = b":\n\n"
"""A comment of the format, which clients ignore. The server sends it when it has had nothing else to send for a while, so that both ends
know that the connection works."""
HEARTBEAT_SECONDS: Final = 15.0
_ID: Final = re.compile(r"[0-9]{1,18}")


def event_text(data: Any, *, id: int | str | None = None, event: str | None = None) -> bytes:
    """The text of one event with JSON data, as bytes. `id` and `event` are its id and its name; None: it has none."""
    numbered = "" if id is None else f"id: {id}\n"
    named = "" if event is None else f"event: {event}\n"
    return f"{numbered}{named}data: {codec.dumps(data)}\n\n".encode()


def last_event_id(request: Request) -> int | None:
    """The id of the last event that the client has received, as a number: the header Last-Event-ID, else `?last_event_id=`. None if the
    request has neither. Raises InvalidParameter if the id is not a number."""
    last = last_event_text(request)
    if not last:
        return None
    if _ID.fullmatch(last) is None:
        raise InvalidParameter("Last-Event-ID must be the id of an event of this stream, a number.")
    return int(last)


def last_event_text(request: Request) -> str | None:
    """The id of the last event that the client has received, as the client sent it: the header Last-Event-ID, else `?last_event_id=`. None
    if the request has neither."""
    return request.header(b"last-event-id") or request.text("last_event_id")
