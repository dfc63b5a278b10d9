"""What `holdfast limits` shows is what was counted: by tenant, by day, and only where there is a cap."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.model.clock import VirtualClock
from holdfast.workers.counters import Counters
from holdfast.workers.day_usage import DayCapUsage, spent_today
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.seam import Effect, Remaining, Reservation, Usage
from tests.workers.harness import Counted, InlineWorker, contract, request, worker_service

DAY = 86_400_000
USAGE = Usage(30, 12, Decimal("0.000000015"))


async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"answer": await ctx.tools.model(prompt="x")}


def amounts(found: list[DayCapUsage]) -> dict[tuple[str, str], tuple[Decimal, Decimal]]:
    return {(each.tenant, each.what): (each.spent, each.left) for each in found}


def test_a_call_reserves_no_more_than_its_tenant_has_for_a_day() -> None:
    """Else a small cap would refuse every call of a fresh day."""
    counters = Counters(Policy(caps=DayCaps(tokens=400, cost_usd=Decimal("0.5"))), "ann", VirtualClock())
    assert counters.left(Remaining(1500, Decimal(2))) == Remaining(400, Decimal("0.5"))
    assert counters.left(Remaining(100, Decimal("0.1"))) == Remaining(100, Decimal("0.1"))
    assert counters.left(Remaining()) == Remaining(400, Decimal("0.5"))
    assert Counters(Policy(), "ann", VirtualClock()).left(Remaining(7)) == Remaining(7)


async def test_each_tenant_sees_its_own_day(tmp_path: Path) -> None:
    policy = Policy(
        caps=DayCaps(runs=10, tokens=1000, cost_usd=Decimal("0.01")), tenant_caps={"acme": DayCaps(tokens=100), "open": DayCaps()}
    )
    model = Counted("model", Effect.READ, lambda prompt: "y", reservation=Reservation(60, Decimal("0.001")), usage=USAGE)
    clock = VirtualClock()
    async with worker_service(InlineWorker(contract("model"), asks, model), folder=tmp_path, policy=policy, clock=clock) as service:
        for tenant in ("default", "default", "acme", "open"):
            assert (await service.invoke(request(), Caller(tenant=tenant))).status is ResponseStatus.OK
        store, now = service._engine.store, clock.now()
        found = spent_today(store, policy, ["default", "acme", "open", "other"], now)
        assert amounts(found) == {
            ("default", "runs"): (2, 8),
            ("default", "tokens"): (84, 916),
            ("default", "cost_usd"): (Decimal("0.00000003"), Decimal("0.00999997")),
            ("acme", "tokens"): (42, 58),
            ("other", "runs"): (0, 10),
            ("other", "tokens"): (0, 1000),
            ("other", "cost_usd"): (0, Decimal("0.01")),
        }
        assert {each.until for each in found} == {now - now % DAY + DAY}
        assert {each.spent for each in spent_today(store, policy, ["default"], now + DAY)} == {Decimal(0)}


async def test_what_is_spent_is_never_shown_as_less_than_nothing_left(tmp_path: Path) -> None:
    policy = Policy(caps=DayCaps(tokens=70))
    model = Counted("model", Effect.READ, lambda prompt: "y", reservation=Reservation(60, Decimal(0)), usage=Usage(90, 5, Decimal(0)))
    async with worker_service(InlineWorker(contract("model"), asks, model), folder=tmp_path, policy=policy) as service:
        await service.invoke(request(), Caller())
        refused = await service.invoke(request(), Caller())
        (tokens,) = spent_today(service._engine.store, policy, ["default"], service._engine.clock.now())
    assert (tokens.spent, tokens.left) == (Decimal(95), Decimal(0))
    assert refused.error is not None
    assert (refused.error.error_code, refused.observability.attempt) == ("rate_limited", 1)
    assert len(model.calls) == 1


@pytest.mark.parametrize("tenant", ["a/b", "a%2Fb", "", "x" * 200])
async def test_odd_names_of_tenants_stay_apart(tmp_path: Path, tenant: str) -> None:
    policy = Policy(caps=DayCaps(runs=5))
    worker = InlineWorker(contract("model"), asks, Counted("model", Effect.READ, lambda prompt: "y"))
    async with worker_service(worker, folder=tmp_path, policy=policy) as service:
        await service.invoke(request(), Caller(tenant=tenant))
        found = spent_today(service._engine.store, policy, [tenant, "a", "b", f"{tenant}/"], service._engine.clock.now())
    assert [each.spent for each in found] == [1, 0, 0, 0]
