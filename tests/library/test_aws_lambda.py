"""aws-lambda-worker: an envelope inside an envelope, on the page as the site shows it and on ours."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import worker_kit
from holdfast.workers.tools.seam import ToolFailed
from tests.library.scene import case_of, file_of, model_at, ran, working
from tests.tools.models import Model, a_model
from tests.tools.servers import Asked
from tests.unit.worker_pages import AWS_LAMBDA, RENDERINGS

WORKER = "aws-lambda-worker"
CASE = case_of(WORKER)
TRACE = CASE["request"]["trace"]["trace_id"]


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as here:
        here.answer = "It keeps ships off the rocks."
        yield here


def inside(**changes: Any) -> dict[str, Any]:
    return {"request": {**CASE["request"], **changes}}


async def answered(model: Model, inputs: dict[str, Any], *, policy: dict[str, Any] | None = None, **worker_settings: Any) -> dict[str, Any]:
    async with working(WORKER, policy=policy, model=model_at(model.url), **worker_settings) as engine:
        return await ran(engine, WORKER, inputs)


@pytest.mark.parametrize("rendering", list(RENDERINGS))
async def test_the_sites_own_page_is_read_and_run_as_it_stands(model: Model, rendering: str, tmp_path: Path) -> None:
    file = shutil.copy(file_of(WORKER), tmp_path)
    (tmp_path / "worker.md").write_text(RENDERINGS[rendering](AWS_LAMBDA))
    async with working(Path(file), model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["error"], told["worker_id"]) == ("ok", None, WORKER)
    inner = told["outputs"]
    assert (inner["status"], inner["outputs"]) == ("ok", {"answer": "It keeps ships off the rocks."})
    assert inner["observability"]["trace_id"] == TRACE
    assert inner["observability"]["worker_id"] == "summary-worker"
    assert inner["observability"]["duration_ms"] >= 0
    assert told["observability"]["trace_id"] != TRACE
    assert [line["request_status"] for line in told["logs"] if line["message"] == "answered"] == ["ok"]


async def test_an_answer_by_schema_and_the_requests_tokens_as_the_cap_of_the_answer(model: Model) -> None:
    model.answer = '{"lit": 1844}'
    schema = {"type": "object", "properties": {"lit": {"type": "integer"}}, "required": ["lit"]}
    told = await answered(model, inside(inputs={"prompt": "When was it lit?", "schema": schema}, constraints={"max_tokens": 300}))
    assert told["outputs"]["outputs"] == {"answer": {"lit": 1844}}
    (asked,) = model.asked
    assert 0 < asked["max_tokens"] < 300
    small = await answered(model, inside(constraints={"max_tokens": 10}))
    assert (small["status"], small["outputs"]["status"]) == ("ok", "permanent_error")
    assert small["outputs"]["error"]["error_code"] == "budget_exceeded"
    assert len(model.asked) == 1


async def test_the_operators_words_come_from_the_parameter_store_where_there_is_one(model: Model, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[parameters.summary-worker]\ninstructions = "Be brief."\n')
    for worker_id, said in (("summary-worker", ["system", "user"]), ("other-worker", ["user"])):
        told = await answered(model, inside(worker_id=worker_id), parameters=str(tmp_path / "p.toml"))
        assert told["outputs"]["status"] == "ok"
        assert [message["role"] for message in model.asked[-1]["messages"]] == said
    assert (await answered(model, CASE))["outputs"]["status"] == "ok"
    assert [message["role"] for message in model.asked[-1]["messages"]] == ["user"]


@pytest.mark.parametrize(
    "request_, code, path",
    [
        ({"worker_id": "w", "inputs": {}}, "schema_mismatch", "/inputs"),
        ({"inputs": {"prompt": "x"}}, "schema_mismatch", ""),
        ({"worker_id": "w", "version": 1.0, "inputs": {"prompt": "x"}}, "schema_mismatch", "/version"),
        ({"worker_id": "../w", "inputs": {"prompt": "x"}}, "schema_mismatch", "/worker_id"),
        ({"worker_id": "w", "inputs": {"prompt": "x"}, "constraints": {"max_cost_usd": 1}}, "schema_mismatch", "/constraints/max_cost_usd"),
        ({"worker_id": "w", "inputs": {"prompt": "x"}, "constraints": {"timeout_seconds": 61}}, "constraint_widened", None),
    ],
)
def test_a_request_that_does_not_fit_is_told_so_inside_and_the_run_is_ok(request_: Any, code: str, path: str | None) -> None:
    told = worker_kit.run(WORKER, {"request": request_}, tools={"language_model": "never"})
    assert (told.status, told.outputs["status"], told.outputs["outputs"]) == ("ok", "invalid_request", {})
    error = told.outputs["error"]
    assert (error["error_code"], error["retryable"], told.calls) == (code, False, ())
    assert path is None or path in [problem["path"] for problem in error["details"]]


async def test_a_failure_that_passes_is_the_runs_and_is_tried_again(model: Model) -> None:
    good = model.serve

    async def busy_once(asked: Asked, writer: asyncio.StreamWriter) -> None:
        model.status, model.headers = (429, {"retry-after": "1"}) if len(model.web.asked) == 1 else (200, {})
        await good(asked, writer)

    model.web.pages["/v1/chat/completions"] = busy_once
    told = await answered(model, CASE)
    assert (told["status"], told["observability"]["attempt"], told["outputs"]["status"]) == ("ok", 2, "ok")


async def test_a_failure_that_stays_is_told_inside(model: Model) -> None:
    model.refusal = "I would rather not."
    told = await answered(model, CASE)
    assert (told["status"], told["outputs"]["status"], told["outputs"]["error"]["error_code"]) == ("ok", "permanent_error", "tool_failed")
    assert told["observability"]["attempt"] == 1
    forbidden = await answered(model, inside(constraints={"tools_allowed": []}))
    assert forbidden["outputs"]["error"]["error_code"] == "tool_not_allowed"


async def test_the_requests_own_timeout_holds_inside_the_runs(model: Model) -> None:
    model.silent = True
    told = await answered(model, inside(constraints={"timeout_seconds": 0.3}), policy={"grace_seconds": 0.1})
    assert (told["status"], told["outputs"]["status"], told["outputs"]["error"]["error_code"]) == ("ok", "retryable_error", "timeout")
    assert told["outputs"]["error"]["retryable"]


async def test_a_large_answer_is_moved_out_and_referred_to(model: Model) -> None:
    model.answer = "x" * 100_000
    told = await answered(model, CASE)
    (artifact,) = told["artifacts"]
    assert told["outputs"]["outputs"] == {"$artifact": artifact}
    assert told["outputs"]["status"] == "ok"


@pytest.mark.parametrize("answer", ["a light", ToolFailed("access_denied", "no key"), {"n": 1}], ids=["ok", "failed", "json"])
def test_a_crash_at_any_point_changes_nothing(answer: Any) -> None:
    assert worker_kit.crash_everywhere(WORKER, CASE, tools={"language_model": answer}) > 0


def test_the_example_is_a_whole_request() -> None:
    assert json.dumps(CASE["request"]["version"]) == '"1.0"'
    assert set(CASE["request"]) == {"worker_id", "version", "trace", "inputs", "constraints"}
