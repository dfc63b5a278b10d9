"""Policy: who may use a route, what a tenant may reach through it, and how large and how long a request may be. Every route has a policy.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

import msgspec

from holdfast.model.credentials import Role

HeaderOf = Callable[[bytes], str | None]
"""Returns the value of a header of one request, by its name in lower case (`Request.header`)."""


class Needs(Enum):
    """The permission that a route needs. `_MAY` has the roles that give it."""

    NOTHING = "nothing"
    VIEW = "view"
    OPERATE = "operate"
    APPROVE = "approve"
    SETTLE = "settle"
    ADMINISTER = "administer"
    DEPLOY = "deploy"
    """Needs the same role as ADMINISTER. A request to such a route decides which code runs. A server without credentials therefore refuses
    the request, unless the server was started with `--allow-deploy`."""


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
    """Whether one of the roles gives the permission `needs`."""
    return not _MAY[needs].isdisjoint(roles)


def enough(needs: Needs) -> str:
    """The roles that give the permission `needs`, as a text for a caller: `operator or admin`."""
    return " or ".join(role.value for role in Role if role in _MAY[needs])


class Reach(Enum):
    """How the server keeps a caller who has a tenant from reaching other tenants through a route."""

    ALL = "all"
    """The server does not compare tenants: the route shows nothing that belongs to a tenant, or it needs no credential."""
    EXECUTION = "execution"
    """The first label of the path is the ARN of an execution. The gate refuses the request if that execution is not of the caller's
    tenant."""
    CALLBACK = "callback"
    """The first label of the path is the id of a callback. The gate refuses the request if the callback's execution is not of the caller's
    tenant."""
    START = "start"
    """The route starts an execution. The header X-Amz-Tenant-Id must name the tenant of the caller, or be absent."""
    HANDLER = "handler"
    """The handler leaves out what belongs to other tenants (`Request.tenant`)."""
    NONE = "none"
    """The route concerns all tenants: the gate refuses every credential that is limited to a tenant."""


class Waits(Enum):
    """How long a request may take, and which limit of the number of requests counts it."""

    NO = "no"
    """Up to `WebLimits.request_seconds`, counted among `WebLimits.requests`, until the handler calls `Request.waiting` or
    `Request.uploading`."""
    INVOCATION = "invocation"
    """Until the invocation has a result, at most `WebLimits.wait_seconds`. The request is counted among `WebLimits.waits` from the start.
    If the caller does not wait for the result (`RoutePolicy.wants_result`), like NO."""
    WHEN_ASKED = "when asked"
    """Like NO, and the handler may answer with a stream. If the caller closes the connection, the server cancels the handler."""
    STREAM = "stream"
    """Until the stream ends or the caller closes the connection. The request is counted neither among `WebLimits.requests` nor among
    `WebLimits.waits`: the handler limits the number of streams."""


class RoutePolicy(msgspec.Struct, frozen=True):
    """The rules of one route: which callers may use it, what a tenant reaches through it, and how large and how long a request may be."""

    operation: str
    """The name of the operation in errors and in the audit log."""
    needs: Needs
    reach: Reach
    body_bytes: int | None = None
    """The largest body in bytes; None: `WebLimits.body_bytes`. It does not limit a body that the handler reads itself (`reads_body`)."""
    waits: Waits = Waits.NO
    wants_result: Callable[[HeaderOf], bool] | None = None
    """For Waits.INVOCATION: whether the caller of a request waits for the result, by the headers of the request. None: each caller does."""
    reads_body: bool = False
    """Whether the handler reads the body itself while it arrives (`Request.parts`)."""
    secret_path: bool = False
    """Whether the path contains a secret that gives a permission. If it does, the audit log has only the first two parts of the path."""
    service: str = "lambda"
    """The AWS service that the signature of a request must name, if the request is signed."""
    session: bool = False
    """Whether a browser may use the route with the cookie of its session instead of a token or a signature."""

    @property
    def changes_code(self) -> bool:
        """Whether the route needs ADMINISTER or DEPLOY. If it does, each of its requests, except GET and HEAD, gets a line in the audit log
        before it is served, because it may change code or settings; but not if no route matches it (`UNKNOWN`)."""
        return self.needs in (Needs.DEPLOY, Needs.ADMINISTER)


UNKNOWN: Final = RoutePolicy("Unknown", Needs.ADMINISTER, Reach.NONE)
"""The policy of a request that matches no route. On a server with credentials, only an admin of all tenants gets the answer that there is
no such route."""
