"""The replay check of the testing kit: exports of production against today's code; and the pytest plugin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import InvalidParameter
from holdfast.testing import ReplayDiffers, Runner, check_replays


@durable_execution(name="order", version=1)
async def order(event: Any, context: AsyncDurableContext) -> Any:
    await context.step(lambda _: "reserved", name="reserve")
    await context.wait(Duration.from_days(1), name="a day")
    return await context.step(lambda _: "charged", name="charge")


@durable_execution(name="order", version=2)
def blocking_order(event: Any, context: DurableContext) -> Any:
    context.step(lambda _: "reserved", name="reserve")
    return context.step(lambda _: "charged", name="charge")


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """What production would export: an execution of each version."""
    for function in (order, blocking_order):
        with Runner(function) as runner:
            arn = runner.run({"id": 1}).arn
            (tmp_path / f"v{function.version}.json").write_text(json.dumps(runner.engine.get(arn).export()))
    return tmp_path


def test_todays_code_follows_what_was_recorded(exports: Path) -> None:
    assert check_replays(exports, [order, blocking_order]) == 2


def test_a_change_that_breaks_an_old_execution_is_told_with_its_file_and_operation(exports: Path) -> None:
    @durable_execution(name="order", version=2)
    def changed(event: Any, context: DurableContext) -> Any:
        context.step(lambda _: "charged", name="charge")
        return context.step(lambda _: "reserved", name="reserve")

    with pytest.raises(
        ReplayDiffers, match=r"(?s)1 of 2 exports .*v2.json: .*Recorded here: Step 'reserve'. The code asks for: Step 'charge'"
    ):
        check_replays(exports, [order, changed])


def test_a_check_of_nothing_does_not_pass(tmp_path: Path, exports: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(InvalidParameter, match="There are no exports"):
        check_replays(empty, [order])
    with pytest.raises(InvalidParameter, match=r"v2.json is an execution of order:2, which was not given. Given: order:1."):
        check_replays(exports, [order])


def test_the_plugin_gives_a_runner_to_any_test(durable_runner: Callable[..., Runner]) -> None:
    function: DurableFunction = order
    assert durable_runner(function).run({"id": 1}).result == "charged"
