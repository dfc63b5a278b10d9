"""Parents and children for the tests of live parents: a child that a test holds, and what an engine knows of a family."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import AsyncDurableContext, StepContext, durable_execution, durable_step
from holdfast.durable.execution import DurableFunction
from holdfast.model.execution import State
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.store.seam import Filter
from tests.flow.harness import types
from tests.histories import wire


class Gate:
    """Holds bodies until a test lets them pass; counts those that came."""

    def __init__(self) -> None:
        self.came = 0
        self.open = asyncio.Event()

    async def pass_through(self) -> str:
        self.came += 1
        await self.open.wait()
        return "passed"


def held_at(gate: Gate, name: str = "child") -> DurableFunction:
    """A function whose only step waits at the gate."""

    @durable_step
    async def body(step: StepContext) -> str:
        return await gate.pass_through()

    @durable_execution(name=name)
    async def child(event: Any, context: AsyncDurableContext) -> Any:
        return await context.step(body())

    return child


def state_of(engine: OpenEngine, execution: str) -> State:
    header = engine._store.find(execution)
    assert header is not None
    return header.state


async def invocations(execution: OpenExecution) -> int:
    return types(wire(await execution.history())).count("InvocationCompleted")


def children(engine: OpenEngine, function: str = "child") -> list[str]:
    return [header.id for header in engine._store.list(Filter(function=function, oldest_first=True))]


def has_all_its_room(engine: OpenEngine) -> bool:
    """Whether every room is given back, and no one waits for anyone."""
    inner = engine._engine
    return inner.registry.is_unused() and not inner._reservations._expected and not inner._reservations._parents._children


@durable_execution
async def parent(event: Any, context: AsyncDurableContext) -> Any:
    return await context.invoke("child", event, name="work")
