"""Limits: how much one client, and all of them together, may ask of a server."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is refused, and after how long."""

    body_bytes: int = 16 * 1024 * 1024
    """413 above it. A payload of 6 MB may double when JSON escapes it."""
    bodies_bytes: int = 256 * 1024 * 1024
    """429 above it: the bodies of all requests that are not answered yet, together."""
    head_bytes: int = 64 * 1024
    """431 above it: the request line and all headers."""
    requests: int = 1024
    """429 above it: requests being answered at once."""
    waits: int = 1024
    """429 above it: synchronous invocations at once. They are counted apart, because what they wait for sends requests too."""
    head_seconds: float = 20.0
    """The connection is closed when a request's headers take longer."""
    body_seconds: float = 30.0
    """408 when its body takes longer."""
    request_seconds: float = 40.0
    """503 when its answer takes longer: the disk does not work, for instance. The official SDK gives up after 50."""
    unread_seconds: float = 60.0
    """The connection is cut when an answer waits longer for somebody to read it."""
    wait_seconds: float = 930.0
    """408 when a synchronous invocation takes longer; its execution may end after 900."""
    leave_seconds: float = 1.5
    """503 for a synchronous invocation that takes longer when the server leaves. Less than a server waits for its connections."""
    connections: int | None = None
    """503 above it, and the connection that asks for nothing longest is closed. None: half of the descriptors that the process may have."""
    connections_of_one: int | None = None
    """429 above it: of one address. None: half of `connections`."""
    keep_alive_seconds: int = 75
    """An idle connection is closed after it."""
