"""Orders: steps of both kinds, a wait and a callback, in both colours."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast.durable.config import Duration, StepConfig, StepSemantics, WaitForCallbackConfig
from holdfast.durable.retries import RetryDecision
from tests.crash.outside import outside, who


def again_in_a_second(error: Exception, attempt: int) -> RetryDecision:
    """However often it is interrupted."""
    return RetryDecision(should_retry=attempt < 1000, delay=Duration.from_seconds(1))


SECOND = Duration.from_seconds(1)
ONCE = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY, retry_strategy=again_in_a_second)
SUBMIT = WaitForCallbackConfig(retry_strategy=again_in_a_second)


def result_of_order(name: str, n: int) -> list[Any]:
    """The result of an order, however often it was interrupted."""
    return [n, n * 10, f"yes {name}", f"shipped {n}"]


@holdfast.durable_execution
def order(event: Any, context: Any) -> Any:
    """In a `def` handler."""
    n, me = int(event["n"]), who(context)

    def reserve(step: Any) -> int:
        outside.tell(me, "reserve", step.attempt)
        return n

    def charge(step: Any) -> int:
        outside.tell(me, "charge", step.attempt, once=True)
        return n * 10

    def announce(callback_id: str, _: Any) -> None:
        outside.tell(me, "approval submitter", callback=callback_id)

    def ship(step: Any) -> str:
        outside.tell(me, "ship", step.attempt)
        return f"shipped {n}"

    reserved = context.step(reserve, name="reserve")
    charged = context.step(charge, name="charge", config=ONCE)
    context.wait(SECOND)
    approved = context.wait_for_callback(announce, name="approval", config=SUBMIT)
    shipped = context.run_in_child_context(lambda child: child.step(ship, name="ship"), name="delivery")
    return [reserved, charged, approved, shipped]


@holdfast.durable_execution
async def aorder(event: Any, context: Any) -> Any:
    """The same, in an `async def` handler; the callback is made first, so that its answer may come early."""
    n, me = int(event["n"]), who(context)

    async def reserve(step: Any) -> int:
        outside.tell(me, "reserve", step.attempt)
        return n

    async def charge(step: Any) -> int:
        outside.tell(me, "charge", step.attempt, once=True)
        await asyncio.sleep(0)
        return n * 10

    callback = await context.create_callback("approval")

    def announce(step: Any) -> None:
        outside.tell(me, "announce", step.attempt, callback=callback.callback_id)

    async def ship(child: Any) -> Any:
        def body(step: Any) -> str:
            outside.tell(me, "ship", step.attempt)
            return f"shipped {n}"

        return await child.step(body, name="ship")

    reserved = await context.step(reserve, name="reserve")
    charged = await context.step(charge, name="charge", config=ONCE)
    await context.step(announce, name="announce")
    await context.wait(SECOND)
    approved = await callback.result()
    shipped = await context.run_in_child_context(ship, name="delivery")
    return [reserved, charged, approved, shipped]
