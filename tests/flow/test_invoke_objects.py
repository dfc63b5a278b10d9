"""`context.invoke` takes the function itself, as `engine.start` does."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, StepContext, durable_execution, durable_step, plain_function
from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import ExecutionFailed
from tests.flow.harness import Harness
from tests.histories import wire


@durable_execution(name="price", version=1)
def old_price(event: Any, context: DurableContext) -> str:
    return "10 EUR"


@durable_execution(name="price", version=2)
async def price(event: Any, context: AsyncDurableContext) -> str:
    return "12 EUR"


@plain_function
def tax(event: Any, context: Any) -> str:
    return "2 EUR"


@durable_execution
def blocking(event: Any, context: DurableContext) -> list[str]:
    return [context.invoke(old_price, {}), context.invoke(price, {}), context.invoke(tax, {}), context.invoke("price:1", {})]


@durable_execution
async def awaiting(event: Any, context: AsyncDurableContext) -> list[str]:
    return [
        await context.invoke(old_price, {}),
        await context.invoke(price, {}),
        await context.invoke(tax, {}),
        await context.invoke("price:1", {}),
    ]


@pytest.mark.parametrize("function", [blocking, awaiting], ids=["def", "async"])
async def test_the_function_itself_is_invoked_in_its_own_version(harness: Harness, function: DurableFunction) -> None:
    async with harness.engine(function, old_price, price, tax) as engine:
        execution = await engine.start(function)
        assert await execution.result() == ["10 EUR", "12 EUR", "2 EUR", "10 EUR"]
        events = [event.get("ChainedInvokeStartedDetails") for event in wire(await execution.history())]
    told = [details["FunctionName"] for details in events if details]
    assert told == ["price:1", "price:2", "tax:$LATEST", "price:1"]


async def test_a_function_that_no_process_hosts_is_named(harness: Harness) -> None:
    with pytest.raises(ExecutionFailed, match=r"Function not found: price:1"):
        await harness.run(blocking)


@durable_step
def charge(step: StepContext, cents: int) -> int:
    return cents


@pytest.mark.parametrize(
    "given, told",
    [
        (charge, "invoke: charge is not a durable function, at {here}. Pass a function under @durable_execution or @plain_function, or the "
         "name of one. To run the @durable_step here, write `context.step(charge(...))`."),
        (lambda event, context: None, "invoke: <lambda> is not a durable function, at {here}. Pass a function under "
         "@durable_execution or @plain_function, or the name of one."),
    ],
    ids=["a step", "a plain function"],
)  # fmt: skip
async def test_a_function_that_is_no_durable_one_is_refused_with_what_may_be_invoked(harness: Harness, given: Any, told: str) -> None:
    @durable_execution
    def asks(event: Any, context: DurableContext) -> Any:
        return context.invoke(given, {})

    async with harness.engine(asks) as engine:
        with pytest.raises(ExecutionFailed) as refused:
            await (await engine.start(asks)).result()
    assert str(refused.value) == told.format(here=f"{__file__}:{asks.handler.__code__.co_firstlineno + 2}")
