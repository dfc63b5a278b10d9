"""The three operations on a callback: succeed, fail and heartbeat. The id of a callback is base64, so in the path it may have slashes,
plain or percent-encoded."""

from __future__ import annotations

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.aws_errors import AWS
from holdfast.model.operations import Failure
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

_CALLBACK = "/2025-12-01/durable-execution-callbacks/(.+)"


def _answers(operation: str) -> RoutePolicy:
    return RoutePolicy(operation, Needs.APPROVE, Reach.CALLBACK)


class Callbacks:
    """The handlers of callbacks."""

    def __init__(self, api: LambdaApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        routes = [
            Route("POST", f"{_CALLBACK}/succeed", self.succeed, _answers("SendDurableExecutionCallbackSuccess")),
            Route("POST", f"{_CALLBACK}/fail", self.fail, _answers("SendDurableExecutionCallbackFailure")),
            Route("POST", f"{_CALLBACK}/heartbeat", self.heartbeat, _answers("SendDurableExecutionCallbackHeartbeat")),
        ]
        return in_group(AWS, routes)

    async def succeed(self, request: Request) -> Reply:
        """SendDurableExecutionCallbackSuccess. The whole body is the result."""
        return json_reply(await self._api.succeed_callback(request.label, request.content, request.actor))

    async def fail(self, request: Request) -> Reply:
        """SendDurableExecutionCallbackFailure. The whole body is the error."""
        return json_reply(await self._api.fail_callback(request.label, request.decoded(Failure), request.actor))

    async def heartbeat(self, request: Request) -> Reply:
        return json_reply(await self._api.heartbeat_callback(request.label))
