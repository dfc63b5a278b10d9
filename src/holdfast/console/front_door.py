"""The front door: `GET /` of a server redirects to the console, so that a person need not know its path."""

from __future__ import annotations

from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_POLICY = RoutePolicy("OpenConsole", Needs.NOTHING, Reach.ALL)


def front_door() -> list[Route]:
    """The route `GET /`, for a server that has the console."""
    return [Route("GET", "/", _to_the_console, _POLICY)]


async def _to_the_console(request: Request) -> Reply:
    """Redirect to the console. The address is relative, so that it also works behind a proxy that adds a path."""
    return Reply(303, headers=((b"location", b"./console/"), (b"cache-control", b"no-store")))
