"""Refusals: why a request is not served, and what its sender is told: AWS's error shapes where AWS's clients ask, the worker
protocol's where workers are asked, plain JSON elsewhere."""

from __future__ import annotations

from enum import Enum
from typing import Final

from holdfast.model.errors import AccessRefused
from holdfast.web import errors
from holdfast.web.replies import Reply, json_reply


class Refusal(Enum):
    """Why: the name of AWS's error, its HTTP status, and the status for everybody else."""

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


class Refused(errors.Refused):
    """The server does not serve this to whoever asks: `AccessRefused`, with what its sender is told."""

    def __init__(self, why: Refusal, message: str) -> None:
        super().__init__(why.aws_status, why.error, message)
        self.why = why
        self.who: str | None = None
        """Who was refused, where that is known for sure."""
        self.tenant: str | None = None


NO_SUCH_TOKEN: Final = "The security token included in the request is invalid."


def answer(refused: errors.Refused, *, aws: bool, protocol: bool = False) -> Reply:
    """What whoever asked is told."""
    if protocol:
        return _response(refused)
    if aws or not isinstance(refused, Refused):
        return errors.refusal(refused)
    status = refused.why.plain_status
    headers = ((b"www-authenticate", b'Bearer realm="holdfast"'),) if status == 401 else ()
    return json_reply({"error": AccessRefused.code, "message": str(refused)}, status, headers)


def _response(refused: errors.Refused) -> Reply:
    from holdfast.web.responses import Subject, door_reply, refusal  # making a key needs nothing of workers

    if not isinstance(refused, Refused):
        return refusal(refused, Subject())
    status = refused.why.plain_status
    code = "overloaded" if refused.why is Refusal.TROUBLE else "access_denied"
    headers = ((b"www-authenticate", b'Bearer realm="holdfast"'),) if status == 401 else ()
    return door_reply(code, str(refused), Subject(), status, headers=headers)
