"""Schemas of strangers: however they arrive, their cost slows down only the stranger."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.contract.checking import checker_of
from holdfast.contract.costs import SchemaInvalid
from holdfast.contract.protocol import Response
from holdfast.hosts.cpu_shares import CpuShares
from holdfast.hosts.evaluator import schema_check
from holdfast.hosts.evaluator.check_frames import Check
from holdfast.hosts.evaluator.evaluator_pool import MOST_WAITING, Evaluators, TooManyChecks, party_of
from holdfast.hosts.evaluator.evaluator_process import EvaluatorDied
from holdfast.hosts.evaluator.schema_check import CheckTooCostly, examined, problems, problems_in, problems_now
from holdfast.model.clock import monotonic
from holdfast.workers.input_secrets import MOST_SECRETS
from holdfast.workers.tools.language_model import LanguageModel
from holdfast.workers.tools.seam import Call, Reservation, ToolFailed
from tests.unit.test_schema_costs import TREE, doubling
from tests.workers.harness import LOCAL, InlineWorker, contract, request, worker_service

SLOW: dict[str, Any] = {"type": "object", "properties": {"a": {"items": {"enum": [[number] for number in range(4_000)]}}}}
"""Within every limit, and slow: each item is compared with each value of a long list."""
MANY = {"a": [[3_999]] * 60_000}


@pytest.fixture
def evaluators() -> Iterator[Evaluators]:
    pool = Evaluators(processes=2, seconds=0.5)
    yield pool
    pool.close()


@asynccontextmanager
async def lag() -> AsyncIterator[list[float]]:
    """How long the loop worked at one thing, at most, in seconds of its own CPU: a busy machine does not count."""
    longest = [0.0]

    async def look() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            longest[0] = max(longest[0], time.thread_time() - began)

    looking = asyncio.create_task(look())
    try:
        yield longest
    finally:
        looking.cancel()


def told(response: Response) -> tuple[str, str | None]:
    return response.status.value, None if response.error is None else response.error.error_code


async def test_a_check_that_takes_too_long_is_killed_and_the_loop_never_waits(evaluators: Evaluators) -> None:
    assert await problems(checker_of(TREE), {"left": {}}, "warm", evaluators) == ()
    (pid,) = evaluators.pids
    async with lag() as longest:
        with pytest.raises(CheckTooCostly, match="took longer than"):
            await problems(checker_of(SLOW), MANY, "hostile", evaluators)
    assert longest[0] < 0.4
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [at.path for at in await problems(checker_of(TREE), {"left": 3}, "hostile", evaluators)] == ["/left"], (
        "a new one takes its place"
    )


async def test_one_stranger_never_has_more_than_one_evaluator(evaluators: Evaluators) -> None:
    await problems(checker_of(TREE), {}, "neighbour", evaluators)
    hostile = [asyncio.ensure_future(problems(checker_of(SLOW), MANY, "hostile", evaluators)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await problems(checker_of(TREE), {"left": {"right": {}}}, "neighbour", evaluators) == ()
    assert not any(check.done() for check in hostile[1:]), "they wait behind their own"
    for check in hostile:
        check.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)


def test_a_stranger_who_asks_too_much_at_once_is_refused(evaluators: Evaluators) -> None:
    check = Check(msgspec.Raw(b"{}"), (msgspec.Raw(b"1"),))
    slow = Check(msgspec.Raw(msgspec.json.encode(SLOW)), (msgspec.Raw(msgspec.json.encode(MANY)),))
    waiting = [evaluators.submit("hostile", slow)]
    with pytest.raises(TooManyChecks):
        waiting += [evaluators.submit("hostile", check) for _ in range(MOST_WAITING + 2)]
    assert evaluators.submit("neighbour", check).result(10).problems == ()
    assert all(future.cancel() or future is waiting[0] for future in waiting)


def test_evaluators_that_nobody_needs_end() -> None:
    others = set(threading.enumerate())
    pool = Evaluators(processes=1, seconds=1.0, idle_seconds=0.05)
    assert pool.submit("a", Check(msgspec.Raw(b"{}"), (msgspec.Raw(b"1"),))).result(30).problems == ()
    for thread in set(threading.enumerate()) - others:  # none, if its time is over already
        thread.join(30)
    assert pool.pids == []


async def test_an_evaluator_says_the_same_as_a_check_in_place(evaluators: Evaluators) -> None:
    schema = {**TREE, "description": "x" * 4_000}  # larger than what is compiled in place
    values: tuple[Any, ...] = ({}, {"left": 3}, {"left": {"right": []}}, {"left": 2**80})
    for value in values:
        assert await problems_in(schema, value, "a", evaluators) == checker_of(schema).problems(value)
    assert problems_now(schema, {"left": 3}, "a") == checker_of(schema).problems({"left": 3})


async def test_a_large_schema_of_a_body_is_read_where_it_can_be_ended(evaluators: Evaluators) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        await examined({**doubling(36), "description": "x" * 4_000}, "a", evaluators)
    assert refused.value.code == "schema_too_costly"
    await examined({**TREE, "description": "x" * 4_000}, "a", evaluators)


async def test_the_cpu_of_a_check_counts_for_the_tenant_whose_value_is_checked_also_if_the_check_is_ended() -> None:
    shares = CpuShares()
    pool = Evaluators(processes=1, seconds=0.3, shares=shares)
    await problems_in({**TREE, "description": "x" * 4_000}, {}, party_of("quick", "w"), pool)
    with pytest.raises(CheckTooCostly):
        await problems_in(SLOW, MANY, party_of("slow", "w"), pool)
    now = monotonic()
    assert 0.0 <= shares.used("quick", now) < 0.1 < shares.used("slow", now)
    pool.close()


async def test_checks_that_wait_when_the_evaluators_close_are_ended() -> None:
    pool = Evaluators(processes=1, seconds=30.0)
    check = Check(msgspec.Raw(msgspec.json.encode(SLOW)), (msgspec.Raw(msgspec.json.encode(MANY)),))
    told = [pool.submit(who, check) for who in ("a", "a", "b")]
    while not told[0].running():
        await asyncio.sleep(0)
    pool.close()
    for one in told[1:]:
        assert isinstance(one.exception(timeout=10), EvaluatorDied)


# --- the ways in


async def test_inputs_that_take_too_long_to_check_are_refused_and_the_loop_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = Evaluators(processes=1, seconds=0.3)
    monkeypatch.setattr(schema_check, "shared", lambda: impatient)
    worker = InlineWorker(contract(input_schema=SLOW), lambda inputs, ctx: {})
    async with worker_service(worker, folder=tmp_path) as service, lag() as longest:
        response = await service.invoke(request(**MANY), LOCAL)
        assert told(response) == ("permanent_error", "schema_too_costly")
        assert told(await service.invoke(request(a=[]), LOCAL)) == ("ok", None)
        assert longest[0] < 1.0
    impatient.close()


async def test_outputs_that_take_too_long_to_check_end_their_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = Evaluators(processes=1, seconds=0.3)
    monkeypatch.setattr(schema_check, "shared", lambda: impatient)
    worker = InlineWorker(contract(output_schema=SLOW), lambda inputs, ctx: MANY if inputs.get("many") else {})
    async with worker_service(worker, folder=tmp_path) as service:
        assert told(await service.invoke(request(many=True), LOCAL)) == ("permanent_error", "schema_too_costly")
        assert told(await service.invoke(request(), LOCAL)) == ("ok", None)
    impatient.close()


async def test_a_question_whose_schema_doubles_is_refused_and_the_body_hears_why(tmp_path: Path) -> None:
    def body(inputs: Any, ctx: Any) -> Any:
        try:
            ctx.ask("?", schema=doubling(36))
        except Exception as refused:
            return {"code": getattr(refused, "error_code", None), "message": str(refused)}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service, lag() as longest:
        response = await service.invoke(request(), LOCAL)
        assert response.outputs is not None
        assert response.outputs["code"] == "schema_too_costly"
        assert "100000 places" in response.outputs["message"]
        assert longest[0] < 1.0


async def test_a_model_is_not_asked_for_an_answer_whose_schema_doubles() -> None:
    call = Call(run_id="r", tool="language_model", idempotency_key="k", deadline=monotonic() + 60, now=0)
    with pytest.raises(ToolFailed) as refused:
        await LanguageModel().call(call, {"prompt": "?", "schema": doubling(36)}, Reservation())
    assert refused.value.code == "schema_too_costly"


async def test_inputs_with_very_many_secrets_hide_every_line_of_the_log(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"keys": {"items": {"type": "string", "x-redact": True}}}}

    def body(inputs: Any, ctx: Any) -> Any:
        ctx.log("the key is " + inputs["keys"][-1])
        return {}

    async with worker_service(InlineWorker(contract(input_schema=schema), body), folder=tmp_path) as service:
        few = await service.invoke(request(keys=["a-long-secret"]), LOCAL)
        many = await service.invoke(request(keys=[f"a-long-secret-{number}" for number in range(MOST_SECRETS + 1)]), LOCAL)
    assert [line["message"] for line in (*few.logs, *many.logs)] == ["the key is [redacted:keys]", "[redacted]"]
