"""A runtime that reads its files again: new runs get all of the changes, or none of them."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings
from holdfast.workers.policy import Policy
from tests.workers.pages import page, write

WORKER = """
from holdfast import WorkerContext, worker


@worker("say.md")
def say(inputs: dict, ctx: WorkerContext) -> dict:
    return {}
"""
FLOW = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
p.gives(p.worker("say", "say@1.0", p.inputs).outputs)
"""


async def test_a_pipeline_with_errors_leaves_the_changed_workers_unserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    worker, flow = write(code, WORKER, say=page("say", attempts=1)), code / "flow.py"
    flow.write_text(FLOW)
    runtime = WorkerRuntime([worker, flow], WorkerSettings(policy=Policy(isolation="inline")), None)
    service = await runtime.open()
    try:
        monkeypatch.setattr(service, "follow_rates", AsyncMock())  # it needs an engine
        before = dict(service.served["say"])
        (code / "say.md").write_text(page("say", attempts=2))
        flow.write_text(FLOW.replace("say@1.0", "say@9.0"))
        for _ in range(2):
            with pytest.raises(PipelineInvalid):
                await runtime.renew()
            assert dict(service.served["say"]) == before
        flow.write_text(FLOW)
        assert [package.contract.worker_id for package in await runtime.renew()] == ["say"]
        assert service.served["say"]["1.0"].worker.contract.retries.max_attempts == 2
    finally:
        await runtime.close()
