"""The testing kit: what its users can see and do, and that crash-everywhere finds what a crash changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import AsyncDurableContext, CallbackConfig, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.config import MapConfig, NestingType, StepConfig, StepSemantics
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Failure, Status
from holdfast.service.settings import Settings
from holdfast.testing import CrashDiffers, Runner, crash_everywhere
from holdfast.testing.results import OperationMissing
from holdfast.testing.runner import NotYet

HOUR = CallbackConfig(timeout=Duration.from_hours(1))


@durable_execution
async def order(event: Any, context: AsyncDurableContext) -> Any:
    async def reserve(_: StepContext) -> dict[str, int]:
        return {"reserved": event["items"]}

    reserved = await context.step(reserve, name="reserve")
    await context.wait(Duration.from_days(365), name="a year")
    approval = await context.create_callback(name="approval", config=HOUR)
    answer = await approval.result()
    charged: Any = await context.invoke("charge", reserved, name="charge")
    return [answer, charged]


@durable_execution
def blocking_order(event: Any, context: DurableContext) -> Any:
    reserved = context.step(lambda _: {"reserved": event["items"]}, name="reserve")
    context.wait(Duration.from_days(365), name="a year")
    answer = context.create_callback(name="approval", config=HOUR).result()
    charged: Any = context.invoke("charge", reserved, name="charge")
    return [answer, charged]


both_colours = pytest.mark.parametrize("function", [order, blocking_order], ids=["async", "def"])


@both_colours
@pytest.mark.parametrize("replay", [False, True])
def test_a_test_answers_a_callback_after_a_year_that_takes_no_time(function: Any, replay: bool) -> None:
    with Runner(function, stubs={"charge": lambda payload: payload["reserved"] * 10}, replay=replay) as runner:
        arn = runner.run_async({"items": 3})
        began = runner.clock.now()
        callback = runner.wait_for_callback(arn, "approval")
        assert runner.clock.now() - began == 365 * 86_400_000
        runner.send_callback_heartbeat(callback)
        runner.send_callback_success(callback, "yes")
        result = runner.wait_for_result(arn)
    assert (result.status, result.result, result.error) == ("SUCCEEDED", ["yes", 30], None)
    assert result.get_step("reserve").result == {"reserved": 3}
    assert result.get_wait("a year").status is Status.SUCCEEDED
    assert result.get_callback("approval").result == "yes"
    assert result.get_invoke("charge").result == 30
    assert [op.name for op in result.get_all_operations()] == ["reserve", "a year", "approval", "charge"]
    assert result.history[-1].type == "ExecutionSucceeded"


@both_colours
def test_no_time_passes_behind_a_tests_back_but_a_callback_that_nobody_answers_times_out(function: Any) -> None:
    with Runner(function, stubs={"charge": 1}) as runner:
        arn = runner.run_async({"items": 1})
        runner.wait_for_callback(arn)
        assert runner.look(arn).status == "RUNNING"
        result = runner.wait_for_result(arn)
    assert result.status == "FAILED"
    assert result.error is not None
    assert result.error.message == "Callback timed out"


def test_a_stub_may_fail_and_a_failure_may_be_sent() -> None:
    with Runner(order, stubs={"charge": LookupError("no such card")}) as runner:
        first = runner.run_async({"items": 1})
        runner.send_callback_failure(runner.wait_for_callback(first), "refused", "Refused")
        second = runner.run_async({"items": 1})
        runner.send_callback_success(runner.wait_for_callback(second), "yes")
        refused, broken = runner.wait_for_result(first), runner.wait_for_result(second)
    assert refused.error is not None
    assert refused.error.message == "refused"
    assert broken.get_invoke("charge").error == Failure("no such card", "LookupError")


def test_what_happens_inside_a_context_is_found_there() -> None:
    @durable_execution
    async def nested(event: Any, context: AsyncDurableContext) -> Any:
        async def inside(context: AsyncDurableContext) -> Any:
            return await context.step(lambda _: (1, 2), name="deep")

        return list(await context.run_in_child_context(inside, name="block"))

    with Runner(nested) as runner:
        result = runner.run()
    assert result.get_context("block").get_step("deep").result == (1, 2)
    with pytest.raises(OperationMissing, match=r"There is no STEP 'deep' among these operations: RunInChildContext 'block'\."):
        result.get_step("deep")


def test_time_can_be_moved_by_hand() -> None:
    @durable_execution
    async def late(event: Any, context: AsyncDurableContext) -> Any:
        approval = await context.create_callback(name="approval", config=HOUR)
        return await approval.result()

    with Runner(late) as runner:
        arn = runner.run_async()
        callback = runner.wait_for_callback(arn)
        runner.advance(Duration.from_minutes(59))
        runner.send_callback_success(callback, "just in time")
        assert runner.wait_for_result(arn).result == "just in time"


def test_what_does_not_come_says_why() -> None:
    @durable_execution
    async def silent(event: Any, context: AsyncDurableContext) -> Any:
        await (await context.create_callback(name="for ever")).result()

    with Runner(silent) as runner:
        arn = runner.run_async()
        with pytest.raises(NotYet, match=r"The execution ended, TIMED_OUT, without waiting for callback 'other'."):
            runner.wait_for_callback(arn, "other")
        with pytest.raises(NotYet, match=r"The execution ended, TIMED_OUT, without waiting for callback 'for ever'."):
            runner.wait_for_callback(arn, "for ever")  # it was open when the execution timed out


def test_a_test_does_not_wait_for_ever() -> None:
    gate = threading.Event()

    @durable_execution
    def stuck(event: Any, context: DurableContext) -> Any:
        context.step(lambda _: gate.wait(), name="stuck")

    with Runner(stuck) as runner:
        arn = runner.run_async()
        try:
            with pytest.raises(NotYet, match=r"Waited 0.05 s for the execution to end. It is running"):
                runner.wait_for_result(arn, timeout=0.05)
        finally:
            gate.set()


def test_a_runner_wants_a_durable_function_and_its_others_in_time() -> None:
    with pytest.raises(InvalidParameter, match="is not a durable function"):
        Runner(lambda event, context: None)  # type: ignore[arg-type]
    with Runner(order) as runner:
        runner.run_async({"items": 1})
        with pytest.raises(InvalidParameter, match="register functions before the first run"):
            runner.register_function("late", 1)


# --- crash everywhere --------------------------------------------------------------------------------------------------------


@both_colours
def test_a_sound_function_comes_to_the_same_wherever_it_crashes(function: Any) -> None:
    points = crash_everywhere(function, {"items": 2}, answers={"approval": "yes"}, stubs={"charge": lambda payload: payload["reserved"]})
    assert points == 2 * 4 + 1


def test_a_callback_of_wait_for_callback_is_found_by_the_name_that_its_author_gave() -> None:
    @durable_execution
    async def asking(event: Any, context: AsyncDurableContext) -> Any:
        same = await context.create_callback(name="ask")
        asked = await context.wait_for_callback(lambda callback_id, _: None, name="ask")
        return [asked, await same.result()]

    with Runner(asking) as runner:
        arn = runner.run_async()
        whole = runner.wait_for_callback(arn, "ask create callback id")
        assert runner.wait_for_callback(arn, "ask") != whole, "a callback that has the name itself comes first"
        runner.send_callback_success(runner.wait_for_callback(arn, "ask"), "second")
        assert runner.wait_for_callback(arn, "ask") == whole
        runner.send_callback_success(whole, "first")
        assert runner.wait_for_result(arn).result == ["first", "second"]
    assert crash_everywhere(asking, answers={"ask": "yes"}) > 4


def test_ids_and_chance_drawn_from_the_context_are_the_same_in_every_run() -> None:
    @durable_execution
    async def drawn(event: Any, context: AsyncDurableContext) -> Any:
        callback = await context.create_callback(name="answer")
        return [str(context.uuid()), context.random(), callback.callback_id, await callback.result()]

    with Runner(drawn) as runner:
        arn = runner.run_async()
        runner.send_callback_success(runner.wait_for_callback(arn, "answer"), "yes")
        assert runner.wait_for_result(arn).result[3] == "yes"
    assert crash_everywhere(drawn, answers={"answer": "yes"}) == 2 * 1 + 1


def test_effects_are_compared_too() -> None:
    charged: list[str] = []

    @durable_execution
    async def sound(event: Any, context: AsyncDurableContext) -> Any:
        key = str(context.uuid())

        async def charge(_: StepContext) -> None:
            charged.append(key)

        await context.step(charge)

    @durable_execution
    async def unsound(event: Any, context: AsyncDurableContext) -> Any:
        async def charge(_: StepContext) -> None:
            charged.append(f"key-{len(charged)}")

        await context.step(charge)

    count = crash_everywhere(sound, effects=lambda: len(set(charged)), reset=charged.clear)
    assert count == 3
    with pytest.raises(
        CrashDiffers, match="A crash before checkpoint 1 of 1 changes the result of the function: effects was 1, now it is 2"
    ):
        crash_everywhere(unsound, effects=lambda: len(set(charged)), reset=charged.clear)


@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_body_that_takes_its_time_makes_no_more_points(colour: str) -> None:
    """What begins a step is written by itself when the body is slow: how slow it is must not decide how many points there are."""
    slow = threading.Event()

    @durable_execution
    async def patient(event: Any, context: AsyncDurableContext) -> Any:
        return await context.step(lambda _: slow.wait(0.05), name="slow")

    @durable_execution
    def blocking_patient(event: Any, context: DurableContext) -> Any:
        return context.step(lambda _: slow.wait(0.05), name="slow")

    assert crash_everywhere(patient if colour == "async" else blocking_patient) == 2 * 1 + 1


@pytest.mark.parametrize("colour", ["async", "def"])
def test_code_outside_steps_that_is_not_the_same_every_time_is_found(colour: str) -> None:
    runs: list[int] = []

    @durable_execution
    async def unsound(event: Any, context: AsyncDurableContext) -> Any:
        runs.append(1)
        await context.step(lambda _: 1, name="one")
        return len(runs)

    @durable_execution
    def blocking_unsound(event: Any, context: DurableContext) -> Any:
        runs.append(1)
        context.step(lambda _: 1, name="one")
        return len(runs)

    with pytest.raises(CrashDiffers, match="payload was '1', now it is '2'"):
        crash_everywhere(unsound if colour == "async" else blocking_unsound, reset=runs.clear)


def test_an_order_of_calls_that_changes_is_found_with_the_operation() -> None:
    turns: list[int] = []

    @durable_execution
    async def fickle(event: Any, context: AsyncDurableContext) -> Any:
        turns.append(1)
        name = "first" if len(turns) == 1 else "second"
        await context.step(lambda _: 1, name=name)
        await context.step(lambda _: 2, name="last")

    with pytest.raises(CrashDiffers, match=r"Step 'first' was .*, now Step 'second' is"):
        crash_everywhere(fickle, reset=turns.clear)


@pytest.mark.parametrize("nesting", [NestingType.NESTED, NestingType.FLAT])
def test_branches_that_run_at_the_same_time_may_begin_in_another_order_after_a_crash(nesting: NestingType) -> None:
    turns: list[int] = []

    @durable_execution
    def racing(event: Any, context: DurableContext) -> Any:
        turns.append(1)
        first, begun = len(turns) % 2, threading.Event()

        def each(context: DurableContext, item: int, index: int, items: Any) -> int:
            if item != first:
                assert begun.wait(60)
            try:
                return context.step(lambda _: item, name=f"step-{item}")
            finally:
                begun.set()

        return context.map([0, 1], each, config=MapConfig(nesting_type=nesting)).get_results()

    assert crash_everywhere(racing) >= 5


@pytest.mark.parametrize("colour", ["async", "def"])
def test_retries_branches_conditions_and_at_most_once_steps_survive_every_point(colour: str) -> None:
    retry = create_retry_strategy(RetryStrategyConfig(max_attempts=5))
    once = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY, retry_strategy=retry)

    def flaky(context: StepContext) -> int:
        if context.attempt == 1:
            raise ValueError("the first time it fails")
        return 7

    @durable_execution
    async def busy(event: Any, context: AsyncDurableContext) -> Any:
        async def each(context: AsyncDurableContext, item: int, index: int, items: Any) -> int:
            await context.wait(Duration.from_seconds(item + 1))
            return await context.step(lambda _: item * 2)

        a = await context.step(flaky, name="flaky", config=StepConfig(retry_strategy=retry))
        b = (await context.map([0, 1, 2], each, config=MapConfig(max_concurrency=1))).get_results()
        c = await context.step(lambda _: 1, name="once", config=once)
        return [a, b, c]

    @durable_execution
    def blocking_busy(event: Any, context: DurableContext) -> Any:
        def each(context: DurableContext, item: int, index: int, items: Any) -> int:
            context.wait(Duration.from_seconds(item + 1))
            return context.step(lambda _: item * 2)

        a = context.step(flaky, name="flaky", config=StepConfig(retry_strategy=retry))
        b = context.map([0, 1, 2], each, config=MapConfig(max_concurrency=1)).get_results()
        c = context.step(lambda _: 1, name="once", config=once)
        return [a, b, c]

    assert crash_everywhere(busy if colour == "async" else blocking_busy) > 10


@pytest.mark.parametrize("settings", [None, Settings(threads=2)], ids=["its own settings", "given settings"])
@pytest.mark.parametrize("given, calls", [({}, 3), ({"replay": True}, 3), ({"replay": False}, 1)], ids=["default", "replay", "no replay"])
def test_every_wake_is_a_replay_unless_a_test_says_otherwise(settings: Settings | None, given: dict[str, Any], calls: int) -> None:
    called: list[int] = []

    @durable_execution
    async def naps(event: Any, context: AsyncDurableContext) -> str:
        called.append(1)
        await context.wait(Duration.from_days(1))
        await context.wait(Duration.from_days(1))
        return str(context.uuid())

    ids = set()
    for _ in range(2):
        called.clear()
        with Runner(naps, settings=settings, **given) as runner:
            ids.add(runner.run().result)  # two days take no time, with given settings too
        assert len(called) == calls
    assert len(ids) == 1
