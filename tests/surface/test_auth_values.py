"""What is in a function's environment is often a secret: only who could also set it is shown it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.lambda_api.functions.function_records import Config
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.routes.deploy import DeployRoutes
from holdfast.lambda_api.serving import Serving, open_serving
from holdfast.lambda_api.templates.descriptions import DescribedFunction, TextCode
from holdfast.model.clock import SystemClock
from holdfast.model.execution import Terms
from holdfast.service.settings import Settings
from holdfast.store.seam import Store
from holdfast.web.auth.gate import open_gate
from tests.surface.auth_server import bearer, client, token

FUNCTIONS = "/2015-03-31/functions"
SECRET = "a secret of the function"
READING = [f"{FUNCTIONS}/f", f"{FUNCTIONS}/f/configuration", FUNCTIONS, f"{FUNCTIONS}?FunctionVersion=ALL", f"{FUNCTIONS}/f/versions"]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Serving]:
    config = Config(handler="app.handler", runtime="python3", terms=Terms(60), environment={"PASSWORD": SECRET})
    async with open_serving((), settings=Settings(store=str(tmp_path / "test.db")), private_app=make_app) as serving:
        await serving.deploy(DescribedFunction(name="f", config=config, code=TextCode("app.py", "x = 1"), publish=True))
        yield serving


def asking(service: Serving, store: Store, *roles: str, **options: Any) -> httpx.AsyncClient:
    issued = token(store, *roles, **options)
    gate = open_gate(store, host="127.0.0.1", clock=SystemClock())
    return client(make_app(service.api, more=DeployRoutes(service).routes(), gate=gate), headers=bearer(issued))


@pytest.mark.parametrize(
    "roles, tenant", [(("viewer",), None), (("operator", "approver"), None), (("admin",), "north")], ids=["viewer", "operator", "tenant"]
)
async def test_the_values_of_environment_variables_are_not_for_everybody(
    service: Serving, roles: tuple[str, ...], tenant: str | None
) -> None:
    async with asking(service, service.engine.store, *roles, tenant=tenant) as client:
        for path in READING:
            answer = await client.get(path)
            assert (answer.status_code, SECRET in answer.text, "PASSWORD" in answer.text) == (200, False, False)
            assert '"Environment":{"Error":{"ErrorCode":"AccessDeniedException"' in answer.text


async def test_an_admin_sees_the_values_of_environment_variables(service: Serving) -> None:
    async with asking(service, service.engine.store, "admin") as admin:
        for path in READING:
            assert SECRET in (await admin.get(path)).text
        assert SECRET in (await admin.put(f"{FUNCTIONS}/f/configuration", json={"Description": "new"})).text


async def test_without_credentials_the_machine_is_the_admins(service: Serving) -> None:
    gate = open_gate(service.engine.store, host="127.0.0.1", clock=SystemClock())
    async with client(make_app(service.api, gate=gate)) as anybody:
        assert SECRET in (await anybody.get(READING[0])).text


async def test_whoever_may_not_ask_is_not_told_why_the_server_is_not_ready(service: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.api, "trouble", lambda: "/secret/path: there is no space left")
    async with asking(service, service.engine.store, "admin") as client:
        answer = await client.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
