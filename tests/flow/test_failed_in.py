"""An execution that failed names the operation as its author wrote it, and the item of a map; the wire has the error alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast import DurableContext, Duration, MapConfig, StepConfig, durable_execution, durable_step
from holdfast.cli.main import program
from holdfast.durable.config import NestingType
from holdfast.durable.exceptions import StepError
from holdfast.durable.retries import RetryPresets
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness
from tests.histories import wire

ONCE = StepConfig(retry_strategy=RetryPresets.none())


@durable_step
def charge(step: Any, card: str) -> None:
    raise ConnectionError(f"{card} is declined")


@durable_step
def price(step: Any, item: str) -> int:
    if item == "rug":
        raise LookupError("no such item")
    return len(item)


def priced(branch: DurableContext, item: str, index: int, items: Any) -> int:
    return branch.step(price(item), config=ONCE)


@durable_execution
def pays(event: Any, context: DurableContext) -> None:
    context.step(charge("visa"), config=ONCE)


@durable_execution
def pays_otherwise(event: Any, context: DurableContext) -> None:
    try:
        context.step(charge("visa"), name="first", config=ONCE)
    except StepError:
        context.step(charge("visa"), name="second", config=ONCE)


@durable_execution
def quotes(event: Any, context: DurableContext) -> list[int]:
    config: MapConfig[Any] = MapConfig(nesting_type=NestingType[event]) if event else MapConfig()
    prices = context.map(["lamp", "rug", "vase"], priced, name="prices", config=config)
    context.wait(Duration.from_seconds(1))
    prices.throw_if_error()
    return prices.get_results()


@durable_execution
def named(event: Any, context: DurableContext) -> None:
    config: MapConfig[str] = MapConfig(item_namer=lambda item, index: f"price of {item}")
    context.map(["lamp", "rug"], priced, name="prices", config=config).throw_if_error()


@durable_execution
def invokes(event: Any, context: DurableContext) -> None:
    context.invoke(pays, {}, name="payment")


@durable_execution
def own_error(event: Any, context: DurableContext) -> None:
    try:
        context.step(charge("visa"), config=ONCE)
    except StepError as error:
        raise LookupError("another card, please") from error


CASES = [
    (pays, None, "visa is declined (in Step 'charge')"),
    (pays_otherwise, None, "visa is declined (in Step 'second')"),
    (quotes, None, "no such item (in Map 'prices' > MapIteration 'map-item-1' > Step 'price')"),
    (quotes, "FLAT", "no such item (in Map 'prices' > Step 'price')"),
    (named, None, "no such item (in Map 'prices' > MapIteration 'price of rug' > Step 'price')"),
    (invokes, None, "visa is declined (in ChainedInvoke 'payment')"),
    (own_error, None, "another card, please"),
]


@pytest.mark.parametrize("function, given, told", CASES, ids=[f"{case[0].name}-{case[1]}" for case in CASES])
async def test_a_failure_names_its_step_and_its_item(harness: Harness, function: Any, given: Any, told: str) -> None:
    async with harness.engine(function, pays) if function is not pays else harness.engine(pays) as engine:
        execution = await engine.start(function, given)
        with pytest.raises(ExecutionFailed) as caught:
            await execution.result()
        history = wire(await execution.history())
        described = await execution.describe()
    assert str(caught.value) == told
    message, _, place = told.partition(" (in ")
    assert history[-1]["ExecutionFailedDetails"]["Error"]["Payload"]["ErrorMessage"] == message
    assert described.failed_in == (place.removesuffix(")") or None)


async def test_show_lists_which_items_of_a_map_failed_also_where_the_execution_went_on(tmp_path: Path) -> None:
    @durable_execution
    def goes_on(event: Any, context: DurableContext) -> int:
        return len(context.map(["lamp", "rug", "vase"], priced, name="prices").failed())

    store = str(tmp_path / "test.db")
    async with holdfast.open(store, functions=[goes_on]) as engine:
        assert await (await engine.start(goes_on, name="first")).result() == 1
    shown = CliRunner().invoke(program("executions"), ["executions", "show", "first", "--store", store])
    assert "\nFailed in Map 'prices'\n  map-item-1  holdfast.durable.exceptions.StepError: no such item\n" in shown.stdout
