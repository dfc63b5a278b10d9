"""Updates that ride: one execution whose write fails keeps no other's from being written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.durable.async_state import AsyncState
from holdfast.durable.stragglers import LoopStragglers, ThreadStragglers
from holdfast.durable.user_code import StepThreads
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Terms
from holdfast.model.ids import Position
from holdfast.model.life import new_execution
from holdfast.model.operations import Action, Operation, Type, Update
from holdfast.model.ports import Invocation, OnAnswer
from holdfast.model.verbs import Checkpointed


class Riding:
    """An execution with something to tell."""

    def __init__(self, *, fails: bool = False) -> None:
        self.unwritten = [cast("Update", None)]
        self.unwritten_since = 0.0
        self.written = threading.Event()
        self._fails = fails

    def write_deferred(self) -> None:
        if self._fails:
            raise ZeroDivisionError
        self.written.set()


async def test_on_the_loop_the_others_are_written_and_later_ones_too(caplog: pytest.LogCaptureFixture) -> None:
    stragglers, good, later = LoopStragglers(), Riding(), Riding()
    for state in (Riding(fails=True), good):
        stragglers.add(state)
    await _until(good)
    stragglers.add(later)
    await _until(later)
    assert "ZeroDivisionError" in caplog.text


def test_on_the_thread_the_others_are_written_and_later_ones_too() -> None:
    stragglers, good, later = ThreadStragglers(), Riding(), Riding()
    for state in (Riding(fails=True), good):
        stragglers.add(state)
    assert good.written.wait(20)
    stragglers.add(later)
    assert later.written.wait(20)
    stragglers.close(wait=True)


class SlowDisk:
    """A port whose writes are answered by the test."""

    def __init__(self) -> None:
        self.asked: list[tuple[Position, list[str], OnAnswer]] = []

    def checkpoint(self, *_: Any) -> Checkpointed:
        raise AssertionError("a coroutine does not block")

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        self.asked.append((token, [update.id for update in updates], on_answer))

    def answer(self, at: int) -> None:
        token, _, on_answer = self.asked[at]
        on_answer(Checkpointed(token, (), token.revision))

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return ()

    def input(self, token: Position) -> str | None:
        return None


async def test_an_update_that_was_deferred_during_a_slow_write_is_written_after_it() -> None:
    disk, stragglers = SlowDisk(), LoopStragglers()
    header = new_execution("x", None, "f", "1", payload="1", now=1, terms=Terms())
    invocation = Invocation("arn", header, Position("x", 1, 0, 1), True)
    state = AsyncState(invocation, disk, VirtualClock(), stragglers, threads=cast("StepThreads", None), quiet=lambda: None)
    state.record(Update(id="first", type=Type.STEP, action=Action.START))
    written = state.flush()
    state.record_later(Update(id="second", type=Type.STEP, action=Action.START))
    async with asyncio.timeout(20):
        while stragglers._states:  # the stragglers look, and cannot write: a write is under way
            await asyncio.sleep(0)
        disk.answer(0)
        await written
        while len(disk.asked) < 2:
            await asyncio.sleep(0)
    assert [ids for _, ids, _ in disk.asked] == [["first"], ["second"]]


async def _until(state: Riding) -> None:
    async with asyncio.timeout(20):
        while not state.written.is_set():
            await asyncio.sleep(0)
