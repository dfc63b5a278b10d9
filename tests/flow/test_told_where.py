"""A failure tells the author's line: the history keeps an error's type and message alone, and a step's error hides the type."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, StepConfig, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryDecision
from holdfast.testing import Runner

SEVEN = Duration.from_seconds(7)
TWICE = StepConfig(retry_strategy=lambda error, attempt: RetryDecision.retry(SEVEN) if attempt < 2 else RetryDecision.no_retry())


def look(_: object) -> None:
    raise KeyError("sku")


@durable_execution(name="order")
def blocking(event: Any, context: DurableContext) -> None:
    context.step(look, name="look", config=TWICE)


@durable_execution(name="order")
async def awaiting(event: Any, context: AsyncDurableContext) -> None:
    await context.step(look, name="look", config=TWICE)


def branch(context: DurableContext, item: int, index: int, items: Any) -> None:
    raise LookupError(f"no item {item}")


@durable_execution(name="shelf")
def raising(event: Any, context: DurableContext) -> None:
    context.map([5], branch, name="items").failed()
    raise OSError("the shop is closed")


def told(function: DurableFunction, caplog: pytest.LogCaptureFixture) -> list[tuple[str | None, str]]:
    """What a run of it tells: the operation, and the text with its line of this file as LINE."""
    with Runner(function) as runner:
        runner.run({})
    lines = [record for record in caplog.records if record.name == "holdfast.durable"]
    assert all(":function:" in record.executionArn for record in lines)  # type: ignore[attr-defined]
    return [(getattr(record, "operationName", None), _without_path(record.getMessage())) for record in lines]


def _without_path(text: str) -> str:
    before, _, after = text.partition(f", at {__file__}:")
    return f"{before}, at LINE{after.lstrip('0123456789')}" if after else text


@pytest.mark.parametrize("function", [blocking, awaiting], ids=["def", "async"])
def test_each_failed_attempt_of_a_step_tells_its_error_its_line_and_what_follows(
    function: DurableFunction, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.durable")
    assert told(function, caplog) == [
        ("look", "attempt 1 failed: KeyError: 'sku', at LINE in look; the next attempt is in 7 s"),
        ("look", "attempt 2 failed: KeyError: 'sku', at LINE in look; it is not tried again"),
    ]


def test_what_a_handler_or_a_branch_raises_is_told_once_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.durable")
    assert told(raising, caplog) == [
        ("map-item-0", "the code raised LookupError: no item 5, at LINE in branch"),
        (None, "the code raised OSError: the shop is closed, at LINE in raising"),
    ]


def test_a_program_that_hears_only_warnings_is_told_none_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdfast.durable")
    assert told(raising, caplog) == []
