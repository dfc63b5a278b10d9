"""The table of who may do what: every route of the server is in it, under the name, the role and the fence it needs."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from holdfast.lambda_api.routes.callbacks import Callbacks
from holdfast.lambda_api.routes.deploy import Deploying
from holdfast.lambda_api.routes.executions import Executions
from holdfast.lambda_api.routes.functions import Functions
from holdfast.lambda_api.routes.hooks import Hooks
from holdfast.lambda_api.routes.logs import LogReading
from holdfast.model.credentials import Role
from holdfast.server.protocol.approvals import Approvals
from holdfast.server.protocol.artifacts import Artifacts
from holdfast.server.protocol.metrics import WorkerMetrics
from holdfast.server.protocol.runs import Runs
from holdfast.server.protocol.workers import Workers
from holdfast.web.auth.operations import TABLE, UNKNOWN, Needs, Reach, asked, may
from tests.surface.test_auth_gate import CREATE, EVENTS, INVOKE


def test_what_each_role_may_do() -> None:
    allowed = {role: {needs for needs in Needs if may([role], needs)} for role in Role}
    anybody = {Needs.NOTHING, Needs.VIEW}
    assert allowed == {
        Role.VIEWER: anybody,
        Role.OPERATOR: anybody | {Needs.OPERATE},
        Role.APPROVER: anybody | {Needs.APPROVE},
        Role.SETTLER: anybody | {Needs.SETTLE},
        Role.ADMIN: set(Needs),
    }


@pytest.mark.parametrize(
    "method, path, name, needs",
    [
        ("POST", INVOKE.split("?")[0], "Invoke", Needs.OPERATE),
        (
            "POST",
            "/2015-03-31/functions/arn%3Aaws%3Alambda%3Alocal%3A000000000000%3Afunction%3Aorder%3A1/invocations",
            "Invoke",
            Needs.OPERATE,
        ),
        ("POST", CREATE, "CreateFunction", Needs.DEPLOY),
        ("POST", CREATE + "/", "CreateFunction", Needs.DEPLOY),
        ("GET", CREATE, "ListFunctions", Needs.VIEW),
        ("HEAD", CREATE, "ListFunctions", Needs.VIEW),
        ("POST", "/2025-12-01/durable-execution-callbacks/a%2Bb%2Fc%3D/succeed", "SendDurableExecutionCallbackSuccess", Needs.APPROVE),
        ("POST", "/2025-12-01/durable-executions/arn%3A%2Fx/stop", "StopDurableExecution", Needs.OPERATE),
        ("GET", "/2025-12-01/durable-executions/arn:aws:x/durable-execution/a/b/history", "GetDurableExecutionHistory", Needs.VIEW),
        ("GET", "/2025-12-01/durable-executions/arn:aws:x/durable-execution/a/b", "GetDurableExecution", Needs.VIEW),
        ("GET", "/2025-12-01/durable-executions", "ListDurableExecutions", Needs.VIEW),
        ("PUT", "/2015-03-31/functions/f/aliases/live", "UpdateAlias", Needs.DEPLOY),
        ("GET", EVENTS, "StreamEvents", Needs.VIEW),
        ("POST", EVENTS, "Unknown", Needs.ADMINISTER),
        ("POST", "/2015-03-31/functions/f/code/invocations", "Unknown", Needs.ADMINISTER),
        ("POST", "/2015-03-31/functions/f%2Finvocations", "Unknown", Needs.ADMINISTER),
        ("POST", "/2015-03-31%2Ffunctions/f/invocations", "Unknown", Needs.ADMINISTER),
        ("GET", "/anything/else", "Unknown", Needs.ADMINISTER),
        ("PATCH", INVOKE, "Unknown", Needs.ADMINISTER),
    ],
)
def test_a_request_is_known_by_method_and_path_and_what_is_not_known_needs_an_admin(
    method: str, path: str, name: str, needs: Needs
) -> None:
    operation = asked(method, path, None).operation
    assert (operation.name, operation.needs) == (name, needs)


def test_a_tenant_can_change_nothing_that_others_use() -> None:
    """Code that one tenant deploys would run for all of them."""
    shared = {operation.name for _, _, operation in TABLE if operation.needs in (Needs.DEPLOY, Needs.ADMINISTER)}
    assert {operation.name for _, _, operation in TABLE if operation.reach is not Reach.NONE} & shared == set()


def test_no_operation_is_twice_in_the_table() -> None:
    names = [operation.name for _, _, operation in TABLE]
    assert len(names) == len(set(names))


# --- the server's own routes


def every_route() -> list[tuple[str, str]]:
    """Methods and paths of the whole server, with an `x` for each label."""
    nothing: Any = Mock()
    parts: list[Any] = [Executions(nothing), Callbacks(nothing), Functions(nothing), Hooks(nothing), Deploying(nothing)]
    parts += [Workers(nothing), Runs(nothing), Approvals(nothing), Artifacts(nothing), WorkerMetrics(nothing)]
    routes = [route for part in parts for route in part.routes()]
    return sorted((route.method, route.path.replace("(.+)", "x").replace("([^/]+)", "x").replace("/?", "")) for route in routes)


@pytest.mark.parametrize("method, path", every_route())
def test_the_table_knows_every_route_of_the_server(method: str, path: str) -> None:
    """Else only an admin could use it, or a tenant could reach around its fence."""
    known = asked(method, path, None)
    assert known.operation is not UNKNOWN
    assert (known.arn is not None) is path.startswith("/2025-12-01/durable-executions/")
    assert (known.callback is not None) is path.startswith("/2025-12-01/durable-execution-callbacks/")


def test_the_table_knows_every_operation_of_logs() -> None:
    nothing: Any = Mock()
    for name in LogReading(nothing).operations:
        known = asked("POST", "/", f"Logs_20140328.{name}").operation
        assert (known.name, known.needs, known.reach, known.service) == (name, Needs.VIEW, Reach.HANDLER, "logs")
    for method, path, target in (
        ("POST", "/", "Logs_20140328.DeleteLogGroup"),
        ("POST", "/", "FilterLogEvents"),
        ("POST", INVOKE, "Logs_20140328.FilterLogEvents"),
        ("PUT", "/", "Logs_20140328.FilterLogEvents"),
        ("POST", "/", None),
    ):
        assert asked(method, path, target).operation.needs is Needs.ADMINISTER


def test_what_starts_or_shows_executions_is_kept_to_a_tenant() -> None:
    loose = {asked(*route, None).operation for route in every_route()}
    assert {operation.name for operation in loose if operation.reach is Reach.ALL} == {
        "GetFunction", "GetFunctionConfiguration", "ListFunctions", "ListVersionsByFunction", "ListAliases", "GetAlias", "Health",
        "ListWorkers", "GetWorker",
    }  # fmt: skip
