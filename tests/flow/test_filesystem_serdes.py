"""Large results in files: through a whole engine, a replay, another SDK, and an answer that wants to read what is not its own."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, StepConfig, StepContext, durable_execution
from holdfast.durable.config import CallbackConfig
from holdfast.durable.filesystem_serdes import FileSystemSerDes, FileSystemSerDesConfig, FileSystemSerDesMode
from holdfast.durable.preview import PreviewConfig, PreviewField, PreviewMode, build_preview
from holdfast.durable.serdes import JsonSerDes
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed
from tests.flow.cases import OFFICIAL, OURS
from tests.flow.harness import Harness, pending
from tests.flow.official.running import MakeHost, official, opened, ours
from tests.histories import wire

LARGE = {"id": 42, "rows": [f"row {n}" for n in range(100_000)]}


async def test_a_steps_large_result_goes_through_a_file_and_survives_a_replay(harness: Harness, tmp_path: Path) -> None:
    shown = PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("id")])
    how = FileSystemSerDesConfig(FileSystemSerDesMode.OVERFLOW, generate_preview=lambda value: build_preview(value, shown))
    config = StepConfig(serdes=FileSystemSerDes(str(tmp_path / "results"), how))
    runs: list[str] = []

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> list[Any]:
        async def body(step: StepContext) -> Any:
            runs.append("body")
            return LARGE

        large = await context.step(body, name="large", config=config)
        small = await context.step(lambda _: (1, 2), name="small", config=config)
        await context.wait(Duration.from_days(30))
        return [large == LARGE, small == (1, 2)]

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler, name="order-42")
        assert await execution.result() == [True, True]
        history = wire(await execution.history())
    kept = [json.loads(e["StepSucceededDetails"]["Result"]["Payload"]) for e in history if e["EventType"] == "StepSucceeded"]
    (file,) = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert kept == [{"file": str(file), "preview": {"id": 42}}, {"data": '{"t":"t","v":[{"t":"i","v":1},{"t":"i","v":2}]}'}]
    assert file.parent.parent == tmp_path / "results" / "handler" / "order-42"
    assert runs == ["body"]


def handler_of(root: str, base: Path) -> Any:
    """One handler, with only its import root changed."""
    config = import_module(f"{root}.config")
    durable_execution: Any = import_module(root).durable_execution
    serdes = import_module(f"{root}.filesystem_serdes").FileSystemSerDes(str(base))

    def handler(event: Any, context: Any) -> Any:
        large = context.step(lambda _: LARGE, name="large", config=config.StepConfig(serdes=serdes))
        context.wait(config.Duration.from_seconds(5))
        return [large == LARGE, len(large["rows"])]

    return durable_execution(handler)


def host_of(root: str, base: Path) -> MakeHost:
    return official(handler_of(root, base)) if root == OFFICIAL else ours(handler_of(root, base))


@pytest.mark.parametrize("first, second", [(OFFICIAL, OURS), (OURS, OFFICIAL)])
async def test_a_file_of_one_sdk_is_read_when_the_other_finishes(tmp_path: Path, first: str, second: str) -> None:
    clock, store = VirtualClock(skipping=False), str(tmp_path / "test.db")
    async with opened(host_of(first, tmp_path / "results"), where=store, clock=clock) as running:
        execution = await running.start()
        await running.drive(execution, {}, stops_at=1)
    async with opened(host_of(second, tmp_path / "results"), where=store, clock=clock) as running:
        await running.drive(execution, {})
        assert json.loads(running.ending(execution).payload or "") == [True, 100_000]


async def test_an_answer_to_a_callback_cannot_read_a_file_elsewhere(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('"secret"')
    serdes = FileSystemSerDes(str(tmp_path / "results"), FileSystemSerDesConfig(serdes=JsonSerDes()))

    @durable_execution
    async def handler(event: Any, context: AsyncDurableContext) -> Any:
        callback = await context.create_callback(name="approval", config=CallbackConfig(serdes=serdes))
        return await callback.result()

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        asked = await pending(execution, "approval")
        assert asked.callback_id is not None
        await engine.succeed_callback(asked.callback_id, json.dumps({"file": str(tmp_path / "secret.json")}))
        with pytest.raises(ExecutionFailed, match="outside of base_path"):
            await execution.result()
