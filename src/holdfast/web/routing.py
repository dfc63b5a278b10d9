"""Routes: which handler answers which method on which path.

Paths are matched as they were sent, still percent-encoded, so that a label with a slash in it stays one label. An execution's ARN may
also come raw; its slashes then belong to the label, because what follows it is known.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from holdfast.web.errors import Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request

Handler = Callable[[Request], Awaitable[Reply]]


class Route(NamedTuple):
    """One operation's place."""

    method: str
    path: str
    """A regular expression; its groups are the labels."""
    handler: Handler
    most: int | None = None
    """Bytes its body may have, if that is not the server's own limit."""
    waits: bool = False
    """It may wait as long as an execution lasts, and is counted apart."""


class Placed(Protocol):
    """What has a place."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


R = TypeVar("R", bound=Placed)


class Routes(Generic[R]):
    """All routes; of two paths that both match, the earlier one is meant."""

    def __init__(self, routes: Sequence[R]) -> None:
        methods: dict[str, dict[str, R]] = {}
        for route in routes:
            methods.setdefault(route.path, {})[route.method] = route
        self._places = [(re.compile(path), by_method) for path, by_method in methods.items()]

    def find(self, method: str, path: str) -> tuple[R, tuple[str, ...]]:
        """The route of a request, and the labels in its path."""
        for pattern, by_method in self._places:
            found = pattern.fullmatch(path)
            if found is not None:
                route = by_method.get(method)
                if route is None:
                    allowed = ", ".join(sorted(by_method))
                    raise Refused(
                        405,
                        "MethodNotAllowedException",
                        f"{method} is not allowed here; use {allowed}.",
                        headers=((b"allow", allowed.encode()),),
                    )
                return route, found.groups()
        raise Refused(404, "UnknownOperationException", f"There is no operation at {path:.200}.")
