"""`context.now()` in every replay: after calls that end later than they return, after contexts, and inside them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import AsyncDurableContext, CallbackConfig, DurableContext, Duration, MapConfig, durable_execution
from holdfast.durable.exceptions import CallbackError
from tests.flow.harness import Harness

HOUR = Duration.from_hours(1)
LATE = CallbackConfig(timeout=HOUR)


async def _times(context: AsyncDurableContext, times: list[datetime]) -> None:
    """Note the time after each kind of call, and inside a child context."""
    times.append(context.now())

    async def rests(inner: AsyncDurableContext) -> list[str]:
        began = inner.now()
        await inner.wait(HOUR)
        return [began.isoformat(), inner.now().isoformat()]

    times += [datetime.fromisoformat(text) for text in await context.run_in_child_context(rests)]
    times.append(context.now())
    await context.parallel([rests, rests])
    times.append(context.now())
    timer = await context.create_timer(HOUR)
    times.append(context.now())
    callback = await context.create_callback(config=LATE)
    times.append(context.now())
    await context.first_of([timer])
    times.append(context.now())
    try:
        await callback.result()
    except CallbackError:
        times.append(context.now())
    await context.wait(HOUR)
    times.append(context.now())


def _blocking_times(context: DurableContext, times: list[datetime]) -> None:
    times.append(context.now())

    def rests(inner: DurableContext) -> list[str]:
        began = inner.now()
        inner.wait(HOUR)
        return [began.isoformat(), inner.now().isoformat()]

    times += [datetime.fromisoformat(text) for text in context.run_in_child_context(rests)]
    times.append(context.now())
    context.parallel([rests, rests])
    times.append(context.now())
    timer = context.create_timer(HOUR)
    times.append(context.now())
    callback = context.create_callback(config=LATE)
    times.append(context.now())
    context.first_of([timer])
    times.append(context.now())
    try:
        callback.result()
    except CallbackError:
        times.append(context.now())
    context.wait(HOUR)
    times.append(context.now())


def _check(replays: list[list[datetime]], least: int) -> None:
    assert len(replays) >= least
    last = replays[-1]
    assert [times for times in replays if times != last[: len(times)]] == []
    assert last == sorted(last)
    hours = [(time - last[0]).total_seconds() // 3600 for time in last]
    assert hours == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4]


async def test_the_time_of_an_async_handler_is_the_same_in_every_replay_and_never_goes_back(harness: Harness) -> None:
    replays: list[list[datetime]] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        replays.append([])
        await _times(context, replays[-1])

    await harness.run(handler)
    _check(replays, 1 if harness.resting else 5)


async def test_the_time_of_a_blocking_handler_is_the_same_in_every_replay_and_never_goes_back(harness: Harness) -> None:
    replays: list[list[datetime]] = []

    @durable_execution
    def handler(event: Any, context: DurableContext) -> None:
        replays.append([])
        _blocking_times(context, replays[-1])

    await harness.run(handler)
    _check(replays, 5)


async def test_a_branch_begins_at_the_time_of_its_batch_in_every_replay(harness: Harness) -> None:
    begun: dict[int, set[datetime]] = {0: set(), 1: set()}

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def rests(inner: AsyncDurableContext, item: int, index: int, items: Any) -> None:
            begun[index].add(inner.now())
            await inner.wait(HOUR)
            await inner.wait(HOUR)

        await context.wait(HOUR)
        await context.map([0, 1], rests, config=MapConfig(max_concurrency=1))

    began = datetime.fromtimestamp(harness.clock.now() / 1000, UTC)
    await harness.run(handler)
    assert begun[0] == begun[1] == {began + timedelta(hours=1)}
