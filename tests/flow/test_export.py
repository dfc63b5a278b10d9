"""Exports: what every kind of execution leaves can be taken out, put into another store as a copy, and replayed without one."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AesGcm, AsyncDurableContext, DurableContext, Duration, StepConfig, StepContext, durable_execution, plain_function
from holdfast.durable.config import StepSemantics
from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.durable.execution import DurableFunction
from holdfast.exports.exporting import exported
from holdfast.exports.importing import ImportedExecution, copied, read
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import (
    CallbackClosed,
    ExecutionAlreadyStarted,
    ExecutionNotFound,
    ExportInvalid,
    InvalidParameter,
    LeaseLost,
)
from holdfast.model.execution import OutcomeStatus, State
from holdfast.model.life import Claimant
from holdfast.model.operations import Status
from holdfast.model.outside import Fire
from holdfast.model.verbs import Claim
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from tests.flow.cases import CASES, OURS, Case, Sdk, some_quick
from tests.flow.harness import Harness, eventually, pending, types
from tests.flow.official.running import Running, opened, ours
from tests.flow.test_official_sdk import answer_early, others
from tests.histories import wire

Document = dict[str, Any]
OWN_WORDS = {
    "the_end_of_the_replay_is_seen_at_the_same_place",
    "a_batch_ends_when_its_author_says",
    "a_new_item_of_an_old_batch_is_no_replay",
}
"""Cases whose result tells what that very invocation did, which no replay repeats."""


def sent(document: Document) -> Document:
    """A document as it comes out of a file."""
    read: Document = json.loads(json.dumps(document))
    return read


@contextmanager
def elsewhere(folder: Path, name: str = "other.db", codec: AesGcm | None = None) -> Iterator[Client]:
    with Client.open(str(folder / name), create=True, codec=codec, clock=VirtualClock()) as client:
        yield client


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("other.db*") if path.is_file())


# --- every case of the table -------------------------------------------------------------------------------------------------


async def exports(case: Case, sdk: Sdk, function: DurableFunction, *, resting: int) -> list[Document]:
    """The case's execution, exported whenever it rests and at its end."""
    documents: list[Document] = []

    def export(running: Running) -> None:
        found = running.engine.store.snapshot(execution)
        assert found is not None
        documents.append(sent(exported(found, running.clock.now(), include_data=True)))

    async with opened(ours(function, resting=resting), others=others(case, sdk)) as running:
        execution = await running.start(case.event)
        await answer_early(case, sdk, running, execution)
        script = copy.deepcopy(case.script)
        while (await running.rested(execution)).state not in (State.CLOSED, State.QUARANTINED):
            export(running)
            await running._go_on(running.header(execution), script)
        export(running)
    return documents


@pytest.mark.parametrize("colour", ["def", "async"])
@some_quick(CASES.values())
async def test_every_case_is_copied_and_replayed_wherever_it_rests(case: Case, colour: str, tmp_path: Path) -> None:
    sdk = Sdk(OURS)
    make = case.make if colour == "def" or case.twin is None else case.twin
    function = make(sdk)
    for number, document in enumerate(await exports(case, sdk, function, resting=0)):
        with elsewhere(tmp_path, f"{number}.db") as client:
            copy = client.import_execution(document)
            header, again = copy.header, sent(client.export(copy.header.id))
            assert copy.created
            assert again["operations"] == document["operations"]
            assert again["events"] == document["events"]
            assert again["history"] == document["history"]
            assert wire(client.history(header.id)) == document["history"]["Events"]
        told = holdfast.replay(document, make(sdk))
        state = document["execution"]["state"]
        assert told.matches or (state == "closed" and case.name in OWN_WORDS), told.why
        if state == "suspended":
            assert told.waits, told.why
        if state == "suspended" or document["execution"]["status"] == "SUCCEEDED":
            assert told.goes_on == (), told.why


# --- copies ------------------------------------------------------------------------------------------------------------------


@durable_execution
async def order(event: Any, context: AsyncDurableContext) -> Any:
    paid = await context.step(lambda _: "paid", name="pay")
    callback = await context.create_callback(name="approval")
    await context.wait(Duration.from_hours(1), name="cool down")
    return [paid, await callback.result()]


@durable_execution
def blocking_order(event: Any, context: DurableContext) -> Any:
    paid = context.step(lambda _: "paid", name="pay")
    callback = context.create_callback(name="approval")
    context.wait(Duration.from_hours(1), name="cool down")
    return [paid, callback.result()]


async def open_order(harness: Harness, function: DurableFunction = order, codec: AesGcm | None = None) -> Document:
    """The export of an order that waits for both its hour and its approval."""
    clock = VirtualClock(skipping=False)
    settings = holdfast.Settings(clock=clock, resting=harness.resting, codec=codec)
    async with holdfast.open(harness.store, functions=[function], settings=settings) as engine:
        execution = await engine.start(function, {"item": "book"}, name="a")
        await pending(execution, "cool down")
        return sent(await execution.export())


async def closed_order(harness: Harness, function: DurableFunction = order) -> Document:
    async with harness.engine(function) as engine:
        execution = await engine.start(function, {"item": "book"}, name="a")
        waits = [op for op in (await eventually_waiting(execution)).waits_for if op.callback_id]
        assert waits[0].callback_id is not None
        await engine.succeed_callback(waits[0].callback_id, "yes")
        await execution.result()
        return sent(await execution.export())


async def eventually_waiting(execution: Any) -> Any:
    await pending(execution, "approval")
    return await execution.describe()


async def test_both_surfaces_and_the_client_export_the_same_document(harness: Harness) -> None:
    async with harness.engine(order) as engine:
        execution = await engine.start(order, name="a")
        await pending(execution, "approval")
        await execution.stop("enough")
        awaited = await execution.export()
    with Client.open(harness.store, clock=harness.clock) as client:
        assert client.export("order/a") == awaited
    with holdfast.open(harness.store, functions=[order], settings=holdfast.Settings(clock=harness.clock)) as blocking:
        assert blocking.get(execution.id).export() == awaited
    assert json.loads(json.dumps(awaited)) == awaited


async def test_an_export_is_of_one_moment_however_busy_the_execution_is(harness: Harness) -> None:
    @durable_execution
    def busy(event: Any, context: DurableContext) -> int:
        for _ in range(200):
            context.step(lambda _: 1)
        return 200

    async with harness.engine(busy) as engine:
        execution = await engine.start(busy)
        done = asyncio.ensure_future(execution.result())
        seen = 0
        while not done.done():
            document = sent(await execution.export())
            told = holdfast.replay(document, busy)  # reads it, so every number and reference has been checked
            assert told.matches, told.why
            seen = max(seen, document["execution"]["events"])
            await asyncio.sleep(0)
        assert await done == 200
    assert seen > 1


async def test_a_closed_execution_is_imported_as_closed_and_a_second_time_as_nothing(harness: Harness, tmp_path: Path) -> None:
    document = await closed_order(harness)
    with elsewhere(tmp_path) as client:
        copy = client.import_execution(document)
        header = copy.header
        assert (copy.created, header.state, header.status) == (True, State.CLOSED, "SUCCEEDED")
        assert client.import_execution(sent(client.export(header.id))) == ImportedExecution(header, created=False)
        assert client.describe("a").result == ["paid", "yes"]
        assert client.describe("a").input == {"item": "book"}
        assert [op.name for op in client.operations("a")] == ["pay", "approval", "cool down"]
        assert len(list(client.list(Filter()))) == 1


async def test_a_copy_of_an_open_execution_never_moves(harness: Harness, tmp_path: Path) -> None:
    document = await open_order(harness)
    clock = VirtualClock()
    store = str(tmp_path / "other.db")
    with Client.open(store, create=True, clock=clock) as client:
        header = client.import_execution(document).header
        assert (header.state, header.status, header.runner, header.due_at) == (State.IMPORTED, "RUNNING", None, None)
    clock.move_to(clock.now() + 13 * 86_400_000)
    async with holdfast.open(store, functions=[order], settings=holdfast.Settings(clock=clock)) as engine:
        other = await engine.start(order, name="b")
        await pending(other, "approval")  # the engine has looked around, and works
        copy = await engine.get(header.id)
        told = await copy.describe()
        assert told.state == "imported"
        assert told.why == "It is an imported copy, to be looked at: nothing runs it here."
        assert {(p.name, p.callback_id, p.due_at) for p in told.waits_for} == {("approval", None, None), ("cool down", None, None)}
        with pytest.raises(InvalidParameter, match="will not end here"):
            await copy.result()
        with pytest.raises(InvalidParameter, match="nothing to stop"):
            await copy.stop()
        with pytest.raises(InvalidParameter, match="cannot be released: it is imported"):
            await copy.release()
        store_of = engine._store
        (approval,) = [op for op in store_of.operations(header.id) if op.name == "approval"]
        assert approval.callback_id is not None
        for answer in (engine.succeed_callback, engine.heartbeat_callback):
            with pytest.raises(CallbackClosed):
                await answer(approval.callback_id)
        (claimed,) = store_of.commit([Claim(header.id, Claimant("me", "1"), frozenset({"dead"}))], clock.now()).answers
        assert isinstance(claimed, LeaseLost)
        store_of.commit([Fire(header.id)], clock.now())
        with pytest.raises(ExecutionAlreadyStarted, match="belongs to an imported copy"):
            await engine.start(order, {"item": "book"}, name="a")
        assert store_of.find(header.id) == header
        assert header.id not in store_of.claimable([], [], clock.now(), 10)
        assert sent(await copy.export())["history"] == document["history"]


async def test_a_copy_is_forgotten_when_its_retention_is_over(harness: Harness, tmp_path: Path) -> None:
    document = await open_order(harness)
    with elsewhere(tmp_path) as client:
        header = client.import_execution(document).header
        assert header.expires_at is not None
        assert not client._store.expire(header.expires_at - 1, 100)
        assert client._store.expire(header.expires_at, 100)
        with pytest.raises(ExecutionNotFound):
            client.get(header.id)


async def test_an_old_execution_is_not_forgotten_as_soon_as_it_is_imported(harness: Harness, tmp_path: Path) -> None:
    document = await closed_order(harness)
    clock = VirtualClock()
    clock.move_to(document["execution"]["expires_at"] + 1)
    with Client.open(str(tmp_path / "other.db"), create=True, clock=clock) as client:
        header = client.import_execution(document).header
        assert not client._store.expire(clock.now(), 100)
        assert client.get(header.id).expires_at == clock.now() + 14 * 86_400_000


async def test_another_execution_of_that_id_or_name_is_a_conflict_and_nothing_is_written(harness: Harness, tmp_path: Path) -> None:
    document = await open_order(harness)
    with Client.open(harness.store, clock=harness.clock) as client:
        before = client.get("order/a")
        with pytest.raises(ExecutionAlreadyStarted, match=f"another execution {before.id} in .*, which differs from this copy"):
            client.import_execution(document)
        assert client.get("order/a") == before, "the living one is as it was"
    with elsewhere(tmp_path) as client:
        started = client.start(order, {}, name="a").header
        with pytest.raises(ExecutionAlreadyStarted, match=f"another execution order/a in .*, with the id {started.id}"):
            client.import_execution(document)
        assert [x.id for x in client.list(Filter())] == [started.id]


async def test_the_original_is_its_own_copy(harness: Harness) -> None:
    document = await closed_order(harness)
    with Client.open(harness.store, clock=harness.clock) as client:
        before = client.get("a")
        assert client.import_execution(document) == ImportedExecution(before, created=False)


async def test_a_start_of_the_same_name_and_input_finds_a_closed_copy(harness: Harness, tmp_path: Path) -> None:
    document = await closed_order(harness)
    codec = AesGcm({"k": b"k" * 32}, "k")
    for number, kept in enumerate((None, codec)):
        with elsewhere(tmp_path, f"{number}.db", kept) as client:
            header = client.import_execution(document).header
            found = client.start(order, {"item": "book"}, name="a")
            assert (found.created, found.header.id) == (False, header.id)
            with pytest.raises(ExecutionAlreadyStarted):
                client.start(order, {"item": "pen"}, name="a")


async def test_an_export_is_plain_text_and_may_go_from_codec_to_codec(harness: Harness, tmp_path: Path) -> None:
    document = await open_order(harness, codec=AesGcm({"one": b"1" * 32}, "one"))
    assert document["events"][0]["payload"] == '{"item":"book"}'
    with elsewhere(tmp_path, codec=AesGcm({"two": b"2" * 32}, "two")) as client:
        header = client.import_execution(document).header
        assert sent(client.export(header.id))["events"] == document["events"]
    assert b"book" not in everything_in(tmp_path)


async def test_without_data_it_can_be_looked_at_but_not_replayed(harness: Harness, tmp_path: Path) -> None:
    await closed_order(harness)
    with Client.open(harness.store, clock=harness.clock) as client:
        bare = sent(client.export("a", include_data=False))
    assert not bare["data"]
    for text in ("book", "paid", "yes"):
        assert text not in json.dumps(bare)
    with elsewhere(tmp_path) as client:
        header = client.import_execution(bare).header
        assert client.import_execution(bare) == ImportedExecution(header, created=False)
        assert types(wire(client.history("a"))) == [event["EventType"] for event in bare["history"]["Events"]]
        assert (client.describe("a").status, client.describe("a").input) == ("SUCCEEDED", None)
        with pytest.raises(ExecutionAlreadyStarted):
            client.start(order, {"item": "book"}, name="a")
    with pytest.raises(ExportInvalid, match="exported without data"):
        holdfast.replay(bare, order)


async def test_nobody_is_told_of_an_import(harness: Harness, tmp_path: Path) -> None:
    document = await closed_order(harness)
    with elsewhere(tmp_path) as client:
        client._store.subscribe("audit")
        client.import_execution(document)
        client._store.join("here", 10**15)
        assert client._store.take_delivery("audit", "here") == 0
        assert client._store.signals("audit", "here", 0, 10) == []


async def test_who_waits_for_an_heir_that_was_not_imported_is_told(harness: Harness, tmp_path: Path) -> None:
    @durable_execution
    def endless(event: Any, context: DurableContext) -> Any:
        if event == 0:
            context.continue_as_new(1)
        return "done"

    async with harness.engine(endless) as engine:
        execution = await engine.start(endless, 0)
        assert await execution.result() == "done"
        document = sent(await execution.export())
    told = holdfast.replay(document, endless)
    assert (told.matches, told.status, told.result) == (True, OutcomeStatus.CONTINUED, 1)
    store = str(tmp_path / "other.db")
    with Client.open(store, create=True) as client:
        client.import_execution(document)
    async with holdfast.open(store, functions=[endless]) as engine:
        with pytest.raises(ExecutionNotFound, match=r"went on as .*, which is not in this store"):
            await (await engine.get(execution.id)).result()


async def test_a_child_that_ends_leaves_the_copy_of_its_parent_alone(harness: Harness, tmp_path: Path) -> None:
    """The parent was exported, forgotten, and imported again while its child still ran."""

    @durable_execution
    async def child(event: Any, context: AsyncDurableContext) -> Any:
        return await (await context.create_callback(name="work")).result()

    @durable_execution
    async def parent(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("child", None, name="part")

    async with harness.engine(parent, child) as engine:
        execution = await engine.start(parent, name="p")
        await pending(execution, "part")
        document = sent(await execution.export())
        (born,) = [x for x in [x async for x in engine.list()] if x.function == "child"]
        engine._store._writer.execute("DELETE FROM executions WHERE id = ?", (execution.id,))  # type: ignore[attr-defined]
        engine._store.adopt(copied(read(document).snapshot, harness.clock.now()))
        waits = await pending(await engine.get(born.id), "work")
        assert waits.callback_id is not None
        await engine.succeed_callback(waits.callback_id, "done")
        assert await (await engine.get(born.id)).result() == "done"
        copy = engine._store.find(execution.id)
        assert copy is not None
        assert copy.state is State.IMPORTED
        assert [op.status for op in engine._store.operations(execution.id)] == [Status.STARTED]


# --- replays -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [order, blocking_order], ids=["async", "def"])
async def test_a_replay_tells_what_the_execution_waits_for(harness: Harness, function: DurableFunction) -> None:
    told = holdfast.replay(await open_order(harness, function), function)
    assert (told.matches, told.status, told.waits, told.goes_on) == (True, OutcomeStatus.PENDING, ("Wait 'cool down'",), ())
    assert told.why == "The code follows the records, and then waits for Wait 'cool down'."


@pytest.mark.parametrize("function", [order, blocking_order], ids=["async", "def"])
async def test_a_replay_of_a_closed_execution_comes_to_its_result(harness: Harness, function: DurableFunction, tmp_path: Path) -> None:
    document = await closed_order(harness, function)
    (tmp_path / "order.json").write_text(json.dumps(document))
    for source in (document, tmp_path / "order.json", str(tmp_path / "order.json")):
        told = holdfast.replay(source, function)
        assert (told.matches, told.status, told.result) == (True, OutcomeStatus.SUCCEEDED, ["paid", "yes"])


def changed(change: str) -> tuple[DurableFunction, DurableFunction]:
    """The order's code after a change by its author, async and blocking. No body may ever run."""

    def never(_: StepContext) -> str:
        raise AssertionError("a body ran in a replay")

    @durable_execution
    async def order(event: Any, context: AsyncDurableContext) -> Any:
        if change == "renamed":
            await context.step(never, name="charge")
        paid = await context.step(never, name="pay")
        if change == "returns early":
            return paid
        callback = await context.create_callback(name="approval")
        if change == "inserted":
            await context.step(never, name="check")
        await context.wait(Duration.from_hours(1), name="cool down")
        answer = await callback.result()
        if change == "appended":
            await context.step(never, name="ship")
        if change == "raises":
            raise LookupError("not here")
        return [paid, answer, "more"] if change == "returns more" else [paid, answer]

    @durable_execution
    def blocking_order(event: Any, context: DurableContext) -> Any:
        if change == "renamed":
            context.step(never, name="charge")
        paid = context.step(never, name="pay")
        if change == "returns early":
            return paid
        callback = context.create_callback(name="approval")
        if change == "inserted":
            context.step(never, name="check")
        context.wait(Duration.from_hours(1), name="cool down")
        answer = callback.result()
        if change == "appended":
            context.step(never, name="ship")
        if change == "raises":
            raise LookupError("not here")
        return [paid, answer, "more"] if change == "returns more" else [paid, answer]

    return order, blocking_order


@pytest.mark.parametrize("change", ["renamed", "inserted"])
async def test_code_that_does_not_match_is_an_error_that_says_where(harness: Harness, change: str) -> None:
    document = await closed_order(harness)
    for function in changed(change):
        with pytest.raises(NonDeterministicExecutionError) as mismatch:
            holdfast.replay(document, function)
        assert "The code no longer matches this execution's history" in str(mismatch.value)
        assert f"at {__file__}:" in str(mismatch.value)


@pytest.mark.parametrize(
    "change, closed, matches, told",
    [
        ("", True, True, 'returns ["paid", "yes"]'),
        ("returns early", True, False, "The code returns \"paid\" without the recorded Callback 'approval', Wait 'cool down'."),
        ("returns early", False, False, "The code returns \"paid\" without the recorded Callback 'approval', Wait 'cool down'."),
        (
            "returns more",
            True,
            False,
            'The execution ended as SUCCEEDED with ["paid", "yes"], but the code returns ["paid", "yes", "more"].',
        ),
        ("raises", True, False, 'ended as SUCCEEDED with ["paid", "yes"], but the code fails with LookupError: not here.'),
        ("appended", True, False, 'ended as SUCCEEDED with ["paid", "yes"], but the code goes on with new work: Step \'ship\' at '),
        ("appended", False, True, "The code follows the records, and then waits for Wait 'cool down'."),
    ],
)
async def test_a_replay_tells_where_today_s_code_goes(harness: Harness, change: str, closed: bool, matches: bool, told: str) -> None:
    document = await (closed_order if closed else open_order)(harness)
    for function in changed(change):
        found = holdfast.replay(document, function)
        assert told in found.why
        assert found.matches is matches
        assert change != "appended" or not closed or f" at {__file__}:" in found.why, "it names the author's line"


@pytest.mark.parametrize("semantics", StepSemantics)
async def test_a_step_that_had_begun_is_not_run(harness: Harness, semantics: StepSemantics) -> None:
    ran: list[str] = []
    began, go = asyncio.Event(), asyncio.Event()

    @durable_execution
    async def steps(event: Any, context: AsyncDurableContext) -> Any:
        async def body(_: StepContext) -> str:
            ran.append("ran")
            began.set()
            await go.wait()
            return "done"

        return await context.step(body, name="long", config=StepConfig(step_semantics=semantics))

    async with harness.engine(steps) as engine:
        execution = await engine.start(steps)
        await began.wait()
        await eventually(lambda: engine._store.operations(execution.id))
        document = sent(await execution.export())
        go.set()
        assert await execution.result() == "done"
    told = holdfast.replay(document, steps)
    assert told.matches
    assert told.goes_on[0].startswith("Step 'long' at ")
    assert ran == ["ran"]


async def test_every_branch_goes_as_far_as_its_records_do(harness: Harness) -> None:
    """Also when another one has stopped: its mismatch would not be seen otherwise."""

    def made(name: str) -> tuple[DurableFunction, DurableFunction]:
        @durable_execution
        async def tree(event: Any, context: AsyncDurableContext) -> Any:
            async def waits(inner: AsyncDurableContext) -> Any:
                return await (await inner.create_callback(name="answer")).result()

            async def steps(inner: AsyncDurableContext) -> Any:
                await inner.step(lambda _: 1, name=name)
                await inner.wait(Duration.from_days(1), name="rest")

            return (await context.parallel([waits, steps])).get_results()

        @durable_execution(name="tree")
        def blocking_tree(event: Any, context: DurableContext) -> Any:
            def steps(inner: DurableContext) -> Any:
                inner.step(lambda _: 1, name=name)
                inner.wait(Duration.from_days(1), name="rest")

            return context.parallel([lambda inner: inner.create_callback(name="answer").result(), steps]).get_results()

        return tree, blocking_tree

    async with harness.engine(made("one")[0], clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start("tree")
        await pending(execution, "rest")
        document = sent(await execution.export())
    for function in made("one"):
        told = holdfast.replay(document, function)
        assert told.matches
        assert set(told.waits) == {"Callback 'answer'", "Wait 'rest'"}
    for function in made("two"):
        with pytest.raises(NonDeterministicExecutionError, match="Recorded here: Step 'one'"):
            holdfast.replay(document, function)


async def test_a_replay_needs_a_durable_function(harness: Harness) -> None:
    document = await open_order(harness)

    @plain_function
    def plain(event: Any, context: Any) -> Any:
        raise AssertionError("it ran")

    with pytest.raises(InvalidParameter, match="is a plain function"):
        holdfast.replay(document, plain)
    with pytest.raises(InvalidParameter, match="is not a durable function"):
        holdfast.replay(document, lambda event, context: None)  # type: ignore[arg-type]
