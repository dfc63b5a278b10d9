"""Refused: the error for a request that the server does not serve, with the HTTP status and the name of the error for the caller."""

from __future__ import annotations

from typing import Final

Header = tuple[bytes, bytes]
RETRY_SECONDS: Final = 1
CLOSE: Final[tuple[Header, ...]] = ((b"connection", b"close"),)


class Gone(Exception):
    """The client has closed its connection."""


class Refused(Exception):
    """The server does not serve a request: the request breaks a rule of the protocol or a limit of the server, its caller may not make it,
    or the server cannot serve it now."""

    def __init__(self, status: int, shape: str, message: str, *, headers: tuple[Header, ...] = (), reason: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.shape = shape
        """AWS's name of the error."""
        self.headers = headers
        self.reason = reason


def unreadable(what: str) -> Refused:
    """The error for a request of which a part cannot be read: 400. `what` is the message."""
    return Refused(400, "SerializationException", what)


def too_large(most: int, *, close: bool = False) -> Refused:
    """The error for a body of more than `most` bytes: 413. With `close`, the connection is closed after the reply."""
    headers = CLOSE if close else ()
    return Refused(413, "RequestTooLargeException", f"Request must be smaller than {most} bytes.", headers=headers)


def late_body() -> Refused:
    """The error for a body that did not arrive in time: 408. The connection is closed after the reply."""
    return Refused(408, "RequestTimeoutException", "The request's body did not arrive in time. Send the request again.", headers=CLOSE)


def too_many(what: str, reason: str) -> Refused:
    """The error for a request for which the server has no capacity now: 429, with Retry-After. `what` is the message, `reason` is a
    word that names the limit."""
    return Refused(429, "TooManyRequestsException", what, headers=retry_after(), reason=reason)


def unavailable(what: str, *, close: bool = False) -> Refused:
    """The error for a request that the server cannot serve now: 503, with Retry-After. `what` is the message. With `close`, the connection
    is closed after the reply."""
    return Refused(503, "ServiceException", what, headers=(*retry_after(), *(CLOSE if close else ())))


def retry_after() -> tuple[Header, ...]:
    """The header Retry-After, which tells a client after how many seconds to try again."""
    return ((b"retry-after", str(RETRY_SECONDS).encode()),)
