"""Refusals: why a request is not served, and what its sender is told: AWS's error shapes where AWS's clients ask, plain JSON elsewhere."""

from __future__ import annotations

from enum import Enum
from typing import Final

from holdfast.model import codec
from holdfast.model.errors import AccessRefused

Header = tuple[bytes, bytes]


class Refusal(Enum):
    """Why: the name of AWS's error, its HTTP status, and the status for everybody else."""

    MISSING = ("MissingAuthenticationTokenException", 403, 401)
    UNKNOWN = ("UnrecognizedClientException", 403, 401)
    INCOMPLETE = ("IncompleteSignatureException", 400, 400)
    SIGNATURE = ("InvalidSignatureException", 403, 401)
    EXPIRED = ("ExpiredTokenException", 403, 401)
    DENIED = ("AccessDeniedException", 403, 403)
    ABSENT = ("ResourceNotFoundException", 404, 404)
    TOO_LARGE = ("RequestTooLargeException", 413, 413)
    SLOW = ("RequestTimeoutException", 408, 408)
    TROUBLE = ("ServiceException", 500, 503)

    def __init__(self, error: str, aws_status: int, plain_status: int) -> None:
        self.error = error
        self.aws_status = aws_status
        self.plain_status = plain_status


class Refused(Exception):
    """The server does not serve this to whoever asks: `AccessRefused`, with what its sender is told."""

    def __init__(self, why: Refusal, message: str) -> None:
        super().__init__(message)
        self.why = why


NO_SUCH_TOKEN: Final = "The security token included in the request is invalid."


def answer(refused: Refused, *, aws: bool, request_id: str) -> tuple[int, list[Header], bytes]:
    """Status, headers and body."""
    why, message = refused.why, str(refused)
    headers: list[Header] = [(b"content-type", b"application/json"), (b"x-amzn-requestid", request_id.encode())]
    if aws:
        status = why.aws_status
        headers.append((b"x-amzn-errortype", why.error.encode()))
        kind = "Service" if why is Refusal.TROUBLE else "User"
        body = codec.dumps({"Type": kind, "message": message, "Message": message})
    else:
        status = why.plain_status
        if status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
        body = codec.dumps({"error": AccessRefused.code, "message": message})
    encoded = body.encode()
    headers.append((b"content-length", str(len(encoded)).encode()))
    return status, headers, encoded
