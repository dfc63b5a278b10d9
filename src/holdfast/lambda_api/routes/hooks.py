"""Requests that are not AWS's: the one with which SAM starts executions in an emulator, and health checks."""

from __future__ import annotations

import msgspec

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.aws_errors import HOOKS
from holdfast.model.errors import InvalidParameter
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.refusals import retry_after
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

_PROBE = RoutePolicy("Health", Needs.NOTHING, Reach.ALL)


class _Start(msgspec.Struct, rename="pascal"):
    function_name: str
    function_qualifier: str | None = None
    execution_name: str | None = None
    execution_timeout_seconds: int | None = None
    execution_retention_period_days: int | None = None
    tenant_id: str | None = None
    input: str | None = None


class HookRoutes:
    """The handlers of SAM's request that starts an execution, and of health checks."""

    def __init__(self, api: LambdaApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        routes = [
            Route("POST", "/start-durable-execution", self.start, RoutePolicy("StartDurableExecution", Needs.OPERATE, Reach.NONE)),
            Route("GET", "/health", self.health, _PROBE),
            Route("HEAD", "/health", self.health, _PROBE),
            Route("GET", "/ready", self.ready, _PROBE),
        ]
        return in_group(HOOKS, routes)

    async def start(self, request: Request) -> Reply:
        """Start an execution of a function that is served here. Other members of SAM's request (account, trace, invocation id, endpoint)
        are ignored."""
        asked = request.decoded(_Start)
        try:
            payload = (asked.input or "").encode()
        except UnicodeEncodeError:
            raise InvalidParameter("Input: the text is not valid Unicode.") from None
        arn = await self._api.start(
            asked.function_name,
            asked.function_qualifier or None,
            payload,
            name=asked.execution_name or None,
            tenant=asked.tenant_id or None,
            timeout_seconds=asked.execution_timeout_seconds,
            retention_days=asked.execution_retention_period_days,
        )
        return json_reply({"ExecutionArn": arn}, 201)

    async def health(self, request: Request) -> Reply:
        """Answer 200, because the process runs. Nothing is checked."""
        return json_reply({"status": "healthy"})

    async def ready(self, request: Request) -> Reply:
        """Answer 200 if the store can be written now, else 503."""
        trouble = self._api.trouble()
        if trouble is None:
            return json_reply({"status": "ready"})
        known = {"reason": trouble} if request.identity.roles else {}  # the reason names the store's file: not for unknown callers
        return json_reply({"status": "not ready", **known}, 503, retry_after())
