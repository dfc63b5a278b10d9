"""Planned changes: `context.patched` tells executions that have been here with the code from before from all others."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, durable_execution
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.execution import DurableFunction
from holdfast.exports.replaying import replay
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Status, Type
from holdfast.testing import Runner, crash_everywhere
from tests.flow.harness import Harness, pending

both = pytest.mark.parametrize("colour", ["async def", "def"])
NIGHT = Duration.from_hours(8)


def function(colour: str, *, changed: bool, place: str = "before the night") -> DurableFunction:
    """pick, night, ship. Changed: `check` before or after the night, behind a marker."""

    async def later(event: Any, context: AsyncDurableContext) -> list[str]:
        done = [await context.step(lambda _: "picked", name="pick")]
        if changed and place == "before the night" and context.patched("check"):
            done.append(await context.step(lambda _: "checked", name="check"))
        await context.wait(NIGHT, name="night")
        if changed and place == "after the night" and context.patched("check"):
            done.append(await context.step(lambda _: "checked", name="check"))
        return [*done, await context.step(lambda _: "shipped", name="ship")]

    def now(event: Any, context: DurableContext) -> list[str]:
        done = [context.step(lambda _: "picked", name="pick")]
        if changed and place == "before the night" and context.patched("check"):
            done.append(context.step(lambda _: "checked", name="check"))
        context.wait(NIGHT, name="night")
        if changed and place == "after the night" and context.patched("check"):
            done.append(context.step(lambda _: "checked", name="check"))
        return [*done, context.step(lambda _: "shipped", name="ship")]

    return durable_execution(name="order")(later if colour == "async def" else now)


async def under_way(harness: Harness, before: DurableFunction) -> str:
    async with harness.engine(before, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(before, name="order-1")
        await pending(execution)
    return execution.arn


@both
@pytest.mark.parametrize(
    "place, done", [("before the night", ["picked", "shipped"]), ("after the night", ["picked", "checked", "shipped"])]
)
async def test_an_execution_under_way_keeps_the_path_it_has_gone_and_takes_the_change_where_it_has_not_been(
    harness: Harness, colour: str, place: str, done: list[str]
) -> None:
    arn = await under_way(harness, function(colour, changed=False))
    async with harness.engine(function(colour, changed=True, place=place)) as engine:
        assert await (await engine.get(arn)).result() == done


@both
async def test_a_new_execution_takes_the_change_and_every_replay_of_it_does(harness: Harness, colour: str) -> None:
    changed = function(colour, changed=True)
    arn = await under_way(harness, changed)
    async with harness.engine(changed) as engine:
        execution = await engine.get(arn)
        assert await execution.result() == ["picked", "checked", "shipped"]
        document = await execution.export()
        markers = [op for op in engine._store.operations(execution.id) if op.sub_type == "Patch"]
    assert [(op.name, op.type, op.status, op.parent_id) for op in markers] == [("check", Type.STEP, Status.SUCCEEDED, None)]
    assert replay(document, changed).matches


@both
async def test_a_marker_takes_no_number_so_code_without_the_call_meets_the_same_operations(harness: Harness, colour: str) -> None:
    @durable_execution(name="order")
    def only_asks(event: Any, context: DurableContext) -> list[str]:
        context.patched("check")
        done = [context.step(lambda _: "picked", name="pick")]
        context.wait(NIGHT, name="night")
        return [*done, context.step(lambda _: "shipped", name="ship")]

    arn = await under_way(harness, only_asks)
    without = function(colour, changed=False)
    async with harness.engine(without) as engine:
        execution = await engine.get(arn)
        assert await execution.result() == ["picked", "shipped"]
        assert replay(await execution.export(), without).matches


def looping(context: DurableContext, times: int) -> list[bool]:
    said = []
    for n in range(times):
        said.append(context.patched("loop"))
        context.step(lambda _: None, name=f"s{n}")
        context.wait(Duration.from_hours(1))
    return said


async def test_a_loop_gets_one_answer_whether_it_began_before_the_change_or_after_it(harness: Harness) -> None:
    @durable_execution(name="order")
    def before(event: Any, context: DurableContext) -> None:
        context.step(lambda _: None, name="s0")
        context.wait(Duration.from_hours(1))

    @durable_execution(name="order")
    def after(event: Any, context: DurableContext) -> list[bool]:
        return looping(context, 3)

    arn = await under_way(harness, before)
    async with harness.engine(after) as engine:
        assert await (await engine.get(arn)).result() == [False, False, False]
        assert await (await engine.start(after)).result() == [True, True, True]


@both
async def test_each_context_has_an_answer_of_its_own(harness: Harness, colour: str) -> None:
    def inside(context: DurableContext) -> bool:
        return context.patched("x")

    async def inside_too(context: AsyncDurableContext) -> bool:
        return context.patched("x")

    def before(event: Any, context: DurableContext) -> None:
        context.step(lambda _: None, name="a")
        context.wait(NIGHT)

    def after(event: Any, context: DurableContext) -> list[bool]:
        said = [context.patched("x")]
        context.step(lambda _: None, name="a")
        context.wait(NIGHT)
        return [*said, context.run_in_child_context(inside, name="child"), context.patched("x")]

    async def after_too(event: Any, context: AsyncDurableContext) -> list[bool]:
        said = [context.patched("x")]
        await context.step(lambda _: None, name="a")
        await context.wait(NIGHT)
        return [*said, await context.run_in_child_context(inside_too, name="child"), context.patched("x")]

    arn = await under_way(harness, durable_execution(name="order")(before))
    made = durable_execution(name="order")(after if colour == "def" else after_too)
    async with harness.engine(made) as engine:
        assert await (await engine.get(arn)).result() == [False, True, False]


async def test_a_context_that_has_ended_is_not_changed_when_it_is_gone_through_again(harness: Harness) -> None:
    def made(*, changed: bool) -> DurableFunction:
        def inside(context: DurableContext) -> str:
            text: str = context.step(lambda _: "x" * 300_000, name="large")
            return text + ("!" if changed and context.patched("louder") else "")

        @durable_execution(name="order")
        def handler(event: Any, context: DurableContext) -> str:
            text = context.run_in_child_context(inside, name="child")
            context.wait(NIGHT)
            return text[-1]

        return handler

    arn = await under_way(harness, made(changed=False))
    async with harness.engine(made(changed=True)) as engine:
        assert await (await engine.get(arn)).result() == "x"


@both
def test_a_crash_anywhere_changes_nothing(colour: str) -> None:
    assert crash_everywhere(function(colour, changed=True)) >= 8


def test_inside_a_step_the_context_around_it_is_busy_and_says_so() -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> Any:
        return context.step(lambda _: context.patched("x"), name="s")

    with Runner(handler) as runner:
        result = runner.run()
    assert result.status is ExecutionStatus.FAILED
    assert "already busy" in str(result.error)


@pytest.mark.parametrize("name, told", [("", "patched: the name of the change is empty"), (3, "patched: name"), ("x" * 300, "characters")])
async def test_a_name_that_cannot_be_one_is_refused(harness: Harness, name: Any, told: str) -> None:
    @durable_execution
    def handler(event: Any, context: DurableContext) -> bool:
        return context.patched(name)

    with pytest.raises(ExecutionFailed, match=told) as caught:
        await harness.run(handler)
    assert str(caught.value.error_type).endswith(ValidationError.__name__)
