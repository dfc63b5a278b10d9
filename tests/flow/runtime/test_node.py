"""Plain functions in JavaScript, on a runtime client of ours: Node's own library is all it needs."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from holdfast.hosts.runtime.description import Runtime
from holdfast.hosts.runtime.host import RuntimeHost
from holdfast.hosts.runtime.jobs import Called
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import FUNCTIONS, hosting

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")


def node(handler: str, **members: Any) -> Runtime:
    wanted: dict[str, Any] = {"function": "f", "folder": str(FUNCTIONS / "node"), "handler": handler, "runtime": "nodejs22.x"}
    return Runtime(**wanted | {"durable": False, "timeout_seconds": 30} | members)


async def call(host: RuntimeHost, event: Any = None, **members: Any) -> Called:
    return await host.call("f", LATEST, json.dumps(event).encode(), **members)


@pytest.mark.parametrize(
    "handler, answer",
    [
        ("plain.echo", {"a": [1, "ü"]}),
        ("old.nested.echo", {"a": [1, "ü"]}),
        ("plain.called", {"called": {"a": [1, "ü"]}}),
        ("plain.late", {"late": {"a": [1, "ü"]}}),
        ("plain.nothing", None),
    ],
)
async def test_a_handler_answers_in_any_of_nodes_ways(handler: str, answer: Any) -> None:
    async with hosting(node(handler)) as (host, _):
        for _ in range(2):
            called = await call(host, {"a": [1, "ü"]})
            assert called.error is None
            assert json.loads(called.payload) == answer


async def test_a_handler_sees_a_lambda_around_it() -> None:
    async with hosting(node("plain.about")) as (host, _):
        called = await call(host, client_context='{"custom":{"k":"v"}}', trace="Root=1-2-3")
        about = json.loads(called.payload)
        assert 10_000 < about.pop("left") <= 30_000
        arn = "arn:aws:lambda:local:000000000000:function:f:$LATEST"
        assert about == {"request": called.request, "arn": arn, "name": "f", "client": {"k": "v"}, "trace": "Root=1-2-3"}


async def test_an_error_is_an_answer() -> None:
    async with hosting(node("plain.fails")) as (host, _):
        called = await call(host, 5)
        assert called.error is not None
        assert (called.error.type, called.error.message) == ("TypeError", "no good: 5")
        assert "plain.mjs" in str(called.error.stack_trace)


async def test_a_rejection_nobody_handles_ends_the_process_and_is_told() -> None:
    async with hosting(node("plain.rejects")) as (host, _):
        for _ in range(2):
            called = await call(host)
            assert called.error is not None
            assert (called.error.type, called.error.message) == ("Runtime.UnhandledPromiseRejection", "nobody listens")


@pytest.mark.parametrize(
    "handler, kind",
    [
        ("nowhere.handler", "Runtime.ImportModuleError"),
        ("plain.missing", "Runtime.HandlerNotFound"),
        ("durable.order", "Runtime.ImportModuleError"),
        ("nodot", "Runtime.MalformedHandlerName"),
    ],
)
async def test_a_function_that_cannot_begin_says_why(handler: str, kind: str) -> None:
    async with hosting(node(handler)) as (host, _):
        called = await call(host)
        assert called.error is not None
        assert called.error.type == kind


async def test_the_console_is_the_log() -> None:
    async with hosting(node("plain.logs")) as (host, lines):
        called = await call(host)
        texts = [line.text for line in lines if line.request == called.request]
        assert [text.split("\t")[1:] for text in texts[1:3]] == [
            [called.request, "INFO", "logged this { answer: 42 }"],
            [called.request, "ERROR", "wrong"],
        ]
    async with hosting(node("plain.logs", log_format="JSON")) as (host, lines):
        called = await call(host)
        records = [json.loads(line.text) for line in lines if line.text.startswith("{")]
        assert [(record["level"], record["message"]) for record in records] == [("INFO", "logged this { answer: 42 }"), ("ERROR", "wrong")]
        assert {record["requestId"] for record in records} == {called.request}
