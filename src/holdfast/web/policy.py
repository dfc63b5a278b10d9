"""Policy: who may use a route, which part of it a tenant may reach, and how much one request may use. A route cannot be declared without
one. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

import msgspec

from holdfast.model.credentials import Role


class Needs(Enum):
    """What a caller must be allowed to do."""

    NOTHING = "nothing"
    VIEW = "view"
    OPERATE = "operate"
    APPROVE = "approve"
    SETTLE = "settle"
    ADMINISTER = "administer"
    DEPLOY = "deploy"
    """As ADMINISTER. A server without credentials also needs `--allow-deploy`, because the request decides which code runs."""


_MAY: Final = {
    Needs.NOTHING: frozenset(Role),
    Needs.VIEW: frozenset(Role),
    Needs.OPERATE: frozenset({Role.OPERATOR, Role.ADMIN}),
    Needs.APPROVE: frozenset({Role.APPROVER, Role.ADMIN}),
    Needs.SETTLE: frozenset({Role.SETTLER, Role.ADMIN}),
    Needs.ADMINISTER: frozenset({Role.ADMIN}),
    Needs.DEPLOY: frozenset({Role.ADMIN}),
}


def may(roles: Collection[Role], needs: Needs) -> bool:
    """Whether one of the roles is enough."""
    return not _MAY[needs].isdisjoint(roles)


def enough(needs: Needs) -> str:
    """The roles that are enough (any one of them), as a caller reads them."""
    return " or ".join(role.value for role in Role if role in _MAY[needs])


class Reach(Enum):
    """How the server keeps a route to the tenant of its caller."""

    ALL = "all"
    """The route shows only functions and workers, which all tenants share."""
    EXECUTION = "execution"
    """The first label of the path is the ARN of an execution. The gate compares the tenant of that execution."""
    CALLBACK = "callback"
    """The first label of the path is the id of a callback. The gate compares the tenant of its execution."""
    START = "start"
    """The route starts an execution. The header X-Amz-Tenant-Id must name the tenant of the caller, or be absent."""
    HANDLER = "handler"
    """The handler leaves out what belongs to other tenants (`Request.tenant`)."""
    NONE = "none"
    """The route cannot be kept to one tenant: the gate refuses every credential of a tenant."""


class Waits(Enum):
    """How long a request may take, and where the server counts it."""

    NO = "no"
    """Up to `Limits.request_seconds`, counted among `Limits.requests`."""
    INVOCATION = "invocation"
    """As long as an execution takes, counted among `Limits.waits` from the start. If the caller does not wait for the result, like NO."""
    WHEN_ASKED = "when asked"
    """Like NO, until the handler calls `Request.waiting`. The handler may answer with a stream, and is ended when the caller leaves."""
    STREAM = "stream"
    """Until the caller leaves. The handler bounds how many streams there are."""


class Policy(msgspec.Struct, frozen=True):
    """The rules of one route: which callers may use it, what a tenant reaches through it, and how large and how long a request may be."""

    operation: str
    """The name that errors, signatures and the audit log use."""
    needs: Needs
    reach: Reach
    body_bytes: int | None = None
    """The largest body, where that is not `Limits.body_bytes`."""
    waits: Waits = Waits.NO
    reads_body: bool = False
    """Whether the handler reads the body itself while it arrives (`Request.parts`)."""
    secret_path: bool = False
    """Whether the path contains a permission. Then logs have only its first two parts."""
    service: str = "lambda"
    """The AWS service that requests are signed for."""
    session: bool = False
    """Whether a browser may use the route with the cookie of its session instead of a token."""

    @property
    def changes_code(self) -> bool:
        """Whether the request changes code, so that the audit log must have a line before it is served."""
        return self.needs in (Needs.DEPLOY, Needs.ADMINISTER)


UNKNOWN: Final = Policy("Unknown", Needs.ADMINISTER, Reach.NONE)
"""The policy of every request that no route takes: only an admin learns that there is nothing."""
