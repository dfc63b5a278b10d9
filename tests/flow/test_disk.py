"""When the disk under the store is full or fails, the engine pauses: who asks is told, what runs waits, nothing counts as a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, durable_execution
from holdfast.durable.config import StepSemantics
from holdfast.durable.execution import DurableFunction
from holdfast.engine import health, scheduler
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import DiskFailed, DiskFull, EngineClosed, HoldfastError, StoreBroken
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import Harness, eventually, in_real_time, pending, types
from tests.histories import wire

ONCE = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
WRITES = ("commit", "_change", "_transaction")


class Disk:
    """Raises instead of doing some of the store's calls, as long as it is ill."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.trouble: HoldfastError | None = None
        self.refused = 0
        self.then: dict[int, Callable[[], None]] = {}
        """What happens with so many refusals."""

    def ails(self, *calls: str) -> None:
        for call in calls:
            self._monkeypatch.setattr(SqliteStore, call, self._ailing(getattr(SqliteStore, call)))

    def _ailing(self, well: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.trouble is not None:
                self.refused += 1
                self.then.get(self.refused, lambda: None)()
                raise self.trouble
            return well(*args, **kwargs)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(scheduler, "_TROUBLE_SECONDS", 0.02)
    monkeypatch.setattr(health, "_SURE_SECONDS", 0.5)
    made = Disk(monkeypatch)
    yield made
    made.trouble = None


ran: list[str] = []
"""The bodies that ran."""


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def body(name: str) -> Callable[[Any], str]:
    def run(step: Any) -> str:
        ran.append(name)
        return name

    return run


def filling(disk: Disk) -> Callable[[Any], str]:
    """A body after which nothing can be written."""

    def run(step: Any) -> str:
        ran.append("filling")
        disk.trouble = DiskFull()
        return "filling"

    return run


def functions(disk: Disk) -> dict[str, DurableFunction]:
    """An at-most-once step whose end meets a full disk, between two others, in both colours."""

    @durable_execution(name="fills")
    async def awaiting(event: Any, context: AsyncDurableContext) -> list[str]:
        first = await context.step(body("first"))
        second = await context.step(filling(disk), config=ONCE)
        await context.wait(Duration.from_seconds(1))
        return [first, second, await context.step(body("third"))]

    @durable_execution(name="fills")
    def blocking(event: Any, context: DurableContext) -> list[str]:
        first = context.step(body("first"))
        second = context.step(filling(disk), config=ONCE)
        context.wait(Duration.from_seconds(1))
        return [first, second, context.step(body("third"))]

    return {"async": awaiting, "def": blocking}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What people were told, without the name of the runner."""
    return [record.getMessage().partition(" ")[2].partition(":")[0] for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_what_a_full_disk_does_not_take_is_written_when_there_is_room(
    harness: Harness, disk: Disk, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk.ails(*WRITES)
    async with harness.engine(functions(disk)[colour]) as engine:
        execution = await engine.start("fills")
        await in_real_time(lambda: disk.refused > 5)
        assert ran == ["first", "filling"]
        with pytest.raises(DiskFull) as refused:
            await engine.start("fills", name="another")
        assert refused.value.code == "disk_full"
        disk.trouble = None
        assert await asyncio.wait_for(execution.result(), 20) == ["first", "filling", "third"]
        history = wire(await execution.history())
        assert [header.name for header in [x async for x in engine.list()]] == [execution.name], "a start that was refused has left nothing"
        await in_real_time(lambda: len(told(caplog)) == 2)
    assert ran == ["first", "filling", "third"]
    assert "Error" not in str([event for event in history if event["EventType"] == "InvocationCompleted"])
    assert told(caplog) == ["pauses until its store works again", "continues"]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_engine_closes_although_its_disk_is_full_and_the_next_one_goes_on(harness: Harness, disk: Disk, colour: str) -> None:
    disk.ails(*WRITES)

    @durable_execution(name="plain")
    async def awaiting(event: Any, context: AsyncDurableContext) -> str:
        return await context.step(filling(disk) if not ran else body("again"))

    @durable_execution(name="plain")
    def blocking(event: Any, context: DurableContext) -> str:
        return context.step(filling(disk) if not ran else body("again"))

    function = awaiting if colour == "async" else blocking
    async with harness.engine(function) as engine:
        execution = await engine.start("plain")
        waiting = asyncio.create_task(execution.result())
        await in_real_time(lambda: disk.refused > 5)
    with pytest.raises(EngineClosed):
        await asyncio.wait_for(waiting, 20)
    disk.trouble = None
    async with harness.engine(function) as engine:
        assert await asyncio.wait_for((await engine.get(execution.id)).result(), 20) == "again"
    assert ran == ["filling", "again"]


async def test_whoever_asks_for_something_while_the_disk_is_full_is_told_at_once(harness: Harness, disk: Disk) -> None:
    @durable_execution
    async def asks(event: Any, context: AsyncDurableContext) -> Any:
        return await (await context.create_callback()).result()

    disk.ails(*WRITES)
    async with harness.engine(asks, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(asks)
        callback_id = str((await pending(execution)).callback_id)
        disk.trouble = DiskFull()
        for _ in range(2):  # before the engine has noticed it, and after
            with pytest.raises(DiskFull):
                await engine.succeed_callback(callback_id, "now")
            with pytest.raises(DiskFull):
                await execution.stop()
            with pytest.raises(DiskFull):
                await engine.heartbeat_callback(callback_id)
        disk.trouble = None
        await eventually(lambda: engine._engine.health.trouble is None)
        await engine.succeed_callback(callback_id, "later")
        assert await asyncio.wait_for(execution.result(), 20) == "later"


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize("call", ["operations", "input"])
async def test_a_read_that_fails_counts_against_nobody_and_is_told_once(
    harness: Harness, disk: Disk, colour: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    @durable_execution(name="waits")
    async def awaiting(event: Any, context: AsyncDurableContext) -> str:
        await context.step(body("first"))
        disk.trouble = DiskFailed() if len(ran) == 1 else None
        await context.wait(Duration.from_seconds(1))
        return await context.step(body("second"))

    @durable_execution(name="waits")
    def blocking(event: Any, context: DurableContext) -> str:
        context.step(body("first"))
        disk.trouble = DiskFailed() if len(ran) == 1 else None
        context.wait(Duration.from_seconds(1))
        return context.step(body("second"))

    disk.ails(call)
    harness.resting = 0
    async with harness.engine(awaiting if colour == "async" else blocking) as engine:
        execution = await engine.start("waits", {"n": 1})
        await in_real_time(lambda: disk.refused > 12)  # more often than an invocation may fail
        disk.trouble = None
        assert await asyncio.wait_for(execution.result(), 20) == "second"
        history = wire(await execution.history())
        await in_real_time(lambda: len(told(caplog)) == 2)
    assert ran == ["first", "second"]
    assert "Error" not in str([event for event in history if event["EventType"] == "InvocationCompleted"])
    assert types(history)[-1] == "ExecutionSucceeded"
    assert told(caplog) == ["pauses until its store works again", "continues"]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_invoke_whose_target_cannot_be_looked_up_has_not_failed(harness: Harness, disk: Disk, colour: str) -> None:
    @durable_execution(name="calls")
    async def awaiting(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("called", {})

    @durable_execution(name="calls")
    def blocking(event: Any, context: DurableContext) -> Any:
        return context.invoke("called", {})

    @durable_execution(name="called")
    async def called(event: Any, context: AsyncDurableContext) -> str:
        return "answer"

    async with harness.engine(called):
        pass  # so that the store knows it
    disk.ails("hosted")
    clock = VirtualClock(skipping=False)  # the idle one of two engines must not run ahead
    disk.trouble = DiskFailed()
    async with harness.engine(awaiting if colour == "async" else blocking, clock=clock) as engine:
        execution = await engine.start("calls")
        await in_real_time(lambda: disk.refused > 12)
        async with harness.engine(called, clock=clock):
            disk.trouble = None
            assert await asyncio.wait_for(execution.result(), 20) == "answer"


async def test_an_execution_that_cannot_be_read_is_put_aside_instead_of_failed(harness: Harness, disk: Disk) -> None:
    """A page of its own is damaged, say. A person mends that, and it goes on."""

    @durable_execution
    async def waits(event: Any, context: AsyncDurableContext) -> str:
        await context.step(body("first"))
        await context.wait(Duration.from_seconds(1))
        return await context.step(body("second"))

    disk.ails("operations")
    disk.then[9] = lambda: setattr(harness.clock, "skipping", False)  # it is put aside now, and not tried again by itself
    harness.resting = 0
    async with harness.engine(waits) as engine:
        execution = await engine.start(waits)
        await eventually(lambda: ran)
        disk.trouble = StoreBroken("the page is damaged")
        await in_real_time(lambda: disk.refused > 8)
        disk.trouble = None
        async with asyncio.timeout(20):
            while (await execution.describe()).state != "quarantined":
                await asyncio.sleep(0)
        await execution.release()
        assert await asyncio.wait_for(execution.result(), 20) == "second"
    assert ran == ["first", "second"]
