"""One execution's mistake is its own: what one execution gets wrong fails that one, and those that write beside it notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, StepContext, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import ExecutionFailed
from holdfast.service.open_engine.open_execution import OpenExecution
from tests.flow.harness import Harness, types
from tests.histories import wire

NEIGHBOURS = 59
BODIES = 3


def healthy(ran: list[tuple[Any, int]]) -> DurableFunction:
    """A function of three steps; each run of a body is counted."""

    @durable_execution
    async def neighbour(event: Any, context: AsyncDurableContext) -> int:
        for number in range(BODIES):

            async def body(step: StepContext, number: int = number) -> int:
                ran.append((event, number))
                return number

            await context.step(body, name=f"step-{number}")
        return BODIES

    return neighbour


@durable_execution(name="mistaken")
async def mistaken(event: Any, context: AsyncDurableContext) -> None:
    async def body(step: StepContext) -> None: ...

    await context.step(body, name=5)  # type: ignore[call-overload]


@durable_execution(name="mistaken")
def blocking_mistaken(event: Any, context: DurableContext) -> None:
    context.step(lambda _: None, name=5)  # type: ignore[arg-type]


async def untouched(executions: Sequence[OpenExecution]) -> None:
    """Each neighbour ended well, and its history tells of nothing else."""
    told = ["ExecutionStarted", *["StepStarted", "StepSucceeded"] * BODIES, "InvocationCompleted", "ExecutionSucceeded"]
    for execution in executions:
        assert await asyncio.wait_for(execution.result(), 20) == BODIES
        assert types(wire(await execution.history())) == told


@pytest.mark.parametrize("function", [mistaken, blocking_mistaken], ids=["async", "def"])
async def test_a_name_that_is_no_text_fails_its_own_execution_and_no_neighbour_notices(harness: Harness, function: DurableFunction) -> None:
    ran: list[tuple[Any, int]] = []
    neighbour = healthy(ran)
    async with harness.engine(neighbour, function) as engine:
        starts = [engine.start(neighbour, n) for n in range(NEIGHBOURS)]
        starts.insert(NEIGHBOURS // 2, engine.start("mistaken"))
        executions = list(await asyncio.gather(*starts))
        wrong = executions.pop(NEIGHBOURS // 2)
        with pytest.raises(ExecutionFailed) as caught:
            await asyncio.wait_for(wrong.result(), 20)
        await untouched(executions)
    assert sorted(ran) == sorted((n, number) for n in range(NEIGHBOURS) for number in range(BODIES)), "no body ran twice"
    assert "5" in str(caught.value)
    assert "str" in str(caught.value)
