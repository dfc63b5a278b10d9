"""Slips that many authors make once are explained where they are made: what was written, where, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, durable_execution, durable_step
from holdfast.durable import durable_parallel_branch, durable_wait_for_callback, durable_with_child_context
from holdfast.durable.config import CallbackConfig
from holdfast.durable.execution import DurableFunction
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.errors import ExecutionFailed, HoldfastError
from tests.flow.harness import Harness, types
from tests.histories import wire


@durable_step
def charge(step: Any, amount: int) -> int:
    return amount


@durable_with_child_context
def ship(context: Any, to: str) -> str:
    return to


@durable_parallel_branch()
def branch(context: Any) -> None: ...


@durable_wait_for_callback
def submit(callback_id: str, context: Any) -> None: ...


async def fetch(step: Any) -> None: ...


CONDITION: Any = WaitForConditionConfig(lambda state, n: WaitForConditionDecision.stop_polling(), 0)
SLIPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "wait(5)": (
        lambda context: context.wait(5),
        "wait: duration is 5 (int), at {line}. It must be a Duration: write `context.wait(Duration.from_seconds(5))`",
    ),
    "wait(2.5)": (lambda context: context.wait(2.5), "write `context.wait(Duration.from_seconds(2.5))`"),
    "a timedelta": (
        lambda context: context.create_timer(timedelta(1)),
        "write `context.create_timer(Duration.from_seconds(the_timedelta.total_seconds()))`",
    ),
    "a timeout": (lambda context: context.create_callback(config=CallbackConfig(timeout=60)), "write `timeout=Duration.from_seconds(60)`"),  # type: ignore[arg-type]
    "step": (
        lambda context: context.step(charge),
        "step: charge is a @durable_step that was not called, at {line}. Write `charge(...)`, with its arguments and without its context: "
        "`context.step(charge(...))`.",
    ),
    "child": (lambda context: context.run_in_child_context(ship), "ship is a @durable_with_child_context that was not called"),
    "branch": (lambda context: context.parallel([branch]), "`context.parallel([branch(...)])`"),
    "map": (lambda context: context.map([1], ship), "ship is a @durable_with_child_context that was not called"),
    "submitter": (lambda context: context.wait_for_callback(submit), "submit is a @durable_wait_for_callback that was not called"),
    "a coroutine": (lambda context: context.step(fetch(None)), "(coroutine), at {line}. Pass the function itself, without calling it."),
    "no function": (lambda context: context.step("charge"), "step: its function is 'charge' (str), at {line}. It must be a function."),
    "no check": (lambda context: context.wait_for_condition(5, CONDITION), "wait_for_condition: its check is 5 (int), at {line}."),
}


def blocking(call: Callable[[Any], Any]) -> DurableFunction:
    @durable_execution(name="slip")
    def handler(event: Any, context: DurableContext) -> Any:
        return call(context)

    return handler


def awaiting(call: Callable[[Any], Any]) -> DurableFunction:
    @durable_execution(name="slip")
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        return await call(context)

    return handler


@pytest.mark.parametrize("colour", [blocking, awaiting], ids=["def", "async"])
@pytest.mark.parametrize("slip", SLIPS)
async def test_a_slip_is_explained_with_its_line_and_what_to_write_and_leaves_nothing(
    tmp_path: Path, slip: str, colour: Callable[[Callable[[Any], Any]], DurableFunction]
) -> None:
    call, told = SLIPS[slip]
    function = colour(call)
    async with Harness(tmp_path, 0).engine(function) as engine:
        execution = await engine.start(function)
        with pytest.raises(ExecutionFailed) as failed:
            await execution.result()
        assert types(wire(await execution.history())) == ["ExecutionStarted", "InvocationCompleted", "ExecutionFailed"]
    assert told.replace("{line}", f"{__file__}:{inspect.getsourcelines(call)[1]}") in str(failed.value)
    assert (failed.value.error_type or "").endswith("exceptions.ValidationError")


async def test_open_without_with_says_what_to_write() -> None:
    opening: Any = holdfast.open(":memory:")
    for verb in ("start", "get", "list", "run", "succeed_callback"):
        with pytest.raises(HoldfastError, match=rf"`with holdfast\.open\(\.\.\.\) as engine:` and `engine\.{verb}` inside") as caught:
            getattr(opening, verb)
        assert caught.value.code == "engine_not_entered"
    with pytest.raises(HoldfastError, match=r"Write `async with holdfast\.open\(\.\.\.\) as engine:`"):
        await opening
    with pytest.raises(AttributeError, match="no attribute 'strat'"):
        _ = opening.strat
    assert not hasattr(opening, "start")
