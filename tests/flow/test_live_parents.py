"""Live parents: an `async def` handler stays live while what it has invoked runs in the same process, and rests when that rests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, cast

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, MapConfig, StepContext, durable_execution, durable_step
from holdfast.durable.exceptions import InvokeError
from holdfast.engine.live_parents import LiveParents
from holdfast.engine.writer import Writer
from holdfast.model.clock import SystemClock, VirtualClock
from holdfast.model.execution import ExecutionStatus, State
from holdfast.service.client import Client
from holdfast.testing import crash_everywhere
from tests.flow.families import Gate, children, has_all_its_room, held_at, invocations, parent, state_of
from tests.flow.harness import Harness, eventually, in_real_time, pending

Branch = Callable[[AsyncDurableContext], Awaitable[Any]]


@durable_execution
async def node(event: Any, context: AsyncDurableContext) -> Any:
    return event


@durable_execution
async def asks(event: Any, context: AsyncDurableContext) -> Any:
    """Waits for a child and for an answer from outside, each in a branch of its own."""

    async def work(inner: AsyncDurableContext) -> Any:
        return await inner.invoke("child", None, name="work")

    async def word(inner: AsyncDurableContext) -> Any:
        said = await (await inner.create_callback(name="word")).result()
        return await inner.step(lambda _: [said], name="heard")

    return (await context.parallel([cast("Branch", work), cast("Branch", word)])).get_results()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that engines commit."""
    sizes: list[int] = []
    commit = Writer._commit

    def counted(self: Writer, batch: list[Any], *, on_loop: bool) -> Any:
        sizes.append(len(batch))
        return commit(self, batch, on_loop=on_loop)

    monkeypatch.setattr(Writer, "_commit", counted)
    return sizes


# --- what a chain costs


@pytest.mark.parametrize("inside", [False, True], ids=["in a row", "each in a child context"])
async def test_a_node_of_a_chain_costs_two_commits(harness: Harness, commits: list[int], inside: bool) -> None:
    @durable_execution
    async def chain(event: int, context: AsyncDurableContext) -> int:
        async def one(inner: AsyncDurableContext) -> int:
            return cast("int", await inner.invoke("node", given + 1))

        given = 0
        for _ in range(event):
            given = await context.run_in_child_context(one) if inside else await one(context)
        return given

    async with harness.engine(chain, node) as engine:
        commits.clear()
        execution = await engine.start(chain, 10)
        assert await execution.result() == 10
        assert len(commits) <= 2 * 10 + 2 + inside  # the parent's own start and end; the last context ends alone
        assert await invocations(execution) == 1
        assert has_all_its_room(engine)


async def test_a_map_of_invokes_ends_with_the_commits_of_its_waves(harness: Harness, commits: list[int]) -> None:
    @durable_execution
    async def wide(event: int, context: AsyncDurableContext) -> list[int]:
        async def item(inner: AsyncDurableContext, number: int, index: int, numbers: Any) -> int:
            return cast("int", await inner.invoke("node", number))

        return (await context.map(range(event), item, config=MapConfig(max_concurrency=20))).get_results()

    async with harness.engine(wide, node) as engine:
        commits.clear()
        execution = await engine.start(wide, 100)
        assert await execution.result() == list(range(100))
        assert len(commits) <= 2 * 5 + 15  # two for each wave; the rest is what a slow machine writes apart
        assert await invocations(execution) == 1


async def test_a_def_parent_rests_as_before(harness: Harness) -> None:
    @durable_execution(name="parent")
    def blocking(event: Any, context: DurableContext) -> Any:
        return context.invoke("child", event, name="work")

    gate = Gate()
    async with harness.engine(blocking, held_at(gate)) as engine:
        execution = await engine.start(blocking)
        await in_real_time(lambda: gate.came)
        await in_real_time(lambda: state_of(engine, execution.id) is State.SUSPENDED)
        gate.open.set()
        assert await execution.result() == "passed"
        assert await invocations(execution) == 2


async def test_a_child_does_not_see_the_context_variables_of_its_parent(harness: Harness) -> None:
    seen: list[str] = []
    said: ContextVar[str] = ContextVar("said", default="nothing")

    @durable_execution
    async def child(event: Any, context: AsyncDurableContext) -> None:
        seen.append(said.get())

    @durable_execution(name="parent")
    async def telling(event: Any, context: AsyncDurableContext) -> None:
        said.set("the parent's")
        await context.invoke("child", None)

    async with harness.engine(telling, child) as engine:
        await (await engine.start(telling)).result()
    assert seen == ["nothing"]


def test_a_parent_crashes_at_every_checkpoint_and_gives_the_same_result() -> None:
    """Ends of contexts that ride with the next write are lost with it, and are made again."""
    ran: list[str] = []

    @durable_execution
    async def leaf(event: str, context: AsyncDurableContext) -> str:
        await context.step(lambda _: ran.append(event), name="work")
        return event.upper()

    @durable_execution
    async def crashing(event: Any, context: AsyncDurableContext) -> Any:
        async def one(inner: AsyncDurableContext, word: str, index: int, words: Any) -> str:
            return cast("str", await inner.invoke("leaf", word))

        async def inside(inner: AsyncDurableContext) -> Any:
            return (await inner.map(["a", "b"], one)).get_results()

        first = await context.run_in_child_context(inside)
        return [first, await context.invoke("leaf", "c"), await context.run_in_child_context(inside)]

    assert crash_everywhere(crashing, functions=[leaf], effects=lambda: sorted(ran), reset=ran.clear) >= 6


# --- staying and resting


async def test_a_parent_is_live_as_long_as_its_child_is_and_rests_with_it(harness: Harness) -> None:
    gate = Gate()

    @durable_step
    async def body(step: StepContext) -> str:
        return await gate.pass_through()

    @durable_execution
    async def child(event: Any, context: AsyncDurableContext) -> Any:
        await context.step(body())
        return await (await context.create_callback(name="go")).result()

    async with harness.engine(parent, child, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(parent)
        await eventually(lambda: gate.came)
        assert state_of(engine, execution.id) is State.RUNNING
        gate.open.set()
        (work,) = children(engine)
        asked = await pending(await engine.get(work), "go")
        await pending(execution, "work")  # suspended
        await engine.succeed_callback(asked.callback_id or "", "said")
        assert await execution.result() == "said"
        assert has_all_its_room(engine)


async def test_a_whole_family_rests_when_its_last_child_does_so_that_virtual_time_goes_on(harness: Harness) -> None:
    @durable_execution
    async def nested(event: int, context: AsyncDurableContext) -> Any:
        if event == 0:
            await context.wait(Duration.from_days(1))
            return ["slept"]
        return [event, *await context.invoke("nested", event - 1)]

    began = harness.clock.now()
    async with harness.engine(nested) as engine:
        assert await (await engine.start(nested, 4)).result() == [4, 3, 2, 1, "slept"]
        assert harness.clock.now() - began >= 86_400_000
        assert has_all_its_room(engine)


async def test_a_timer_of_a_live_parent_fires_while_its_child_runs(harness: Harness) -> None:
    gate = Gate()

    @durable_execution(name="parent")
    async def impatient(event: Any, context: AsyncDurableContext) -> Any:
        async def work(inner: AsyncDurableContext) -> Any:
            return await inner.invoke("child", None)

        async def late(inner: AsyncDurableContext) -> Any:
            await inner.wait(Duration.from_seconds(60))
            return await inner.step(lambda _: gate.open.set(), name="let go")

        return (await context.parallel([cast("Branch", work), cast("Branch", late)])).get_results()

    clock = VirtualClock(skipping=False)
    async with harness.engine(impatient, held_at(gate), clock=clock) as engine:
        execution = await engine.start(impatient)
        await eventually(lambda: gate.came)
        clock.move_to(clock.now() + 60_000)
        assert await execution.result() == ["passed", None]


async def test_a_child_that_ends_between_the_look_and_the_rest_of_its_parent_is_not_missed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent finds no reason to stay, and its rest goes into the very commit in which its child ends."""
    monkeypatch.setattr(LiveParents, "stays", lambda self, execution, awaited: False)

    @durable_execution
    async def chain(event: int, context: AsyncDurableContext) -> int:
        given = 0
        for _ in range(event):
            given = await context.invoke("node", given + 1)
        return given

    async with harness.engine(chain, node) as engine:
        assert await (await engine.start(chain, 5)).result() == 5
        assert has_all_its_room(engine)


# --- what others write meanwhile


async def test_an_answer_from_another_process_reaches_a_parent_whose_child_still_runs(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(asks, held_at(gate), clock=SystemClock()) as engine:
        execution = await engine.start(asks)
        await in_real_time(lambda: gate.came)
        with Client.open(harness.store) as elsewhere:
            asked = (await execution.describe()).waits_for
            elsewhere.succeed_callback(next(one.callback_id or "" for one in asked if one.name == "word"), "hello")
        heard = lambda: any(op.name == "heard" for op in engine._store.operations(execution.id))  # noqa: E731
        await in_real_time(heard)
        assert (gate.open.is_set(), state_of(engine, execution.id)) == (False, State.RUNNING)
        gate.open.set()
        assert await execution.result() == ["passed", ["hello"]]
        assert await invocations(execution) == 1


async def test_an_answer_from_another_process_and_the_end_of_the_child_arrive_together(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(asks, held_at(gate), clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(asks)
        await eventually(lambda: gate.came)
        asked = (await execution.describe()).waits_for
        with Client.open(harness.store) as elsewhere:  # in one tick: the engine has not heard of the answer when the child ends
            elsewhere.succeed_callback(next(one.callback_id or "" for one in asked if one.name == "word"), "hello")
            gate.open.set()
            assert await execution.result() == ["passed", ["hello"]]


async def test_a_stopped_child_is_an_invoke_error_of_its_live_parent(harness: Harness) -> None:
    gate = Gate()

    @durable_execution(name="parent")
    async def catching(event: Any, context: AsyncDurableContext) -> Any:
        try:
            return await context.invoke("child", None)
        except InvokeError as error:
            return error.message

    async with harness.engine(catching, held_at(gate)) as engine:
        execution = await engine.start(catching)
        await eventually(lambda: gate.came)
        (work,) = children(engine)
        await (await engine.get(work)).stop("enough")
        assert await execution.result() == "enough"
        assert await invocations(execution) == 1
        assert has_all_its_room(engine)


async def test_a_stopped_parent_takes_its_live_child_along(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(parent, held_at(gate)) as engine:
        execution = await engine.start(parent)
        await eventually(lambda: gate.came)
        await execution.stop("enough")
        (work,) = children(engine)
        assert await (await engine.get(work)).status() is ExecutionStatus.STOPPED
        await eventually(lambda: has_all_its_room(engine))
