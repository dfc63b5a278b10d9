"""The order workflow: the same text on our SDK and on the official one, only its import root changed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.durable.execution import DurableFunction
from holdfast.model.execution import ExecutionStatus
from tests.flow.official.running import Answer, Ending, MakeHost, official, opened, ours

OURS = "holdfast.durable"
OFFICIAL = "aws_durable_execution_sdk_python"


def workflow(root: Path, import_root: str, lucky_at: int) -> Any:
    """The example's handler, read with this import root; its flaky service works at this call."""
    text = (root / "examples/order_workflow.py").read_text()
    assert OURS in text
    module = ModuleType(f"order_workflow_on_{import_root.replace('.', '_')}")
    sys.modules[module.__name__] = module
    exec(compile(text.replace(OURS, import_root), "order_workflow.py", "exec"), vars(module))
    draws = [0.9] * (lucky_at - 1) + [0.1]
    vars(module)["random"] = SimpleNamespace(random=lambda: draws.pop(0))
    return vars(module)["lambda_handler"]


async def run(host: MakeHost) -> Ending:
    async with opened(host) as running:
        execution = await running.start({"order_id": "42"})
        await running.drive(execution, {"awaiting-approval": [Answer("approved")]})
        return running.ending(execution)


@pytest.mark.parametrize("lucky_at", [1, 3])
async def test_the_order_workflow_runs_with_only_its_import_root_changed(root: Path, lucky_at: int) -> None:
    endings = []
    for import_root in (OURS, OFFICIAL):
        handler = workflow(root, import_root, lucky_at)
        endings.append(await run(ours(renamed(handler)) if import_root == OURS else official(handler)))
    mine, theirs = endings
    assert mine.status is theirs.status is ExecutionStatus.SUCCEEDED
    assert mine.payload == theirs.payload == '{"order_id": "42", "status": "processed", "timestamp": "2025-11-27T10:00:00Z"}'
    assert [event["EventType"] for event in mine.history].count("StepFailed") == lucky_at - 1
    assert seconds_dropped(mine) == seconds_dropped(theirs)


def renamed(function: DurableFunction) -> DurableFunction:
    return DurableFunction(function.handler, name="handler", version=function.version, terms=function.terms)


def seconds_dropped(ending: Ending) -> list[tuple[Any, ...]]:
    """The story without times: how long a retry waits is a draw of each SDK's own."""
    return [(e["EventType"], e["EventId"], e.get("Id"), e.get("Name"), e.get("SubType"), e.get("ParentId")) for e in ending.history]
