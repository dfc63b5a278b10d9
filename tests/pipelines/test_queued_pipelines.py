"""Runs of a pipeline in queues: enqueued from Python, over HTTP, from the command line and inside a durable function."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, durable_execution
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.model.queues import checked_declaration
from holdfast.server.protocol.queues import Queues
from holdfast.service.engines import OpenEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.store.seam import Filter
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from holdfast.workers.policy import Policy
from tests.postgres import new_schema
from tests.surface.auth_server import client
from tests.surface.cli_program import Program, until
from tests.surface.queue_scene import Scene
from tests.workers.pages import page, write

NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
FILE = """
from pathlib import Path
from holdfast import Pipeline, WorkerError, worker

@worker("adder.md")
async def adder(inputs, ctx):
    if inputs["n"] == 13 and not Path("FOLDER/mended").exists():
        raise WorkerError("permanent_error", "not thirteen")
    return {"n": inputs["n"] + 1}

p = Pipeline("numbers", "1.0", inputs=NUMBER, outputs=NUMBER)
first = p.worker("first", "adder", {"n": p.inputs.n})
second = p.worker("second", "adder", {"n": first.outputs.n})
p.gives({"n": second.outputs.n})
"""
INLINE = WorkerSettings(policy=Policy(isolation="inline"))


def written(folder: Path) -> Path:
    text = FILE.replace("NUMBER", repr(NUMBER)).replace("FOLDER", str(folder))
    return write(folder / "numbers", text, adder=page("adder", attempts=1, inputs=NUMBER, outputs=NUMBER))


@durable_execution
async def asks(event: Any, context: AsyncDurableContext) -> Any:
    return await context.enqueue("numbers", event, queue="sums", key="k")


@asynccontextmanager
async def opened(where: str, folder: Path, **more: Any) -> AsyncIterator[OpenEngine]:
    async with holdfast.open(where, functions=[asks], workers=[written(folder)], worker_settings=INLINE, **more) as engine:
        yield engine


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # on Postgres, the packages of workers lie in the current folder
    return str(tmp_path / "p.db") if request.param == "sqlite" else new_schema()


async def test_a_pipeline_is_enqueued_by_its_id_and_a_failed_run_is_parked_and_redriven_with_its_graph(where: str, tmp_path: Path) -> None:
    async with opened(where, tmp_path, queues=[holdfast.Queue("sums", at_once=1)]) as engine:
        one = await engine.enqueue("numbers", {"n": 1}, idempotency_key="a", queue="sums")
        assert (await one.result())["outputs"] == {"n": 3}
        assert (await engine.enqueue("numbers", {"n": 1}, idempotency_key="a", queue="sums")).id == one.id
        many = await engine.enqueue_many("numbers", [{"n": n} for n in (10, 11, 12)], queue="sums")
        outputs = [(await run.result())["outputs"] for run in many]
        assert outputs == [{"n": 12}, {"n": 13}, None]
        with pytest.raises(InvalidRequest):
            await engine.enqueue("numbers", {"n": "one"}, queue="sums")
        (parked,) = engine._store.parked("sums")
        assert parked.id == many[2].id
        (tmp_path / "mended").touch()
        again = await engine.redrive(parked.id)
        assert (await again.result())["outputs"] == {"n": 14}
        header = engine._store.find(again.id)
        assert header is not None
        assert (header.graph, header.graph is not None, engine._store.parked("sums")) == (parked.graph, True, [])


async def test_a_durable_function_enqueues_a_pipeline_and_its_request_is_checked_first(where: str, tmp_path: Path) -> None:
    async with opened(where, tmp_path) as engine:
        run = await (await engine.start(asks, {"n": 4})).result()
        assert (await (await engine.get(run)).result())["outputs"] == {"n": 6}
        header = engine._store.find(run)
        assert header is not None
        assert header.place is not None
        assert (header.parent, header.place.lane) == (None, "sums/tenant=default/key=k/function=numbers:$LATEST")
        refused = await engine.start(asks, {"n": "four"})
        with pytest.raises(Exception, match="do not fit"):
            await refused.result()
        assert len(engine._store.list(Filter(queue="sums"))) == 1


async def test_a_pipeline_is_enqueued_over_http_and_its_key_finds_the_run(where: str, tmp_path: Path) -> None:
    async with opened(where, tmp_path) as engine:
        gate = open_gate(engine._store, host="127.0.0.1", clock=SystemClock())
        routes = Queues(engine._engine, id_at, engine.worker_service).routes()
        app = App(routes, WebLimits(), lambda: id_at(SystemClock().now()), gate)
        message = {"target": "numbers", "inputs": {"n": 7}, "idempotency_key": "m"}
        engine._store.declare([checked_declaration("sums", {})])
        async with client(app) as http:
            first, again = [await http.post("/v1/queues/sums", json=message) for _ in range(2)]
            wrong = await http.post("/v1/queues/sums", json={"target": "numbers", "inputs": {}})
        await gate.close()
        assert (first.status_code, again.json()["run_id"], wrong.status_code) == (202, first.json()["run_id"], 400)
        assert (await (await engine.get(first.json()["run_id"])).result())["outputs"] == {"n": 9}


def test_runs_of_a_pipeline_are_pushed_from_the_command_line_and_an_engine_runs_them(tmp_path: Path) -> None:
    scene, file = Scene(tmp_path), written(tmp_path)
    lines = "".join(json.dumps(one) + "\n" for one in ({"n": 1, "id": "a"}, {"n": "x", "id": "b"}, {"n": 2, "id": "c"}))
    ended = scene("push", "sums", str(file), "-", "--key-field", "id", input=lines)
    assert ended.exit_code == 1
    assert ended.stderr.splitlines()[1].startswith("line 2: error[schema_mismatch]: The inputs do not fit: ")
    assert ended.stderr.splitlines()[-1] == "queue sums: pushed 2, 1 line was refused"
    with holdfast.open(scene.store, workers=[file], worker_settings=INLINE) as engine:
        found = sorted(engine.list(Filter(queue="sums")), key=lambda header: header.id)
        assert [engine.get(header.id).result()["outputs"] for header in found] == [{"n": 3}, {"n": 4}]


@pytest.mark.long
def test_a_runner_that_is_told_a_pipeline_runs_what_waits_for_it(tmp_path: Path) -> None:
    scene, file = Scene(tmp_path), written(tmp_path)
    scene.said("push", "sums", str(file), "-", input='{"n": 1}\n{"n": 5}\n')
    process = Program(file.parent).begin("runner", file.name, "--pipeline", "numbers", "--trust", "--store", scene.store)
    try:
        until(lambda: (told := scene.document("show", "sums"))["admitted"] == 2 and told["held"] == 0)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert ["numbers", "$LATEST", "pipeline"] in [line.split() for line in out.splitlines()]
    store = scene.opened()
    ended = [store.result(header) or "" for header in store.list(Filter(queue="sums", oldest_first=True))]
    store.close()
    assert [json.loads(text)["outputs"] for text in ended] == [{"n": 3}, {"n": 7}]
