"""context.enqueue: a durable function starts an execution in a queue, once, and goes on without waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, Duration, Settings, durable_execution
from holdfast.durable.enqueue_refusal import EnqueueRefused
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import ExecutionStatus, Terms
from holdfast.model.operations import ENQUEUE, Status, Type
from holdfast.service.engines import OpenEngine
from holdfast.store.seam import Filter, Hosted
from holdfast.testing import Runner, crash_everywhere
from tests.flow.harness import Harness
from tests.flow.queue_jobs import STORES, declare, echo, harness_on

BOTH = pytest.mark.parametrize("colour", ["async", "blocking"])
Call = tuple[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """On both stores, and on a file in both ways of waiting."""
    return harness_on(request.param, tmp_path)


def asks(*arguments: Any, **more: Any) -> Call:
    return arguments, {"queue": "emails", **more}


def caller(colour: str, *calls: Call, after: float = 0, give: Callable[..., Any] = lambda *found: list(found)) -> DurableFunction:
    """A function that makes these calls of context.enqueue, waits, and gives what `give` makes of the ids."""

    @durable_execution(name="caller")
    async def in_a_loop(event: Any, context: AsyncDurableContext) -> Any:
        found = []
        for arguments, more in calls:
            try:
                found.append(await context.enqueue(*arguments, **more))
            except EnqueueRefused as refused:
                found.append(f"{refused.error_type} {refused.is_overloaded} {(refused.retry_after_seconds or 0) > 0}")
        if after:
            await context.wait(Duration.from_seconds(after))
        return give(*found)

    @durable_execution(name="caller")
    def in_a_thread(event: Any, context: DurableContext) -> Any:
        found = []
        for arguments, more in calls:
            try:
                found.append(context.enqueue(*arguments, **more))
            except EnqueueRefused as refused:
                found.append(f"{refused.error_type} {refused.is_overloaded} {(refused.retry_after_seconds or 0) > 0}")
        if after:
            context.wait(Duration.from_seconds(after))
        return give(*found)

    return in_a_loop if colour == "async" else in_a_thread


async def jobs(engine: OpenEngine, function: str = "echo") -> list[Any]:
    return sorted([x async for x in engine.list(Filter(function=function))], key=lambda header: header.id)


def test_a_refusal_for_too_much_work_that_no_queue_caused_tells_no_time() -> None:
    refused = EnqueueRefused("too many checks wait", "overloaded", data='{"status": "error", "error": {"error_code": "overloaded"}}')
    assert (refused.is_overloaded, refused.retry_after_seconds) == (True, None)


@BOTH
async def test_an_execution_is_enqueued_once_and_its_id_is_the_result_of_a_step(harness: Harness, colour: str) -> None:
    calling = caller(colour, asks(echo, {"a": 1}, key="k", name="letter"), asks("echo", 2), after=5)
    async with harness.engine(calling, echo) as engine:
        execution = await engine.start(calling)
        first, second = await execution.result()
        assert [header.id for header in await jobs(engine)] == sorted([first, second])
        assert await (await engine.get(first)).result() == {"a": 1}
        assert await (await engine.get(second)).result() == 2
        steps = [op for op in engine._store.operations(execution.id) if op.type is Type.STEP]
        assert [(op.sub_type, op.name, op.status) for op in steps] == [
            (ENQUEUE, "letter", Status.SUCCEEDED),
            (ENQUEUE, "echo", Status.SUCCEEDED),
        ]
        header = engine._store.find(first)
        assert header is not None
        assert header.place is not None
        assert (header.parent, header.place.lane) == (None, "emails/tenant=default/key=k/function=echo:$LATEST")


@BOTH
async def test_a_stop_of_the_caller_does_not_reach_what_it_has_enqueued(harness: Harness, colour: str) -> None:
    calling = caller(colour, asks("echo", 1, delay=Duration.from_seconds(60)), after=3600)
    async with harness.engine(calling, echo, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(calling)
        while not (found := await jobs(engine)):
            await asyncio.sleep(0)
        await execution.stop()
        assert (await execution.status()) is ExecutionStatus.STOPPED
        header = engine._store.find(found[0].id)
        assert header is not None
        assert header.status is ExecutionStatus.RUNNING


@BOTH
async def test_a_full_queue_raises_an_error_that_the_author_can_catch_and_a_replay_raises_it_again(harness: Harness, colour: str) -> None:
    declare(harness, most_waiting=2)
    calling = caller(colour, *[asks("echo", n) for n in range(4)], after=5)
    async with harness.engine(calling) as engine:
        engine._store.publish([Hosted("echo", "$LATEST", Terms())])  # another process runs it, later
        found = await (await engine.start(calling)).result()
    assert [len(one) > 20 for one in found[:2]] == [True, True]
    assert found[2:] == ["overloaded True True"] * 2


@BOTH
async def test_a_target_that_is_not_there_fails_the_step(harness: Harness, colour: str) -> None:
    calling = caller(colour, asks("not-there", 1))
    async with harness.engine(calling) as engine:
        assert await (await engine.start(calling)).result() == ["ResourceNotFoundException False False"]


@BOTH
def test_a_worker_is_enqueued_and_its_request_is_checked_first(colour: str) -> None:
    calling = caller(colour, asks("scrape", {"url": "a"}), asks("scrape", ["no object"]))
    with Runner(calling, workers={"scrape": lambda inputs: {"title": inputs["url"].upper()}}) as runner:
        run, refused = runner.run().result
        assert refused == "schema_mismatch False False"
        response = runner.engine.get(run).result()
    assert (response["run_id"], response["outputs"]) == (run, {"title": "A"})


@BOTH
def test_a_crash_anywhere_leaves_one_execution_of_each_enqueue(colour: str) -> None:
    ran: list[int] = []

    @durable_execution(name="job")
    async def counted(event: int, context: AsyncDurableContext) -> None:
        ran.append(event)

    calling = caller(colour, asks("job", 1), asks("job", 2), after=1, give=lambda *found: len(set(found)))
    assert crash_everywhere(calling, functions=[counted], effects=lambda: sorted(ran), reset=ran.clear) > 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": "a/b"},
        {"delay": -1},
        {"ttl": 31_622_401},
        {"delay": float("nan")},
        {"ttl": "soon"},
        {"head_start": None},
        {"units": 1.5},
        {"key": 7},
        {"target": 7},
        {"input": {1, 2}},
    ],
)
async def test_a_wrong_argument_raises_on_the_authors_line_and_records_nothing(wrong: dict[str, Any]) -> None:
    @durable_execution
    async def wronged(event: Any, context: AsyncDurableContext) -> str:
        asked: dict[str, Any] = {"target": "echo", "input": 1, "queue": "emails", **wrong}
        try:
            await context.enqueue(**asked)
        except ValidationError as refused:
            return str(refused)
        return "nothing was raised"

    async with holdfast.open(":memory:", functions=[wronged, echo], settings=Settings(clock=VirtualClock(), tune=False)) as engine:
        execution = await engine.start(wronged)
        assert (await execution.result()).startswith("enqueue: ")
        assert engine._store.operations(execution.id) == []
