"""Which request is which operation, and which role it needs. The table is the policy; what is not in it needs an admin."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec

from holdfast.model.credentials import Role


class Needs(Enum):
    """What an operation needs."""

    NOTHING = "nothing"
    VIEW = "view"
    OPERATE = "operate"
    APPROVE = "approve"
    SETTLE = "settle"
    ADMINISTER = "administer"
    DEPLOY = "deploy"
    """As to administer; and without credentials it must be allowed with `--allow-deploy`, because it decides which code runs."""


_MAY: Final = {
    Needs.NOTHING: frozenset(Role),
    Needs.VIEW: frozenset(Role),
    Needs.OPERATE: frozenset({Role.OPERATOR, Role.ADMIN}),
    Needs.APPROVE: frozenset({Role.APPROVER, Role.ADMIN}),
    Needs.SETTLE: frozenset({Role.SETTLER, Role.ADMIN}),
    Needs.ADMINISTER: frozenset({Role.ADMIN}),
    Needs.DEPLOY: frozenset({Role.ADMIN}),
}


def may(roles: Collection[Role], needs: Needs) -> bool:
    """Whether one of the roles is enough."""
    return not _MAY[needs].isdisjoint(roles)


def enough(needs: Needs) -> str:
    """The roles of which one is enough, for people."""
    return " or ".join(role.value for role in Role if role in _MAY[needs])


class Reach(Enum):
    """How an operation is kept to one tenant."""

    ALL = "all"
    """It only tells of functions, which are everybody's."""
    EXECUTION = "execution"
    """The path names an execution, or a callback of one."""
    START = "start"
    """It starts an execution; the header X-Amz-Tenant-Id says whose."""
    HANDLER = "handler"
    """Whoever serves it leaves out what is another tenant's (`identity_of`)."""
    NONE = "none"
    """It cannot be kept to one: no tenant may."""


class Operation(msgspec.Struct, frozen=True):
    """An operation by name: what it needs, and what of it a tenant gets."""

    name: str
    needs: Needs
    reach: Reach = Reach.ALL
    service: str = "lambda"
    """What its requests are signed for."""


def _op(name: str, needs: Needs, reach: Reach = Reach.ALL) -> Operation:
    return Operation(name, needs, reach)


_FUNCTION = r"/2015-03-31/functions/[^/]+"
_EXECUTION = r"/2025-12-01/durable-executions/(?P<arn>.+?)"
_CALLBACK = r"/2025-12-01/durable-execution-callbacks/(?P<callback>.+?)"

# Method, path, operation; the first that fits counts. Paths are matched as they came, still encoded, as the server's own routes are: two
# readings of one path would be a way around this table. Only an ARN or a callback id may come with slashes in it.
TABLE: Final[tuple[tuple[str, re.Pattern[str], Operation], ...]] = tuple(
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("POST", rf"{_EXECUTION}/checkpoint", _op("CheckpointDurableExecution", Needs.OPERATE, Reach.EXECUTION)),
        ("GET", rf"{_EXECUTION}/state", _op("GetDurableExecutionState", Needs.OPERATE, Reach.EXECUTION)),
        ("GET", rf"{_EXECUTION}/history", _op("GetDurableExecutionHistory", Needs.VIEW, Reach.EXECUTION)),
        ("POST", rf"{_EXECUTION}/stop", _op("StopDurableExecution", Needs.OPERATE, Reach.EXECUTION)),
        ("GET", _EXECUTION, _op("GetDurableExecution", Needs.VIEW, Reach.EXECUTION)),
        ("GET", r"/2025-12-01/durable-executions/?", _op("ListDurableExecutions", Needs.VIEW, Reach.HANDLER)),
        ("GET", r"/2025-12-01/functions/[^/]+/durable-executions/?", _op("ListDurableExecutionsByFunction", Needs.VIEW, Reach.HANDLER)),
        ("POST", rf"{_CALLBACK}/succeed", _op("SendDurableExecutionCallbackSuccess", Needs.APPROVE, Reach.EXECUTION)),
        ("POST", rf"{_CALLBACK}/fail", _op("SendDurableExecutionCallbackFailure", Needs.APPROVE, Reach.EXECUTION)),
        ("POST", rf"{_CALLBACK}/heartbeat", _op("SendDurableExecutionCallbackHeartbeat", Needs.APPROVE, Reach.EXECUTION)),
        ("POST", rf"{_FUNCTION}/invocations", _op("Invoke", Needs.OPERATE, Reach.START)),
        ("POST", r"/2015-03-31/functions/?", _op("CreateFunction", Needs.DEPLOY, Reach.NONE)),
        ("GET", r"/2015-03-31/functions/?", _op("ListFunctions", Needs.VIEW)),
        ("PUT", rf"{_FUNCTION}/code", _op("UpdateFunctionCode", Needs.DEPLOY, Reach.NONE)),
        ("GET", rf"{_FUNCTION}/configuration", _op("GetFunctionConfiguration", Needs.VIEW)),
        ("PUT", rf"{_FUNCTION}/configuration", _op("UpdateFunctionConfiguration", Needs.DEPLOY, Reach.NONE)),
        ("GET", rf"{_FUNCTION}/versions", _op("ListVersionsByFunction", Needs.VIEW)),
        ("POST", rf"{_FUNCTION}/versions", _op("PublishVersion", Needs.DEPLOY, Reach.NONE)),
        ("GET", rf"{_FUNCTION}/aliases", _op("ListAliases", Needs.VIEW)),
        ("POST", rf"{_FUNCTION}/aliases", _op("CreateAlias", Needs.DEPLOY, Reach.NONE)),
        ("GET", rf"{_FUNCTION}/aliases/[^/]+", _op("GetAlias", Needs.VIEW)),
        ("PUT", rf"{_FUNCTION}/aliases/[^/]+", _op("UpdateAlias", Needs.DEPLOY, Reach.NONE)),
        ("DELETE", rf"{_FUNCTION}/aliases/[^/]+", _op("DeleteAlias", Needs.DEPLOY, Reach.NONE)),
        ("GET", _FUNCTION, _op("GetFunction", Needs.VIEW)),
        ("DELETE", _FUNCTION, _op("DeleteFunction", Needs.DEPLOY, Reach.NONE)),
        ("POST", r"/start-durable-execution", _op("StartDurableExecution", Needs.OPERATE, Reach.NONE)),
        ("PUT", r"/lambda-endpoint", _op("SetLambdaEndpoint", Needs.DEPLOY, Reach.NONE)),
        ("GET", r"/(health|ready)", _op("Health", Needs.NOTHING)),
        ("GET", r"/events", _op("StreamEvents", Needs.VIEW, Reach.HANDLER)),
        ("GET", r"/metrics", _op("Metrics", Needs.VIEW, Reach.NONE)),
        ("GET", r"/v1/workers/?", _op("ListWorkers", Needs.VIEW)),
        ("GET", r"/v1/workers/[^/]+", _op("GetWorker", Needs.VIEW)),
        ("POST", r"/v1/workers/[^/]+/invoke", _op("InvokeWorker", Needs.OPERATE, Reach.HANDLER)),
        ("GET", r"/v1/runs/[^/]+", _op("GetRun", Needs.VIEW, Reach.HANDLER)),
        ("GET", r"/v1/runs/[^/]+/events", _op("FollowRun", Needs.VIEW, Reach.HANDLER)),
        ("POST", r"/v1/runs/[^/]+/cancel", _op("CancelRun", Needs.OPERATE, Reach.HANDLER)),
        ("GET", r"/v1/approvals/?", _op("ListApprovals", Needs.VIEW, Reach.HANDLER)),
        ("GET", r"/v1/approvals/[^/]+", _op("GetApproval", Needs.VIEW, Reach.HANDLER)),
        ("POST", r"/v1/approvals/[^/]+/(approve|reject|answer)", _op("DecideApproval", Needs.APPROVE, Reach.HANDLER)),
        ("POST", r"/v1/approvals/[^/]+/settle", _op("SettleOutcome", Needs.SETTLE, Reach.HANDLER)),
        ("GET", r"/v1/artifacts/[^/]+", _op("GetArtifact", Needs.VIEW, Reach.HANDLER)),
        ("POST", r"/v1/artifacts/?", _op("PutArtifact", Needs.OPERATE, Reach.HANDLER)),
    )
)
_LOGS: Final = "Logs_20140328."
_LOG_READS: Final = frozenset({"FilterLogEvents", "GetLogEvents", "DescribeLogGroups", "DescribeLogStreams"})
_PROTOCOL: Final = "/v1/"
_AWS: Final = re.compile(r"/\d{4}-\d\d-\d\d/")
_CACHED_CHARACTERS: Final = 512
UNKNOWN: Final = Operation("Unknown", Needs.ADMINISTER, Reach.NONE)
UNKNOWN_OF_LOGS: Final = Operation("Unknown", Needs.ADMINISTER, Reach.NONE, "logs")


class Asked(msgspec.Struct, frozen=True):
    """What a request asks for."""

    operation: Operation
    aws: bool
    """Whether whoever asks is a client of AWS, which wants AWS's errors."""
    protocol: bool = False
    """Whether it is one of the worker protocol, which has a shape of its own."""
    arn: str | None = None
    callback: str | None = None


def asked(method: str, path: str, target: str | None) -> Asked:
    """The operation of a method and a path as it came; `target` is the header X-Amz-Target."""
    return _cached(method, path, target) if len(path) < _CACHED_CHARACTERS and target is None else _found(method, path, target)


def _found(method: str, path: str, target: str | None) -> Asked:
    method = "GET" if method == "HEAD" else method
    if target is not None and path == "/":  # on any other path it means nothing, or it would be a way around this table
        name = target.removeprefix(_LOGS)
        if method != "POST" or not target.startswith(_LOGS):
            return Asked(UNKNOWN, aws=True)
        return Asked(Operation(name, Needs.VIEW, Reach.HANDLER, "logs") if name in _LOG_READS else UNKNOWN_OF_LOGS, aws=True)
    aws, protocol = _AWS.match(path) is not None, path.startswith(_PROTOCOL)
    for wanted, pattern, operation in TABLE:
        if wanted == method and (found := pattern.fullmatch(path)):
            parts = {name: unquote(text) for name, text in found.groupdict().items()}
            return Asked(operation, aws, protocol, parts.get("arn"), parts.get("callback"))
    return Asked(UNKNOWN, aws, protocol)


_cached = lru_cache(maxsize=2048)(_found)
"""An execution's checkpoints all come on one path."""
