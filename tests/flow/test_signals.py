"""Sinks on a whole engine: what goes wrong outside costs time, never an event, and never another sink's time."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast import AsyncDurableContext, StatusSignal, durable_execution
from holdfast.model.clock import VirtualClock
from holdfast.service.settings import Settings
from holdfast.signals.broadcast import Broadcaster
from holdfast.signals.signatures import verify
from holdfast.signals.sinks import JsonLines
from holdfast.signals.webhook import Webhook
from tests.flow.harness import eventually

SECRET = "a secret of the webhook, long enough"


@durable_execution
async def echo(event: Any, context: AsyncDurableContext) -> Any:
    return event


class Receiver:
    """The other end of a webhook, which takes what it is not told to refuse."""

    def __init__(self, clock: VirtualClock, refuse: dict[str, int]) -> None:
        self.clock = clock
        self.refuse = refuse
        self.tried: list[tuple[str, str, int]] = []
        self.taken: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        now = self.clock.now()
        verify(dict(request.headers), request.content, SECRET, now // 1000)
        detail = json.loads(request.content)["detail"]
        name, status = detail["durableExecutionName"], detail["status"]
        self.tried.append((name, status, now))
        if self.refuse.get(name, 0) > 0:
            self.refuse[name] -= 1
            return httpx.Response(503)
        self.taken.append((name, status))
        return httpx.Response(204)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def both(*names: str) -> list[tuple[str, str]]:
    return [(name, status) for name in names for status in ("RUNNING", "SUCCEEDED")]


async def test_a_webhook_that_is_down_gets_everything_later_in_order_and_signed_anew(tmp_path: Path) -> None:
    clock = VirtualClock()
    receiver = Receiver(clock, {"a": 20})
    async with httpx.AsyncClient(transport=httpx.MockTransport(receiver)) as client:
        hook = Webhook("https://hooks.example", SECRET, client=client, clock=clock)
        file = JsonLines(tmp_path / "events.jsonl")
        settings = Settings(clock=clock)
        async with holdfast.open(
            tmp_path / "test.db", functions=[echo], subscribers={"hook": hook, "file": file}, settings=settings
        ) as engine:
            for name in "abc":
                await (await engine.start(echo, name, name=name)).result()
            await eventually(lambda: len(receiver.taken) == 6)
            await eventually(lambda: len(lines(tmp_path / "events.jsonl")) == 6)
    assert receiver.taken == both("a", "b", "c")
    times = [at for _, _, at in receiver.tried[:21]]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(500 * 2**n <= wait for n, wait in enumerate(waits[:6])), "each pause about twice the one before"
    assert times[-1] - times[0] > 300_000, "the last try was signed anew: the first signature would be too old for the receiver"
    told = [(line["detail"]["durableExecutionName"], line["detail"]["status"]) for line in lines(tmp_path / "events.jsonl")]
    assert told == both("a", "b", "c")


async def test_an_event_nobody_takes_becomes_a_dead_letter_and_the_others_go_on(tmp_path: Path) -> None:
    clock = VirtualClock()
    receiver = Receiver(clock, {"bad": 10**9})
    async with httpx.AsyncClient(transport=httpx.MockTransport(receiver)) as client:
        hook = Webhook("https://hooks.example", SECRET, client=client, clock=clock, dead_letters=tmp_path / "dead.jsonl", tries=4)
        settings = Settings(clock=clock)
        async with holdfast.open(tmp_path / "test.db", functions=[echo], subscribers={"hook": hook}, settings=settings) as engine:
            for name in ("a", "bad", "c"):
                await (await engine.start(echo, name, name=name)).result()
            await eventually(lambda: len(receiver.taken) == 4)
    assert receiver.taken == both("a", "c")
    letters = lines(tmp_path / "dead.jsonl")
    assert [(letter["tries"], letter["event"]["detail"]["status"]) for letter in letters] == [(4, "RUNNING"), (4, "SUCCEEDED")]
    assert [letter["event"]["detail"]["durableExecutionName"] for letter in letters] == ["bad", "bad"]


@pytest.mark.parametrize("restarts", [1, 3])
async def test_listeners_go_on_after_a_restart_of_the_engine(tmp_path: Path, restarts: int) -> None:
    last, heard = None, list[str]()
    for number in range(restarts + 1):
        broadcaster = Broadcaster()
        settings = Settings(clock=VirtualClock())
        opening = holdfast.open(tmp_path / "test.db", functions=[echo], subscribers={"events": broadcaster}, settings=settings)
        async with opening as engine, broadcaster.listen(after=last) as listener, asyncio.timeout(20):
            await (await engine.start(echo, number, name=f"n{number}")).result()
            async for told in listener.signals(60):
                assert isinstance(told, StatusSignal), "no gap, and no pause"
                heard.append(told.name)
                last = told.number
                if len(heard) == 2 * number + 2:
                    break
    assert heard == [f"n{number}" for number in range(restarts + 1) for _ in range(2)]
