"""People: a call that needs an approval waits without a process, only approved arguments run, and a person settles an unknown outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import CallbackClosed, CallbackNotFound
from holdfast.workers.approvals import ApprovalNotFound, ApprovalRefused, Decision
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import DidNotHappen, Effect, Happened, ToolFailed
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

PAY = frozenset({"pay"})
ANN, BOB = Caller(principal="ann", logged_in=True), Caller(principal="bob", logged_in=True)


def decision(verdict: str = "approve", by: str = "bob", **more: Any) -> Decision:
    return Decision(verdict=verdict, decided_by=by, decided_at=1, **more)


async def paying(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    paid = await ctx.tools.pay(cents=inputs.get("cents", 5))
    return {"paid": paid}


def payer(*, schema: Any = None) -> tuple[Counted, InlineWorker]:
    pay = Counted("pay", Effect.WRITE, lambda cents: {"cents": cents})
    pay.arguments_schema = schema
    return pay, InlineWorker(contract("pay"), paying, pay, approvals=PAY)


async def asked(service: WorkerService, caller: Caller = LOCAL, **inputs: Any) -> tuple[str, str]:
    response = await service.invoke(request(**inputs), caller)
    assert response.status is ResponseStatus.NEEDS_HUMAN
    (approval,) = response.approvals
    return response.run_id, approval["approval_id"]


@pytest.mark.parametrize("resting", [1000, 0])
async def test_a_call_waits_for_its_approval_and_is_made_once_it_is_there(tmp_path: Path, resting: int) -> None:
    pay, worker = payer()
    async with worker_service(worker, folder=tmp_path, resting=resting, clock=VirtualClock(skipping=False)) as service:
        run, approval = await asked(service)
        assert pay.calls == []
        assert [found.approval_id for found in service.approvals(LOCAL)] == [approval]
        await service.decide(approval, decision(), LOCAL)
        response = await service.response(run, LOCAL)
        assert service.approvals(LOCAL) == []
    assert (response.status, response.outputs) == (ResponseStatus.OK, {"paid": {"cents": 5}})
    assert len(pay.calls) == 1
    assert response.observability.attempt == 1


async def test_a_rejected_call_is_never_made(tmp_path: Path) -> None:
    pay, worker = payer()
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, approval = await asked(service)
        await service.decide(approval, decision("reject", comment="too much"), LOCAL)
        response = await service.response(run, LOCAL)
    assert response.error is not None
    assert (response.error.error_code, pay.calls) == ("approval_rejected", [])
    assert "bob rejected the call of pay. (too much)" in response.error.message


async def test_edited_arguments_are_checked_and_are_what_runs(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 9}}}
    _pay, worker = payer(schema=schema)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, approval = await asked(service)
        with pytest.raises(ApprovalRefused, match="/cents"):
            await service.decide(approval, decision(edited_arguments={"cents": 10}), LOCAL)
        await service.decide(approval, decision(edited_arguments={"cents": 1}), LOCAL)
        response = await service.response(run, LOCAL)
    assert response.outputs == {"paid": {"cents": 1}}


async def test_a_decision_is_final_and_nobody_decides_what_he_asked_for(tmp_path: Path) -> None:
    pay, worker = payer()
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        _, approval = await asked(service, ANN)
        with pytest.raises(ApprovalRefused, match="ann asked for this"):
            await service.decide(approval, decision(by="bob"), ANN)
        with pytest.raises(ApprovalRefused, match="approve or reject"):
            await service.decide(approval, decision("happened"), BOB)
        with pytest.raises(ApprovalNotFound):
            await service.decide("a_nothing", decision(), BOB)
        decided = await service.decide(approval, decision(by="ann"), BOB)
        assert decided.decided_by == "bob"
        with pytest.raises(CallbackClosed):
            await service.decide(approval, decision("reject"), BOB)
    assert len(pay.calls) <= 1


async def test_an_approval_cannot_be_answered_as_a_callback(tmp_path: Path) -> None:
    _, worker = payer()
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await asked(service)
        store = service._engine.store
        (callback,) = [op.callback_id for op in store.operations(run) if op.sub_type == "Approval"]
        with pytest.raises(CallbackNotFound):
            await service._engine.answer(callback or "", '{"verdict":"approve","decided_by":"x","decided_at":1}')


async def test_an_approval_that_nobody_gives_expires(tmp_path: Path) -> None:
    pay, worker = payer()
    async with worker_service(worker, folder=tmp_path, policy=Policy(approval_seconds=60)) as service:
        header = (await service.accept(request(), LOCAL))[0]
        await asyncio.wait_for(service._engine.ending(header.id), 30)
        response = await service.response(header.id, LOCAL)
    assert response.error is not None
    assert (response.error.error_code, pay.calls) == ("approval_expired", [])


async def test_a_question_is_put_to_a_person_and_the_run_goes_on_with_the_answer(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        before = str(ctx.uuid())
        colour = await ctx.ask("which colour?", schema={"enum": ["red", "blue"]})
        return {"colour": colour, "before": before, "after": str(ctx.uuid())}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, approval = await asked(service)
        for wrong in ("green", None):
            with pytest.raises(ApprovalRefused):
                await service.decide(approval, decision("answer", result=wrong), LOCAL)
        await service.decide(approval, decision("answer", result="red"), LOCAL)
        response = await service.response(run, LOCAL)
    assert response.outputs is not None
    assert response.outputs["colour"] == "red"
    assert response.outputs["before"] != response.outputs["after"]


class Lost(Counted):
    """A tool whose answer is lost the first time, whatever it did."""

    def __init__(self, verdict: Any = None) -> None:
        super().__init__("pay", Effect.WRITE, self._once)
        self._verdict = verdict
        if verdict is not None:
            self.reconcile = self._reconcile

    def _once(self, cents: int) -> Any:
        return {"try": 2} if len(self.calls) > 1 else ToolFailed("tool_timeout", "no answer", known=False)

    async def _reconcile(self, call: Any, arguments: Any) -> Any:
        return self._verdict


@pytest.mark.parametrize(
    "verdict, outputs, calls", [(Happened({"id": 7}), {"paid": {"id": 7}}, 1), (DidNotHappen(), {"paid": {"try": 2}}, 2)]
)
async def test_a_lost_call_is_looked_up_before_anything_is_sent_again(tmp_path: Path, verdict: Any, outputs: Any, calls: int) -> None:
    pay = Lost(verdict)
    async with worker_service(InlineWorker(contract("pay"), paying, pay), folder=tmp_path) as service:
        response = await service.invoke(request(), LOCAL)
    assert (response.outputs, len(pay.calls)) == (outputs, calls)
    assert len({call.idempotency_key for call in pay.calls}) == 1


@pytest.mark.parametrize(
    "said, outputs, calls", [("happened", {"paid": {"id": 7}}, 1), ("not_happened", {"paid": {"try": 2}}, 2), ("stop", None, 1)]
)
async def test_what_nobody_knows_a_person_says(tmp_path: Path, said: str, outputs: Any, calls: int) -> None:
    pay = Lost()
    async with worker_service(InlineWorker(contract("pay"), paying, pay), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        waiting = await service.invoke(request(), LOCAL)
        assert waiting.error is not None
        assert (waiting.status, waiting.error.error_code) == (ResponseStatus.NEEDS_HUMAN, "unknown_outcome")
        result: dict[str, Any] = {"result": {"id": 7}} if said == "happened" else {}
        await service.decide(waiting.approvals[0]["approval_id"], decision(said, **result), LOCAL)
        response = await service.response(waiting.run_id, LOCAL)
    assert (response.outputs, len(pay.calls)) == (outputs, calls)


async def test_a_run_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    pay, worker = payer()
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await asked(service)
        response = await service.cancel(run, LOCAL)
    assert response.error is not None
    assert (response.status, response.error.error_code, pay.calls) == (ResponseStatus.PERMANENT_ERROR, "cancelled", [])
