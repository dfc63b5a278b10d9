"""A blocked event loop is told of once for each block, with the stack that blocks it."""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Settings, durable_execution
from holdfast import open as open_engine
from holdfast.engine import loop_watch
from holdfast.engine.loop_watch import LoopWatch
from holdfast.model.clock import VirtualClock


class Stage:
    """A loop's thread, a clock and a loop, all in the hands of a test."""

    def __init__(self) -> None:
        self.time = 0.0
        self.frame: FrameType | None = sys._getframe()
        self.asked: list[Any] = []
        self.watch = LoopWatch(self, now=lambda: self.time, frames=self.frames)  # type: ignore[arg-type]

    def frames(self) -> Mapping[int, FrameType]:
        return {threading.get_ident(): self.frame} if self.frame is not None else {}

    def call_soon_threadsafe(self, answer: Any) -> None:
        self.asked.append(answer)

    def looks(self, seconds: float) -> None:
        """What the watch sees in this time."""
        for _ in range(round(seconds * 20)):
            self.time += 0.05
            self.watch.check()


def blocks(stage: Stage) -> None:
    """The author's code that holds the loop."""
    stage.frame = sys._getframe()
    stage.looks(5)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "holdfast.engine.loop"]


def test_a_loop_that_gives_no_sign_of_life_for_a_second_is_told_of_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    blocks(stage)
    (told,) = warnings(caplog)
    assert told.startswith("the event loop has been blocked for 1.0 s")
    assert f"\n  {__file__}:{blocks.__code__.co_firstlineno + 3} in blocks\n" in told


def test_a_loop_that_answers_is_not_told_of_and_the_next_block_is(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    for _ in range(10):
        stage.looks(0.9)
        stage.asked.pop()()
    assert warnings(caplog) == []
    blocks(stage)
    stage.asked.pop()()
    blocks(stage)
    assert len(warnings(caplog)) == 2


def test_a_loop_that_waits_is_not_woken() -> None:
    stage = Stage()
    waiting: dict[str, Any] = {"sys": sys}
    exec(compile("frame = sys._getframe()", selectors.__file__, "exec"), waiting)
    stage.frame = waiting["frame"]
    stage.looks(5)
    assert stage.asked == []


def test_a_process_that_slept_was_not_blocked(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.looks(0.3)
    stage.time += 3600
    stage.looks(0.1)
    stage.asked.pop()()
    assert warnings(caplog) == []


def test_a_loop_that_waits_for_our_own_store_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stage = Stage()
    ours: dict[str, Any] = {"sys": sys}
    exec(compile("frame = sys._getframe()", str(Path(holdfast.__file__).parent / "store" / "sqlite" / "store.py"), "exec"), ours)
    stage.frame = ours["frame"]
    stage.looks(5)
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_our_own_store_is_known_also_where_holdfast_is_installed_below_pythons_own_folder(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "_PYTHON", str(Path(holdfast.__file__).parents[1]))
    test_a_loop_that_waits_for_our_own_store_is_no_warning(caplog)


async def test_an_engine_with_virtual_time_has_no_such_watch() -> None:
    @durable_execution
    async def nothing(event: Any, context: AsyncDurableContext) -> None: ...

    async with open_engine(":memory:", functions=[nothing], settings=Settings(clock=VirtualClock())) as engine:
        assert engine._engine._scheduler._loop_watch is None


async def test_a_handler_that_blocks_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    @durable_execution
    async def holds_the_loop(event: Any, context: AsyncDurableContext) -> bool:
        return told.wait(20)  # until the warning is there

    hearing = Hearing()
    logging.getLogger("holdfast.engine.loop").addHandler(hearing)
    try:
        async with open_engine(":memory:", functions=[holds_the_loop]) as engine:
            assert await asyncio.wait_for((await engine.start(holds_the_loop)).result(), 60)
    finally:
        logging.getLogger("holdfast.engine.loop").removeHandler(hearing)
    (line,) = warnings(caplog)
    assert " in holds_the_loop" in line
