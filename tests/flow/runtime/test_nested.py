"""Functions that invoke functions and wait for them: a waiting process does not count, so the pool never deadlocks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.model.ids import LATEST
from holdfast.web.bodies import whole_body
from holdfast.web.replies import Reply
from tests.flow.runtime.running import alive, hosting, plain, until


@contextlib.asynccontextmanager
async def nesting(*functions: str, **limits: Any) -> AsyncIterator[RuntimeHost]:
    """A host whose functions can invoke each other."""
    async with hosting(*(plain("invokes", function=name) for name in functions), **limits) as (host, _):

        async def invoke(scope: Scope, receive: Receive, send: Send) -> None:
            called = await host.call(scope["path"].split("/")[-2], LATEST, await whole_body(receive, 1000) or b"")
            await Reply(200, called.payload)(scope, receive, send)

        host.api = invoke
        yield host


async def called(host: RuntimeHost, function: str, *then: str) -> list[Any]:
    answered = await host.call(function, LATEST, json.dumps(then).encode())
    told: list[Any] = json.loads(answered.payload)
    return told


async def test_a_function_that_invokes_another_leaves_its_place_to_it() -> None:
    async with nesting("a", "b", processes=1, per_function=1) as host:
        pids = await called(host, "a", "b", "a", "b")
        assert len(set(pids)) == 4, "each waits for the next"
        await until(lambda: len(alive(pids)) <= 1, "those beyond the bound to be gone")
        assert len(await called(host, "b", "a")) == 2


async def test_many_that_invoke_at_once_all_come_to_their_end() -> None:
    async with nesting("a", "b", processes=2, per_function=2) as host:
        answers = await asyncio.gather(*(called(host, "a", "b", "a") for _ in range(6)))
        assert [len(pids) for pids in answers] == [3] * 6


async def test_a_function_that_invokes_itself_for_ever_is_refused_at_last() -> None:
    async with nesting("a", processes=2, per_function=2, nested=3) as host:
        *pids, refused = await called(host, "a", *["a"] * 10)
        assert (len(set(pids)), refused) == (4, "429 TooManyRequestsException")
