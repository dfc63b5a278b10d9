"""A failed execution's name is started again: the old execution stays, superseded, and the name leads to the new one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, durable_execution
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionAlreadyStarted, ExecutionFailed, InvalidParameter
from holdfast.model.execution import State
from holdfast.service.client import Client
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from tests.flow.harness import Harness, pending


@durable_execution(retention_days=1)
async def sale(event: Any, context: AsyncDurableContext) -> Any:
    if event == "bad":
        raise ValueError("closed")
    if event == "goes on":
        context.continue_as_new("bad")
    if event == "waits":
        await context.wait(Duration.from_days(1))
    return event


async def failed(engine: Any, event: str = "bad", name: str = "sale-1") -> Any:
    execution = await engine.start(sale, event, name=name)
    with pytest.raises(ExecutionFailed):
        await execution.result()
    return execution


async def test_a_failed_name_is_started_again_with_any_input_and_the_old_execution_stays(harness: Harness) -> None:
    async with harness.engine(sale) as engine:
        old = await failed(engine)
        new = await engine.start(sale, "good", name="sale-1", on_failed="restart")
        assert (new.id != old.id, await new.result()) == (True, "good")
        told = await old.describe()
        assert (told.status, told.superseded_by) == ("FAILED", new.id)
        assert told.why == f"It is over: FAILED. Its name was started again: {new.id}."
        assert (await engine.start(sale, "good", name="sale-1")).id == new.id
        assert (await engine.start(sale, "good", name="sale-1", on_failed="restart")).id == new.id, "it succeeded"
        assert [x.id for x in [x async for x in engine.list(Filter(name="sale-1"))]] == [new.id, old.id]


async def test_without_the_word_a_failed_name_keeps_the_rule_of_aws(harness: Harness) -> None:
    async with harness.engine(sale) as engine:
        old = await failed(engine)
        assert (await engine.start(sale, "bad", name="sale-1")).id == old.id
        with pytest.raises(ExecutionAlreadyStarted):
            await engine.start(sale, "good", name="sale-1")


async def test_a_running_name_is_found_and_not_started_again(harness: Harness) -> None:
    async with harness.engine(sale, clock=VirtualClock(skipping=False)) as engine:
        first = await engine.start(sale, "waits", name="sale-1")
        await pending(first)
        assert (await engine.start(sale, "waits", name="sale-1", on_failed="restart")).id == first.id
        with pytest.raises(ExecutionAlreadyStarted):
            await engine.start(sale, "good", name="sale-1", on_failed="restart")


async def test_one_that_stopped_and_one_that_went_on_and_failed_are_started_again(harness: Harness) -> None:
    async with harness.engine(sale) as engine:
        chain = await failed(engine, "goes on", "chain")
        again = await engine.start(sale, "good", name="chain", on_failed="restart")
        assert (await again.result(), (await chain.describe()).superseded_by) == ("good", again.id)
    async with harness.engine(sale, clock=VirtualClock(skipping=False)) as engine:
        stopped = await engine.start(sale, "waits", name="stopped")
        await stopped.stop()
        again = await engine.start(sale, "good", name="stopped", on_failed="restart")
        assert (await again.result(), (await stopped.describe()).superseded_by) == ("good", again.id)


async def test_many_who_start_a_failed_name_again_get_one_execution(harness: Harness) -> None:
    async with harness.engine(sale) as engine:
        old = await failed(engine)
        asked = [engine.start(sale, "good", name="sale-1", on_failed="restart") for _ in range(10)]
        found = {execution.id for execution in await asyncio.gather(*asked)}
        assert len(found) == 1
        assert old.id not in found


async def test_a_client_without_an_engine_starts_a_failed_name_again(harness: Harness) -> None:
    async with harness.engine(sale) as engine:
        old = await failed(engine)
    with Client.open(harness.store) as client:
        assert client.start(sale, "bad", name="sale-1").created is False
        started = client.start(sale, "good", name="sale-1", on_failed="restart")
        assert (started.created, client.get("sale-1").id, client.get("sale/sale-1").id) == (True, started.header.id, started.header.id)
        assert client.get(old.arn).superseded_by == started.header.id
    async with harness.engine(sale) as engine:
        assert await (await engine.get(started.header.id)).result() == "good"


async def test_an_old_execution_is_exported_and_imported_beside_the_one_that_has_its_name(harness: Harness, tmp_path: Any) -> None:
    async with harness.engine(sale) as engine:
        old = await failed(engine)
        before = await old.export()
        new = await engine.start(sale, "good", name="sale-1", on_failed="restart")
        await new.result()
        documents = [await new.export(), await old.export()]
    assert "superseded_by" not in before["execution"], "what earlier releases do not know is there only where it says something"
    with Client.open(str(tmp_path / "other.db"), create=True) as other:
        for document in documents:
            copy = other.import_execution(document)
            assert (copy.created, copy.header.state) == (True, State.CLOSED)
        assert other.get("sale/sale-1").id == new.id
        assert other.get(old.arn).superseded_by == new.id


async def test_the_name_is_free_again_when_retention_has_removed_both(harness: Harness) -> None:
    clock = VirtualClock(skipping=False)
    async with harness.engine(sale, clock=clock) as engine:
        await failed(engine)
        await (await engine.start(sale, "good", name="sale-1", on_failed="restart")).result()
        while engine._store.expire(clock.now() + 2 * 86_400_000, 100):
            pass
        assert [x async for x in engine.list()] == []
        assert await (await engine.start(sale, 3, name="sale-1")).result() == 3


@pytest.mark.parametrize(
    "asked, told",
    [
        ({"on_failed": "again", "name": "x"}, "on_failed is 'again'; use 'find' or 'restart'"),
        ({"on_failed": "restart"}, "on_failed='restart' needs a name"),
    ],
)
async def test_a_word_that_makes_no_sense_is_refused(harness: Harness, asked: dict[str, Any], told: str) -> None:
    async with harness.engine(sale) as engine:
        with pytest.raises(InvalidParameter, match=told):
            await engine.start(sale, **asked)


def test_the_blocking_engine_has_the_same_word() -> None:
    with holdfast.open(":memory:", functions=[sale], settings=Settings(clock=VirtualClock())) as engine:
        with pytest.raises(ExecutionFailed):
            engine.start(sale, "bad", name="sale-1").result()
        assert engine.start(sale, "good", name="sale-1", on_failed="restart").result() == "good"
