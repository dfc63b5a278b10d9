"""Denials: the reasons why the gate does not admit a request, each with the error and the statuses that the caller gets."""

from __future__ import annotations

from enum import Enum
from typing import Final

from holdfast.web.refusals import Refused


class Denial(Enum):
    """A reason why the gate does not admit a request: the name of AWS's error, the HTTP status for AWS's clients, and the status for other
    clients. (A browser without a login is redirected instead.)"""

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
        """The id of the caller's credential; None if the gate has not recognised the caller."""
        self.tenant: str | None = None
        """The tenant of the caller; None if it has none, or if the gate has not recognised the caller."""


class RoleMissing(Denied):
    """The caller has none of the roles that the operation needs."""

    def __init__(self, name: str, operation: str, roles: str) -> None:
        super().__init__(Denial.DENIED, f"{name} may not use {operation}: that needs the role {roles}.")
        self.roles = roles
        """The roles that are enough, as a text such as `operator or admin`."""


class TenantTooNarrow(Denied):
    """The operation concerns all tenants, and the credential of the caller is limited to one."""

    def __init__(self, name: str, operation: str, tenant: str) -> None:
        super().__init__(Denial.DENIED, f"{name} is limited to the tenant {tenant!r}. {operation} needs a credential for all tenants.")


NO_SUCH_TOKEN: Final = "The security token included in the request is invalid."
