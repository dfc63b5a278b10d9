"""Plain functions in JavaScript, on a runtime client of ours and on the official one: they must be one thing to a function."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.lambda_api.runtime.jobs import JobResult
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import FUNCTIONS, hosting

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
Node = Callable[..., Runtime]


@pytest.fixture(params=["ours", "aws-lambda-ric"])
def a_node(request: pytest.FixtureRequest) -> Node:
    """Describes a function that runs on one client or the other."""
    if request.param == "ours":
        return node
    command: tuple[str, ...] = request.getfixturevalue("official_node_client")
    alternative = {"AWS_LAMBDA_NODEJS_USE_ALTERNATIVE_CLIENT_1": "true"}  # it asks for work without its native part
    return lambda handler, **members: node(handler, command=(*command, handler), environment=alternative, **members)


def node(handler: str, **members: Any) -> Runtime:
    wanted: dict[str, Any] = {"function": "f", "folder": str(FUNCTIONS / "node"), "handler": handler, "runtime": "nodejs22.x"}
    return Runtime(**wanted | {"durable": False, "timeout_seconds": 30} | members)


async def call(host: RuntimeHost, event: Any = None, **members: Any) -> JobResult:
    return await host.call("f", LATEST, json.dumps(event).encode(), **members)


@pytest.mark.parametrize(
    "handler, answer",
    [
        ("plain.echo", {"a": [1, "ü"]}),
        ("old.nested.echo", {"a": [1, "ü"]}),
        ("plain.called", {"called": {"a": [1, "ü"]}}),
        pytest.param("plain.late", {"late": {"a": [1, "ü"]}}, marks=pytest.mark.long),
        pytest.param("plain.nothing", None, marks=pytest.mark.long),
        pytest.param("plain.twice", "first", marks=pytest.mark.long),
        pytest.param("plain.lingers", ["asked", "done meanwhile"], marks=pytest.mark.long),
        pytest.param("plain.hurries", ["asked"], marks=pytest.mark.long),
    ],
)
async def test_a_handler_answers_in_any_of_nodes_ways(a_node: Node, handler: str, answer: Any) -> None:
    async with hosting(a_node(handler)) as (host, _):
        for _ in range(2):
            called = await call(host, {"a": [1, "ü"]})
            assert called.error is None
            assert json.loads(called.payload) == answer


async def test_a_handler_sees_a_lambda_around_it(a_node: Node) -> None:
    async with hosting(a_node("plain.about")) as (host, _):
        called = await call(host, client_context='{"custom":{"k":"v"}}', trace="Root=1-2-3")
        about = json.loads(called.payload)
        assert 10_000 < about.pop("left") <= 30_000
        arn = "arn:aws:lambda:local:000000000000:function:f:$LATEST"
        assert about == {"request": called.request, "arn": arn, "name": "f", "client": {"k": "v"}, "trace": "Root=1-2-3"}


async def test_an_error_is_an_answer(a_node: Node) -> None:
    async with hosting(a_node("plain.fails")) as (host, _):
        called = await call(host, 5)
        assert called.error is not None
        assert (called.error.type, called.error.message) == ("TypeError", "no good: 5")
        assert "plain.mjs" in str(called.error.stack_trace)


@pytest.mark.parametrize(
    "handler, kind, message",
    [("plain.throws", "RangeError", "thrown"), ("plain.gives_up", "string", "handled"), ("plain.refuses", "string", "no"),
     ("plain.raises_later", "RangeError", "raised later")],
)  # fmt: skip
async def test_every_way_to_fail_is_told(a_node: Node, handler: str, kind: str, message: str) -> None:
    async with hosting(a_node(handler)) as (host, _):
        for _ in range(2):
            called = await call(host)
            assert called.error is not None
            assert (called.error.type, called.error.message) == (kind, message)


async def test_a_rejection_nobody_handles_ends_the_process_and_is_told(a_node: Node) -> None:
    async with hosting(a_node("plain.rejects")) as (host, _):
        for _ in range(2):
            called = await call(host)
            assert called.error is not None
            assert (called.error.type, called.error.message) == ("Runtime.UnhandledPromiseRejection", "Error: no listener")


@pytest.mark.parametrize(
    "handler, kind",
    [
        ("nowhere.handler", "Runtime.ImportModuleError"),
        ("plain.missing", "Runtime.HandlerNotFound"),
        ("wants.handler", "Runtime.ImportModuleError"),
        ("wrong.handler", "Runtime.UserCodeSyntaxError"),
        ("durable.order", "Error"),  # it imports what is not there; only `require` has a name of its own for that
        ("nodot", "Runtime.MalformedHandlerName"),
    ],
)
async def test_a_function_that_cannot_begin_says_why(a_node: Node, handler: str, kind: str) -> None:
    async with hosting(a_node(handler)) as (host, _):
        called = await call(host)
        assert called.error is not None
        assert called.error.type == kind


async def test_the_console_is_the_log(a_node: Node) -> None:
    async with hosting(a_node("plain.logs")) as (host, lines):
        called = await call(host)
        texts = [line.text for line in lines if line.request == called.request]
        assert [text.split("\t")[1:] for text in texts[1:3]] == [
            [called.request, "INFO", "logged this { answer: 42 }"],
            [called.request, "ERROR", "wrong"],
        ]
    async with hosting(a_node("plain.logs", log_format="JSON")) as (host, lines):
        called = await call(host)
        records = [json.loads(line.text) for line in lines if line.text.startswith("{") and not line.platform]
        assert [(record["level"], record["message"]) for record in records] == [("INFO", "logged this { answer: 42 }"), ("ERROR", "wrong")]
        assert {record["requestId"] for record in records} == {called.request}


async def test_a_record_of_several_lines_is_one_and_levels_are_obeyed(a_node: Node) -> None:
    async with hosting(a_node("plain.traces")) as (host, lines):
        called = await call(host)
        mine = [line for line in lines if line.request == called.request and not line.platform]
        (failed,) = [line for line in mine if "it failed" in line.text]
        assert (failed.level, failed.text.split("\t")[1:3]) == ("ERROR", [called.request, "ERROR"])
        assert failed.text.split("\t")[3].startswith("it failed\nin two lines RangeError: first\nsecond\n    at ")
        assert [line.level for line in mine if line.level] == ["DEBUG", "ERROR", "WARN"]
        assert [line.text for line in mine if not line.level] == ["printed after it"]
    quiet = a_node("plain.traces", log_format="JSON", application_log_level="WARN", system_log_level="WARN")
    async with hosting(quiet) as (host, lines):
        await call(host)
        assert [(line.level, json.loads(line.text)["level"]) for line in lines] == [("ERROR", "ERROR"), ("WARN", "WARN")]
        assert json.loads(lines[0].text)["errorType"] == "RangeError"
