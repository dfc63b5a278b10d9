"""The way of a request that a deployed function sends with boto3: through few ASGI apps, with one match of its path."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.lambda_api.runtime.runtime_listener import guarded
from holdfast.web.app import App
from holdfast.web.limits import WebLimits
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, Router, path_of

_INVOKE = RoutePolicy("Invoke", Needs.OPERATE, Reach.START, waits=Waits.INVOCATION)
_ASGI = ("scope", "receive", "send")


class Walk:
    """Notes the ASGI apps of Holdfast and the matches of paths that run while a request is answered."""

    def __init__(self) -> None:
        self.apps: list[str] = []
        self.matches = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or "/holdfast/" not in code.co_filename:
            return
        arguments = code.co_varnames[: code.co_argcount]
        first = arguments[1:] if arguments[:1] == ("self",) else arguments
        if first == _ASGI and code.co_qualname not in self.apps:
            self.apps.append(code.co_qualname)
        self.matches += code is Router.find.__code__


async def answered(app: Callable[..., Any], path: str) -> int:
    """Send a request without a body, and return the status of its reply."""
    sent: list[dict[str, Any]] = []

    body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not body:
            await asyncio.Event().wait()  # the client stays connected, and sends nothing more
        return body.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"here")]
    scope = {"type": "http", "method": "POST", "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
    scope |= {"path": unquote(path), "raw_path": path.encode()}
    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


async def test_an_invocation_from_inside_a_function_passes_three_apps_and_is_matched_once() -> None:
    async def handler(_: Request) -> Reply:
        return json_reply({})

    path = "/2015-03-31/functions/f/invocations"
    api = App([Route("POST", path, handler, _INVOKE)], WebLimits(), lambda: "an-id")
    host, process, listener = RuntimeHost((), token=str, api=api), SimpleNamespace(invoking=0), SimpleNamespace(address="here")
    app = guarded(host.app(process), listener)  # type: ignore[arg-type]
    walk = Walk()
    sys.setprofile(walk)
    try:
        status = await answered(app, path)
    finally:
        sys.setprofile(None)
    assert status == 200
    assert walk.apps == ["guarded.<locals>.serve", "RuntimeHost.app.<locals>.serve", "App.__call__"]
    assert walk.matches == 1


async def test_the_host_and_the_router_read_the_path_as_it_was_sent() -> None:
    """An encoded slash is a part of a name, so these requests are neither invocations nor the Runtime API."""
    process = SimpleNamespace(invoking=0)
    seen: list[tuple[str, int]] = []

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((path_of(scope), process.invoking))
        await json_reply({})(scope, receive, send)

    app = RuntimeHost((), token=str, api=api).app(process)  # type: ignore[arg-type]
    paths = ["/2015-03-31/functions/f%2Finvocations", "/2018-06-01%2Fruntime/invocation/next", "/2015-03-31/functions/f/invocations"]
    assert [await answered(app, path) for path in paths] == [200, 200, 200]
    assert seen == list(zip(paths, [0, 0, 1], strict=True))
