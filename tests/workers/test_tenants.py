"""Two tenants on one engine: neither sees anything of the other, and neither can use up what is the other's."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.terms import RateLimit, Retries
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Terms
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.approvals import Decision
from holdfast.workers.artifacts import ArtifactMissing
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.run_lookup import Caller, find_approval
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from tests.workers.harness import Counted, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write
from tests.workers.processes import children, command

ANN, BOB = (Caller(tenant=name, principal=name, logged_in=True) for name in ("ann", "bob"))
KEEPING = """
from holdfast import worker

@worker("keeping.md")
async def keep(inputs, ctx):
    if "open" in inputs:
        with await ctx.open(inputs["open"]) as file:
            return {"read": file.read().decode()}
    if "text" in inputs:
        return {"kept": await ctx.artifact("note.txt", inputs["text"], media_type="text/plain")}
    return {"large": inputs.get("large", "x" * 100_000)}
"""


async def paying(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"paid": await ctx.tools.pay()}


def decision(verdict: str = "approve") -> Decision:
    return Decision(verdict=verdict, decided_by="carol", decided_at=1)


def code(response: Response) -> str:
    return "ok" if response.error is None else response.error.error_code


# --- seeing

Door = Callable[[WorkerService, str, str], Awaitable[Any]]


async def follows(service: WorkerService, run: str, approval: str) -> Any:
    return [event async for event in service.follow(run, BOB)]


DOORS: dict[str, Door] = {
    "its response": lambda service, run, approval: service.response(run, BOB, wait=0),
    "cancelling it": lambda service, run, approval: service.cancel(run, BOB),
    "approving it": lambda service, run, approval: service.decide(approval, decision(), BOB),
    "rejecting it": lambda service, run, approval: service.decide(approval, decision("reject"), BOB),
    "following it": follows,
}


@pytest.mark.parametrize("door", DOORS)
async def test_anothers_run_looks_as_if_it_were_not_there(tmp_path: Path, door: str) -> None:
    pay = Counted("pay", Effect.WRITE)
    worker = InlineWorker(contract("pay"), paying, pay, approvals=frozenset({"pay"}))
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        waiting = await service.invoke(request(), ANN)
        approval = waiting.approvals[0]["approval_id"]
        with pytest.raises(HoldfastError) as refused:
            await DOORS[door](service, waiting.run_id, approval)
        nothing = "0" + waiting.run_id[1:]
        with pytest.raises(HoldfastError) as absent:
            await DOORS[door](service, nothing, approval.replace(waiting.run_id, nothing))
        assert (refused.value.code, str(refused.value)) == (absent.value.code, str(absent.value).replace(nothing, waiting.run_id))
        assert await service.response(waiting.run_id, ANN) == waiting
    assert pay.calls == []


async def test_what_waits_for_a_decision_is_shown_to_its_own_tenant(tmp_path: Path) -> None:
    worker = InlineWorker(contract("pay"), paying, Counted("pay", Effect.WRITE), approvals=frozenset({"pay"}))
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        runs = {caller.tenant: (await service.invoke(request(), caller)).run_id for caller in (ANN, BOB)}
        for caller in (ANN, BOB):
            (seen,) = service.approvals(caller)
            assert (seen.run_id, seen.tenant) == (runs[caller.tenant], caller.tenant)
            assert find_approval(service._engine.store, seen.approval_id, caller).state == "open"


@pytest.mark.parametrize("bobs", ["bob", "ann/w", "ann%00w"])
async def test_the_same_key_of_two_tenants_is_two_runs(tmp_path: Path, bobs: str) -> None:
    pay = Counted("pay", Effect.WRITE)
    async with worker_service(InlineWorker(contract("pay"), paying, pay), folder=tmp_path) as service:
        first = await service.invoke(request(idempotency_key="w\0k", n=1), ANN)
        for key in ("w\0k", "k"):
            other = await service.invoke(request(idempotency_key=key, n=2), Caller(tenant=bobs, logged_in=True))
            assert (other.status, other.run_id == first.run_id) == (ResponseStatus.OK, False)
        again = await service.invoke(request(idempotency_key="w\0k", n=1), ANN)
    assert again == first
    assert len({call.idempotency_key for call in pay.calls}) == len(pay.calls) == 3, "and downstream they are three as well"


async def test_an_artifact_is_found_by_its_own_tenant_only_and_a_uri_is_never_opened(tmp_path: Path) -> None:
    file = write(tmp_path / "worker", KEEPING, keeping=page("keeping", attempts=1))
    secret = tmp_path / "secret.txt"
    secret.write_text("the operator's own")
    worker_settings = WorkerSettings(policy=Policy(isolation="inline"))
    async with holdfast.open(str(tmp_path / "s.db"), workers=[file], worker_settings=worker_settings) as engine:
        service = engine.worker_service

        async def kept(caller: Caller, **inputs: Any) -> Response:
            return await service.invoke(WorkerRequest(worker_id="keeping", inputs=inputs), caller)

        note = (await kept(ANN, text="hello")).outputs or {}
        large = (await kept(ANN)).outputs or {}
        assert (await kept(ANN, open=note["kept"])).outputs == {"read": "hello"}
        assert (await kept(ANN, large=large["large"])).outputs == large, "brought in, and moved out again"

        assert code(await kept(BOB, open=note["kept"])) == "artifact_not_found"
        assert code(await kept(BOB, large=large["large"])) == "artifact_not_found"
        forged = {**note["kept"], "artifact_id": "0" * 32, "uri": secret.as_uri()}
        assert code(await kept(ANN, open=forged)) == "artifact_not_found"
        assert code(await kept(ANN, large={"$artifact": {**forged, "artifact_id": "../../../secret.txt"}})) == "artifact_not_found"
        with pytest.raises(ArtifactMissing):
            service.artifacts.find("bob", note["kept"]["artifact_id"])
        same = (await kept(BOB, text="hello")).outputs or {}
        service.artifacts.forget("bob")
        assert same["kept"]["sha256"] == note["kept"]["sha256"]
        assert (await kept(ANN, open=note["kept"])).outputs == {"read": "hello"}, "the same bytes are not shared"


async def test_an_input_that_refers_to_what_is_no_json_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "worker", KEEPING, keeping=page("keeping", attempts=1))
    worker_settings = WorkerSettings(policy=Policy(isolation="inline"))
    async with holdfast.open(":memory:", workers=[file], worker_settings=worker_settings) as engine:
        note = (await engine.run("keeping", {"text": "hello"})).outputs or {}
        response = await engine.run("keeping", {"large": {"$artifact": note["kept"]}})
    assert (response.status, code(response)) == (ResponseStatus.INVALID_REQUEST, "schema_mismatch")


# --- using up


async def test_one_tenants_flood_leaves_the_other_its_rate_and_its_day(tmp_path: Path) -> None:
    model = Counted("pay", Effect.READ, lambda: "hm", reservation=Reservation(100), usage=Usage(50, 50))
    worker = InlineWorker(contract("pay", rate_limit=RateLimit(20, 60)), paying, model)
    policy = Policy(caps=DayCaps(tokens=500, runs=30))
    clock = VirtualClock(skipping=False)
    async with worker_service(worker, folder=tmp_path, clock=clock, policy=policy) as service:
        floods = [code(await service.invoke(request(), ANN)) for _ in range(40)]
        clock.move_to(clock.now() + 60_000)
        floods += [code(await service.invoke(request(), ANN)) for _ in range(40)]
        bobs = [code(await service.invoke(request(), BOB)) for _ in range(5)]
    assert {name: floods.count(name) for name in set(floods)} == {"ok": 5, "rate_limited": 75}
    assert bobs == ["ok"] * 5
    assert len(model.calls) == 10, "of the 30 runs of a day, 25 were begun and met the cap on tokens"


async def test_a_rate_for_each_user_is_not_shared_by_the_users_of_two_tenants(tmp_path: Path) -> None:
    worker = InlineWorker(contract("pay", rate_limit=RateLimit(1, 60, "user")), paying, Counted("pay", Effect.READ))
    callers = [
        Caller(tenant=tenant, principal=principal) for tenant, principal in (("a", "b\0c"), ("a", "b"), ("a/b", "c"), ("a%00b", "c"))
    ]
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        first = [code(await service.invoke(request(), caller)) for caller in callers]
        second = [code(await service.invoke(request(), caller)) for caller in callers]
    assert (first, second) == (["ok"] * 4, ["rate_limited"] * 4)


async def test_a_key_that_is_closed_for_one_tenant_is_open_for_the_other(tmp_path: Path) -> None:
    replies: list[Any] = [ToolFailed("rate_limited", "slow down", retry_after_seconds=600, closes="tool:pay"), "hm"]
    model = Counted("pay", Effect.READ, lambda: replies.pop(0))
    worker = InlineWorker(contract("pay", retries=Retries(max_attempts=1)), paying, model)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        anns = [await service.invoke(request(), ANN) for _ in range(3)]
        bobs = await service.invoke(request(), BOB)
    assert [code(response) for response in anns] == ["rate_limited"] * 3
    assert all(response.error and 0 < (response.error.retry_after_seconds or 0) <= 600 for response in anns)
    assert (bobs.outputs, len(model.calls)) == ({"paid": "hm"}, 2)


async def test_ever_new_limits_do_not_leave_ever_more_processes(tmp_path: Path) -> None:
    """Each limit of memory needs a jail of its own; a tenant may ask for as many as it likes."""
    file = write(tmp_path / "worker", KEEPING, keeping=page("keeping", attempts=1, max_memory_mb=500))
    async with holdfast.open(":memory:", workers=[file]) as engine:
        for number in range(7):
            constraints = {"max_memory_mb": 300 + number, "timeout_seconds": 20 + number}
            response = await engine.run("keeping", {"text": "x"}, constraints=constraints)
            assert code(response) == "ok"
        stubs = [pid for pid in children(os.getpid()) if "stub.py" in command(pid)]
    assert len(stubs) <= 5


def test_the_tenant_default_sees_executions_without_a_tenant() -> None:
    header = new_execution(id_at(0), "a", "order", "$LATEST", payload="{}", now=0, terms=Terms())
    assert header.tenant is None
    assert [Caller(tenant=name, logged_in=True).may_see(header) for name in ("default", "ann")] == [True, False]
