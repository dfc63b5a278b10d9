"""Schedules of pipelines: declared on the pipeline's page and by a program, with the graph of the time at which they run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Schedule, WorkerSettings
from holdfast.model.clock import VirtualClock
from holdfast.schedules.store_schedules import Schedules
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller, run_view, run_views
from tests.flow.harness import in_real_time
from tests.flow.timetables import at, told
from tests.postgres import new_schema
from tests.workers.pages import page, write

WORKERS = """
from holdfast import worker

@worker("adder.md")
async def adder(inputs, ctx):
    return {"n": inputs["n"] + 1}
"""
PIPELINE = """# Nightly sum

Problem: A number is wanted every night.

## Pipeline spec

```yaml
pipeline_id: nightly-sum
version: 1.0
purpose: Add two.
inputs:
  - n: integer (optional)
outputs:
  - n: integer
constraints:
  timeout_seconds: 600
  schedule: 0 2 * * * Europe/Berlin
nodes:
  - name: first
    kind: worker
    worker: adder
    inputs: {n: inputs.n.default(1)}
  - name: second
    kind: worker
    worker: adder
    inputs: {n: first.outputs.n}
gives: {n: second.outputs.n}
```
"""


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def test_a_pipeline_is_started_once_at_each_time_of_its_page_and_of_a_program(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # on Postgres, the packages of workers lie in the current folder
    where = str(tmp_path / "s.db") if backend == "sqlite" else new_schema()
    file = write(tmp_path / "w", WORKERS, adder=page("adder"))
    (file.parent / "nightly-sum.md").write_text(PIPELINE)
    clock = VirtualClock(at("2026-01-01 00:00"), skipping=False)
    noon = Schedule("noon", "nightly-sum", cron="0 12 * * *", input={"n": 40})
    wrong = Schedule("wrong", "nightly-sum", every="1d", input=[1])
    settings, inline = Settings(clock=clock, tune=False), WorkerSettings(policy=Policy(isolation="inline"))
    with closing(open_store(where, "a look from outside", None)) as store:
        async with holdfast.open(
            where, workers=[file, file.parent / "nightly-sum.md"], schedules=[noon, wrong], worker_settings=inline, settings=settings
        ) as engine:
            for moment in ("2026-01-01 01:00", "2026-01-01 12:00", "2026-01-02 01:00"):
                clock.move_to(at(moment))
                engine._engine.look_for_work()
                await in_real_time(lambda: not store.due_schedules(["nightly-sum"], clock.now(), 1) and engine._engine.idle)
        caller = Caller()
        found = (run_view(store, one.header.id, caller) for one in run_views(store, caller, limit=50))
        runs = sorted((run for run in found if run.header.function == "nightly-sum"), key=lambda run: run.header.id)
        verbs = Schedules(store, clock)
        assert [(run.accepted.requested_by, run.occurrence and told(run.occurrence.at), run.response.outputs) for run in runs] == [
            ("schedule:nightly-sum", "2026-01-01 01:00", {"n": 3}),
            ("schedule:noon", "2026-01-01 12:00", {"n": 42}),
            ("schedule:nightly-sum", "2026-01-02 01:00", {"n": 3}),
        ]
        assert all(run.header.graph is not None for run in runs)
        assert (verbs.get("nightly-sum").origin.value, verbs.get("wrong").recent[0].outcome) == ("page", "refused")
