"""Callbacks: answered, failed, late, early, and handed out by a submitter."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, CallbackConfig, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.config import WaitForCallbackConfig
from holdfast.durable.exceptions import CallbackExternalError, CallbackSubmitterError, CallbackTimeoutError
from holdfast.durable.retries import RetryPresets
from holdfast.durable.types import WaitForCallbackContext
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import CallbackClosed, CallbackNotFound
from tests.flow.harness import Harness, pending, types
from tests.histories import wire


@durable_execution
async def approval(event: Any, context: AsyncDurableContext) -> Any:
    config = CallbackConfig(timeout=Duration.from_minutes(3), heartbeat_timeout=Duration.from_minutes(1))
    callback = await context.create_callback(name="approval", config=config)
    try:
        return await callback.result()
    except CallbackTimeoutError as late:
        return f"late: {late.message}"
    except CallbackExternalError as refused:
        return f"refused: {refused.message}"


@durable_execution
def blocking_approval(event: Any, context: DurableContext) -> Any:
    return context.create_callback(name="approval").result()


async def test_an_answer_from_outside_wakes_the_execution(harness: Harness) -> None:
    held = VirtualClock(skipping=False)
    async with harness.engine(approval, blocking_approval, clock=held) as engine:
        for function in (approval, blocking_approval):
            execution = await engine.start(function)
            waits = await pending(execution, "approval")
            assert waits.callback_id is not None
            assert (await engine.succeed_callback(waits.callback_id, b'"yes"')).id == execution.id
            assert await execution.result() == '"yes"'
            assert types(wire(await execution.history())) == [
                "ExecutionStarted",
                "CallbackStarted",
                "InvocationCompleted",
                "CallbackSucceeded",
                "InvocationCompleted",
                "ExecutionSucceeded",
            ]


async def test_a_failed_callback_raises_what_the_other_side_said(harness: Harness) -> None:
    async with harness.engine(approval, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(approval)
        waits = await pending(execution)
        assert waits.callback_id is not None
        assert (await engine.fail_callback(waits.callback_id, "not today", "Refused")).id == execution.id
        assert await execution.result() == "refused: not today"
        with pytest.raises(CallbackClosed):
            await engine.succeed_callback(waits.callback_id, "too late")


async def test_a_callback_nobody_answers_times_out_on_its_heartbeat(harness: Harness) -> None:
    assert await harness.run(approval) == "late: Callback timed out on heartbeat"


async def test_heartbeats_keep_a_callback_open_until_its_general_timeout(harness: Harness) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(approval, clock=clock) as engine:
        execution = await engine.start(approval)
        waits = await pending(execution)
        assert waits.callback_id is not None
        began = clock.now()
        for seconds in (50, 100, 150):
            clock.move_to(began + seconds * 1000)
            assert (await engine.heartbeat_callback(waits.callback_id)).id == execution.id
        clock.skipping = True
        assert await execution.result() == "late: Callback timed out"
        history = wire(await execution.history())
    started = next(e for e in history if e["EventType"] == "CallbackStarted")
    late = next(e for e in history if e["EventType"] == "CallbackTimedOut")
    assert late["EventTimestamp"] - started["EventTimestamp"] == pytest.approx(180)
    assert started["CallbackStartedDetails"]["Timeout"] == 180
    assert started["CallbackStartedDetails"]["HeartbeatTimeout"] == 60


async def test_an_answer_may_come_before_anybody_waits_for_it(harness: Harness) -> None:
    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        callback = await context.create_callback(name="early")

        async def answer(step: StepContext) -> None:
            await engine.succeed_callback(callback.callback_id, "already here")

        await context.step(answer)
        return await callback.result()

    async with harness.engine(handler, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(handler)
        assert await execution.result() == "already here"
        # Whether the handler had to leave in between is no part of the promise; that the answer is not lost is.
        assert types(wire(await execution.history())).count("CallbackSucceeded") == 1


async def test_wait_for_callback_hands_the_id_to_its_submitter(harness: Harness) -> None:
    handed: list[str] = []

    async def submit(callback_id: str, context: WaitForCallbackContext) -> None:
        handed.append(callback_id)

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        return await context.wait_for_callback(submit, name="sign")

    async with harness.engine(handler, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(handler)
        await pending(execution, "sign create callback id")
        await engine.succeed_callback(handed[0], "signed")
        assert await execution.result() == "signed"
        history = wire(await execution.history())
    assert len(handed) == 1
    assert types(history) == [
        "ExecutionStarted",
        "ContextStarted",
        "CallbackStarted",
        "StepStarted",
        "StepSucceeded",
        "InvocationCompleted",
        "CallbackSucceeded",
        "ContextSucceeded",
        "InvocationCompleted",
        "ExecutionSucceeded",
    ]
    assert [e.get("Name") for e in history[1:5]] == ["sign", "sign create callback id", "sign submitter", "sign submitter"]


async def test_a_submitter_that_gives_up_raises_its_own_error(harness: Harness) -> None:
    def submit(callback_id: str, context: WaitForCallbackContext) -> None:
        raise ConnectionError("mail server is down")

    @durable_execution
    def handler(event: Any, context: DurableContext) -> str:
        try:
            context.wait_for_callback(submit, config=WaitForCallbackConfig(retry_strategy=RetryPresets.none()))
        except CallbackSubmitterError as error:
            return f"{type(error.__cause__).__name__}: {error.message}"
        return "?"

    assert await harness.run(handler) == "StepError: mail server is down"


async def test_a_made_up_callback_id_is_refused(harness: Harness) -> None:
    async with harness.engine(approval) as engine:
        with pytest.raises(CallbackNotFound):
            await engine.succeed_callback("bm90IGEgY2FsbGJhY2s=", "x")
