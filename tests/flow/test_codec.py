"""Payloads at rest: with a codec no payload of any kind reaches the file, and everything still reads back on every path."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AesGcm, AsyncDurableContext, DurableContext, Duration, Settings, StepConfig, durable_execution
from holdfast.durable.exceptions import CallbackError, ChildContextError, InvocationError, InvokeError, StepError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.errors import CodecFailed, CodecMismatch, ExecutionFailed, ExecutionStopped
from holdfast.model.execution import State
from holdfast.model.payloads import PayloadCodec
from holdfast.service.client import Client
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from tests.flow.harness import Harness, eventually, pending
from tests.histories import wire

KEY = b"k" * 32
TWICE = StepConfig(retry_strategy=create_retry_strategy(RetryStrategyConfig(max_attempts=2, initial_delay=Duration.from_seconds(1))))
UNTIL_THIRD: WaitForConditionConfig[str] = WaitForConditionConfig(
    lambda state, attempt: WaitForConditionDecision(attempt < 3, Duration.from_seconds(1)), "plain-first-state"
)
IN_EVERYTHING = {
    "input", "step-result", "step-error", "first-state", "next-state", "answer", "refusal", "waited", "invoke-input", "invoke-result",
    "invoke-error", "child-result", "child-error", "result",
}  # fmt: skip
KINDS = sorted(IN_EVERYTHING | {"error", "stop", "heir", "crash"})


def plain(kind: str) -> str:
    """A text that would be found again anywhere."""
    return f"plain-{kind}"


def fails(kind: str) -> Any:
    raise ValueError(plain(kind))


@durable_execution
async def everything(event: Any, context: AsyncDurableContext) -> Any:
    async def inner(inner: AsyncDurableContext) -> str:
        return plain("child-result")

    async def bad(inner: AsyncDurableContext) -> str:
        return str(fails("child-error"))

    said = [event, await context.step(lambda _: plain("step-result"))]
    said.append(await context.wait_for_condition(lambda state, _: plain("next-state"), UNTIL_THIRD))
    said.append(await (await context.create_callback(name="answer")).result())
    said.append(await context.wait_for_callback(lambda callback_id, _: None, name="waited"))
    said.append(await context.invoke("child", plain("invoke-input")))
    said.append(await context.run_in_child_context(inner))
    for attempt in (
        lambda: context.step(lambda _: fails("step-error"), config=TWICE),
        lambda: context.invoke("child", "fail"),
        lambda: context.run_in_child_context(bad),
    ):
        try:
            await attempt()
        except (StepError, InvokeError, ChildContextError) as error:
            said.append(error.message)
    try:
        await (await context.create_callback(name="refusal")).result()
    except CallbackError as error:
        said.append(error.message)
    return [*said, plain("result")]


@durable_execution
def everything_blocking(event: Any, context: DurableContext) -> Any:
    said = [event, context.step(lambda _: plain("step-result"))]
    said.append(context.wait_for_condition(lambda state, _: plain("next-state"), UNTIL_THIRD))
    said.append(context.create_callback(name="answer").result())
    said.append(context.wait_for_callback(lambda callback_id, _: None, name="waited"))
    said.append(context.invoke("child", plain("invoke-input")))
    said.append(context.run_in_child_context(lambda _: plain("child-result")))
    for attempt in (
        lambda: context.step(lambda _: fails("step-error"), config=TWICE),
        lambda: context.invoke("child", "fail"),
        lambda: context.run_in_child_context(lambda _: fails("child-error")),
    ):
        try:
            attempt()  # type: ignore[no-untyped-call]
        except (StepError, InvokeError, ChildContextError) as error:
            said.append(error.message)
    try:
        context.create_callback(name="refusal").result()
    except CallbackError as error:
        said.append(error.message)
    return [*said, plain("result")]


@durable_execution
async def child(event: Any, context: AsyncDurableContext) -> Any:
    return fails("invoke-error") if event == "fail" else plain("invoke-result")


@durable_execution
def ends(event: Any, context: DurableContext) -> Any:
    if event == "error":
        fails("error")
    if event == "crash":
        raise InvocationError(plain("crash"))
    if event == "heir":
        context.continue_as_new(plain("heir"))
    if event == "stop":
        context.wait(Duration.from_days(9))
    return event


FUNCTIONS = (everything, everything_blocking, child, ends)
SAID = [
    plain(kind)
    for kind in (
        "input", "step-result", "next-state", "answer", "waited", "invoke-result", "child-result", "step-error", "invoke-error",
        "child-error", "refusal", "result",
    )
]  # fmt: skip


@asynccontextmanager
async def opened(harness: Harness, codec: PayloadCodec | None, *functions: DurableFunction) -> AsyncIterator[OpenEngine]:
    settings = Settings(clock=harness.clock, resting=harness.resting, threads=4, codec=codec)
    async with holdfast.open(harness.store, functions=functions or FUNCTIONS, settings=settings) as engine:
        yield engine


async def answered(engine: OpenEngine, execution: OpenExecution, name: str) -> None:
    callback_id = (await pending(execution, name)).callback_id
    if callback_id is None:  # the one inside wait_for_callback
        (callback_id,) = [p.callback_id for p in (await execution.describe()).waits_for if p.callback_id]
    assert callback_id is not None
    if name == "refusal":
        await engine.fail_callback(callback_id, plain("refusal"))
    else:
        await engine.succeed_callback(callback_id, plain(name))


async def lived(harness: Harness, codec: PayloadCodec | None) -> dict[str, str]:
    """Run executions with every kind of payload, over a restart; returns the ids, and checks what each came to."""
    ids: dict[str, str] = {}
    async with opened(harness, codec) as engine:
        for function in (everything, everything_blocking):
            execution = await engine.start(function, plain("input"), name=function.name)
            ids[function.name] = execution.id
            await answered(engine, execution, "answer")
            waited = await pending(execution)
            assert waited.callback_id is not None
    async with opened(harness, codec) as engine:
        for function in (everything, everything_blocking):
            execution = await engine.get(ids[function.name])
            waited = await pending(execution)
            assert waited.callback_id is not None
            await engine.succeed_callback(waited.callback_id, plain("waited"))
            await answered(engine, execution, "refusal")
            assert await execution.result() == SAID
            again = await engine.start(function, plain("input"), name=function.name)
            assert again.id == execution.id
        for event in ("error", "crash", "heir", "stop"):
            execution = await engine.start(ends, event)
            ids[event] = execution.id
            if event == "stop":
                await pending(execution)
                await execution.stop(plain("stop"))
            if event == "heir":
                assert await execution.result() == plain("heir")
            else:
                with pytest.raises((ExecutionFailed, ExecutionStopped), match=plain(event)):
                    await execution.result()
        keep_log(harness)
    return ids


def keep_log(harness: Harness) -> None:
    """Keep what the log holds before closing carries it over. The file itself must not be opened now: closing it would drop locks."""
    log = Path(f"{harness.store}-wal").read_bytes()
    assert len(log) > 10_000
    (Path(harness.store).parent / "kept-log").write_bytes(log)


def found(harness: Harness) -> list[str]:
    """The kinds of payload whose plain text stands in the file, or stood in its log."""
    here = Path(harness.store).parent
    raw = b"".join(path.read_bytes() for path in here.iterdir() if path.is_file())
    return [kind for kind in KINDS if plain(kind).encode() in raw]


def is_quarantined(engine: OpenEngine, execution: str) -> bool:
    header = engine._store.find(execution)
    return header is not None and header.state is State.QUARANTINED


async def test_with_a_codec_no_payload_reaches_the_file_and_all_read_back(harness: Harness) -> None:
    codec = AesGcm({"2026-11": KEY}, "2026-11")
    ids = await lived(harness, codec)
    assert found(harness) == []
    with Client.open(harness.store, codec=codec, clock=harness.clock) as client:
        for name in ("everything", "everything_blocking"):
            told = client.describe(ids[name])
            assert (told.input, told.result) == (plain("input"), SAID)
            history = json.dumps(wire(client.history(ids[name])))
            operations = str(client.operations(ids[name]))
            assert [kind for kind in IN_EVERYTHING if plain(kind) not in history] == ["first-state"], "it is in no event"
            in_operations = IN_EVERYTHING - {"input", "result", "invoke-input", "first-state"}
            assert [kind for kind in in_operations if plain(kind) not in operations] == []
        assert plain("stop") in str(client.describe(ids["stop"]).error)
        assert plain("crash") in json.dumps(wire(client.history(ids["crash"])))


async def test_without_a_codec_every_payload_can_be_found(harness: Harness) -> None:
    """The same search, so that the one above is known to find what is there."""
    await lived(harness, None)
    assert found(harness) == [kind for kind in KINDS if kind != "first-state"]


async def test_the_engine_refuses_a_store_of_another_codec(harness: Harness) -> None:
    async with opened(harness, None):
        pass
    with pytest.raises(CodecMismatch, match="was made without a payload codec"):
        async with opened(harness, AesGcm({"a": KEY}, "a")):
            pass


async def test_an_execution_that_cannot_be_read_waits_for_its_key_and_the_others_go_on(harness: Harness) -> None:
    old, both, new = AesGcm({"a": KEY}, "a"), AesGcm({"a": KEY, "b": KEY[::-1]}, "b"), AesGcm({"b": KEY[::-1]}, "b")
    async with opened(harness, old) as engine:
        ids = [(await engine.start(f, plain("input"))).id for f in (everything, everything_blocking)]
        for execution in ids:
            await pending(await engine.get(execution), "answer")
    async with opened(harness, both) as engine:  # from now on the store is known by the new key
        for execution in ids:
            await answered(engine, await engine.get(execution), "answer")
            assert (await pending(await engine.get(execution))).callback_id is not None
            waits = await pending(await engine.get(execution))
    async with opened(harness, new) as engine:
        for execution in ids:
            with pytest.raises(CodecFailed, match="key 'a'; the codec has the keys b"):
                await (await engine.get(execution)).describe()
            with Client.open(harness.store, codec=both, clock=harness.clock) as client:
                (waits,) = client.describe(execution).waits_for
                assert waits.callback_id is not None
            await engine.succeed_callback(waits.callback_id, plain("waited"))
            await eventually(partial(is_quarantined, engine, execution))
        assert await (await engine.start(ends, "fine")).result() == "fine"
    async with opened(harness, both) as engine:
        for execution in ids:
            again = await engine.get(execution)
            assert "its payloads could not be read" in (await again.describe()).why
            await again.release()
            await answered(engine, again, "refusal")
            assert await again.result() == SAID
