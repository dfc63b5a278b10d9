"""Retention under a virtual clock: the engine removes expired executions, a few at a time, and other executions are not affected."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, StepContext, durable_execution
from holdfast.engine import upkeep
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionNotFound, StoreBusy
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import Harness, eventually, types
from tests.histories import wire

DAY = 86_400_000


@durable_execution(retention_days=1)
async def short(event: Any, context: AsyncDurableContext) -> Any:
    async def body(step: StepContext) -> int:
        return 1

    for _ in range(event or 1):
        await context.step(body)
    return event


@durable_execution(retention_days=30)
async def kept(event: Any, context: AsyncDurableContext) -> str:
    await context.wait(Duration.from_days(event or 3))
    return "kept"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each transaction of the upkeep came to."""
    seen: list[bool] = []
    expire = SqliteStore.expire

    def spied(self: SqliteStore, now: int, limit: int) -> bool:
        seen.append(expire(self, now, limit))
        return seen[-1]

    monkeypatch.setattr(SqliteStore, "expire", spied)
    return seen


def left(engine: OpenEngine) -> dict[str, int]:
    """Rows by table."""
    reader = engine._store._reader  # type: ignore[attr-defined]
    tables = ("executions", "operations", "events", "expired", "signals")
    return {table: reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


async def names(engine: OpenEngine) -> list[str]:
    return [header.name for header in [x async for x in engine.list(Filter(oldest_first=True, limit=10_000))]]


async def test_an_execution_is_gone_after_its_retention_and_its_name_is_free(harness: Harness) -> None:
    async with harness.engine(short, kept) as engine:
        first = await engine.start(short, name="a")
        await first.result()
        other = await engine.start(kept, name="other")
        assert await names(engine) == ["a", "other"]
        assert await other.result() == "kept"  # three days pass
        await eventually(lambda: engine._store.find(first.id) is None)
        assert await names(engine) == ["other"]
        for ask in (first.describe, first.history, first.status):
            with pytest.raises(ExecutionNotFound):
                await ask()
        with pytest.raises(ExecutionNotFound):
            await engine.get(first.arn)
        again = await engine.start(short, name="a")
        assert again.id != first.id
        await again.result()
        assert types(wire(await again.history())).count("ExecutionStarted") == 1
        assert types(wire(await other.history()))[-1] == "ExecutionSucceeded"


async def test_an_execution_is_there_until_its_retention_is_over(harness: Harness, steps: list[bool]) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(short, clock=clock) as engine:
        execution = await engine.start(short, name="a")
        await execution.result()
        ended_at = (await execution.describe()).ended_at
        assert ended_at is not None
        await eventually(lambda: steps == [False])
        clock.move_to(ended_at + DAY - 1)
        await eventually(lambda: steps == [False, False])
        assert await names(engine) == ["a"]
        clock.move_to(ended_at + DAY + 60_000)
        await eventually(lambda: engine._store.find(execution.id) is None)


async def test_what_was_over_before_goes_when_an_engine_opens(harness: Harness) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(short, clock=clock) as engine:
        await (await engine.start(short, name="a")).result()
    clock.move_to(clock.now() + 2 * DAY)
    async with harness.engine(short, clock=clock) as engine:
        await eventually(lambda: left(engine) == dict.fromkeys(left(engine), 0))


async def test_the_clock_is_not_moved_for_it_and_it_comes_once_a_minute(
    harness: Harness, steps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    is_due = upkeep.Upkeep.is_due

    def spied(self: upkeep.Upkeep, now: int) -> bool:
        looks.append(now)
        return is_due(self, now)

    monkeypatch.setattr(upkeep.Upkeep, "is_due", spied)
    clock = VirtualClock()
    began = clock.now()
    async with harness.engine(kept, clock=clock):
        for now, passes in ((began, 1), (began + 59_999, 1), (began + 60_000, 2)):
            clock.move_to(now)
            await eventually(lambda: len(steps) == passes and looks.count(now) > 5)  # noqa: B023
            assert (clock.now(), len(steps)) == (now, passes)


async def test_a_huge_execution_goes_in_many_transactions_while_others_make_progress(
    harness: Harness, steps: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_ROWS", 20)
    clock = VirtualClock(skipping=False)
    async with harness.engine(short, kept, clock=clock) as engine:
        await (await engine.start(short, 200, name="huge")).result()
        rows = left(engine)
        clock.move_to(clock.now() + 2 * DAY)
        await eventually(lambda: left(engine)["expired"] == 1)
        made = 0
        while left(engine)["expired"]:
            await (await engine.start(short, 3, name=f"beside-{made}")).result()
            made += 1
        assert made > 3, "others ran between its transactions"
        assert sum(steps) >= (rows["events"] + rows["operations"]) // 20
        assert await names(engine) == [f"beside-{n}" for n in range(made)]
        assert left(engine)["operations"] == 3 * made


async def test_a_removal_that_was_cut_off_leaves_nothing_behind_after_the_next_one(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_ROWS", 7)
    clock = VirtualClock(skipping=False)
    async with harness.engine(short, clock=clock) as engine:
        await (await engine.start(short, 100, name="huge")).result()
        clock.move_to(clock.now() + 2 * DAY)
        await eventually(lambda: left(engine)["expired"] == 1)
    async with harness.engine(short, clock=clock) as engine:
        await eventually(lambda: left(engine) == dict.fromkeys(left(engine), 0))


async def test_a_bad_moment_of_the_store_does_not_end_the_upkeep(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    expire = SqliteStore.expire
    troubled: list[int] = []

    def bad(self: SqliteStore, now: int, limit: int) -> bool:
        troubled.append(now)
        if len(troubled) == 1:
            raise StoreBusy
        return expire(self, now, limit)

    monkeypatch.setattr(SqliteStore, "expire", bad)
    clock = VirtualClock(skipping=False)
    async with harness.engine(short, clock=clock) as engine:
        execution = await engine.start(short)
        await execution.result()
        await eventually(lambda: troubled)
        clock.move_to(clock.now() + 2 * DAY)
        await eventually(lambda: engine._store.find(execution.id) is None)


async def test_signals_that_everybody_has_had_go_too(harness: Harness) -> None:
    clock = VirtualClock(skipping=False)
    had: list[int] = []
    settings = Settings(clock=clock, resting=harness.resting)
    subscribers = {"billing": lambda signal: had.append(signal.number)}
    async with holdfast.open(harness.store, functions=[short], subscribers=subscribers, settings=settings) as engine:
        await (await engine.start(short)).result()
        await eventually(lambda: len(had) == 2 and engine._engine.outbox._deliveries[0]._kept == had[-1])
        clock.move_to(clock.now() + 60_000)
        await eventually(lambda: left(engine)["signals"] == 0)
        await (await engine.start(short)).result()
        await eventually(lambda: len(had) == 4)
    assert had == sorted(set(had))


async def test_an_end_waits_for_the_present_chore_and_begins_no_further_one() -> None:
    came, goes_on, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def first() -> None:
        came.set()
        await goes_on.wait()
        done.append("first")

    async def second() -> None:
        done.append("second")

    kept_in_order = upkeep.Upkeep(Mock(), VirtualClock(), [first, second])
    kept_in_order.begin_due(1)
    await came.wait()
    ending = asyncio.create_task(kept_in_order.end())
    await asyncio.sleep(0)
    goes_on.set()
    await ending
    assert done == ["first"]


async def test_a_chore_that_fails_keeps_neither_the_other_chores_nor_the_removal_from_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def fails() -> None:
        raise OSError("no room")

    async def second() -> None:
        done.append("second")

    store = Mock()
    store.expire.side_effect = lambda now, rows: done.append("expired")
    kept_in_order = upkeep.Upkeep(store, VirtualClock(), [fails, second])
    kept_in_order.begin_due(1)
    while len(done) < 2:
        await asyncio.sleep(0)
    await kept_in_order.end()
    assert done == ["second", "expired"]
    assert "trying again in a minute: no room" in caplog.text
