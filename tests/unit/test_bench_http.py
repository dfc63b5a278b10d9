"""The client that measures checkpoints counts what was acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.http import template
from bench.http_raw import Writer
from bench.http_routing import checkpoint_path, lambda_routes, ours, seconds_per_request, server_routes, starlettes
from holdfast.web.routing import Route

OK = b'HTTP/1.1 200 OK\r\ncontent-length: 44\r\n\r\n{"NewExecutionState":{},"CheckpointToken":"%s"}'


class Wire:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def bodies(self) -> list[Any]:
        return [json.loads(data.partition(b"\r\n\r\n")[2]) for data in self.sent]


def writer() -> tuple[Writer, Wire]:
    made, wire = Writer("arn:a/b", "t0"), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]
    return made, wire


async def test_the_next_checkpoint_goes_out_with_the_token_of_the_last_answer() -> None:
    made, wire = writer()
    writing = asyncio.create_task(made.write(2))
    await asyncio.sleep(0)
    answer = OK % b"t1"
    made.data_received(answer[:30])
    assert len(wire.sent) == 1, "half an answer is none"
    made.data_received(answer[30:])
    made.data_received(OK % b"t2")
    await writing
    assert [body["CheckpointToken"] for body in wire.bodies()] == ["t0", "t1"]
    assert [[update["Action"] for update in body["Updates"]] for body in wire.bodies()] == [["START", "SUCCEED"]] * 2
    assert wire.sent[0].startswith(b"POST /2025-12-01/durable-executions/arn%3Aa%2Fb/checkpoint HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]
)
async def test_a_checkpoint_that_is_not_acknowledged_is_an_error(answer: bytes) -> None:
    made, _ = writer()
    writing = asyncio.create_task(made.write(1))
    await asyncio.sleep(0)
    made.data_received(answer)
    with pytest.raises(RuntimeError, match="a checkpoint was refused"):
        await writing


async def test_a_server_that_hangs_up_is_an_error() -> None:
    made, _ = writer()
    writing = asyncio.create_task(made.write(1))
    await asyncio.sleep(0)
    made.connection_lost(None)
    with pytest.raises(RuntimeError, match="the server hung up"):
        await writing


def test_only_the_plain_function_is_not_durable() -> None:
    functions = [made["Properties"] for made in json.loads(template())["Resources"].values()]
    assert [one["FunctionName"] for one in functions if "DurableConfig" not in one] == ["plain"]


@pytest.mark.parametrize("routes", [lambda_routes, server_routes])
async def test_both_routers_find_the_route_of_a_checkpoint_and_no_other_path(routes: Callable[[], list[Route]]) -> None:
    """A path without a route would be answered with an error, which is cheaper than a reply."""
    for app in (ours(routes()), starlettes(routes())):
        assert await seconds_per_request(app, checkpoint_path, 5) > 0
        with pytest.raises(AssertionError, match="404"):
            await seconds_per_request(app, lambda _: "/nowhere", 5)
