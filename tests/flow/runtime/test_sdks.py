"""Official SDKs of every promised version, unmodified: the same handlers end in the same way, and leave the same history as in process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model.clock import VirtualClock
from tests.flow.official.running import Answer, Deed, Ending, Running, official, opened
from tests.flow.runtime.functions import workflows
from tests.flow.runtime.running import FUNCTIONS, durable, plain, serving
from tests.parts import one_of_each

Scripted = tuple[str, Any, dict[str, list[Deed]], Any]

CASES: list[Scripted] = [
    ("steps", 3, {}, 3),
    ("order", {"items": ["a", "b"]}, {}, {"reserved": ["a", "b"], "packed": "2 packed", "told": ["mail", "text"]}),
    ("approval", None, {"approve": [Answer('"yes"')]}, {"answer": '"yes"'}),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])


async def in_a_process(runtime: Runtime, event: Any, script: dict[str, list[Deed]]) -> Ending:
    """Run one function named `handler`, with time that moves only when nothing else happens."""
    clock = VirtualClock(skipping=False)
    async with serving(runtime, clock=clock) as service:
        running = Running(service.engine, clock)
        execution = await running.start(event)
        await running.drive(execution, {name: list(deeds) for name, deeds in script.items()})
        return running.ending(execution)


async def in_process(handler: str, event: Any, script: dict[str, list[Deed]]) -> Ending:
    async with opened(official(getattr(workflows, handler))) as running:
        execution = await running.start(event)
        await running.drive(execution, {name: list(deeds) for name, deeds in script.items()})
        return running.ending(execution)


def by_operation(history: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Each operation's events in order: which of two branches writes first is not promised. The differences of the terms are left out."""
    told: dict[str, list[dict[str, Any]]] = {}
    for event in history:
        event.pop("EventId")
        event.get("ExecutionStartedDetails", {}).pop("ExecutionTimeout", None)
        told.setdefault(event.get("Id", "invocations"), []).append(event)
    return told


@each_case
async def test_a_handler_in_a_process_leaves_the_same_history_as_in_process(case: Scripted) -> None:
    handler, event, script, result = case
    far = await in_a_process(durable(handler, function="handler"), event, script)
    near = await in_process(handler, event, script)
    assert (far.status.value, json.loads(far.payload or "null")) == ("SUCCEEDED", result)
    assert by_operation(far.history) == by_operation(near.history)


@pytest.mark.long
@pytest.mark.parametrize("version", ["2.1.0", pytest.param("1.7.0", marks=pytest.mark.long)])
@pytest.mark.parametrize("case", one_of_each(CASES[::-1], kind=lambda case: "older", name=lambda case: case[0]))
async def test_older_sdks_run_unmodified(case: Scripted, version: str, python_sdk: Callable[[str], Path]) -> None:
    handler, event, script, result = case
    own = {"PYTHONPATH": str(python_sdk(version))}
    ending = await in_a_process(durable(handler, function="handler", environment=own), event, script)
    assert (ending.status.value, json.loads(ending.payload or "null")) == ("SUCCEEDED", result)


@pytest.mark.long
@pytest.mark.parametrize("version", ["2.1.0", pytest.param("1.7.0", marks=pytest.mark.long)])
async def test_the_older_sdk_is_really_the_one_that_runs(version: str, python_sdk: Callable[[str], Path]) -> None:
    own = {"PYTHONPATH": str(python_sdk(version))}
    async with serving(durable("which_sdk", environment=own)) as service:
        status, payload = await service.ending(await service.start("which_sdk"))
        assert (status, json.loads(payload or "null")) == ("SUCCEEDED", version)


@pytest.fixture
def node_folder(js_sdk: Path, tmp_path: Path) -> Path:
    for source in (FUNCTIONS / "node").iterdir():
        (tmp_path / source.name).write_text(source.read_text())
    (tmp_path / "node_modules").symlink_to(js_sdk)
    return tmp_path


def node(folder: Path, handler: str) -> Runtime:
    return Runtime(function="handler", folder=str(folder), handler=f"durable.{handler}", runtime="nodejs22.x", timeout_seconds=60)


async def test_the_javascript_sdk_runs_steps_waits_and_branches(node_folder: Path) -> None:
    ending = await in_a_process(node(node_folder, "order"), {"items": [1]}, {})
    assert (ending.status.value, json.loads(ending.payload or "null")) == ("SUCCEEDED", {"reserved": [1], "told": ["mail", "text"]})
    told = [event["EventType"] for event in ending.history]
    assert told.count("StepSucceeded") == 3
    assert told[-2:] == ["InvocationCompleted", "ExecutionSucceeded"]


async def test_the_javascript_sdk_waits_for_a_callback(node_folder: Path) -> None:
    ending = await in_a_process(node(node_folder, "approval"), None, {"approve": [Answer('"yes"')]})
    assert (ending.status.value, json.loads(ending.payload or "null")) == ("SUCCEEDED", {"answer": '"yes"'})


JS_CASES: list[Scripted] = [
    ("maps", [1, 2, 3], {}, [2, 4, 6]),
    ("tolerates", [1, -2, 3], {}, {"good": [1, 3], "bad": 1, "why": "ALL_COMPLETED"}),
    ("child", 1, {}, 3),
    ("retries", None, {}, {"attempts": 3, "last": "never"}),
    ("polls", None, {}, {"looks": 3}),
    ("asks", None, {"": [Answer("yes")]}, "yes"),  # the callback in it has no name
    ("races", None, {}, ["fast"]),
]


@pytest.mark.parametrize("case", one_of_each(JS_CASES, kind=lambda case: "vocabulary", name=lambda case: case[0]))
async def test_the_javascript_sdk_has_its_whole_vocabulary_here(node_folder: Path, case: Scripted) -> None:
    handler, event, script, result = case
    ending = await in_a_process(node(node_folder, handler), event, script)
    assert (ending.status.value, json.loads(ending.payload or "null")) == ("SUCCEEDED", result)
    assert [event["EventId"] for event in ending.history] == list(range(1, len(ending.history) + 1))


async def test_functions_in_javascript_and_python_invoke_each_other(node_folder: Path) -> None:
    javascript = msgspec.structs.replace(node(node_folder, "invokes"), function="js")
    async with serving(javascript, durable("invokes"), plain("echo"), plain("fails"), durable("steps")) as service:

        async def invoked(by: str, function: str, payload: Any) -> tuple[str, Any]:
            event = json.dumps({"function": function, "payload": payload})
            status, answer = await service.ending(await service.start(by, event))
            return status, json.loads(answer or "null")

        assert await invoked("js", "echo", {"a": 1}) == ("SUCCEEDED", {"a": 1})
        assert await invoked("js", "steps:$LATEST", 3) == ("SUCCEEDED", 3)
        assert await invoked("invokes", "js:$LATEST", {"function": "echo", "payload": "there and back"}) == ("SUCCEEDED", "there and back")
        status, answer = await invoked("js", "fails", 5)
        assert (status, "no good: 5" in answer["failed"]) == ("SUCCEEDED", True)


async def test_an_error_in_javascript_is_the_executions(node_folder: Path) -> None:
    ending = await in_a_process(node(node_folder, "fails"), "wrong", {})
    error = json.loads(ending.payload or "{}")
    assert (ending.status.value, error["ErrorType"], error["ErrorMessage"]) == ("FAILED", "RangeError", "wrong")
