"""An execution is restarted from an operation: what had ended before it is kept, the rest runs again, the old execution stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, durable_execution
from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.engine.restarts import restarted
from holdfast.exports.exporting import exported
from holdfast.exports.importing import read
from holdfast.model.admission import Enqueue
from holdfast.model.errors import ExecutionFailed, ExecutionNotFound, FunctionNotFound, HoldfastError
from holdfast.model.execution import ExecutionStatus, State, Terms
from holdfast.model.life import new_execution
from holdfast.model.places import Place
from holdfast.model.restart_errors import OperationNotFound, RestartRefused
from holdfast.model.starts import Restart
from holdfast.service.settings import Settings
from tests.flow.harness import Harness
from tests.postgres import new_schema

DONE: list[str] = []
BROKEN: set[str] = set()
SECOND = "pay"
"""What the code calls its second step now."""


def did(name: str) -> str:
    DONE.append(name)
    if name in BROKEN:
        raise ValueError(f"{name} is broken")
    return name


@durable_execution(name="sale")
async def sale(event: Any, context: AsyncDurableContext) -> Any:
    first = await context.step(lambda _: did("reserve"), name="reserve")

    async def inside(inner: AsyncDurableContext) -> Any:
        paid = await inner.step(lambda _: did("pay"), name=SECOND)
        return [paid, await inner.step(lambda _: did("book"), name="book")]

    pair = await context.run_in_child_context(inside, name="money")
    return [event, first, *pair, await context.step(lambda _: did("ship"), name="ship")]


@durable_execution(name="plain-sale")
def plain_sale(event: Any, context: DurableContext) -> Any:
    return [event, context.step(lambda _: did("reserve"), name="reserve"), context.step(lambda _: did("ship"), name="ship")]


@durable_execution(name="twins")
async def twins(event: Any, context: AsyncDurableContext) -> Any:
    return [await context.step(lambda _: did("one"), name="same"), await context.step(lambda _: did("two"), name="same")]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    DONE.clear()
    BROKEN.clear()
    monkeypatch.setattr("tests.flow.test_execution_restarts.SECOND", "pay")


def took() -> list[str]:
    done = list(DONE)
    DONE.clear()
    return done


@pytest.mark.parametrize(
    "operation, again",
    [("reserve", ["reserve", "pay", "book", "ship"]), ("money", ["pay", "book", "ship"]), ("book", ["book", "ship"]), ("ship", ["ship"])],
)
async def test_what_ended_before_the_operation_is_kept_and_the_rest_runs_again(harness: Harness, operation: str, again: list[str]) -> None:
    async with harness.engine(sale) as engine:
        old = await engine.start(sale, 1, name="s")
        assert await old.result() == [1, "reserve", "pay", "book", "ship"]
        DONE.clear()
        new = await engine.restart_execution(old.id, operation)
        assert await new.result() == [1, "reserve", "pay", "book", "ship"]
        told, before = await new.describe(), await old.describe()
        store = engine._store
        snapshot = store.snapshot(new.id)
    assert took() == again
    assert (told.restarts, told.restarted_from, before.superseded_by, told.name) == (old.id, operation, new.id, "s")
    assert snapshot is not None
    read(exported(snapshot, 0, include_data=True))  # a history like any other: its numbers and times are in order


async def test_a_failed_execution_goes_on_with_mended_code_and_another_event(harness: Harness) -> None:
    BROKEN.add("ship")
    async with harness.engine(sale, plain_sale) as engine:
        for function in (sale, plain_sale):
            old = await engine.start(function, 1)
            with pytest.raises(ExecutionFailed):
                await old.result()
            BROKEN.clear()
            DONE.clear()
            new = await engine.restart_execution(old.id, "ship", input=2)
            assert (await new.result())[0] == 2
            assert took() == ["ship"]
            again = await engine.restart_execution(new.id, "ship")  # a restart of a restart keeps its event
            assert (await again.result())[0] == 2
            BROKEN.add("ship")


async def test_code_that_does_not_follow_the_history_starts_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async with harness.engine(sale) as engine:
        old = await engine.start(sale, 1)
        await old.result()
        DONE.clear()
        monkeypatch.setattr("tests.flow.test_execution_restarts.SECOND", "charge")
        with pytest.raises(NonDeterministicExecutionError):
            await engine.restart_execution(old.id, "book")
        assert ((await old.describe()).superseded_by, took()) == (None, [])
        new = await engine.restart_execution(old.id, "pay")  # the part before has no such difference
        assert await new.result() == [1, "reserve", "pay", "book", "ship"]


async def test_restarts_that_cannot_be_are_refused(harness: Harness) -> None:
    async with harness.engine(sale, twins) as engine:
        old = await engine.start(sale, 1)
        await old.result()
        pair = await engine.start(twins, 1)
        await pair.result()
        cases: list[tuple[str, str, type[HoldfastError], str]] = [
            (old.id, "nowhere", OperationNotFound, "Its operations: reserve, money, pay, book, ship"),
            (pair.id, "same", OperationNotFound, "2 operations have the name"),
            ("nothing", "ship", ExecutionNotFound, "no execution"),
        ]
        for execution, operation, error, told in cases:
            with pytest.raises(error, match=told):
                await engine.restart_execution(execution, operation)
        new = await engine.restart_execution(old.id, "ship")
        with pytest.raises(RestartRefused, match=f"started again as {new.id}"):
            await engine.restart_execution(old.id, "ship")
    async with harness.engine(twins) as engine:
        with pytest.raises(FunctionNotFound):
            await engine.restart_execution(new.id, "ship")


@pytest.mark.long
async def test_a_postgres_store_keeps_the_copied_history_too() -> None:
    where = new_schema()
    async with holdfast.open(where, functions=[sale], settings=Settings(tune=False)) as engine:
        old = await engine.start(sale, 1, name="s")
        assert (await old.result())[0] == 1
        DONE.clear()
        new = await engine.restart_execution(old.id, "book", input=2)
        assert await new.result() == [2, "reserve", "pay", "book", "ship"]
        assert (took(), (await old.describe()).superseded_by) == (["book", "ship"], new.id)


LANE = "q/tenant=default/function=f:1"


def test_a_restart_in_a_queue_keeps_the_units_and_the_money_of_its_place() -> None:
    made = new_execution("e", "n", "f", "1", payload="null", now=0, terms=Terms())
    old = msgspec.structs.replace(made, status=ExecutionStatus.FAILED, state=State.CLOSED, place=Place("q", LANE, 0, units=7, money=9))
    start = restarted(old, "e2", 1, payload="null", restart=Restart("e"))
    assert start.enqueue == Enqueue(queue="q", beside=LANE, units=7, money=9)
