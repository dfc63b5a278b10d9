"""A body that arrives slowly: a byte now and then is no progress, and a client that sends steadily may take its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.web.bodies import HeldBodies, Incoming
from holdfast.web.capacity import COMMON, Capacities
from holdfast.web.limits import WebLimits
from holdfast.web.policy import UNKNOWN
from holdfast.web.refusals import Refused
from holdfast.web.requests import Request

SCOPE: Any = {"type": "http", "headers": [], "query_string": b"", "path": "/v1/artifacts", "method": "POST"}


def sending(size: int, seconds: float, times: int) -> Callable[[], Awaitable[Any]]:
    """A client that sends so much at a time, at this pace."""
    left = times
    loop = asyncio.get_running_loop()

    async def receive() -> Any:
        nonlocal left
        left -= 1
        came = loop.create_future()
        loop.call_later(seconds, came.set_result, None)
        await came
        return {"type": "http.request", "body": b"x" * size, "more_body": left > 0}

    return receive


async def taken(receive: Callable[[], Awaitable[Any]], seconds: float) -> int:
    incoming = Incoming(SCOPE, receive, HeldBodies(1_000_000))
    request = Request(SCOPE, incoming, UNKNOWN, (), Capacities.of(COMMON, WebLimits()), asyncio.Event())
    return sum([len(part) async for part in request.parts(seconds)])


async def test_one_byte_at_a_time_is_refused_however_soon_the_next_one_comes() -> None:
    with pytest.raises(Refused) as refused:
        await asyncio.wait_for(taken(sending(1, 0.005, 1_000_000), 0.1), 10)
    assert refused.value.status == 408


async def test_whoever_sends_enough_may_take_longer_than_one_window() -> None:
    assert await taken(sending(200, 0.005, 40), 0.1) == 8000


async def test_a_small_body_within_the_window_is_taken() -> None:
    assert await taken(sending(1, 0.001, 20), 2) == 20
