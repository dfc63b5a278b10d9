"""Bad requests for logs: the server answers each in the right format, changes nothing, and shows no lines of another tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.lambda_api.logs.log_operations import Logs
from holdfast.lambda_api.logs.log_writer import LogWriter
from holdfast.lambda_api.logs.segments import LogFolder, LogRetention
from holdfast.lambda_api.routes.logs import TARGET, LogRoutes
from holdfast.lambda_api.runtime.process_output import OutputLine
from holdfast.model.clock import VirtualClock
from holdfast.web.app import App
from holdfast.web.identity import CallerIdentity
from holdfast.web.limits import WebLimits
from tests.parts import examples
from tests.surface.auth_server import KnownCaller

OPERATIONS = ["FilterLogEvents", "GetLogEvents", "DescribeLogGroups", "DescribeLogStreams"]
SECRET = "of another tenant"


class Target:
    """The app over real files, asked as a tenant."""

    def __init__(self, root: Path) -> None:
        clock = VirtualClock()
        self.keeper = LogWriter(LogFolder(root, LogRetention(max_bytes=1 << 20)), clock)
        for number in range(50):
            whose, text = ("blue", f"mine {number}") if number % 2 else ("red", SECRET)
            self.keeper.put([OutputLine(clock.now() + number, "f", "1", f"2026/01/01/[1]{number % 3}", text, tenant=whose)])
        assert self.keeper.flush(60)
        routes = LogRoutes(Logs(self.keeper, clock, lambda name: name == "f")).routes()
        app = App(routes, WebLimits(), lambda: "id", KnownCaller(CallerIdentity("a viewer", (), "blue")))
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")

    def files(self) -> dict[str, int]:
        return {str(path): path.stat().st_size for path in self.keeper.folder.root.rglob("*")}

    def ask(self, target: str | None, body: bytes) -> httpx.Response:
        headers = {} if target is None else {"X-Amz-Target": target}
        return self._runner.run(self._client.post("/", content=body, headers=headers))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.keeper.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(tmp_path_factory.mktemp("fuzz") / "logs")
    yield made
    made.close()


words = st.one_of(
    st.sampled_from(["f", "/aws/lambda/f", "/aws/lambda/../f", "2026/01/01/[1]0", "", "*", "a" * 3000, "\x00", "é", "f/1/0/0", "b/1/7/x"]),
    st.sampled_from([SECRET, '{ $.message = "*" }', "{ $.a", "-x", "?of", '"of another"', "%x%", "LastEventTime", "STANDARD"]),
    st.text(max_size=30),
)
numbers = st.one_of(st.integers(), st.sampled_from([0, 1, -1, 10_000, 10_001, 1 << 63, 1 << 70]), st.floats())
scalars = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=8)
fair: dict[str, st.SearchStrategy[Any]] = {
    "logGroupIdentifier": words,
    "logStreamName": st.just("2026/01/01/[1]0") | words,
    "logStreamNames": st.lists(words, max_size=3),
    "logStreamNamePrefix": words,
    "logGroupNamePrefix": words,
    "logGroupNamePattern": words,
    "logGroupIdentifiers": st.lists(words, max_size=3),
    "logGroupClass": words,
    "startTime": numbers,
    "endTime": numbers,
    "filterPattern": words,
    "nextToken": words,
    "limit": st.integers(1, 50) | numbers,
    "startFromHead": st.booleans(),
    "orderBy": words,
    "descending": st.booleans(),
}
asked = st.fixed_dictionaries({}, optional={name: right | values for name, right in fair.items()})
named = asked.map(lambda found: {"logGroupName": "/aws/lambda/f"} | found)
documents = st.one_of(named, asked, values)
bodies = st.one_of(
    documents.map(lambda value: json.dumps(value).encode()),
    documents.map(lambda value: json.dumps(value).encode()[:-1]),
    st.binary(max_size=60),
    st.sampled_from([b"", b"[" * 100_000, b'{"a":' * 50_000, b'{"logGroupName":"\\ud800"}', b"\xff", b" " * (2 << 20)]),
)


def check(target: Target, operation: str | None, body: bytes) -> None:
    before = target.files()
    answer = target.ask(operation, body)
    assert answer.status_code < 500, (operation, body[:200], answer.text)
    told = answer.json()
    if answer.status_code >= 400:
        assert told["__type"] == answer.headers["x-amzn-errortype"]
        assert told["__type"].endswith("Exception")
        assert isinstance(told["message"], str)
    else:
        assert answer.headers["content-type"] == "application/x-amz-json-1.1"
        assert all(SECRET not in event["message"] for event in told.get("events", ()))
    assert target.files() == before


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=examples(300), deadline=None)
@given(body=bodies)
def test_whatever_is_asked_of_logs_is_answered_in_the_right_shape(target: Target, operation: str, body: bytes) -> None:
    check(target, TARGET + operation, body)


@settings(max_examples=examples(100), deadline=None)
@given(operation=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40), body=bodies)
def test_an_operation_that_is_not_there_is_unknown(target: Target, operation: str | None, body: bytes) -> None:
    check(target, operation, body)


@given(segment=st.integers(0, 3), offset=st.integers(0, 9000), way=st.sampled_from("fb"))
@settings(max_examples=examples(300), deadline=None)
def test_no_made_up_token_shows_what_is_another_tenants(target: Target, segment: int, offset: int, way: str) -> None:
    group = {"logGroupName": "/aws/lambda/f"}
    page = target.ask(TARGET + "FilterLogEvents", json.dumps(group | {"limit": 1}).encode()).json()
    search = page["nextToken"].rpartition("/")[2]
    check(target, TARGET + "FilterLogEvents", json.dumps(group | {"nextToken": f"{way}/{segment}/{offset}/{search}"}).encode())


def test_the_tenant_does_see_what_is_its_own(target: Target) -> None:
    answer = target.ask(TARGET + "FilterLogEvents", b'{"logGroupName": "/aws/lambda/f"}').json()
    assert [json.loads(event["message"])["message"] for event in answer["events"]] == [f"mine {number}" for number in range(1, 50, 2)]


def test_the_fuzz_knows_every_operation() -> None:
    nothing: Any = Mock()
    assert sorted(LogRoutes(nothing).operations) == sorted(OPERATIONS)
