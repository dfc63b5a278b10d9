"""Requests of any kind at every route of function management: answered in AWS's shape, never with 500, and nothing is kept of a refusal."""

from __future__ import annotations

import asyncio
import base64
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.routes.deploy import DeployRoutes
from holdfast.lambda_api.serving import Serving, open_serving
from holdfast.service.settings import Settings
from tests.parts import examples
from tests.surface.test_serve_deploying import DOUBLE, packed

FUNCTIONS = "/2015-03-31/functions"
ZIP = base64.b64encode(packed(DOUBLE)).decode()


class Target:
    """A service without a listener: requests come straight to its app."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = open_serving((), settings=Settings(store=str(folder / "fuzz.db")), private_app=make_app)
        self.service: Serving = self._runner.run(self._stack.__aenter__())
        self._app: Any = self._runner.run(self._made())

    async def _made(self) -> Any:
        return make_app(self.service.api, more=DeployRoutes(self.service).routes())

    def ask(self, method: str, path: str, body: bytes) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://127.0.0.1") as client:
                return await client.request(method, path, content=body)

        return self._runner.run(asked())

    def close(self) -> None:
        self._runner.run(self._stack.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(tmp_path_factory.mktemp("fuzz"))
    created = {"FunctionName": "known", "Runtime": "python3", "Handler": "app.handler", "Code": {"ZipFile": ZIP}, "Publish": True}
    assert made.ask("POST", FUNCTIONS, json.dumps(created).encode()).status_code == 201
    yield made
    made.close()


WORDS = st.sampled_from(["known", "known:1", "unknown", "$LATEST", "live", "1", "-1", "arn:aws:lambda:local:000000000000:function:known"])
NAMES = WORDS | st.text(max_size=20)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=20) | WORDS | st.just(ZIP)
MEMBERS = st.sampled_from(
    ["FunctionName", "Runtime", "Handler", "Code", "ZipFile", "S3Bucket", "S3Key", "Publish", "DryRun", "Timeout", "MemorySize", "Tags",
     "Environment", "Variables", "DurableConfig", "ExecutionTimeout", "RetentionPeriodInDays", "LoggingConfig", "LogFormat", "RevisionId",
     "Name", "FunctionVersion", "Description", "RoutingConfig", "AdditionalVersionWeights", "CodeSha256", "Layers", "VpcConfig"]
)  # fmt: skip
JSON = st.recursive(SCALARS, lambda inner: st.dictionaries(MEMBERS, inner, max_size=5) | st.lists(inner, max_size=3), max_leaves=10)
GOOD = {
    "FunctionName": "new",
    "Runtime": "python3",
    "Handler": "app.handler",
    "Code": {"ZipFile": ZIP},
    "Name": "a",
    "FunctionVersion": "1",
}
NEAR = st.dictionaries(MEMBERS, JSON, max_size=2).map(lambda members: {**GOOD, **members})
WHOLE = (JSON | NEAR).map(lambda value: json.dumps(value).encode())
BODIES = (
    WHOLE
    | st.binary(max_size=30)
    | st.text(string.printable, max_size=30).map(str.encode)
    | st.just(json.dumps({**GOOD, "Description": "\ud800"}).encode())
)
PLACES = st.sampled_from(
    [("POST", ""), ("PUT", "/{}/code"), ("PUT", "/{}/configuration"), ("POST", "/{}/versions"), ("GET", "/{}/versions"),
     ("POST", "/{}/aliases"), ("GET", "/{}/aliases"), ("GET", "/{}/aliases/{}"), ("PUT", "/{}/aliases/{}"), ("DELETE", "/{}/aliases/{}"),
     ("DELETE", "/unknown{}"), ("DELETE", "/known?Qualifier={}"), ("GET", "/known/versions?Marker={}"),
     ("GET", "/known/aliases?MaxItems={}")]
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=PLACES, names=st.tuples(NAMES, NAMES), body=BODIES)
def test_any_request_gets_an_answer_in_shape(target: Target, place: tuple[str, str], names: tuple[str, str], body: bytes) -> None:
    method, path = place
    before = target.service.deployed.everything()
    answer = target.ask(method, FUNCTIONS + path.format(*(quote(name, safe="") for name in names)), body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["x-amzn-errortype"]
        assert answer.json()["message"]
        assert target.service.deployed.everything() == before
