"""A run from its request to its response, with inline bodies: what is tried again, what is not, and what is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.terms import Retries
from holdfast.model.execution import ExecutionStatus
from holdfast.signals.observers import EndSeen, RunObserver, RunSeen
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.tools.seam import Effect, ToolFailed
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

pytestmark = pytest.mark.parametrize("resting", [1000, 0], ids=["resting", "replayed"])


async def test_a_worker_answers_with_its_outputs(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"twice": inputs["n"] * 2}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(n=21), LOCAL)
    assert (response.status, response.outputs, response.error) == (ResponseStatus.OK, {"twice": 42}, None)
    assert response.observability.attempt == 1


async def test_a_def_body_works_the_same_without_await(tmp_path: Path, resting: int) -> None:
    def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"found": ctx.tools.look(at="x"), "step": ctx.step(lambda: 7, name="seven")}

    look = Counted("look", Effect.READ, lambda at: at * 2)
    async with worker_service(InlineWorker(contract("look"), body, look), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.outputs == {"found": "xx", "step": 7}


async def test_a_passing_failure_is_tried_again_and_a_receipt_is_used_again(tmp_path: Path, resting: int) -> None:
    tries: list[int] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        paid = await ctx.tools.pay(cents=5)
        seen = await ctx.tools.look(at="x")
        tries.append(1)
        if len(set_of_attempts(tries)) < 3:
            raise WorkerError("flaky", retryable=True)
        return {"paid": paid, "seen": seen}

    def set_of_attempts(tries: list[int]) -> range:
        return range(len(tries))

    pay = Counted("pay", Effect.WRITE, lambda cents: {"id": cents})
    look = Counted("look", Effect.READ, lambda at: at)
    async with worker_service(InlineWorker(contract("pay", "look"), body, pay, look), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert (response.status, response.observability.attempt) == (ResponseStatus.OK, 3)
    assert (len(pay.calls), len(look.calls)) == (1, 3)
    assert response.observability.usage.tool_calls == 4


async def test_what_a_body_does_to_its_inputs_the_next_attempt_does_not_see(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        seen.append(list(inputs["items"]))
        inputs["items"].clear()
        if len(seen) == 1:
            raise WorkerError("flaky", retryable=True)
        return {}

    seen: list[list[int]] = []
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        await service.invoke(request(items=[1, 2]), LOCAL)
    assert seen == [[1, 2], [1, 2]]


async def test_a_body_that_cancels_itself_is_over_when_its_time_is(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise asyncio.CancelledError

    worker = InlineWorker(contract(limits={"timeout_seconds": 0.05}, retries=Retries()), body)
    async with worker_service(worker, folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert response.error.error_code == "timeout"


async def test_a_permanent_failure_is_not_tried_again_and_keeps_what_is_good(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError("no_such_order", "there is none", partial={"looked": True})

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.status is ResponseStatus.PERMANENT_ERROR
    assert response.error is not None
    assert (response.error.error_code, response.error.message, response.error.retryable) == ("no_such_order", "there is none", False)
    assert (response.outputs, response.observability.partial) == ({"looked": True}, True)


async def test_inputs_that_do_not_fit_make_no_run_and_outputs_that_do_not_fit_are_tried_again(tmp_path: Path, resting: int) -> None:
    calls: list[int] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> Any:
        calls.append(1)
        return {"n": "three"}

    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    worker = InlineWorker(contract(input_schema=number, output_schema=number), body)
    async with worker_service(worker, folder=tmp_path, resting=resting) as service:
        refused = await service.invoke(request(n="x"), LOCAL)
        assert (refused.status, refused.run_id, calls) == (ResponseStatus.INVALID_REQUEST, "", [])
        response = await service.invoke(request(n=1), LOCAL)
    assert response.status is ResponseStatus.INVALID_OUTPUT
    assert response.error is not None
    assert response.error.error_code == "output_schema_mismatch"
    assert len(calls) == 3


async def test_a_tool_that_is_not_allowed_is_refused_and_one_that_fails_says_why(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        codes = []
        for name in ("pay", "look"):
            try:
                await ctx.tools[name]()
            except WorkerError as error:
                codes.append([error.error_code, error.message])
        return {"codes": codes}

    look = Counted("look", Effect.READ, lambda: ToolFailed("access_denied", "keep out"))
    async with worker_service(InlineWorker(contract("look"), body, look), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.outputs == {
        "codes": [["tool_not_allowed", "The contract or the request does not allow the tool 'pay'."], ["access_denied", "keep out"]]
    }


async def test_the_same_key_runs_once_and_other_inputs_are_a_conflict(tmp_path: Path, resting: int) -> None:
    pay = Counted("pay", Effect.WRITE)

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.pay()
        return {"n": inputs["n"]}

    async with worker_service(InlineWorker(contract("pay"), body, pay), folder=tmp_path, resting=resting) as service:
        same = [service.invoke(request(n=1, idempotency_key="k"), LOCAL) for _ in range(5)]
        first, *others = await asyncio.gather(*same)
        conflict = await service.invoke(request(n=2, idempotency_key="k"), LOCAL)
    assert all(other == first for other in others)
    assert len(pay.calls) == 1
    assert conflict.error is not None
    assert conflict.error.error_code == "idempotency_conflict"


async def test_a_body_that_finds_its_inputs_wrong_leaves_the_key_to_better_ones(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        if inputs["n"] < 0:
            raise WorkerError("schema_mismatch", "n is below zero")
        return {"n": inputs["n"]}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        asked = [await service.invoke(request(n=n, idempotency_key="k"), LOCAL) for n in (-1, -1, 2, 2, 3)]
    statuses = [
        ResponseStatus.INVALID_REQUEST,
        ResponseStatus.INVALID_REQUEST,
        ResponseStatus.OK,
        ResponseStatus.OK,
        ResponseStatus.INVALID_REQUEST,
    ]
    assert [response.status for response in asked] == statuses
    assert asked[2] == asked[3]
    assert asked[4].error is not None
    assert asked[4].error.error_code == "idempotency_conflict"


async def test_a_request_without_a_worker_is_refused(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        response = await service.ask({"inputs": {}}, "default", None)
    assert response.error is not None
    assert (response.run_id, response.error.error_code, "worker_id" in response.error.message) == ("", "schema_mismatch", True)


@pytest.mark.parametrize("code", ["Not A Code!", "", "a" * 65, "drop\ntable"])
async def test_a_code_is_a_name_and_no_sentence(tmp_path: Path, resting: int, code: str) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError(code)

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert response.error.error_code == "worker_crashed"
    assert "is not a valid error code" in response.error.message


async def test_after_a_retryable_end_the_same_key_begins_again_and_inherits_the_receipts(tmp_path: Path, resting: int) -> None:
    pay = Counted("pay", Effect.WRITE)
    broken = [True]

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        paid = await ctx.tools.pay()
        if broken[0]:
            raise WorkerError("flaky", retryable=True)
        return {"paid": paid}

    async with worker_service(InlineWorker(contract("pay"), body, pay), folder=tmp_path, resting=resting) as service:
        failed = await service.invoke(request(idempotency_key="k"), LOCAL)
        broken[0] = False
        response = await service.invoke(request(idempotency_key="k"), LOCAL)
    assert (failed.status, response.status) == (ResponseStatus.RETRYABLE_ERROR, ResponseStatus.OK)
    assert failed.run_id != response.run_id
    assert len(pay.calls) == 1


async def test_a_stop_of_a_run_that_another_process_ended_reports_no_second_end(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {}

    class Ends(RunObserver):
        def __init__(self) -> None:
            self.runs: list[str] = []

        def ended(self, run: RunSeen, end: EndSeen) -> None:
            self.runs.append(run.run_id)

    first, second, where = Ends(), Ends(), str(tmp_path / "store.db")
    async with worker_service(InlineWorker(contract(), body), where, folder=tmp_path, resting=resting) as service:
        service.observe(first)
        run_id = (await service.invoke(request(), LOCAL)).run_id
    async with worker_service(InlineWorker(contract(), body), where, folder=tmp_path, resting=resting) as service:
        service.observe(second)
        header = (await service._engine.stop(run_id)).header
    assert (header.status, first.runs, second.runs) == (ExecutionStatus.SUCCEEDED, [run_id], [])
