"""Waiting inside an invocation, away from the service: a branch goes on when its time has come, as long as another one works."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.durable import durable_execution
from holdfast.durable.config import Duration, StepConfig, StepSemantics
from holdfast.durable.retries import RetryDecision
from holdfast.model.execution import ExecutionStatus
from tests.flow.cases import Decorator, _as_def, now
from tests.flow.official.lambda_runtime import LambdaRuntime
from tests.flow.official.running import Running, opened

ONCE = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
AGAIN = StepConfig(retry_strategy=lambda error, attempt: RetryDecision(should_retry=True, delay=Duration.from_seconds(5)))
PATIENCE = 20

Waiting = Callable[[Any, Decorator], Awaitable[None]]

both_colours = pytest.mark.parametrize("coloured", [pytest.param(_as_def, id="def"), pytest.param(lambda func: func, id="async")])


async def a_wait(branch: Any, _: Decorator) -> None:
    await now(branch.wait(Duration.from_seconds(5)))


async def a_retry(branch: Any, _: Decorator) -> None:
    def second_time(step: Any) -> None:
        if step.attempt == 1:
            raise ValueError("not yet")

    await now(branch.step(second_time, config=AGAIN))


async def two_waits(branch: Any, coloured: Decorator) -> None:
    await a_wait(branch, coloured)
    await now(branch.step(lambda _: None))
    await a_wait(branch, coloured)


async def a_batch_of_waits(branch: Any, coloured: Decorator) -> None:
    @coloured
    async def one(inner: Any) -> None:
        await a_wait(inner, coloured)

    @coloured
    async def two(inner: Any) -> None:
        await two_waits(inner, coloured)

    await now(branch.parallel([one, two]))


def beside_work(waiting: Waiting, coloured: Decorator) -> Any:
    """One branch waits, and then lets the other branch, which works meanwhile, end."""
    through = threading.Event()

    @coloured
    async def waits(branch: Any) -> Any:
        await waiting(branch, coloured)
        through.set()
        return branch.is_replaying()

    @coloured
    async def works(branch: Any) -> Any:
        return await now(branch.step(lambda _: through.wait(PATIENCE), name="work", config=ONCE))

    @durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        return (await now(context.parallel([waits, works]))).get_results()

    return handler


@both_colours
@pytest.mark.parametrize("waiting", [a_wait, a_retry, two_waits, a_batch_of_waits], ids=lambda waiting: waiting.__name__)
async def test_a_branch_goes_on_in_the_same_invocation(waiting: Waiting, coloured: Decorator) -> None:
    function = beside_work(waiting, coloured)
    async with opened(lambda clock: LambdaRuntime(function)) as running:
        execution = await running.start()
        while running.header(execution).status is ExecutionStatus.RUNNING:
            await running.until(lambda: over(running, execution) or due(running, execution), "something to be due, or the end")
            running.clock.move_to(running.clock.now() + 5000)
        ending = running.ending(execution)
    assert ending.payload == "[false, true]"
    assert [event["EventType"] for event in ending.history].count("InvocationCompleted") == 1


def over(running: Running, execution: str) -> bool:
    return running.header(execution).status is not ExecutionStatus.RUNNING


def due(running: Running, execution: str) -> bool:
    """Whether the work is under way, and something waits for the clock."""
    operations = running.engine.store.operations(execution)
    now = running.clock.now()
    return any(op.name == "work" for op in operations) and any(op.due_at is not None and op.due_at > now for op in operations)


@both_colours
async def test_when_all_branches_wait_the_invocation_ends(coloured: Decorator) -> None:
    @coloured
    async def waits(branch: Any) -> Any:
        await now(branch.wait(Duration.from_seconds(5)))

    @durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        return (await now(context.parallel([waits, waits]))).get_results()

    async with opened(lambda clock: LambdaRuntime(handler)) as running:
        execution = await running.start()
        await running.drive(execution, {})
        ending = running.ending(execution)
    assert ending.payload == "[null, null]"
    assert [event["EventType"] for event in ending.history].count("InvocationCompleted") == 2


@both_colours
async def test_away_from_the_service_the_time_after_a_child_context_is_the_same_in_a_replay(coloured: Decorator) -> None:
    seen: list[str] = []

    @durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> None:
        @coloured
        async def rests(inner: Any) -> None:
            await now(inner.wait(Duration.from_hours(1)))

        began = context.now()
        await now(context.run_in_child_context(rests))
        seen.append(str(context.now() - began))
        await now(context.wait(Duration.from_hours(1)))

    async with opened(lambda clock: LambdaRuntime(handler)) as running:
        await running.drive(await running.start(), {})
    assert seen == ["1:00:00", "1:00:00"]
