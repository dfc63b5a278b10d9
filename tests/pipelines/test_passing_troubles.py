"""Troubles of the runtime that pass: a sandbox that is away, a store that is busy. The run is invoked again, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import Response
from holdfast.hosts.sandbox.jail import SandboxUnavailable
from holdfast.model.errors import CodecFailed, DiskFailed, HoldfastError, StoreBusy
from holdfast.model.life import MAX_FAILURES
from holdfast.pipelines.graph.graph import MapNode, StepNode, Undo, WorkerNode
from holdfast.pipelines.run import run as interpreter
from holdfast.pipelines.run.response import responded
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.steps.steps import StepDone
from tests.pipelines.stage import PatientClock, graph_of, stage, worker
from tests.pipelines.templates import out, ref

_TROUBLES = [SandboxUnavailable("the sandbox is closed"), StoreBusy(), DiskFailed(), CodecFailed()]


class Steps:
    """Steps that cannot be called the first times."""

    def __init__(self, trouble: HoldfastError, times: int) -> None:
        self.trouble, self.times, self.calls = trouble, times, 0

    async def call(self, package: str, function: str, inputs: Any, *, seconds: float = 1, tenant: str = "") -> StepDone:
        self.calls += 1
        if self.calls <= self.times:
            raise self.trouble
        return StepDone({"n": inputs["n"] + 1})


async def _ran(folder: Path, steps: Steps, runs: list[str]) -> Response:
    def counted(name: str) -> Any:
        async def run(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
            runs.append(name)
            return {"n": 1}

        return worker(name, run)

    graph = graph_of(
        WorkerNode(name="a", worker="one", inputs={}, undo=Undo(worker="takes-back")),
        StepNode(name="b", function="add", inputs={"n": out("a", "n")}),
        gives={"n": out("b", "n")},
    )
    async with stage(graph, counted("one"), counted("takes-back"), folder=folder, clock=PatientClock(), steps=steps) as made:
        return await made.run()


@pytest.mark.parametrize("trouble", _TROUBLES, ids=lambda trouble: trouble.code)
async def test_a_trouble_that_passes_leads_to_another_try_and_no_worker_runs_twice(tmp_path: Path, trouble: HoldfastError) -> None:
    runs: list[str] = []
    response = await _ran(tmp_path, steps := Steps(trouble, 2), runs)
    assert (response.error, response.outputs) == (None, {"n": 2})
    assert (runs, steps.calls) == (["one"], 3)


async def test_a_sandbox_that_stays_away_fails_its_node_at_the_last_try_and_the_run_is_undone(tmp_path: Path) -> None:
    runs: list[str] = []
    response = await _ran(tmp_path, steps := Steps(SandboxUnavailable("no kernel for it"), 100), runs)
    assert response.error is not None
    assert (response.error.error_code, response.error.message) == ("sandbox_unavailable", "Node b failed: no kernel for it")
    assert (runs, steps.calls) == (["one", "takes-back"], MAX_FAILURES)


async def test_a_store_that_is_busy_when_the_response_is_made_leads_to_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = [StoreBusy()]

    async def made(run: PipelineRun, *rest: Any) -> Response:
        if busy:
            raise busy.pop()
        return await responded(run, *rest)

    monkeypatch.setattr(interpreter, "responded", made)
    response = await _ran(tmp_path, Steps(StoreBusy(), 0), [])
    assert (response.error, response.outputs, busy) == (None, {"n": 2}, [])


async def test_a_store_that_is_busy_below_a_map_leads_to_another_try(tmp_path: Path) -> None:
    async def echo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return inputs

    node = MapNode(name="m", worker="echo", over=ref("inputs", "list"), inputs={"n": ref("item")}, at_most=10)
    graph = graph_of(node, gives={"m": out("m")})
    async with stage(graph, worker("echo", echo), folder=tmp_path, clock=PatientClock()) as made:
        accept, busy = made.service.accept_child, [StoreBusy()]

        async def busy_once(*args: Any, **more: Any) -> Any:
            if busy:
                raise busy.pop()
            return await accept(*args, **more)

        made.service.accept_child = busy_once  # type: ignore[method-assign]
        response = await made.run({"list": [1, 2]})
    assert (response.error, busy) == (None, [])
