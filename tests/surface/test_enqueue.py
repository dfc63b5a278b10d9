"""engine.enqueue, enqueue_many and redrive: for functions, workers and pipelines, awaited and blocking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Settings, durable_execution
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import (
    ExecutionAlreadyStarted,
    ExecutionFailed,
    FunctionNotFound,
    HoldfastError,
    InvalidParameter,
    PayloadNotJson,
    PayloadTooLarge,
)
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import checked_declaration
from holdfast.testing import Runner


@durable_execution
async def double(event: int, context: AsyncDurableContext) -> int:
    return 2 * event


@durable_execution
async def poor(event: Any, context: AsyncDurableContext) -> Any:
    raise ValueError("no")


def settings() -> Settings:
    return Settings(clock=VirtualClock(), tune=False)


async def test_a_function_is_enqueued_by_itself_or_by_its_name(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "a.db", functions=[double], settings=settings()) as engine:
        first = await engine.enqueue(double, 3, queue="emails", key="k", idempotency_key="a")
        again = await engine.enqueue("double", 3, queue="emails", key="k", idempotency_key="a")
        assert (first.id, await first.result()) == (again.id, 6)
        with pytest.raises(ExecutionAlreadyStarted):
            await engine.enqueue("double", 4, queue="emails", idempotency_key="a")
        other = await engine.enqueue("double", 4, queue="emails", idempotency_key="a", same="replace")
        assert await other.result() == 8


async def test_a_queue_that_nobody_declared_is_warned_of_once_with_the_similar_name(caplog: pytest.LogCaptureFixture) -> None:
    @durable_execution
    async def teller(event: Any, context: AsyncDurableContext) -> None:
        await context.enqueue(double, 1, queue="reprots")

    declared = [holdfast.Queue("emails", at_once=1), holdfast.Queue("reports"), holdfast.Queue("sums")]
    async with holdfast.open(":memory:", functions=[double, teller], queues=declared, settings=settings()) as engine:
        await engine.enqueue(double, 1, queue="emails")
        assert caplog.messages == []
        for _ in range(2):
            await engine.enqueue(double, 1, queue="emials")
            await engine.enqueue_many(double, [1, 2], queue="sum")
            await (await engine.start(teller)).result()
    told = "queue {} is new in this store, and has no limits until a program, a runner or an operator declares it. Did you mean `{}`?"
    pairs = (("emials", "emails"), ("sum", "sums"), ("reprots", "reports"))
    assert caplog.messages == [told.format(*pair) for pair in pairs]


def test_many_are_enqueued_at_once_without_await(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db", functions=[double], settings=settings()) as engine:
        jobs = engine.enqueue_many(double, range(1200), queue="emails", delay=0.5)
        assert [job.result() for job in jobs] == [2 * n for n in range(1200)]
        one = engine.enqueue(double, 1, queue="emails")
        assert one.result() == 2
        assert engine.enqueue_many(double, [], queue="emails") == []


async def test_many_that_are_refused_in_part_say_how_many_are_enqueued_and_can_be_repeated(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "a.db", functions=[double], settings=settings()) as engine:
        declared = checked_declaration("emails", {"most_waiting": 2})
        engine._store.declare([declared])
        keys = [f"k{n}" for n in range(5)]
        with pytest.raises(QueueFull) as full:
            await engine.enqueue_many(double, range(5), queue="emails", idempotency_keys=keys)
        assert full.value.__notes__ == ["2 of 5 inputs are enqueued."]
        engine._store.declare([checked_declaration("emails", {})])
        jobs = await engine.enqueue_many(double, range(5), queue="emails", idempotency_keys=keys)
        assert [await job.result() for job in jobs] == [0, 2, 4, 6, 8]
        assert len([x async for x in engine.list()]) == 5
        with pytest.raises(InvalidParameter, match="one key for each input"):
            await engine.enqueue_many(double, range(5), queue="emails", idempotency_keys=["a"])


@pytest.mark.parametrize(
    "inputs, keys, error, says",
    [
        ([1], ["no key!"], InvalidParameter, "Idempotency key 'no key!': use 1 to 64"),
        ([1], ["x" * 5_000], InvalidParameter, "Idempotency key 'xxx"),
        (["x" * 7_000_000], None, PayloadTooLarge, "payload size"),
        ([object()], None, PayloadNotJson, "cannot be written as JSON"),
    ],
)
async def test_one_bad_input_of_many_writes_nothing_and_its_error_names_its_index(
    inputs: list[Any], keys: list[str] | None, error: type[Exception], says: str
) -> None:
    async with holdfast.open(":memory:", functions=[double], settings=settings()) as engine:
        many = [*range(1200), *inputs]
        names = None if keys is None else [*(f"k{n}" for n in range(1200)), *keys]
        with pytest.raises(error, match=rf"^inputs\[1200\]: .*{says}") as refused:
            await engine.enqueue_many(double, many, queue="emails", idempotency_keys=names)
        assert len(str(refused.value)) < 250
        assert [x async for x in engine.list()] == []


def test_one_bad_input_of_many_for_a_worker_writes_nothing_and_its_error_names_its_index() -> None:
    with Runner(double, workers={"scrape": lambda inputs: {"title": "t"}}) as runner:
        with pytest.raises(InvalidRequest, match=r"^inputs\[1\]: "):
            runner.engine.enqueue_many("scrape", [{"url": "b"}, ["no object"]], queue="pages")
        with pytest.raises(HoldfastError, match=r"^inputs\[1\]: "):
            runner.engine.enqueue_many("scrape", [{"url": "b"}, {"url": "x" * 7_000_000}], queue="pages")
        assert list(runner.engine.list()) == []


async def test_a_key_of_many_that_was_used_before_is_named_by_its_index() -> None:
    async with holdfast.open(":memory:", functions=[double], settings=settings()) as engine:
        await engine.enqueue(double, 7, queue="emails", idempotency_key="b")
        with pytest.raises(ExecutionAlreadyStarted, match=r"^inputs\[1\]: ") as refused:
            await engine.enqueue_many(double, [1, 2], queue="emails", idempotency_keys=["a", "b"])
        assert refused.value.__notes__ == ["1 of 2 inputs are enqueued."]


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"queue": "no/slash"}, InvalidParameter),
        ({"delay": -1}, InvalidParameter),
        ({"ttl": "soon"}, InvalidParameter),
        ({"head_start": float("inf")}, InvalidParameter),
        ({"ttl": 31_622_401}, InvalidParameter),
        ({"delay": float("nan")}, InvalidParameter),
        ({"units": -1}, InvalidParameter),
        ({"same": "both"}, InvalidParameter),
        ({"user": "ann"}, InvalidParameter),
        ({"target": 7}, InvalidParameter),
        ({"target": "unknown"}, FunctionNotFound),
    ],
)
async def test_a_wrong_argument_of_enqueue_is_refused_and_writes_nothing(wrong: dict[str, Any], error: type[Exception]) -> None:
    async with holdfast.open(":memory:", functions=[double], settings=settings()) as engine:
        asked: dict[str, Any] = {"target": double, "input": 1, "queue": "emails", **wrong}
        with pytest.raises(error):
            await engine.enqueue(**asked)
        assert [x async for x in engine.list()] == []


def test_a_worker_is_enqueued_by_its_id_and_its_run_has_the_response() -> None:
    with Runner(double, workers={"scrape": lambda inputs: {"title": inputs["url"].upper()}}) as runner:
        engine = runner.engine
        one = engine.enqueue("scrape", {"url": "a"}, queue="pages", idempotency_key="a", tenant="acme")
        assert one.result()["outputs"] == {"title": "A"}
        assert engine.enqueue("scrape", {"url": "a"}, queue="pages", idempotency_key="a", tenant="acme").id == one.id
        many = engine.enqueue_many("scrape", [{"url": "b"}, {"url": "c"}], queue="pages")
        assert [run.result()["outputs"] for run in many] == [{"title": "B"}, {"title": "C"}]
        with pytest.raises(InvalidRequest):
            engine.enqueue("scrape", ["no object"], queue="pages")


async def test_a_parked_execution_is_redriven_by_its_id_or_arn() -> None:
    async with holdfast.open(":memory:", functions=[poor], settings=settings()) as engine:
        job = await engine.enqueue(poor, 1, queue="emails")
        with pytest.raises(ExecutionFailed):
            await job.result()
        again = await engine.redrive(job.arn)
        assert (again.id != job.id, again.name) == (True, job.name)
        with pytest.raises(ExecutionFailed):
            await again.result()
        await engine.redrive(again.id)
