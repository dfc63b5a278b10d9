"""The operations on executions. The SDK inside a function calls checkpoint and state; other clients call the others."""

from __future__ import annotations

import msgspec

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.executions import ListRequest
from holdfast.lambda_api.routes.aws_errors import AWS
from holdfast.model import wire
from holdfast.model.errors import ExecutionNotFound, InvalidParameter, InvalidToken
from holdfast.model.operations import Failure
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.refusals import unreadable
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

_EXECUTION = "/2025-12-01/durable-executions/(.+)"
_FUNCTION = "/2025-12-01/functions/([^/]+)"


def _of_one(operation: str, needs: Needs) -> RoutePolicy:
    return RoutePolicy(operation, needs, Reach.EXECUTION)


def _of_many(operation: str) -> RoutePolicy:
    return RoutePolicy(operation, Needs.VIEW, Reach.HANDLER)


class Executions:
    """The handlers of executions."""

    def __init__(self, api: LambdaApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        """The routes of these handlers. The route of GetDurableExecution comes after those with longer paths: the ARN in its path may have
        slashes, so it would match them too."""
        routes = [
            Route("POST", f"{_EXECUTION}/checkpoint", self.checkpoint, _of_one("CheckpointDurableExecution", Needs.OPERATE)),
            Route("GET", f"{_EXECUTION}/state", self.state, _of_one("GetDurableExecutionState", Needs.OPERATE)),
            Route("GET", f"{_EXECUTION}/history", self.history, _of_one("GetDurableExecutionHistory", Needs.VIEW)),
            Route("POST", f"{_EXECUTION}/stop", self.stop, _of_one("StopDurableExecution", Needs.OPERATE)),
            Route("GET", "/2025-12-01/durable-executions/?", self.list_all, _of_many("ListDurableExecutions")),
            Route("GET", _EXECUTION, self.get, _of_one("GetDurableExecution", Needs.VIEW)),
            Route("GET", f"{_FUNCTION}/durable-executions/?", self.list, _of_many("ListDurableExecutionsByFunction")),
        ]
        return in_group(AWS, routes)

    async def checkpoint(self, request: Request) -> Reply:
        """CheckpointDurableExecution. AWS's model has no 404 for this operation, so a missing execution is reported as an invalid token.
        (If the caller is limited to one tenant, the gate has answered 404 before.)"""
        try:
            asked = wire.checkpoint_from_json(request.content or b"{}")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unreadable(f"The request's body is not JSON: {error}") from None
        try:
            return json_reply(await self._api.checkpoint(request.label, asked))
        except ExecutionNotFound:
            raise InvalidToken from None

    async def state(self, request: Request) -> Reply:
        token = request.text("CheckpointToken")
        if not token:
            raise InvalidParameter("CheckpointToken: must have 1 to 2048 characters.")
        # A plus sign that a client did not encode arrives as a space, which no token has.
        return json_reply(self._api.state(request.label, token.replace(" ", "+"), request.text("Marker"), request.number("MaxItems")))

    async def get(self, request: Request) -> Reply:
        return json_reply(self._api.get(request.label, include_data=request.flag("IncludeExecutionData", True)))

    async def history(self, request: Request) -> Reply:
        return json_reply(
            self._api.history(
                request.label,
                include_data=request.flag("IncludeExecutionData", True),
                newest_first=request.flag("ReverseOrder", False),
                start=request.text("Marker"),
                most=request.number("MaxItems"),
            )
        )

    async def stop(self, request: Request) -> Reply:
        """StopDurableExecution. The whole body is the error."""
        return json_reply(await self._api.stop(request.label, request.decoded(Failure), request.actor))

    async def list(self, request: Request) -> Reply:
        return json_reply(self._api.list(_asked(request, request.label)))

    async def list_all(self, request: Request) -> Reply:
        """The executions of all functions, or with `?FunctionName=` of one. AWS has no such operation, but its official emulator has it."""
        return json_reply(self._api.list(_asked(request, request.text("FunctionName"))))


def _asked(request: Request, function: str | None) -> ListRequest:
    return ListRequest(
        function=function,
        qualifier=request.text("Qualifier"),
        name=request.text("DurableExecutionName"),
        statuses=request.texts("Statuses"),
        started_after=request.instant("StartedAfter"),
        started_before=request.instant("StartedBefore"),
        oldest_first=request.flag("ReverseOrder", False),
        marker=request.text("Marker"),
        most=request.number("MaxItems"),
        tenant=request.tenant,
    )
