"""Dataclasses and pydantic models in durable calls: typed by an annotation, else a dict with one warning; first run and replay alike."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest

from holdfast.durable import (
    AsyncDurableContext,
    DurableContext,
    StepContext,
    durable_execution,
    durable_parallel_branch,
    durable_step,
    hints,
)
from holdfast.durable.config import CallbackConfig, Duration, InvokeConfig, MapConfig, WaitForCallbackConfig
from holdfast.durable.execution import DurableFunction
from holdfast.durable.serdes import JsonSerDes
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.errors import ExecutionFailed, HoldfastError, PayloadNotJson
from tests.flow.harness import Harness, pending

SECOND = Duration.from_seconds(1)


@dataclasses.dataclass
class Order:
    id: int
    at: datetime


class Receipt(pydantic.BaseModel):
    order: int
    at: datetime


AT = datetime(2026, 1, 2, tzinfo=UTC)
ORDER = Order(1, AT)
PLAIN = {"id": 1, "at": "2026-01-02T00:00:00+00:00"}


@durable_step
def order(step: StepContext, number: int) -> Order:
    return Order(number, AT)


@durable_step
async def receipt(step: StepContext, of: Order) -> Receipt | None:
    return Receipt(order=of.id, at=of.at)


def bare(step: StepContext):  # type: ignore[no-untyped-def]
    return [Order(1, AT)]


def doubled(context: DurableContext, item: Order, index: int, items: list[Order]) -> Order:
    return Order(item.id * 2, item.at)


@durable_parallel_branch("branch")
def branch(context: DurableContext, number: int) -> list[Order]:
    return [Order(number, AT)]


def child(context: DurableContext) -> dict[str, Order]:
    return {"a": context.step(order(9))}


def look(state: Order, context: object) -> Order:
    return Order(state.id + 1, state.at)


def until_three(state: Order, attempts: int) -> WaitForConditionDecision:
    return WaitForConditionDecision.stop_polling() if state.id >= 3 else WaitForConditionDecision.continue_waiting(SECOND)


def twice(handler: Callable[[Any, DurableContext], Any]) -> tuple[DurableFunction, list[Any]]:
    """A function that keeps what its handler's code saw in each of two invocations."""
    seen: list[Any] = []

    def run(event: Any, context: DurableContext) -> None:
        seen.append(handler(event, context))
        context.wait(SECOND)

    return durable_execution(name="twice")(run), seen


@pytest.mark.parametrize(
    "call, value",
    [
        (lambda context: context.step(order(1)), ORDER),
        (lambda context: context.step(receipt(ORDER)), Receipt(order=1, at=AT)),
        (lambda context: context.map([ORDER, Order(2, AT)], doubled).get_results(), [Order(2, AT), Order(4, AT)]),
        (lambda context: context.map([ORDER], doubled, config=MapConfig(max_concurrency=1)).all[0].result, Order(2, AT)),
        (lambda context: context.parallel([branch(1), lambda c: 5]).get_results(), [[ORDER], 5]),
        (lambda context: context.run_in_child_context(child), {"a": Order(9, AT)}),
        (lambda context: context.wait_for_condition(look, WaitForConditionConfig(until_three, Order(1, AT))), Order(3, AT)),
    ],
    ids=["step", "pydantic", "map", "item", "parallel", "child", "condition"],
)
async def test_an_annotation_gives_the_class_back_on_the_first_run_and_on_replay(
    harness: Harness, call: Callable[[DurableContext], Any], value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    function, seen = twice(lambda event, context: call(context))
    await harness.run(function)
    assert len(seen) >= 2
    assert all(one == value for one in seen)
    assert "no annotation" not in caplog.text


@pytest.mark.parametrize("colour", ["def", "async"])
async def test_without_an_annotation_both_give_a_dict_and_there_is_one_warning(
    harness: Harness, caplog: pytest.LogCaptureFixture, colour: str
) -> None:
    seen: list[Any] = []

    def made(step: StepContext) -> Any:
        return [Order(1, AT)]

    @durable_execution(name="two")
    def blocking(event: Any, context: DurableContext) -> None:
        seen.extend(context.step(made, name="make") for _ in range(2))
        context.wait(SECOND)

    @durable_execution(name="two")
    async def awaiting(event: Any, context: AsyncDurableContext) -> None:
        seen.append(await context.step(made, name="make"))
        seen.append(await context.step(made, name="make"))
        await context.wait(SECOND)

    await harness.run({"def": blocking, "async": awaiting}[colour])
    assert all(one == [PLAIN] for one in seen)
    (told,) = [line for line in caplog.messages if "no annotation" in line]
    assert "What Step 'make' returned holds an instance of Order" in told
    assert "-> Order" in told
    assert "test_typed_values.py:" in told


async def test_a_step_that_says_any_other_type_than_the_model_is_warned_of_too(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    function, seen = twice(lambda event, context: context.step(bare, name="bare"))
    await harness.run(function)
    assert seen[0] == seen[-1] == [PLAIN]
    assert len([line for line in caplog.messages if "no annotation" in line]) == 1


async def test_an_event_and_a_result_have_the_classes_that_the_handler_names(harness: Harness) -> None:
    @durable_execution
    def shop(event: Order, context: DurableContext) -> Receipt:
        assert isinstance(event, Order)
        return Receipt(order=event.id, at=event.at)

    async with harness.engine(shop) as engine:
        execution = await engine.start(shop, ORDER, name="once")
        assert await execution.result() == Receipt(order=1, at=AT)
        assert await (await engine.get(execution.id)).result() == Receipt(order=1, at=AT)
        assert (await engine.start(shop, PLAIN, name="once")).id == execution.id  # a model is the same input as its JSON
        assert (await execution.history())[0].details["Input"]["Payload"] == '{"at":"2026-01-02T00:00:00+00:00","id":1}'


async def test_a_handler_that_names_no_class_returns_the_json_with_a_warning(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    @durable_execution
    async def shop(event: Any, context: AsyncDurableContext) -> Any:
        return {"order": ORDER}

    assert await harness.run(shop) == {"order": PLAIN}
    assert [line for line in caplog.messages if "What function 'shop' returned holds an instance of Order" in line]


async def test_an_event_that_does_not_fit_fails_the_execution_with_the_field(harness: Harness) -> None:
    @durable_execution
    def shop(event: Order, context: DurableContext) -> None:
        raise AssertionError("not called")

    told = (
        r"The input of function 'shop' does not fit its annotation: Order has no value for 'id', 'at' \(at \$\)\. Send an input that fits"
    )
    with pytest.raises(ExecutionFailed, match=told):
        await harness.run(shop, {})


async def test_a_payload_of_invoke_is_the_json_of_a_model_and_a_typed_serdes_gives_the_result(harness: Harness) -> None:
    @durable_execution
    def shop(event: Order, context: DurableContext) -> Receipt:
        return Receipt(order=event.id, at=event.at)

    @durable_execution
    def asks(event: Any, context: DurableContext) -> list[Any]:
        plain: Any = context.invoke("shop", ORDER)
        typed: Receipt = context.invoke("shop", ORDER, config=InvokeConfig(serdes_result=JsonSerDes(Receipt)))
        assert isinstance(typed, Receipt)
        return [plain, typed.order]

    async with harness.engine(shop, asks) as engine:
        result = await (await engine.start(asks)).result()
        assert result == [{"order": 1, "at": "2026-01-02T00:00:00Z"}, 1]


async def test_an_answer_to_a_callback_is_typed_where_its_serdes_names_a_class(harness: Harness) -> None:
    seen: list[Any] = []

    @durable_execution
    async def asks(event: Any, context: AsyncDurableContext) -> None:
        callback = await context.create_callback("first", CallbackConfig(serdes=JsonSerDes(Order)))
        seen.append(await callback.result())
        config = WaitForCallbackConfig(serdes=JsonSerDes(Order))
        seen.append(await context.wait_for_callback(lambda callback_id, context: None, "second", config))
        await context.wait(SECOND)

    async with harness.engine(asks) as engine:
        execution = await engine.start(asks)
        for name in ("first", "second create callback id"):
            found = await pending(execution, name)
            assert found.callback_id is not None
            await engine.succeed_callback(found.callback_id, '{"id": 1, "at": "2026-01-02T00:00:00+00:00"}')
        await asyncio.wait_for(execution.result(), 20)
    assert all(one == ORDER for one in seen)


async def test_a_class_that_changed_under_an_execution_is_a_mismatch_with_its_history(harness: Harness) -> None:
    def function(kind: Any) -> DurableFunction:
        def made(step: StepContext) -> Any:
            return Order(1, AT)

        made.__annotations__["return"] = kind

        @durable_execution
        def shop(event: Any, context: DurableContext) -> None:
            context.step(made, name="make")
            context.create_callback("go").result()

        return shop

    @dataclasses.dataclass
    class Newer(Order):
        currency: str

    async with harness.engine(function(Order)) as engine:
        execution = await engine.start("shop")
        callback = (await pending(execution, "go")).callback_id
        assert callback is not None
    async with harness.engine(function(Newer)) as engine:
        await engine.succeed_callback(callback)
        with pytest.raises(HoldfastError, match="does not fit the annotation that the code has now: Newer has no value for 'currency'"):
            await asyncio.wait_for((await engine.get(execution.id)).result(), 20)


async def test_a_step_whose_value_does_not_fit_its_own_annotation_fails_at_once(harness: Harness) -> None:
    def wrong(step: StepContext) -> Order:
        return {"id": 1}  # type: ignore[return-value]

    @durable_execution
    def shop(event: Any, context: DurableContext) -> None:
        context.step(wrong, name="wrong")

    told = (
        r"What Step 'wrong' returned does not fit its annotation: Order has no value for 'at' \(at \$\)\. Return what the annotation says"
    )
    with pytest.raises(ExecutionFailed, match=told):
        await harness.run(shop)


@dataclasses.dataclass
class Bag:
    things: list[Any]


@pytest.mark.parametrize(
    "value, kind, where",
    [
        (object(), "object", ""),
        ({"a": [1, {2}]}, "set", "at $['a'][1] of the value"),
        (Bag([1, {"x": 1j}]), "complex", "at $.things[1]['x'] of the value"),
        ((1, [Bag([object()])]), "object", "at $[1][0].things[0] of the value"),
    ],
    ids=["itself", "inside", "in a dataclass", "in both"],
)
async def test_what_a_step_cannot_keep_is_told_with_its_type_its_place_and_serdes(
    harness: Harness, value: Any, kind: str, where: str
) -> None:
    @durable_execution
    async def shop(event: Any, context: AsyncDurableContext) -> None:
        await context.step(lambda _: value)

    with pytest.raises(ExecutionFailed) as failed:
        await harness.run(shop)
    assert f"Unsupported type: <class '{kind}'>{where and ', '}{where}. " in str(failed.value)
    assert "`StepConfig(serdes=...)`" in str(failed.value)


async def test_what_a_handler_cannot_return_is_told_with_its_type_and_its_place(harness: Harness) -> None:
    @durable_execution
    async def shop(event: Any, context: AsyncDurableContext) -> Any:
        return {"a": [{1}]} if event else {1}

    with pytest.raises(ExecutionFailed, match=r"Object of type set is not JSON serializable \(at \$\['a'\]\[0\]\)\. .*`serdes=`"):
        await harness.run(shop, 1)
    with pytest.raises(ExecutionFailed, match=r"Object of type set is not JSON serializable\. A handler returns JSON, .* `serdes=`"):
        await harness.run(shop, 0)


async def test_what_invoke_and_start_cannot_send_is_told_with_its_type_and_its_place(harness: Harness) -> None:
    @durable_execution
    def asks(event: Any, context: DurableContext) -> None:
        context.invoke("other", {"a": b"x"})

    async with harness.engine(asks) as engine:
        with pytest.raises(ExecutionFailed, match=r"Object of type bytes is not JSON serializable \(at \$\['a'\]\)\..*serdes_payload"):
            await (await engine.start(asks)).result()
        with pytest.raises(PayloadNotJson, match=r"object at \$\['a'\]\.things\[0\] cannot be written"):
            await engine.start(asks, {"a": Bag([object()])})


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    hints._warned.clear()
    caplog.set_level(logging.WARNING)


def _later(step: StepContext) -> list[MadeLater]:  # type: ignore[name-defined]  # noqa: F821 - the test defines it
    raise AssertionError


def test_an_annotation_whose_class_is_defined_after_its_first_use_is_found_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hints.returned(_later) is None
    monkeypatch.setitem(globals(), "MadeLater", Order)
    assert hints.returned(_later) == list[Order]


def test_an_annotation_without_models_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(step: StepContext) -> dict[str, list[int]]:
        raise AssertionError

    assert hints.returned(counted) is None
    monkeypatch.setattr(hints, "resolved", None)  # a second evaluation would call it, and fail
    assert hints.returned(counted) is None
