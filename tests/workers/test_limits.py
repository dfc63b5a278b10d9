"""Limits: nothing starts beyond a cap, what was spent is spent, and a closed key stays closed for everybody behind it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Constraints
from holdfast.contract.terms import RateLimit
from holdfast.model.clock import VirtualClock
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

ANN, BOB = Caller(tenant="ann", logged_in=True), Caller(tenant="bob", logged_in=True)


async def thinking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    for _ in range(inputs["times"]):
        await ctx.tools.model()
    return {}


def model(reserved: int = 100, used: int = 60) -> Counted:
    usage = Usage(used - 10, 10, Decimal(used) / 1000)
    return Counted("model", Effect.READ, lambda: "hm", reservation=Reservation(reserved, Decimal(reserved) / 1000), usage=usage)


@pytest.mark.parametrize(
    "limits, calls, code",
    [
        ({"max_tokens": 250}, 3, "budget_exceeded"),
        ({"max_cost_usd": Decimal("0.1")}, 1, "budget_exceeded"),
        ({"max_tool_calls": 2}, 2, "budget_exceeded"),
        ({"tool_quotas": {"model": 4}}, 4, "tool_quota_exceeded"),
    ],
)
async def test_no_call_begins_beyond_a_cap(tmp_path: Path, limits: dict[str, Any], calls: int, code: str) -> None:
    tool = model()
    async with worker_service(InlineWorker(contract("model", limits=limits), thinking, tool), folder=tmp_path) as service:
        response = await service.invoke(request(times=9), LOCAL)
    assert response.error is not None
    assert (response.error.error_code, len(tool.calls)) == (code, calls)
    usage = response.observability.usage
    assert (usage.tokens.input + usage.tokens.output, usage.tool_calls) == (60 * calls, calls)


async def test_calls_side_by_side_do_not_reserve_the_same_tokens(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        came = await asyncio.gather(*(ctx.tools.model() for _ in range(5)), return_exceptions=True)
        return {"refused": sum(isinstance(one, WorkerError) for one in came)}

    tool = model(reserved=100, used=100)
    async with worker_service(InlineWorker(contract("model", limits={"max_tokens": 300}), body, tool), folder=tmp_path) as service:
        response = await service.invoke(request(), LOCAL)
    assert (response.outputs, len(tool.calls)) == ({"refused": 2}, 3)


async def test_what_a_request_asks_for_may_be_tighter_and_not_wider(tmp_path: Path) -> None:
    tool = model()
    async with worker_service(InlineWorker(contract("model", limits={"max_tokens": 1000}), thinking, tool), folder=tmp_path) as service:
        tight = await service.invoke(request(times=9, constraints=Constraints(max_tokens=100)), LOCAL)
        wide = await service.invoke(request(times=9, constraints=Constraints(max_tokens=1001)), LOCAL)
    assert tight.error is not None
    assert wide.error is not None
    assert (tight.error.error_code, wide.error.error_code, len(tool.calls)) == ("budget_exceeded", "constraint_widened", 1)


async def test_a_tenants_day_is_bounded_over_all_its_runs_and_nobody_elses(tmp_path: Path) -> None:
    tool = model()
    clock = VirtualClock(skipping=False)
    policy = Policy(tenant_caps={"ann": DayCaps(tokens=200)})
    async with worker_service(InlineWorker(contract("model"), thinking, tool), folder=tmp_path, policy=policy, clock=clock) as service:
        responses = [await service.invoke(request(times=1), ANN) for _ in range(3)]
        other = await service.invoke(request(times=1), BOB)
        clock.move_to(clock.now() + 86_400_000)
        tomorrow = await service.invoke(request(times=1), ANN)
    assert [response.status for response in responses] == [ResponseStatus.OK, ResponseStatus.OK, ResponseStatus.RETRYABLE_ERROR]
    assert (other.status, tomorrow.status) == (ResponseStatus.OK, ResponseStatus.OK)


async def test_a_rate_is_enforced_per_tenant_and_says_when_to_come_back(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {}

    clock = VirtualClock(skipping=False)
    worker = InlineWorker(contract(rate_limit=RateLimit(2, 60)), body)
    async with worker_service(worker, folder=tmp_path, clock=clock) as service:
        first = await service.invoke(request(idempotency_key="k"), ANN)
        await service.invoke(request(), ANN)
        refused = await service.invoke(request(), ANN)
        again = await service.invoke(request(idempotency_key="k"), ANN)
        other = await service.invoke(request(), BOB)
        clock.move_to(clock.now() + 60_000)
        later = await service.invoke(request(), ANN)
    assert refused.error is not None
    assert (refused.error.error_code, refused.error.retry_after_seconds, refused.run_id) == ("rate_limited", 60, "")
    assert again == first
    assert (other.status, later.status) == (ResponseStatus.OK, ResponseStatus.OK)


async def test_a_retry_after_from_outside_closes_the_key_for_the_neighbours(tmp_path: Path) -> None:
    tool = Counted("model", Effect.READ, lambda: ToolFailed("rate_limited", "slow down", retry_after_seconds=30, closes="tool:model"))
    clock = VirtualClock(skipping=False)
    worker = InlineWorker(contract("model", retries={"max_attempts": 1}), thinking, tool)
    worker.contract = contract("model")
    async with worker_service(worker, folder=tmp_path, clock=clock) as service:
        hit, *behind = [(await service.accept(request(times=1), ANN))[0] for _ in range(3)]
        await service.response(hit.id, ANN, wait=0.3)
        for header in behind:
            await service.response(header.id, ANN, wait=0.3)
        assert len(tool.calls) <= 3
        before = len(tool.calls)
        late = (await service.accept(request(times=1), ANN))[0]
        await service.response(late.id, ANN, wait=0.3)
        assert len(tool.calls) == before
