"""Groups of routes: what the routes of one API have in common. The kit has the plain group; a package with another API brings its own."""

from __future__ import annotations

from holdfast.model.errors import AccessRefused, HoldfastError
from holdfast.web.auth.denials import Denied
from holdfast.web.capacity import COMMON, ApiCapacity
from holdfast.web.error_shapes import reply_to, shaped
from holdfast.web.refusals import Header, Refused, unavailable
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request


class RouteGroup:
    """How clients of one API read errors, which requests without a route are requests to this API, and which capacity counts its requests.

    This class itself is the plain group. If the gate denies the caller, the reply is JSON with `error` and `message`. All other errors have
    the form of error_shapes.py.
    """

    prefix: str | None = None
    """The beginning of the group's paths, without the last slash. A request with this path, or with a path below it, that no route takes
    has errors of this group. None: the group has no such paths, unless it has an `owns` of its own."""

    capacity: ApiCapacity = COMMON

    def owns(self, path: str, target: str | None) -> bool:
        """Whether a request that no route takes has errors of this group. `target` is its header X-Amz-Target, or None."""
        return self.prefix is not None and (path == self.prefix or path.startswith(f"{self.prefix}/"))

    def denial(self, refused: Refused, request: Request) -> Reply:
        """The reply to a request that the gate does not admit."""
        if not isinstance(refused, Denied):
            return reply_to(refused)
        status = refused.why.plain_status
        return json_reply({"error": AccessRefused.code, "message": str(refused)}, status, challenge(status))

    def failure(self, error: Exception, request: Request) -> Reply:
        """The reply to a request that the gate admitted and that failed with `error`."""
        if isinstance(error, TimeoutError):
            error = unavailable(
                "The request took too long. It may still be carried out. Send it again, with the same ClientToken if it has one."
            )
        if isinstance(error, HoldfastError):
            return reply_to(error, self.message(error, request))
        if isinstance(error, Refused):
            return reply_to(error)
        return shaped(500, "ServiceException", "The service had an internal error. Its log has the details.")

    def message(self, error: HoldfastError, request: Request) -> str:
        """The message of one of Holdfast's errors, for the client that sent `request`."""
        return str(error)


PLAIN = RouteGroup()
"""The group of all routes that declare no other, and of all requests that no route takes and no other group owns."""


def challenge(status: int) -> tuple[Header, ...]:
    """The header of a reply that asks for a token: with the status 401 a reply must have it. Empty for any other status."""
    return ((b"www-authenticate", b'Bearer realm="holdfast"'),) if status == 401 else ()
