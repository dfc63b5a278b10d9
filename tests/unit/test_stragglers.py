"""Updates that ride: one execution whose write fails keeps no other's from being written."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest

from holdfast.durable.stragglers import LoopStragglers, ThreadStragglers
from holdfast.model.operations import Update


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


async def _until(state: Riding) -> None:
    async with asyncio.timeout(20):
        while not state.written.is_set():
            await asyncio.sleep(0)
