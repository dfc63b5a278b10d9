"""The three answers to a callback. Its id is base64 and may have slashes, raw or encoded."""

from __future__ import annotations

from holdfast.lambda_api.operations import LambdaApi
from holdfast.model.operations import Failure
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_CALLBACK = "/2025-12-01/durable-execution-callbacks/(.+)"


class Callbacks:
    """Their handlers."""

    def __init__(self, api: LambdaApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("POST", f"{_CALLBACK}/succeed", self.succeed),
            Route("POST", f"{_CALLBACK}/fail", self.fail),
            Route("POST", f"{_CALLBACK}/heartbeat", self.heartbeat),
        ]

    async def succeed(self, request: Request) -> Reply:
        """SendDurableExecutionCallbackSuccess; the body is the result itself."""
        return json_reply(await self._api.succeed_callback(request.label, request.body, request.actor))

    async def fail(self, request: Request) -> Reply:
        """SendDurableExecutionCallbackFailure; the body is the error itself."""
        return json_reply(await self._api.fail_callback(request.label, request.json(Failure), request.actor))

    async def heartbeat(self, request: Request) -> Reply:
        """SendDurableExecutionCallbackHeartbeat."""
        return json_reply(await self._api.heartbeat_callback(request.label))
