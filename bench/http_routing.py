"""`python -m bench.http_routing`: what Holdfast's router costs, and what Starlette's routing would cost in its place.

All handlers do nothing. A request goes through the same app twice: once the app finds the route, and once a `Starlette` with the same
routes in the same order finds it and calls the app. So the difference is the routing. The apps are called without a network, and their CPU
time is measured. docs/internals/http.md says what follows from the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import count
from time import process_time
from typing import Any, Final
from unittest.mock import Mock
from urllib.parse import quote, unquote

import uvloop
from starlette.applications import Starlette
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Scope

from bench.figures import Taken
from bench.table import figure
from bench.terms import Sizes
from holdfast.console.console import Console, front_door
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.routes.deploy import DeployRoutes
from holdfast.lambda_api.routes.logs import LogRoutes
from holdfast.server.events import Events
from holdfast.server.metrics import MetricsRoutes
from holdfast.server.protocol.queues import Queues
from holdfast.server.protocol.routes import worker_routes
from holdfast.server.schedules import ScheduleRoutes
from holdfast.web.app import App
from holdfast.web.limits import WebLimits
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Match, Route, Router

WARM_REQUESTS: Final = 200
_ARN: Final = "arn:aws:lambda:local:000000000000:function:in_sequence:$LATEST/durable-execution/bench/{}"
_HEADERS: Final = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"2")]
_BODY: Final[Message] = {"type": "http.request", "body": b"{}", "more_body": False}
_LABEL: Final = re.compile(r"\([^()]*\)|\.\*")


def lambda_routes() -> list[Route]:
    """All routes of the Lambda API."""
    return _with_the_lambda_apis([])


def server_routes() -> list[Route]:
    """The routes of `holdfast serve` with workers, in its order: those of the Lambda API for executions are the last."""
    nothing: Any = Mock()
    console = Console(nothing, "", nothing, clock=nothing, ids=nothing).routes()
    queues, schedules = Queues(nothing, nothing, None).routes(), ScheduleRoutes(nothing, nothing, nothing).routes()
    beside = [*MetricsRoutes(nothing).routes(), *schedules, *Events(nothing, nothing).routes()]
    return _with_the_lambda_apis([*queues, *worker_routes(nothing), *beside, *console, *front_door()])


def _with_the_lambda_apis(more: Sequence[Route]) -> list[Route]:
    nothing: Any = Mock()
    routes = make_app(nothing, more=[*DeployRoutes(nothing).routes(), *LogRoutes(nothing).routes(), *more]).router.routes
    return [route._replace(handler=_handled) for route in routes]


async def _handled(request: Request) -> Reply:
    return json_reply({})


def ours(routes: Sequence[Route]) -> ASGIApp:
    """The routes in Holdfast's app."""
    return App(routes, WebLimits(), lambda: "an-id")


def starlettes(routes: Sequence[Route]) -> ASGIApp:
    """The same routes in Starlette's app. Routes of one path are one route there, as in Holdfast's router."""
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    found = [
        StarletteRoute(_starlettes_path(path), _behind(same[0]), methods=[one.method for one in same]) for path, same in by_path.items()
    ]
    app = Starlette(routes=found)
    app.router.redirect_slashes = False
    return app


class _Found(Router):
    """The router of an app whose route Starlette has found."""

    def __init__(self, route: Route) -> None:
        super().__init__([route])
        self._found = Match("", route.policy, route.group, (), route.handler)

    def find(self, method: str, path: str, target: str | None = None) -> Match:
        return self._found


def _behind(route: Route) -> ASGIApp:
    app = App([route], WebLimits(), lambda: "an-id")
    app.router = _Found(route)
    return app


def _starlettes_path(path: str) -> str:
    """The path of a route in Starlette's words. Starlette decodes a path before it matches it, so a label that may have an encoded slash is
    of the kind `path`."""
    numbers = count()
    kinds = {"(.+)": ":path", ".*": ":path"}
    return _LABEL.sub(lambda found: f"{{label_{next(numbers)}{kinds.get(found[0], '')}}}", path.removesuffix("/?"))


def checkpoint_path(number: int) -> str:
    """The path of a checkpoint of one execution, as an SDK sends it."""
    return f"/2025-12-01/durable-executions/{quote(_ARN.format(number), safe='')}/checkpoint"


async def seconds_per_request(app: ASGIApp, path_of: Callable[[int], str], requests: int) -> float:
    """The CPU time of one POST, in seconds. `path_of` gives the path of each request, by its number."""

    async def receive() -> Message:
        return _BODY

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message

    def scope(path: str) -> Scope:
        about = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "query_string": b"", "headers": _HEADERS}
        return {**about, "root_path": "", "path": unquote(path), "raw_path": path.encode(), "client": ("127.0.0.1", 1)}

    for number in range(WARM_REQUESTS):
        await app(scope(path_of(number)), receive, send)
    scopes = [scope(path_of(WARM_REQUESTS + number)) for number in range(requests)]
    began = process_time()
    for one in scopes:
        await app(one, receive, send)
    return (process_time() - began) / requests


def routed(sizes: Sizes) -> dict[str, Taken]:
    """The CPU time of a request. The limit is the same request with Starlette's routing. Checkpoints of one execution have one path; the
    last figure is for requests that each have another path."""

    fresh = count()

    def again(number: int) -> str:
        return checkpoint_path(number % sizes.http_connections)

    def new(number: int) -> str:
        return checkpoint_path(next(fresh))  # also new to the next round, because the router remembers the paths of the last one

    measures = {
        "HTTP routing": (server_routes(), again),
        "HTTP routing Lambda": (lambda_routes(), again),
        "HTTP routing new": (server_routes(), new),
    }
    found: dict[str, Taken] = {}
    for key, (routes, path_of) in measures.items():
        apps = (ours(routes), starlettes(routes))
        pairs = [tuple(uvloop.run(seconds_per_request(app, path_of, sizes.http_routed)) for app in apps) for _ in range(sizes.pairs)]
        found[key] = Taken(tuple(own for own, _ in pairs), tuple(starlette for _, starlette in pairs))
    return found


if __name__ == "__main__":
    for key, taken in routed(Sizes()).items():
        own, starlette = (figure(min(samples) * 1e6) for samples in (taken.samples, taken.against))
        print(f"{key:20} Holdfast {own} µs, Starlette {starlette} µs, ratio {taken.ratio:.2f}")
