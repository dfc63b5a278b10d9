"""A bad deploy destroys nothing: an execution whose code does not match its history is put aside, and mended code goes on with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, Duration, StatusSignal, durable_execution
from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed, ExecutionQuarantined, ExecutionTimedOut, InvalidParameter
from holdfast.model.execution import ExecutionStatus, Quarantine, State
from holdfast.model.life import Claimant
from holdfast.model.verbs import Claim
from holdfast.service.client import Client
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.testing import CrashDiffers, Runner, crash_everywhere
from holdfast.testing.stores import writes
from holdfast.workers.run_lookup import state_of
from tests.flow.harness import Harness, eventually, pending
from tests.surface.http_server import served

RAN: list[str] = []
DAY = Duration.from_days(1)


def made(name: str, *, colour: str = "async def", night: Duration = DAY, **terms: Any) -> DurableFunction:
    """A function with one step of this name, then a wait of a day, then a step."""

    def ran(_: object) -> str:
        RAN.append(name)
        return name

    async def later(event: Any, context: AsyncDurableContext) -> list[str]:
        first = await context.step(ran, name=name)
        await context.wait(night, name="night")
        return [first, await context.step(lambda _: "shipped", name="ship")]

    def now(event: Any, context: DurableContext) -> list[str]:
        first = context.step(ran, name=name)
        context.wait(night, name="night")
        return [first, context.step(lambda _: "shipped", name="ship")]

    return durable_execution(name="order", **terms)(later if colour == "async def" else now)


both = pytest.mark.parametrize("colour", ["async def", "def"])


async def in_flight(harness: Harness, function: DurableFunction, *names: str) -> list[str]:
    """Executions that wait for the night to pass."""
    arns = []
    async with harness.engine(function, clock=VirtualClock(skipping=False)) as engine:
        for name in names or ("order-1",):
            execution = await engine.start(function, name=name)
            await pending(execution)
            arns.append(execution.arn)
    return arns


async def refusal(harness: Harness, function: DurableFunction, arn: str) -> ExecutionQuarantined:
    async with harness.engine(function) as engine:
        with pytest.raises(ExecutionQuarantined) as caught:
            await (await engine.get(arn)).result()
    return caught.value


@both
async def test_a_mismatch_puts_the_execution_aside_and_whoever_waits_hears_why_and_what_to_do(harness: Harness, colour: str) -> None:
    (arn,) = await in_flight(harness, made("charge", colour=colour))
    error = await refusal(harness, made("refund", colour=colour), arn)
    told = str(error)
    assert error.reason == "replay_mismatch"
    assert "Recorded here: Step 'charge'. The code asks for: Step 'refund', at " in told
    assert "test_quarantine.py:" in told
    assert told.endswith("Release it when the code is mended or rolled back: holdfast executions release order/order-1")


@both
async def test_code_that_was_rolled_back_goes_on_after_the_release(harness: Harness, colour: str) -> None:
    RAN.clear()
    (arn,) = await in_flight(harness, made("charge", colour=colour))
    await refusal(harness, made("refund", colour=colour), arn)
    async with harness.engine(made("charge", colour=colour)) as engine:
        execution = await engine.get(arn)
        with pytest.raises(ExecutionQuarantined):
            await execution.result()
        assert (await execution.release()).quarantine is None
        assert await execution.result() == ["charge", "shipped"]
    assert RAN == ["charge"], "the bad code ran nothing, and nothing ran twice"


async def test_nothing_waits_for_ever_when_the_quarantine_comes_while_somebody_waits(harness: Harness) -> None:
    (arn,) = await in_flight(harness, made("charge"))
    clock = VirtualClock(skipping=False)
    async with harness.engine(made("refund"), clock=clock) as engine:
        waiting = asyncio.create_task((await engine.get(arn)).result())
        await asyncio.sleep(0)
        clock.move_to(clock.now() + 2 * 86_400_000)
        with pytest.raises(ExecutionQuarantined):
            await waiting


async def test_all_of_a_function_are_released_at_once_and_counted(harness: Harness) -> None:
    arns = await in_flight(harness, made("charge"), "a", "b", "c")
    async with harness.engine(made("refund")) as engine:
        for arn in arns:
            with pytest.raises(ExecutionQuarantined):
                await (await engine.get(arn)).result()
    with Client.open(harness.store) as client:
        assert client.release_all("other") == 0
        assert client.release_all("order") == 3
        assert client.release_all("order") == 0
    async with harness.engine(made("charge")) as engine:
        assert [await (await engine.get(arn)).result() for arn in arns] == [["charge", "shipped"]] * 3
        assert await engine.release_all(made("charge")) == 0


@both
async def test_on_mismatch_fail_keeps_the_rule_of_aws(harness: Harness, colour: str) -> None:
    (arn,) = await in_flight(harness, made("charge", colour=colour))
    async with harness.engine(made("refund", colour=colour, on_mismatch="fail")) as engine:
        with pytest.raises(ExecutionFailed) as caught:
            await (await engine.get(arn)).result()
    assert caught.value.error_type == "aws_durable_execution_sdk_python.exceptions.NonDeterministicExecutionError"


def test_another_word_for_on_mismatch_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="on_mismatch is 'ignore'; use 'quarantine' or 'fail'"):
        made("charge", on_mismatch="ignore")


@both
@pytest.mark.parametrize("after", ["returns", "goes on"])
async def test_a_handler_that_catches_the_mismatch_neither_ends_nor_goes_on(harness: Harness, colour: str, after: str) -> None:
    done: list[str] = []

    async def later(event: Any, context: AsyncDurableContext) -> str:
        try:
            await context.step(lambda _: "refunded", name="refund")
        except Exception:
            if after == "goes on":
                await context.step(lambda _: done.append("compensated"), name="compensate")
        return "given up"

    def now(event: Any, context: DurableContext) -> str:
        try:
            context.step(lambda _: "refunded", name="refund")
        except Exception:
            if after == "goes on":
                context.step(lambda _: done.append("compensated"), name="compensate")
        return "given up"

    (arn,) = await in_flight(harness, made("charge", colour=colour))
    error = await refusal(harness, durable_execution(name="order")(later if colour == "async def" else now), arn)
    assert (error.reason, done) == ("replay_mismatch", [])


async def test_a_quarantined_execution_is_running_to_the_world_and_its_timeout_runs_on(harness: Harness) -> None:
    (arn,) = await in_flight(harness, made("charge", execution_timeout=3 * 86_400))
    await refusal(harness, made("refund"), arn)
    clock = VirtualClock(skipping=False)
    async with harness.engine(clock=clock) as engine:
        execution = await engine.get(arn)
        told = await execution.describe()
        assert (told.status, told.state, told.quarantine) == ("RUNNING", "quarantined", "replay_mismatch")
        assert "Recorded here: Step 'charge'" in told.why
        clock.move_to(clock.now() + 4 * 86_400_000)
        await eventually(lambda: engine._store.find(execution.id).status is ExecutionStatus.TIMED_OUT)  # type: ignore[union-attr]
        with pytest.raises(ExecutionTimedOut):
            await execution.result()


async def test_a_parent_waits_for_a_child_that_was_put_aside(harness: Harness) -> None:
    @durable_execution
    async def parent(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("order", None, name="child")

    async with harness.engine(parent, made("charge"), clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(parent)
        await pending(execution)
        (child,) = [x for x in [x async for x in engine.list()] if x.function == "order"]
        await pending(await engine.get(child.id))
    async with harness.engine(parent, made("refund")) as engine:
        with pytest.raises(ExecutionQuarantined):
            await (await engine.get(child.id)).result()
        told = await (await engine.get(execution.arn)).describe()
        assert told.state == "suspended"
        (wait,) = told.waits_for
        assert wait.quarantined == f"order/{child.name}"
        assert wait.woken_by == f"the end of order/{child.name}, which is quarantined (replay_mismatch)"
    async with harness.engine(parent, made("charge")) as engine:
        await (await engine.get(child.id)).release()
        assert await (await engine.get(execution.arn)).result() == ["charge", "shipped"]


async def test_subscribers_and_the_log_are_told(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[StatusSignal] = []
    arn_of = (await in_flight(harness, made("charge")))[0]
    settings = Settings(clock=harness.clock, resting=harness.resting)
    with caplog.at_level(logging.ERROR, "holdfast.engine"):
        async with holdfast.open(harness.store, functions=[made("refund")], subscribers={"ops": heard.append}, settings=settings) as engine:
            with pytest.raises(ExecutionQuarantined):
                await (await engine.get(arn_of)).result()
            await eventually(lambda: heard)
    assert [(signal.status, signal.quarantine) for signal in heard] == [(ExecutionStatus.RUNNING, Quarantine.REPLAY_MISMATCH)]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("order/order-1 is quarantined (replay_mismatch): The code no longer matches")


# --- dead runners ------------------------------------------------------------------------------------------------------------


def three_deaths(path: str) -> str:
    """An execution of `order` under which three runners died; the last one had nothing else to run."""
    with contextlib.closing(open_store(path, "x")) as store:
        header = writes.live(store, "a")
        for runner, dead in (("there", "here"), ("there", "there")):
            writes.written(store, writes.claim(header, runner, dead))
        taken = writes.written(store, Claim(header.id, Claimant("third", "third-1"), alone=True))
        aside = writes.written(store, writes.claim(taken, "fourth", "third"))
        assert aside.deaths == 3
    return header.id


async def test_an_execution_whose_runners_died_waits_and_is_tried_again_by_itself(harness: Harness) -> None:
    @durable_execution(name="order")
    async def innocent(event: Any, context: AsyncDurableContext) -> str:
        return await context.step(lambda _: "done", name="work")

    execution = three_deaths(harness.store)
    still = VirtualClock(writes.at(1), skipping=False)
    async with harness.engine(innocent, clock=still) as engine:
        told = await (await engine.get(execution)).describe()
        assert (told.state, told.quarantine, told.next_try) == ("ready", None, writes.at(60))
        assert told.why.startswith("Its runner died 3 times in a row. It is tried again by itself at 2026-01-01T00:01:00Z")
    clock = VirtualClock(writes.at(1))
    async with harness.engine(innocent, clock=clock) as engine:
        assert await (await engine.get(execution)).result() == "done", "who waits goes on waiting, and needs no person"
        assert clock.now() >= writes.at(60)


def test_a_run_whose_runners_died_is_waiting_and_one_that_needs_a_person_is_done(tmp_path: Path) -> None:
    execution = three_deaths(str(tmp_path / "s.db"))
    with contextlib.closing(open_store(str(tmp_path / "s.db"), "y")) as store:
        header = store.find(execution)
        assert header is not None
        assert state_of(header) == "waiting"
        aside = msgspec.structs.replace(header, state=State.QUARANTINED, quarantine=Quarantine.RUNNER_DIED)
        assert state_of(aside) == "done"


# --- over HTTP ---------------------------------------------------------------------------------------------------------------


def test_a_synchronous_invoke_is_answered_at_once_and_the_wire_shows_it_as_running(tmp_path: Path) -> None:
    clock, night = VirtualClock(skipping=False), Duration.from_minutes(1)
    settings = Settings(clock=clock, resting=0)
    with served(tmp_path / "s.db", [made("charge", night=night, execution_timeout=900)], settings=settings) as server:
        asked = {"InvocationType": "Event", "DurableExecutionName": "order-1", "Qualifier": "$LATEST"}
        arn = server.invoke("order", b"{}", **asked)["DurableExecutionArn"]
        server.rest()
    clock.move_to(clock.now() + 120_000)
    with served(tmp_path / "s.db", [made("refund", execution_timeout=900)], settings=settings) as server:
        answer = server.invoke("order", b"{}", DurableExecutionName="order-1", Qualifier="$LATEST")
        told = json.loads(answer["Payload"])
        assert (answer["StatusCode"], answer["FunctionError"], told["errorType"]) == (200, "Unhandled", "execution_quarantined")
        assert "Recorded here: Step 'charge'" in told["errorMessage"]
        assert server.find(arn)["Status"] == "RUNNING"


# --- the kit -----------------------------------------------------------------------------------------------------------------


def changing(names: Callable[[], str]) -> DurableFunction:
    @durable_execution(name="order")
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        await context.step(lambda _: None, name=names())
        await context.wait(Duration.from_hours(1))

    return handler


def test_the_runner_says_at_once_that_a_replay_does_not_match() -> None:
    count = iter(range(10))
    with Runner(changing(lambda: f"s{next(count)}"), replay=True) as runner, pytest.raises(ExecutionQuarantined, match="Step 's0'"):
        runner.run()


def test_crash_everywhere_names_the_point_and_the_mismatch() -> None:
    calls: list[int] = []

    def name() -> str:
        calls.append(1)
        return "odd" if len(calls) > 4 else "even"

    with pytest.raises(CrashDiffers, match=r"(?s)A crash before checkpoint \d of \d quarantines the execution: .*Step 'even'"):
        crash_everywhere(changing(name))


def test_states_and_reasons_are_the_words_that_are_promised() -> None:
    assert [reason.value for reason in Quarantine] == ["runner_died", "payload_unreadable", "replay_mismatch"]
    assert "quarantined" in [state.value for state in State]
    assert "QUARANTINED" not in [status.value for status in ExecutionStatus]
