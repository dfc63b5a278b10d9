"""Runs without a graph: the error says whether the run is one of a worker, or one of a pipeline whose graph the store does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import WorkerRequest
from tests.pipelines.stage import LOCAL, worker
from tests.surface.test_decisions_http import asking, scene


async def _echo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return inputs


@pytest.mark.parametrize("what", ["graph", "estimate"])
async def test_a_run_without_a_graph_says_whether_it_is_of_a_worker_or_its_graph_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async with scene(tmp_path, asking(), workers=(worker("echo", _echo),)) as at:
        key = at.key("viewer")
        of_pipeline = (await at.made.run()).run_id
        of_worker = (await at.made.service.invoke(WorkerRequest(worker_id="echo", inputs={}), LOCAL)).run_id
        monkeypatch.setattr(at.store, "graph", lambda _: None)
        missing = await at.http.get(f"/v1/runs/{of_pipeline}/{what}", headers=key)
        other = await at.http.get(f"/v1/runs/{of_worker}/{what}", headers=key)
    assert (missing.status_code, other.status_code) == (404, 404)
    assert f"Run {of_pipeline} is a run of the pipeline p, and this store does not have its graph." in missing.text
    assert f"Run {of_worker} is a run of a worker, which has no graph." in other.text
