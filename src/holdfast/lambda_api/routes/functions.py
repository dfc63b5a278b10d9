"""Functions: Invoke, and the operations that show functions and their configuration."""

from __future__ import annotations

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.invoke import SYNC_BYTES, Invoke, Invoked
from holdfast.lambda_api.routes.aws_errors import AWS
from holdfast.web.policy import HeaderOf, Needs, Reach, RoutePolicy, Waits
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

_FUNCTIONS = "/2015-03-31/functions"


def _wants_result(header: HeaderOf) -> bool:
    return header(b"x-amz-invocation-type") in (None, "RequestResponse", "")


_INVOKE = RoutePolicy("Invoke", Needs.OPERATE, Reach.START, body_bytes=SYNC_BYTES, waits=Waits.INVOCATION, wants_result=_wants_result)


def _shows(operation: str) -> RoutePolicy:
    return RoutePolicy(operation, Needs.VIEW, Reach.ALL)


class Functions:
    """The handlers of functions."""

    def __init__(self, api: LambdaApi) -> None:
        self._api = api

    def routes(self) -> list[Route]:
        routes = [
            Route("POST", f"{_FUNCTIONS}/([^/]+)/invocations", self.invoke, _INVOKE),
            Route("GET", f"{_FUNCTIONS}/([^/]+)/configuration", self.configuration, _shows("GetFunctionConfiguration")),
            Route("GET", f"{_FUNCTIONS}/([^/]+)/versions", self.versions, _shows("ListVersionsByFunction")),
            Route("GET", f"{_FUNCTIONS}/?", self.list, _shows("ListFunctions")),
            Route("GET", f"{_FUNCTIONS}/([^/]+)", self.get, _shows("GetFunction")),
        ]
        return in_group(AWS, routes)

    async def invoke(self, request: Request) -> Reply:
        """Invoke. The body is the payload. The other members are in the path, in the query and in headers."""
        asked = Invoke(
            function=request.label,
            qualifier=request.text("Qualifier"),
            kind=request.header(b"x-amz-invocation-type") or "RequestResponse",
            log_type=request.header(b"x-amz-log-type") or "None",
            client_context=request.header(b"x-amz-client-context"),
            name=request.header(b"x-amz-durable-execution-name"),
            tenant=request.execution_tenant,
            trace=request.header(b"x-amzn-trace-id"),
            payload=request.content,
        )
        return _invoked(await self._api.invoke(asked))

    async def get(self, request: Request) -> Reply:
        return json_reply(self._api.get_function(request.label, request.text("Qualifier"), values=request.sees_values))

    async def configuration(self, request: Request) -> Reply:
        return json_reply(self._api.get_function_configuration(request.label, request.text("Qualifier"), values=request.sees_values))

    async def list(self, request: Request) -> Reply:
        """ListFunctions. There is only one region, so the parameter MasterRegion is ignored."""
        asked = request.text("FunctionVersion"), request.text("Marker"), request.number("MaxItems")
        return json_reply(self._api.list_functions(*asked, values=request.sees_values))

    async def versions(self, request: Request) -> Reply:
        asked = request.label, request.text("Marker"), request.number("MaxItems")
        return json_reply(self._api.list_versions(*asked, values=request.sees_values))


def _invoked(answer: Invoked) -> Reply:
    headers: list[Header] = [(b"x-amz-executed-version", answer.version.encode())]
    if answer.status == 200:
        headers.append((b"content-type", b"application/json"))
    if answer.arn is not None:
        headers.append((b"x-amz-durable-execution-arn", answer.arn.encode()))
    if answer.error is not None:
        headers.append((b"x-amz-function-error", answer.error.encode()))
    if answer.log is not None:
        headers.append((b"x-amz-log-result", answer.log.encode()))
    return Reply(answer.status, answer.payload, tuple(headers), request_id=answer.request)
