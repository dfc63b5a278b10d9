"""The operations of CloudWatch Logs that read logs. In AWS's JSON 1.1 protocol, the header X-Amz-Target names the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.lambda_api.logs.log_operations import Logs
from holdfast.lambda_api.logs.log_requests import DescribeLogGroups, DescribeLogStreams, FilterLogEvents, GetLogEvents
from holdfast.lambda_api.routes.aws_errors import AWS
from holdfast.model.deploy_errors import LogNotFound
from holdfast.model.errors import HoldfastError, Rejected
from holdfast.model.threads import Purpose, in_thread
from holdfast.web.policy import UNKNOWN, Needs, Reach, RoutePolicy
from holdfast.web.refusals import Header, Refused, retry_after
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

TARGET: Final = "Logs_20140328."
_CONTENT: Final[Header] = (b"content-type", b"application/x-amz-json-1.1")
_BODY_BYTES: Final = 1024 * 1024


class _Operation(NamedTuple):
    asked: type[Any]
    verb: Callable[[Any, str | None], dict[str, Any]]


def _policy(operation: str, needs: Needs, reach: Reach) -> RoutePolicy:
    return RoutePolicy(operation, needs, reach, body_bytes=_BODY_BYTES, service="logs")


class LogRoutes:
    """The handler of all operations on logs."""

    def __init__(self, logs: Logs) -> None:
        self.operations: Mapping[str, _Operation] = {
            "FilterLogEvents": _Operation(FilterLogEvents, logs.filter_log_events),
            "GetLogEvents": _Operation(GetLogEvents, logs.get_log_events),
            "DescribeLogGroups": _Operation(DescribeLogGroups, logs.describe_log_groups),
            "DescribeLogStreams": _Operation(DescribeLogStreams, logs.describe_log_streams),
        }

    def routes(self) -> list[Route]:
        """The routes of the operations. All have the same path; the header X-Amz-Target decides which route is used."""
        known = {f"{TARGET}{name}": _policy(name, Needs.VIEW, Reach.HANDLER) for name in self.operations}
        unknown = {
            TARGET: _policy(UNKNOWN.operation, UNKNOWN.needs, UNKNOWN.reach),
            None: msgspec.structs.replace(UNKNOWN, body_bytes=_BODY_BYTES),
        }
        return [Route("POST", "/", self.answer, policy, target, AWS) for target, policy in (known | unknown).items()]

    async def answer(self, request: Request) -> Reply:
        """Answer any of the operations. The operation runs in a thread, because it reads files."""
        target = request.header(b"x-amz-target") or ""
        operation = self.operations.get(target.removeprefix(TARGET)) if target.startswith(TARGET) else None
        try:
            if operation is None:
                known = ", ".join(self.operations)
                raise Refused(400, "UnknownOperationException", f"X-Amz-Target must name an operation that is known here: {known}.")
            asked = request.decoded(operation.asked)
            answer = await in_thread(Purpose.LOGS, operation.verb, asked, request.tenant)
            return Reply(200, msgspec.json.encode(answer), (_CONTENT,))
        except Refused as refused:
            return _refusal(refused.status, refused.shape, str(refused))
        except LogNotFound as error:
            return _refusal(400, "ResourceNotFoundException", str(error))
        except Rejected as error:
            return _refusal(400, "InvalidParameterException", str(error))
        except (HoldfastError, OSError) as error:
            return _refusal(503, "ServiceUnavailableException", f"The logs cannot be read now: {error}")


def _refusal(status: int, shape: str, message: str) -> Reply:
    headers = (_CONTENT, (b"x-amzn-errortype", shape.encode()), *(retry_after() if status == 503 else ()))
    return Reply(status, msgspec.json.encode({"__type": shape, "message": message}), headers)
