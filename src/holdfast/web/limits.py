"""Limits: how much one client, and all clients together, may use of a server."""

from __future__ import annotations

import msgspec


class WebLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a server, and the HTTP status that a client gets beyond each of them."""

    body_bytes: int = 16 * 1024 * 1024
    """The largest body of a request, on a route that has no limit of its own (`RoutePolicy.body_bytes`); a larger one gets 413. A payload
    of 6 MB may become twice as large when JSON escapes it."""
    bodies_bytes: int = 256 * 1024 * 1024
    """The largest size of the bodies of all unanswered requests together; a request above it gets 429."""
    head_bytes: int = 64 * 1024
    """The largest size of the request line and all headers; a request above it gets 431. A request with more than 200 headers gets 431
    too."""
    requests: int = 1024
    """At most this many requests of one capacity (`RouteGroup.capacity`) are answered at one time; a further one gets 429. A capacity may
    limit one tenant to a part of this number."""
    waits: int = 1024
    """At most this many requests of one capacity wait for a result at one time; a further one gets 429. But a request for the response of a
    run is then answered without a wait, with the state of the run. A capacity may limit one tenant to a part of this number. Requests that
    wait have this limit of their own, because the functions for which they wait send requests too (`requests`)."""
    head_seconds: float = 20.0
    """How long the headers of a request may take to arrive; after that the server closes the connection."""
    body_seconds: float = 30.0
    """How long the body of a request may take to arrive; after that the client gets 408. An upload of an artifact may take longer, if about
    1 KB arrives each second."""
    request_seconds: float = 40.0
    """How long an answer may take; after that the client gets 503. This does not hold for requests that wait for a result, for uploads and
    for streams. An answer takes long if, for instance, the disk does not respond. The official SDK gives up after 50 seconds."""
    unread_seconds: float = 60.0
    """How long the server's buffer may stay full because the client does not read the answer; after that the server aborts the
    connection."""
    stream_seconds: float = 30.0
    """How long the server waits until it can send the next chunk of a stream, on a route with `Waits.STREAM`, because the client does not
    read; after that the server ends the stream. For any other stream, `unread_seconds` holds."""
    wait_seconds: float = 930.0
    """How long a client may wait for a synchronous invocation; after that it gets 408. The execution itself may take at most 900 seconds. A
    client that waits for the response of a run gets the state of the run after this time; an upload that takes longer gets 503."""
    leave_seconds: float = 1.5
    """How long a synchronous invocation may still take when the server shuts down; after that the client gets 503. This time is shorter
    than the time that the server waits for its connections."""
    connections: int | None = None
    """The most connections of the server. A further connection gets 503 if no idle connection can be closed for it. None: half of the file
    descriptors that the process may have, but at least 8 and at most 8192."""
    connections_of_one: int | None = None
    """The most connections of one address. A further connection gets 429 if no idle connection of the same address can be closed for it.
    None: half of `connections`."""
    keep_alive_seconds: int = 75
    """How long a connection may be idle; after that the server closes it."""
