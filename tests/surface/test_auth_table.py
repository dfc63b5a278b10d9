"""The policies of all routes: every request is known by one match, under the name, the role and the tenant that it needs."""

from __future__ import annotations

import inspect

import pytest

from holdfast.model.credentials import Role
from holdfast.web.policy import UNKNOWN, Needs, Reach, may
from holdfast.web.routing import Route, Router
from tests.surface.auth_server import every_route
from tests.surface.test_auth_gate import CREATE, EVENTS, INVOKE

ROUTER = Router(every_route())


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
    policy = ROUTER.find(method, path).policy
    assert (policy.operation, policy.needs) == (name, needs)


def test_a_path_without_a_route_has_errors_in_the_format_of_the_routes_beside_it() -> None:
    for route in every_route():
        if route.policy.operation != UNKNOWN.operation:
            found, beside = ROUTER.find("BREW", route.path, route.target), type(route.group)
            assert found.policy is UNKNOWN
            assert (type(found.group).denial, type(found.group).failure) == (beside.denial, beside.failure), route.path


def test_a_tenant_can_change_nothing_that_others_use() -> None:
    """Code that one tenant deploys would run for all of them."""
    shared = [route.policy for route in every_route() if route.policy.needs in (Needs.DEPLOY, Needs.ADMINISTER)]
    assert {policy.reach for policy in shared} == {Reach.NONE}


def test_an_operation_has_one_policy() -> None:
    by_name: dict[str, set[tuple[Needs, Reach]]] = {}
    for route in every_route():
        by_name.setdefault(route.policy.operation, set()).add((route.policy.needs, route.policy.reach))
    assert [name for name, policies in by_name.items() if len(policies) > 1] == []


# --- the server's own routes


def test_a_route_cannot_be_declared_without_a_policy() -> None:
    assert inspect.signature(Route).parameters["policy"].default is inspect.Parameter.empty


@pytest.mark.parametrize("route", ROUTER.routes, ids=lambda route: f"{route.method} {route.path} {route.target or ''}")
def test_a_request_finds_the_route_that_declares_its_policy(route: Route) -> None:
    """Else an earlier route would answer it, under a policy that is not its own."""
    sent = route.path.replace("(.+)", "x%2Fy").replace("([^/]+)", "x%2Fy").replace("/?", "")
    found = ROUTER.find(route.method, sent, route.target)
    assert (found.policy, found.handler) == (route.policy, route.handler)
    assert set(found.labels) <= {"x/y"}


def test_where_a_tenant_is_compared_the_path_names_an_execution_or_a_callback() -> None:
    for route in every_route():
        assert (route.policy.reach is Reach.EXECUTION) is route.path.startswith("/2025-12-01/durable-executions/(.+)")
        assert (route.policy.reach is Reach.CALLBACK) is route.path.startswith("/2025-12-01/durable-execution-callbacks/(.+)")


def test_the_header_x_amz_target_names_the_operations_of_logs() -> None:
    for name in ("FilterLogEvents", "GetLogEvents", "DescribeLogGroups", "DescribeLogStreams"):
        known = ROUTER.find("POST", "/", f"Logs_20140328.{name}").policy
        assert (known.operation, known.needs, known.reach, known.service) == (name, Needs.VIEW, Reach.HANDLER, "logs")
    for method, target, service in (
        ("POST", "Logs_20140328.DeleteLogGroup", "logs"),
        ("POST", "FilterLogEvents", "lambda"),
        ("PUT", "Logs_20140328.FilterLogEvents", "lambda"),
        ("POST", None, "lambda"),
    ):
        unknown = ROUTER.find(method, "/", target).policy
        assert (unknown.needs, unknown.service) == (Needs.ADMINISTER, service)


def test_what_starts_or_shows_executions_is_kept_to_a_tenant() -> None:
    assert {route.policy.operation for route in every_route() if route.policy.reach is Reach.ALL} == {
        "GetFunction", "GetFunctionConfiguration", "ListFunctions", "ListVersionsByFunction", "ListAliases", "GetAlias", "Health",
        "ListWorkers", "GetWorker", "ShowLink", "DecideByLink",  # a link reaches one approval, which its signature names
    }  # fmt: skip
