"""Routes: which handler answers which method on which path, and under which policy.

The router matches a path as the client sent it, still percent-encoded, so that a label (a variable part of a path) with an encoded slash
stays one label. An execution's ARN may also arrive with plain slashes; these belong to the label, because the text after the label is
known. Each request is matched once, and the gate and the handler use the same match. If they read a path in two ways, a client could evade
the policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from starlette.types import Scope

from holdfast.web.policy import UNKNOWN, RoutePolicy
from holdfast.web.refusals import Refused
from holdfast.web.replies import Response
from holdfast.web.requests import Request
from holdfast.web.route_groups import PLAIN, RouteGroup

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_CACHED_CHARACTERS: Final = 512
_CACHED_MATCHES: Final = 2048
"""The router remembers at most this many matches, so that it need not search again: all checkpoints of an execution have the same path."""


class Route(NamedTuple):
    """One operation of an HTTP API: its method and path, its handler, and its policy."""

    method: str
    path: str
    """A regular expression; its groups are the labels."""
    handler: Handler
    policy: RoutePolicy
    target: str | None = None
    """The value that the header X-Amz-Target must have, or the beginning of that value up to and including the dot. None: the route is for
    requests without the header, and for values that no other route names. AWS's JSON protocols have one path for all operations."""
    group: RouteGroup = PLAIN


def in_group(group: RouteGroup, routes: Iterable[Route]) -> list[Route]:
    """The same routes, in this group."""
    return [route._replace(group=group) for route in routes]


class Match(NamedTuple):
    """The result of the router for one request. If no route fits the path, the method and the X-Amz-Target, `handler` is None, and the
    policy demands an admin (`UNKNOWN`). One exception: for a HEAD on a path that has a GET but no HEAD, `handler` is None, and the policy
    is that of the GET."""

    path: str
    """The path as the client sent it."""
    policy: RoutePolicy
    group: RouteGroup
    """The group of the route. If the policy is that of an unknown operation: the group that owns the path (`RouteGroup.owns`)."""
    labels: tuple[str, ...] = ()
    """The labels in the path, decoded."""
    handler: Handler | None = None
    allowed: tuple[str, ...] = ()
    """If the path has routes, but none for the method of the request: the methods of its routes. Else empty."""

    def refusal(self, method: str) -> Refused:
        """The error for a request without a handler: 404 if no route has this path, 405 if the path has routes, but none for this
        method."""
        if not self.allowed:
            return Refused(404, "UnknownOperationException", f"There is no operation at {self.path:.200}.")
        allowed = ", ".join(self.allowed)
        message = f"{method} is not allowed here; use {allowed}."
        return Refused(405, "MethodNotAllowedException", message, headers=((b"allow", allowed.encode()),))


class Router:
    """All routes of an app. If several paths match a request, the path that was given first is used. If that path has no route for the
    method of the request, the reply is 405, and no other path is tried."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        places: dict[str, dict[str, dict[str | None, Route]]] = {}
        for route in routes:
            places.setdefault(route.path, {}).setdefault(route.method, {})[route.target] = route
        self._places = [(re.compile(path), by_method) for path, by_method in places.items()]
        self.groups = tuple(dict.fromkeys((PLAIN, *(route.group for route in routes))))
        self._cached = lru_cache(maxsize=_CACHED_MATCHES)(self._match)

    def find(self, method: str, path: str, target: str | None = None) -> Match:
        """Find the route of a request. `path` is percent-encoded, as the client sent it. `target` is the value of the header X-Amz-Target,
        or None."""
        if len(path) < _CACHED_CHARACTERS and target is None:
            return self._cached(method, path, None)
        return self._match(method, path, target)

    def _match(self, method: str, path: str, target: str | None) -> Match:
        for pattern, by_method in self._places:
            found = pattern.fullmatch(path)
            if found is not None:
                labels = tuple(map(unquote, found.groups()))
                route = _targeted(by_method.get(method, {}), target)
                if route is not None:
                    return Match(path, route.policy, self._group_of(route, path, target), labels, route.handler)
                # A HEAD needs the same permission as a GET, because it shows no more. It is refused if no route has the method HEAD.
                shown = _targeted(by_method.get("GET", {}), target) if method == "HEAD" else None
                policy = UNKNOWN if shown is None else shown.policy
                return Match(path, policy, self._group_of(shown, path, target), labels, allowed=tuple(sorted(by_method)))
        return Match(path, UNKNOWN, self._group_of(None, path, target))

    def _group_of(self, route: Route | None, path: str, target: str | None) -> RouteGroup:
        """The group of a request. If the request has no route, or a route for unknown operations, the beginning of its path and its
        X-Amz-Target decide: they show which kind of client sends such requests."""
        if route is not None and route.policy.operation != UNKNOWN.operation:
            return route.group
        return next((group for group in self.groups if group.owns(path, target)), PLAIN)


def target_of(scope: Scope, path: str) -> str | None:
    """The header X-Amz-Target of a request to the path `/`; None if the request does not have it. On any other path the header is ignored,
    and the result is None: a client could use the header to evade the policy of that path."""
    if path != "/":
        return None
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key == b"x-amz-target") or None


def path_of(scope: Scope) -> str:
    """The path of a request as the client sent it: percent-encoded, without the query."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _targeted(routes: Mapping[str | None, Route], target: str | None) -> Route | None:
    """The route for a value of X-Amz-Target: first the route for exactly this value, then the route for its part up to the dot (the AWS
    service), then the route without a target. None if there is none of these."""
    service = None if target is None else target.partition(".")[0] + "."
    return routes.get(target) or routes.get(service) or routes.get(None)
