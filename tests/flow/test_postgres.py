"""Whole flows on Postgres: what runs on a file runs in a database, and several engines share the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.retries import RetryDecision
from holdfast.engine import runner_leases
from holdfast.model.clock import Clock, SystemClock, VirtualClock
from holdfast.model.errors import DiskFailed
from holdfast.model.signals import StatusSignal
from holdfast.service.client import Client
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.service.settings import Settings
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.seam import Filter
from tests.flow.harness import pending, types
from tests.histories import wire
from tests.postgres import database, empty_store, schema_of, without_database

HOUR = 3_600_000


def again(error: Exception, attempt: int) -> RetryDecision:
    return RetryDecision(should_retry=attempt < 3, delay=Duration.from_minutes(5))


@durable_execution
async def order(event: Any, context: AsyncDurableContext) -> Any:
    """A step that fails at first, a wait, branches, a child context."""

    async def flaky(step: StepContext) -> int:
        if step.attempt < 2:
            raise RuntimeError("not yet")
        return int(event["n"])

    async def double(child: AsyncDurableContext, item: int, index: int, items: Any) -> int:
        return await child.step(lambda _: item * 2)

    n = await context.step(flaky, config=holdfast.StepConfig(retry_strategy=again))
    await context.wait(Duration.from_days(2))
    doubled = (await context.map(range(n), double)).get_results()
    return {"n": n, "doubled": doubled, "text": "é\U0001f9ea"}


@durable_execution
def blocking_order(event: Any, context: DurableContext) -> Any:
    first = context.step(lambda _: event["n"] + 1, name="first")
    context.wait(Duration.from_minutes(1))
    return context.step(lambda _: first + 1, name="second")


@durable_execution
async def asking(event: Any, context: AsyncDurableContext) -> Any:
    return await (await context.create_callback(name="approval")).result()


@durable_execution
async def child(event: Any, context: AsyncDurableContext) -> Any:
    await context.wait(Duration.from_hours(1))
    return await context.step(lambda _: event * 2)


@durable_execution
async def parent(event: Any, context: AsyncDurableContext) -> Any:
    return [await context.invoke("child", n) for n in range(event)]


FUNCTIONS = (order, blocking_order, asking, child, parent)


@pytest.fixture
def where() -> str:
    return empty_store()


@asynccontextmanager
async def engine(where: str, *functions: Any, clock: Clock | None = None, **more: Any) -> AsyncIterator[OpenEngine]:
    settings = Settings(clock=clock or VirtualClock(), threads=4, resting=0)
    async with holdfast.open(where, functions=functions or FUNCTIONS, settings=settings, **more) as opened:
        yield opened


async def test_a_workflow_with_steps_waits_and_branches_ends_as_on_a_file(where: str) -> None:
    async with engine(where) as opened:
        execution = await opened.start(order, {"n": 3})
        assert await execution.result() == {"n": 3, "doubled": [0, 2, 4], "text": "é\U0001f9ea"}
        blocking = await opened.start(blocking_order, {"n": 1})
        assert await blocking.result() == 3
        told = types(wire(await execution.history()))
    assert told.count("InvocationCompleted") == 3
    with Client.open(where) as client:
        assert client.describe(blocking.arn).status == "SUCCEEDED"
        assert {x.function for x in client.list(Filter())} == {"order", "blocking_order"}


async def test_a_callback_is_answered_by_a_process_that_runs_nothing(where: str) -> None:
    async with engine(where, clock=SystemClock()) as opened:
        execution = await opened.start(asking)
        waits = await pending(execution, "approval")
        with Client.open(where) as client:
            await asyncio.to_thread(client.succeed_callback, waits.callback_id or "", "yes")
        assert await execution.result() == "yes"


async def test_what_an_execution_invokes_answers_it(where: str) -> None:
    async with engine(where) as opened:
        assert await (await opened.start(parent, 3)).result() == [0, 2, 4]


async def test_subscribers_hear_of_every_beginning_and_end_in_order(where: str) -> None:
    heard: list[StatusSignal] = []
    enough = asyncio.Event()

    async def hear(signal: StatusSignal) -> None:
        heard.append(signal)
        if len(heard) == 4:
            enough.set()

    async with engine(where, subscribers={"billing": hear}) as opened:
        await (await opened.start(parent, 1, name="p")).result()
        async with asyncio.timeout(20):
            await enough.wait()
    told = [(signal.function, str(signal.status)) for signal in heard]
    assert told == [("parent", "RUNNING"), ("child", "RUNNING"), ("child", "SUCCEEDED"), ("parent", "SUCCEEDED")]
    assert [signal.number for signal in heard] == sorted({signal.number for signal in heard})


class Machine(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def now(self) -> int:
        return super().now() + self._ahead


async def test_two_engines_share_the_work_of_one_database(where: str) -> None:
    async with engine(where, asking, clock=SystemClock()) as one, engine(where, asking, clock=SystemClock()) as two:
        executions = [await (one, two)[n % 2].start(asking, name=f"n{n}") for n in range(10)]
        for n, execution in enumerate(executions):  # the process that answers goes on with the execution, and the other one sees its end
            waits = await pending(execution)
            await (two, one)[n % 2].succeed_callback(waits.callback_id or "", f"done {n}")
        async with asyncio.timeout(20):
            assert [await execution.result() for execution in executions] == [f"done {n}" for n in range(10)]
        assert [_deaths(wire(await execution.history())) for execution in executions] == [0] * 10


async def test_engines_whose_machines_disagree_about_the_time_leave_each_other_alone(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hours between them: by their own clocks one would find the other's lease over."""
    monkeypatch.setattr(runner_leases, "AWAKE_SECONDS", 0)
    monkeypatch.setattr(runner_leases, "LOOK_SECONDS", 0.01)
    reached, go, looks, dead = asyncio.Event(), asyncio.Event(), list[int](), PostgresStore.dead

    def looking(self: PostgresStore, now: int) -> frozenset[str]:
        looks.append(now)
        return dead(self, now)

    @durable_execution(name="held")
    async def held(event: Any, context: AsyncDurableContext) -> Any:
        async def body(step: StepContext) -> str:
            reached.set()
            await go.wait()
            return "done"

        return await context.step(body)

    async with engine(where, held, clock=Machine(-HOUR)) as early, engine(where, held, clock=Machine(HOUR)):
        execution = await early.start(held)
        await reached.wait()
        monkeypatch.setattr(PostgresStore, "dead", looking)
        async with asyncio.timeout(20):
            while len(looks) < 20:
                await asyncio.sleep(0)
        go.set()
        assert await execution.result() == "done"
        assert _deaths(wire(await execution.history())) == 0
        assert max(looks) - min(looks) < 60_000, "one time for all"
        assert abs(looks[0] - SystemClock().now()) < 60_000, "the database's"


def _deaths(history: Any) -> int:
    return sum("Runtime.ExitError" in str(event) for event in history)


async def test_an_engine_pauses_while_the_database_is_away_and_goes_on_when_it_is_back(where: str) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    @durable_execution(name="held")
    async def held(event: Any, context: AsyncDurableContext) -> Any:
        async def body(step: StepContext) -> str:
            reached.set()
            await go.wait()
            return "kept"

        return [await context.step(body), await context.step(lambda _: "after")]

    async with engine(where, held, clock=SystemClock()) as opened:
        execution = await opened.start(held)
        await reached.wait()
        with without_database():
            go.set()
            with pytest.raises(DiskFailed):
                await opened.start(held, name="in-vain")
        async with asyncio.timeout(20):
            assert await execution.result() == ["kept", "after"]
        assert _deaths(wire(await execution.history())) == 0


async def test_an_engine_that_closes_leaves_its_work_to_the_next(where: str) -> None:
    async with engine(where, asking, clock=SystemClock()) as opened:
        execution = await opened.start(asking, name="x")
        callback_id = (await pending(execution)).callback_id or ""
    with database() as rows:
        assert rows.execute(f"SELECT count(*) FROM {schema_of(where)}.runners".encode()).fetchone() == (0,)
    async with engine(where, asking, clock=SystemClock()) as opened:
        await opened.succeed_callback(callback_id, "yes")
        found: OpenExecution = await opened.get(execution.arn)
        assert await found.result() == "yes"
