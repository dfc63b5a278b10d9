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
    """The error if a part of the request cannot be read: 400."""
    return Refused(400, "SerializationException", what)


def too_large(most: int, *, close: bool = False) -> Refused:
    """The error if the body has more than `most` bytes: 413. `close`: whether the connection is closed."""
    headers = CLOSE if close else ()
    return Refused(413, "RequestTooLargeException", f"Request must be smaller than {most} bytes.", headers=headers)


def too_many(what: str, reason: str) -> Refused:
    """The error if the server has no capacity for the request now: 429, with Retry-After."""
    return Refused(429, "TooManyRequestsException", what, headers=retry_after(), reason=reason)


def unavailable(what: str, *, close: bool = False) -> Refused:
    """The error if the server cannot serve the request now: 503, with Retry-After. `close`: whether the connection is closed."""
    return Refused(503, "ServiceException", what, headers=(*retry_after(), *(CLOSE if close else ())))


def retry_after() -> tuple[Header, ...]:
    """The header Retry-After, which tells a client after how many seconds to try again."""
    return ((b"retry-after", str(RETRY_SECONDS).encode()),)
