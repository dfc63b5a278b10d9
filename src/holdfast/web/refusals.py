"""Refused: a request that the server does not serve, with the status and the name of the error that its caller reads."""

from __future__ import annotations

from typing import Final

Header = tuple[bytes, bytes]
RETRY_SECONDS: Final = 1
CLOSE: Final[tuple[Header, ...]] = ((b"connection", b"close"),)


class Gone(Exception):
    """The client has closed its connection."""


class Refused(Exception):
    """The request broke a rule of the protocol or a limit of the server, so no operation was called."""

    def __init__(self, status: int, shape: str, message: str, *, headers: tuple[Header, ...] = (), reason: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.shape = shape
        """AWS's name of the error."""
        self.headers = headers
        self.reason = reason


def unreadable(what: str) -> Refused:
    """A part of the request cannot be read."""
    return Refused(400, "SerializationException", what)


def too_large(most: int, *, close: bool = False) -> Refused:
    """The body is larger than the route allows."""
    headers = CLOSE if close else ()
    return Refused(413, "RequestTooLargeException", f"Request must be smaller than {most} bytes.", headers=headers)


def too_many(what: str, reason: str) -> Refused:
    """The server has no capacity for the request now."""
    return Refused(429, "TooManyRequestsException", what, headers=retry_after(), reason=reason)


def unavailable(what: str, *, close: bool = False) -> Refused:
    """The server cannot serve the request now."""
    return Refused(503, "ServiceException", what, headers=(*retry_after(), *(CLOSE if close else ())))


def retry_after() -> tuple[Header, ...]:
    """The header that tells a client when to try again."""
    return ((b"retry-after", str(RETRY_SECONDS).encode()),)
