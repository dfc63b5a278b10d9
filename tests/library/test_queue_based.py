"""queue-based-worker: a model and a result store on this machine, duplicates, poison, and an answer that was lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model import codec
from holdfast.model.ids import id_at
from holdfast.queues.store_queues import StoreQueues
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import worker_kit
from holdfast.workers.policy import Policy
from tests.library.scene import OFTEN, as_written, case_of, copied, model_at, ran, working
from tests.tools.models import Model, a_model
from tests.tools.servers import Asked, Site, head, site

WORKER = "queue-based-worker"
CASE = case_of(WORKER)
DONE = {"decision": "done", "result": "The customer complains about a cracked teapot."}


class Results:
    """A result store: the first result of a key stays."""

    def __init__(self, web: Site) -> None:
        self.web = web
        self.kept: dict[str, Any] = {}
        self.loses_answers = False
        web.pages["/results/complaint-42"] = self.serve

    async def serve(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        assert asked.headers["authorization"] == "Bearer key-of-the-results"
        key = asked.path.rpartition("/")[2]
        status = 200
        if asked.method == "PUT":
            if key in self.kept:
                status = 412
            else:
                self.kept[key] = json.loads(asked.body)
                status = 500 if self.loses_answers else 201
        elif key not in self.kept:
            status = 404
        data = json.dumps(self.kept.get(key)).encode()
        writer.write(head(status, {"content-type": "application/json", "content-length": str(len(data))}) + data)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as here:
        here.answer = json.dumps(DONE)
        yield here


@pytest.fixture
async def results(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Results]:
    monkeypatch.setenv("RESULT_STORE_KEY", "key-of-the-results")
    async with site() as web:
        yield Results(web)


@pytest.fixture
def near(results: Results, tmp_path: Path) -> Path:
    """The worker as it stands, but for the address of the result store."""
    file = copied(WORKER, tmp_path)
    file.write_text(file.read_text().replace("https://results.example", results.web.url))
    return file


async def test_it_runs_as_written_without_a_key() -> None:
    told = await as_written(WORKER)
    assert (told["status"], told["error"]) == ("ok", None)
    assert told["outputs"]["status"] == "stored"
    assert told["outputs"]["outputs"] == {"result": "The teapot of order 42 arrived cracked in a wet box."}


async def test_a_result_is_stored_once_and_a_second_run_of_the_message_gives_the_first_result(
    near: Path, model: Model, results: Results
) -> None:
    async with working(near, model=model_at(model.url)) as engine:
        first = await ran(engine, WORKER, CASE)
        model.answer = json.dumps({"decision": "done", "result": "Another summary."})
        second = await ran(engine, WORKER, CASE)
    assert (first["outputs"]["status"], second["outputs"]["status"]) == ("stored", "duplicate")
    assert first["outputs"]["outputs"] == second["outputs"]["outputs"] == {"result": DONE["result"]}
    assert results.kept == {"complaint-42": {"result": DONE["result"]}}
    assert "key-of-the-results" not in codec.dumps(first)


async def test_an_answer_of_the_store_that_was_lost_is_found_there_and_nothing_is_written_twice(
    near: Path, model: Model, results: Results
) -> None:
    results.loses_answers = True
    async with working(near, model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["outputs"]["status"]) == ("ok", "stored")
    assert [asked.method for asked in results.web.asked].count("PUT") == 1


@pytest.mark.parametrize("message", [{}, {"task": ""}, {"task": 3}, {"task": "x" * 2001}])
def test_a_message_without_a_task_is_poison_and_reaches_no_tool(message: dict[str, Any]) -> None:
    told = worker_kit.run(WORKER, {**CASE, "message": message}, tools={"language_model": "never", "write_result_store": "never"})
    assert told.error is not None
    assert (told.status, told.error.error_code, told.error.retryable, told.calls) == ("permanent_error", "poison_message", False, ())


async def test_a_message_that_the_model_calls_impossible_or_refuses_is_poison_and_stores_nothing(
    near: Path, model: Model, results: Results
) -> None:
    async with working(near, model=model_at(model.url)) as engine:
        model.answer = json.dumps({"decision": "impossible", "result": "There is no complaint."})
        impossible = await ran(engine, WORKER, CASE)
        model.refusal = "I would rather not."
        refused = await ran(engine, WORKER, CASE)
    for told in (impossible, refused):
        assert (told["status"], told["error"]["error_code"], told["error"]["retryable"]) == ("permanent_error", "poison_message", False)
        assert told["observability"]["attempt"] == 1
    assert results.kept == {}


async def test_answers_that_never_fit_end_the_run_after_the_second_attempt(near: Path, model: Model, results: Results) -> None:
    model.answer = json.dumps({"decision": "maybe", "result": "?"})
    async with working(near, model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["error"]["error_code"], told["observability"]["attempt"]) == (
        "invalid_output",
        "output_schema_mismatch",
        2,
    )
    assert (len(model.asked), results.kept) == (2, {})


# --- behind a real queue ------------------------------------------------------------------------------------------------------


async def test_behind_a_queue_a_duplicate_is_one_run_and_poison_is_parked_under_its_key_until_it_is_redriven(
    near: Path, model: Model, results: Results
) -> None:
    queue = holdfast.Queue("messages", at_once=2)
    settings = WorkerSettings(policy=Policy(rate_limits=OFTEN), model=model_at(model.url))
    opening = holdfast.open(":memory:", workers=[near], worker_settings=settings, queues=[queue])
    async with opening as engine:
        store, clock = opening.engine.store, opening.engine.clock

        async def enqueued(inputs: dict[str, Any], key: str) -> str:
            return (await engine.enqueue(WORKER, inputs, queue="messages", idempotency_key=key)).id

        good, again = await enqueued(CASE, "complaint-42"), await enqueued(CASE, "complaint-42")
        poison = await enqueued({"message": {}, "idempotency_key": "p"}, "p")
        for run in (good, poison):
            await opening.engine.ending(run)
        assert good == again
        assert (len(model.asked), list(results.kept)) == (1, ["complaint-42"])
        (parked,) = StoreQueues(store, clock, id_at).parked("messages")
        assert (parked.header.id, parked.error_code) == (poison, "poison_message")
        assert "needs a `task`" in parked.message
        state = store.queue_state("messages", clock.now())
        assert (state.waiting, state.held, state.parked, state.admitted) == (0, 0, 1, 2)

        redriven = await engine.redrive(poison)
        await opening.engine.ending(redriven.id)
        (still,) = StoreQueues(store, clock, id_at).parked("messages")
        assert (still.header.id, store.find(poison).superseded_by) == (redriven.id, redriven.id)  # type: ignore[union-attr]
