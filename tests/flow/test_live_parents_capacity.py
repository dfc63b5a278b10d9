"""Live parents give their room up where it is needed, and leave everything in order when engines close, lose a lease or share a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

import holdfast
from holdfast import AsyncDurableContext, Settings, durable_execution
from holdfast.engine.health import Health
from holdfast.engine.outcomes import INTERRUPTED
from holdfast.engine.writer import Writer
from holdfast.model.clock import SystemClock
from holdfast.model.execution import State
from holdfast.model.life import Claimant
from holdfast.model.verbs import Claim, Settle
from holdfast.store.backends import open_store
from holdfast.store.seam import Committed
from tests.flow.families import Gate, children, has_all_its_room, held_at, invocations, parent, state_of
from tests.flow.harness import Harness, eventually, in_real_time
from tests.histories import wire

Branch = Callable[[AsyncDurableContext], Awaitable[Any]]


# --- room


def roomy(harness: Harness, live: int) -> Settings:
    return Settings(clock=harness.clock, resting=harness.resting, live=live)


@pytest.mark.parametrize("live", [1, 2, 3])
async def test_a_family_deeper_than_there_is_room_ends(harness: Harness, live: int) -> None:
    @durable_execution
    async def nested(event: int, context: AsyncDurableContext) -> int:
        return 0 if event == 0 else 1 + await context.invoke("nested", event - 1)

    async with holdfast.open(harness.store, functions=[nested], settings=roomy(harness, live)) as engine:
        assert await (await engine.start(nested, 8)).result() == 8
        assert has_all_its_room(engine)


async def test_a_parent_that_waits_gives_its_room_to_its_other_child(harness: Harness) -> None:
    """The first child ends only when the second has run, and there is room for one beside the parent."""
    gate = Gate()

    @durable_execution
    async def second(event: Any, context: AsyncDurableContext) -> str:
        gate.open.set()
        return "second"

    @durable_execution(name="parent")
    async def both(event: Any, context: AsyncDurableContext) -> Any:
        def of(function: str) -> Branch:
            return lambda inner: inner.invoke(function, None)

        return (await context.parallel([of("child"), of("second")])).get_results()

    async with holdfast.open(harness.store, functions=[both, held_at(gate), second], settings=roomy(harness, 2)) as engine:
        assert await (await engine.start(both)).result() == ["passed", "second"]
        assert has_all_its_room(engine)


async def test_a_parent_that_waits_gives_its_room_to_whatever_is_started_meanwhile(harness: Harness) -> None:
    gate = Gate()

    @durable_execution
    async def other(event: Any, context: AsyncDurableContext) -> None:
        gate.open.set()

    async with holdfast.open(harness.store, functions=[parent, held_at(gate), other], settings=roomy(harness, 2)) as engine:
        execution = await engine.start(parent)
        await eventually(lambda: gate.came)
        await (await engine.start(other)).result()
        assert await execution.result() == "passed"
        assert await invocations(execution) == 2
        assert has_all_its_room(engine)


async def test_a_checkpoint_that_is_refused_gives_the_room_of_its_children_back(harness: Harness) -> None:
    """The parent was stopped when it asked for its child: the child is never made."""
    began, go = asyncio.Event(), asyncio.Event()

    @durable_execution(name="parent")
    async def slow(event: Any, context: AsyncDurableContext) -> Any:
        began.set()
        await go.wait()
        return await context.invoke("child", None)

    async with harness.engine(slow, held_at(Gate()), clock=SystemClock()) as engine:
        execution = await engine.start(slow)
        await began.wait()
        store = open_store(harness.store, "elsewhere")
        try:
            header = store.find(execution.id)
            assert header is not None
            claim = Claim(header.id, Claimant("elsewhere", "i"), frozenset({header.runner or ""}))
            assert store.commit([claim], engine._engine.clock.now()).answers
            go.set()
            await in_real_time(lambda: has_all_its_room(engine))
            assert children(engine) == []
        finally:
            store.close()


# --- engines that come and go


async def test_an_engine_that_closes_while_a_parent_waits_leaves_both_to_the_next(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(parent, held_at(gate)) as engine:
        execution = await engine.start(parent)
        await eventually(lambda: gate.came)
    gate.open.set()
    async with harness.engine(parent, held_at(gate)) as engine:
        again = await engine.get(execution.id)
        assert await again.result() == "passed"
        header = engine._store.find(execution.id)
        assert header is not None
        assert (header.deaths, gate.came, len(children(engine))) == (0, 2, 1)
        assert "Runtime.ExitError" not in str(wire(await again.history()))


async def test_a_child_that_was_claimed_while_the_engine_closed_is_left_to_the_next(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that makes the child is the last one that the engine tells of."""
    gate = Gate()
    gate.open.set()
    closing: list[asyncio.Task[None]] = []
    follow = Writer._follow

    def last(self: Writer, followed: Any) -> None:
        if followed and not closing:
            closing.append(asyncio.ensure_future(engine._engine.close()))
            self.open = False
        follow(self, followed)

    monkeypatch.setattr(Writer, "_follow", last)
    async with harness.engine(parent, held_at(gate)) as engine:
        execution = await engine.start(parent)
        await eventually(lambda: closing and closing[0].done())
    assert gate.came == 0
    async with harness.engine(parent, held_at(gate)) as engine:
        assert await (await engine.get(execution.id)).result() == "passed"
        (work,) = children(engine)
        assert "Runtime.ExitError" not in str(wire(await (await engine.get(work)).history()))


async def test_a_parent_that_another_runner_took_over_gets_its_childs_result_there(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(parent, held_at(gate), clock=SystemClock()) as engine:
        execution = await engine.start(parent)
        await in_real_time(lambda: gate.came)
        store = open_store(harness.store, "elsewhere")
        try:
            header = store.find(execution.id)
            assert header is not None
            now = engine._engine.clock.now
            (taken,) = store.commit([Claim(header.id, Claimant("elsewhere", "i"), frozenset({header.runner or ""}))], now()).answers
            await in_real_time(lambda: not engine._engine.invocations.is_live(execution.id))
            gate.open.set()  # the child ends here, and its parent has a live invocation elsewhere
            await in_real_time(lambda: [op.result for op in store.operations(header.id)] == ['"passed"'])
            assert state_of(engine, execution.id) is State.RUNNING
            given_back = Settle(execution=header.id, epoch=cast("Any", taken).epoch, invocation="i", seen=0, outcome=INTERRUPTED)
            assert store.commit([given_back], now()).answers
            assert await execution.result() == "passed"
        finally:
            store.close()
        assert has_all_its_room(engine)


async def test_a_parent_rests_while_its_child_runs_in_another_engine(harness: Harness) -> None:
    gate = Gate()
    async with harness.engine(held_at(gate), clock=SystemClock()) as there, harness.engine(parent, clock=SystemClock()) as here:
        execution = await here.start(parent)
        await in_real_time(lambda: gate.came)
        assert state_of(here, execution.id) is State.SUSPENDED
        gate.open.set()
        assert await execution.result() == "passed"
        assert has_all_its_room(here)
        assert has_all_its_room(there)


async def test_what_follows_from_a_commit_is_told_after_its_answers_also_from_a_thread() -> None:
    """A parent's own checkpoint and the end of its child may be one commit: the parent has its new token before it is told."""
    told: list[str] = []

    class Following:
        def commit(self, batch: Any, now: int) -> Committed:
            return Committed(list(batch), changes=cast("Any", ["followed"]))

    loop = asyncio.get_running_loop()
    writer = Writer(cast("Any", Following()), SystemClock(), loop, range(100), Health("runner", lambda: None))
    writer.tell(lambda changes: told.append(str(changes)), lambda: None)
    writer._disk_seconds = 1.0  # a slow disk: a thread writes
    delivered = asyncio.Event()

    def deliver(answer: Any) -> None:
        told.append(str(answer))
        loop.call_soon(told.append, "later")
        loop.call_soon(delivered.set)

    writer.submit(cast("Any", "answer"), deliver)
    await delivered.wait()
    writer.close()
    assert told == ["answer", "['followed']", "later"]
