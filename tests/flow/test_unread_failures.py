"""A map or parallel whose failures the code never looked at is a warning when that code ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, MapConfig, durable_execution
from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.config import ChildConfig, CompletionConfig, NestingType
from holdfast.durable.execution import DurableFunction
from tests.flow.harness import Harness

SECOND = Duration.from_seconds(1)


def odd(branch: DurableContext, item: int, index: int, items: Any) -> int:
    if item % 2:
        raise ValueError(f"{item} is odd")
    return item


async def odd_async(branch: AsyncDurableContext, item: int, index: int, items: Any) -> int:
    return odd(branch, item, index, items)  # type: ignore[arg-type]


def both(look: Callable[[BatchResult[int]], Any], config: MapConfig[int] | None = None) -> list[DurableFunction]:
    @durable_execution(name="numbers")
    def blocking(event: Any, context: DurableContext) -> None:
        look(context.map([2, 3], odd, name="halves", config=config))
        context.wait(SECOND)

    @durable_execution(name="numbers")
    async def awaiting(event: Any, context: AsyncDurableContext) -> None:
        look(await context.map([2, 3], odd_async, name="halves", config=config))
        await context.wait(SECOND)

    return [blocking, awaiting]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "holdfast.durable"]


IGNORING: dict[str, Callable[[BatchResult[int]], Any]] = {
    "nothing": lambda result: None,
    "get_results": lambda result: result.get_results(),
    "succeeded": lambda result: (result.succeeded(), result.success_count),
    "counts": lambda result: (result.total_count, result.started_count),
}
LOOKING: dict[str, Callable[[BatchResult[int]], Any]] = {
    "failed": lambda result: result.failed(),
    "get_errors": lambda result: result.get_errors(),
    "has_failure": lambda result: result.has_failure,
    "failure_count": lambda result: result.failure_count,
    "status": lambda result: result.status,
    "completion_reason": lambda result: result.completion_reason,
    "all": lambda result: [item.status for item in result.all],
    "to_dict": lambda result: result.to_dict(),
}


@pytest.mark.parametrize("function", [pytest.param(f, id=f"{n}, {i}") for n, look in IGNORING.items() for i, f in enumerate(both(look))])
async def test_failures_that_the_handler_never_looked_at_are_one_warning(
    harness: Harness, function: DurableFunction, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with harness.engine(function) as engine:
        await (await engine.start(function, name="first")).result()
    (told,) = warnings(caplog)
    assert told.startswith("numbers/first: in Map 'halves' 1 of 2 branches failed, and the code never looked at that. ")
    assert "throw_if_error()" in told


@pytest.mark.parametrize("function", [pytest.param(f, id=f"{n}, {i}") for n, look in LOOKING.items() for i, f in enumerate(both(look))])
async def test_who_asked_what_failed_is_not_warned(harness: Harness, function: DurableFunction, caplog: pytest.LogCaptureFixture) -> None:
    await harness.run(function)
    assert warnings(caplog) == []


TOLERANT = [
    CompletionConfig(min_successful=1),
    CompletionConfig.all_completed(),
    CompletionConfig(tolerated_failure_count=1),
]


@pytest.mark.parametrize("completion", TOLERANT, ids=["enough", "all", "count"])
async def test_failures_that_a_completion_config_tolerates_are_no_surprise(
    harness: Harness, completion: CompletionConfig, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.run(both(IGNORING["get_results"], MapConfig(completion_config=completion))[1])
    assert warnings(caplog) == []


async def test_failures_beyond_the_tolerance_are_told(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    await harness.run(both(IGNORING["get_results"], MapConfig(completion_config=CompletionConfig.all_successful()))[1])
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("nesting", [NestingType.NESTED, NestingType.FLAT], ids=["nested", "flat"])
@pytest.mark.parametrize("virtual", [False, True], ids=["child", "virtual"])
async def test_a_batch_inside_a_context_is_told_once_however_often_that_context_is_replayed(
    harness: Harness, caplog: pytest.LogCaptureFixture, nesting: NestingType, virtual: bool
) -> None:
    async def inside(context: AsyncDurableContext) -> None:
        await context.map([2, 3], odd_async, name="halves", config=MapConfig(nesting_type=nesting))

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        await context.run_in_child_context(inside, config=ChildConfig(is_virtual=virtual))
        await context.wait(SECOND)
        await context.wait(SECOND)

    await harness.run(handler)
    assert len(warnings(caplog)) == 1


async def test_a_result_that_a_context_hands_on_was_not_ignored(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async def inside(context: AsyncDurableContext) -> BatchResult[int]:
        return await context.map([2, 3], odd_async, name="halves")

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> int:
        return (await context.run_in_child_context(inside)).failure_count

    assert await harness.run(handler) == 1
    assert warnings(caplog) == []
