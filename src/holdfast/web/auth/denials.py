"""Denials: why the gate does not admit a request, with the error and the statuses that its caller gets."""

from __future__ import annotations

from enum import Enum
from typing import Final

from holdfast.web.refusals import Refused


class Denial(Enum):
    """Why: the name of AWS's error, its HTTP status for AWS's clients, and the status for all other clients."""

    MISSING = ("MissingAuthenticationTokenException", 403, 401)
    UNKNOWN = ("UnrecognizedClientException", 403, 401)
    INCOMPLETE = ("IncompleteSignatureException", 400, 400)
    SIGNATURE = ("InvalidSignatureException", 403, 401)
    EXPIRED = ("ExpiredTokenException", 403, 401)
    DENIED = ("AccessDeniedException", 403, 403)
    ABSENT = ("ResourceNotFoundException", 404, 404)
    TROUBLE = ("ServiceException", 500, 503)

    def __init__(self, error: str, aws_status: int, plain_status: int) -> None:
        self.error = error
        self.aws_status = aws_status
        self.plain_status = plain_status


class Denied(Refused):
    """The gate does not admit the request of this caller."""

    def __init__(self, why: Denial, message: str) -> None:
        super().__init__(why.aws_status, why.error, message)
        self.why = why
        self.who: str | None = None
        """The caller, where the gate has recognised it."""
        self.tenant: str | None = None


NO_SUCH_TOKEN: Final = "The security token included in the request is invalid."
