"""The caller of a request: it is not known until the gate has recognised it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdfast.web.app import App
from holdfast.web.bodies import HeldBodies, Incoming
from holdfast.web.caller import caller_of
from holdfast.web.capacity import COMMON, Capacities
from holdfast.web.identity import UNKNOWN_CALLER, WITHOUT_CREDENTIAL, CallerIdentity
from holdfast.web.limits import WebLimits
from holdfast.web.policy import UNKNOWN, Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

SCOPE: Any = {"type": "http", "headers": [], "query_string": b"", "path": "/v1/approvals", "method": "GET"}
READS: list[Callable[[Request], object]] = [
    lambda request: request.identity,
    lambda request: request.tenant,
    lambda request: request.execution_tenant,
    lambda request: request.actor,
    lambda request: request.sees_values,
    caller_of,
]


async def _unread() -> Any:
    raise AssertionError("the body is not read")


def request() -> Request:
    incoming = Incoming(SCOPE, _unread, HeldBodies(1_000_000))
    return Request(SCOPE, incoming, UNKNOWN, (), Capacities.of(COMMON, WebLimits()), asyncio.Event())


@pytest.mark.parametrize("read", READS)
def test_reading_who_calls_before_the_gate_has_run_is_an_error_and_never_an_admin(read: Callable[[Request], object]) -> None:
    with pytest.raises(RuntimeError, match="before the gate has admitted it"):
        read(request())


@pytest.mark.parametrize("caller", [UNKNOWN_CALLER, WITHOUT_CREDENTIAL, CallerIdentity("k", (), "blue")])
def test_after_the_gate_has_run_the_caller_is_whom_the_gate_has_named(caller: CallerIdentity) -> None:
    admitted = request()
    admitted.caller = caller
    assert (admitted.identity, admitted.tenant, caller_of(admitted).logged_in) == (caller, caller.tenant, caller != WITHOUT_CREDENTIAL)


def test_an_app_without_a_gate_lets_its_callers_do_everything_and_notes_nothing() -> None:
    async def handler(asked: Request) -> Reply:
        caller = caller_of(asked)
        return json_reply({"sees": asked.sees_values, "noted": asked.actor is not None, "logged_in": caller.logged_in})

    app = App([Route("GET", "/x", handler, RoutePolicy("View", Needs.VIEW, Reach.ALL))], WebLimits(), lambda: "an-id")
    assert TestClient(app).get("/x").json() == {"sees": True, "noted": False, "logged_in": False}
