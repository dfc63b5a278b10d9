"""A suspect, an execution under which two runners died: when a runner claims it, and what the runner keeps away from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.engine import runner_leases, suspects
from holdfast.model.clock import SystemClock, monotonic
from holdfast.model.execution import State
from holdfast.model.life import Claimant
from holdfast.model.verbs import Claim, Start, Started
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from tests.crash.scene import Scene
from tests.crash.test_takeover import execution, fact


def make_suspect(where: str, function: str) -> str:
    """An execution that two runners died under."""
    store, now = open_store(where, "gone"), SystemClock().now()
    try:
        header = msgspec.structs.replace(execution("suspect"), function=function, version="$LATEST")
        (made,) = store.commit([Start(header, "null", Claimant("r0", "i0"))], now).answers
        assert isinstance(made, Started)
        lives = [Claim(made.header.id, Claimant(f"r{n}", f"i{n}"), frozenset({f"r{n - 1}"})) for n in (1, 2)]
        store.commit(lives, now)
        return made.header.id
    finally:
        store.close()


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("progress", [False, True], ids=["it makes no progress", "it makes progress"])
async def test_a_suspect_neither_waits_for_ever_nor_keeps_others_out_for_ever(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, busy: bool, progress: bool
) -> None:
    monkeypatch.setattr(runner_leases, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(suspects, "_ALONE_SECONDS", 0.5)
    begun: list[str] = []
    go, on = asyncio.Event(), asyncio.Event()

    @holdfast.durable_execution
    async def waiting(event: Any, context: Any) -> Any:
        begun.append(str(event))
        await on.wait()
        if progress:
            await context.step(lambda _: None)
        await go.wait()

    async with holdfast.open(scene.store, functions=[waiting]) as engine:
        registry = engine._engine.registry
        if busy:
            await engine.start(waiting, "busy")
            await fact(lambda: begun == ["busy"])
        suspect = make_suspect(scene.store, "waiting")
        await fact(lambda: begun[-1:] == ["None"])
        assert scene.client.get(suspect).deaths == 2
        if progress:
            monkeypatch.setattr(suspects, "monotonic", lambda: 0.0)  # its time will not be over
        await engine.start(waiting, "later")
        assert begun[-1] == "None", "nothing is claimed beside it"
        on.set()
        await fact(lambda: begun[-1] == "later")
        assert scene.client.get(suspect).state is State.RUNNING
        go.set()
        await fact(registry.is_unused)


class Busy:
    """A runner that has room for `room` executions, each of which runs until it is let go. Time passes for suspects when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.now, self.begun, self.settings = monotonic(), list[str](), Settings(at_once=room)
        self.go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        monkeypatch.setattr(runner_leases, "LOOK_SECONDS", 0.05)
        monkeypatch.setattr(suspects, "monotonic", lambda: self.now)

    def function(self) -> Any:
        @holdfast.durable_execution
        async def held(event: Any, context: Any) -> Any:
            self.begun.append(str(event))
            await self.go[str(event)].wait()

        return held


@contextlib.asynccontextmanager
async def busy_with_a_suspect(scene: Scene, monkeypatch: pytest.MonkeyPatch, room: int) -> AsyncIterator[tuple[Busy, Any, Any]]:
    """A busy runner that executes `a` and keeps other executions away, because a suspect has waited for ten seconds; its function and its
    engine."""
    busy = Busy(monkeypatch, room)
    held = busy.function()
    async with holdfast.open(scene.store, functions=[held], settings=busy.settings) as engine:
        await engine.start(held, "a")
        await fact(lambda: busy.begun == ["a"])
        make_suspect(scene.store, "held")
        waiting = engine._engine._scheduler._suspects
        await fact(lambda: waiting._asked_at is not None)
        assert bool(engine._engine.registry.full()) is (room == 1)
        busy.now += 10
        await fact(lambda: waiting._keeps_clear)
        await engine.start(held, "b")
        yield busy, held, engine
        for name in ("a", "b", "None"):
            busy.go[name].set()
        await fact(lambda: sorted(busy.begun) == ["None", "a", "b"] and engine._engine.registry.is_unused())


@pytest.mark.parametrize("room", [1, 5])
async def test_a_busy_runner_begins_nothing_else_until_a_suspect_has_run_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    async with busy_with_a_suspect(scene, monkeypatch, room) as (busy, _, _):
        assert busy.begun == ["a"]
        busy.go["a"].set()
        await fact(lambda: len(busy.begun) == 2)
        assert busy.begun == ["a", "None"]
        busy.go["None"].set()
        await fact(lambda: busy.begun == ["a", "None", "b"])


async def test_a_suspect_without_room_keeps_others_away_for_ten_seconds_and_is_then_left_alone_for_a_minute(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with busy_with_a_suspect(scene, monkeypatch, 1) as (busy, _, engine):
        scheduler = engine._engine._scheduler
        busy.now += 10
        await fact(lambda: not scheduler._suspects._keeps_clear)
        busy.go["a"].set()
        await fact(lambda: len(busy.begun) == 2)
        assert busy.begun == ["a", "b"]
        assert list(scheduler._troubled.values()) == [busy.now + 60]
        scheduler._troubled.clear()
