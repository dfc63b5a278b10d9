"""Detours around roles: a callback's id cancels no run, a claimed user hides no requester, and no verb of people does another's work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.terms import RateLimit
from holdfast.exports.exporting import exported
from holdfast.model.audit import Actor, NoteFilter, principal
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import CallbackNotFound, InvalidParameter
from holdfast.model.execution import State
from holdfast.model.operations import Failure
from holdfast.service.client import Client
from holdfast.workers.approvals import ApprovalRefused, Decision
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Effect, ToolFailed
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

HERE = Caller(principal="local:ann", actor=Actor(who="local:ann", origin="127.0.0.1"))


def decision(verdict: str = "approve", by: str = "local:ann", **more: Any) -> Decision:
    return Decision(verdict=verdict, decided_by=by, decided_at=VirtualClock().now(), **more)  # else upkeep removes its note as an old one


async def paying(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"paid": await ctx.tools.pay(cents=5)}


async def asking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"said": await ctx.ask("which?")}


def payer() -> InlineWorker:
    return InlineWorker(contract("pay"), paying, Counted("pay", Effect.WRITE, lambda cents: {"cents": cents}), approvals=frozenset({"pay"}))


def loser() -> InlineWorker:
    def lost(cents: int) -> Any:
        raise ToolFailed("tool_failed", "the line broke", known=False)

    return InlineWorker(contract("pay"), paying, Counted("pay", Effect.WRITE, lost))


async def waits(service: WorkerService, caller: Caller = HERE, **more: Any) -> tuple[str, dict[str, Any]]:
    response = await service.invoke(request(**more), caller)
    assert response.status is ResponseStatus.NEEDS_HUMAN
    (approval,) = response.approvals
    return response.run_id, approval


# --- callbacks


@pytest.mark.parametrize("how", ["succeed", "fail", "heartbeat"])
@pytest.mark.parametrize("kind", ["Cancel", "Approval"])
async def test_no_answer_to_a_callback_id_cancels_or_decides_a_run(tmp_path: Path, kind: str, how: str) -> None:
    """A caller who may read the history sees the ids there, and an approver may answer callbacks."""
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await waits(service)
        engine = service._engine
        (callback,) = [op.callback_id for op in engine.store.operations(run) if op.sub_type == kind]
        assert callback is not None
        answers = {
            "succeed": lambda: engine.answer(callback, "null"),
            "fail": lambda: engine.answer(callback, error=Failure("cancelled")),
            "heartbeat": lambda: engine.heartbeat(callback),
        }
        with pytest.raises(CallbackNotFound):
            await answers[how]()
        assert (await service.response(run, HERE, wait=0)).status is ResponseStatus.NEEDS_HUMAN
        cancelled = await service.cancel(run, HERE)
    assert cancelled.error is not None
    assert cancelled.error.error_code == "cancelled"


# --- who asks


async def test_a_claimed_user_does_not_make_a_request_anybody_elses(tmp_path: Path) -> None:
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        _, approval = await waits(service, user="boss")
        decided = await service.decide(approval["approval_id"], decision(), HERE)
        (noted,) = service._engine.store.audit(NoteFilter())
    assert (approval["requested_by"], decided.decided_by, decided.own_request) == ("local:ann", "local:ann", True)
    assert (noted.note.who, noted.note.what, noted.note.on) == ("local:ann", "approve", approval["approval_id"])
    assert noted.note.outcome == "approve, own request"


async def test_a_claimed_user_says_nothing_but_whose_rate_is_used(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {}

    worker = InlineWorker(contract(rate_limit=RateLimit(1, 60, "user")), body)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        codes = []
        for user in ("a", "a", "b", None):
            response = await service.invoke(request(user=user), HERE)
            codes.append(None if response.error is None else response.error.error_code)
    assert codes == [None, "rate_limited", None, None]


def test_where_nobody_logs_in_the_user_of_the_machine_acts() -> None:
    assert principal().startswith("local:")


# --- settle is not approve


async def test_approve_answer_and_reject_do_not_settle_an_unknown_outcome(tmp_path: Path) -> None:
    async with worker_service(loser(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, approval = await waits(service)
        assert approval["kind"] == "unknown_outcome"
        for verdict in ("approve", "reject", "answer"):
            with pytest.raises(ApprovalRefused, match="happened or not_happened or stop"):
                await service.decide(approval["approval_id"], decision(verdict), HERE)
        await service.decide(approval["approval_id"], decision("happened", result={"id": 7}), HERE)
        response = await service.response(run, HERE)
        whats = [noted.note.what for noted in service._engine.store.audit(NoteFilter())]
    assert response.outputs == {"paid": {"id": 7}}
    assert whats == ["settle"]


@pytest.mark.parametrize("verdict", ["happened", "not_happened", "stop"])
async def test_settling_approves_nothing(tmp_path: Path, verdict: str) -> None:
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        _, approval = await waits(service)
        with pytest.raises(ApprovalRefused, match="approve or reject"):
            await service.decide(approval["approval_id"], decision(verdict), HERE)


async def test_a_question_is_left_unanswered_by_reject_and_not_by_settle(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), asking), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, approval = await waits(service)
        with pytest.raises(ApprovalRefused, match="answer or reject"):
            await service.decide(approval["approval_id"], decision("stop"), HERE)
        await service.decide(approval["approval_id"], decision("reject"), HERE)
        response = await asyncio.wait_for(service.response(run, HERE), 30)
    assert response.error is not None
    assert response.error.error_code == "approval_rejected"


# --- copies


async def test_a_copy_of_a_run_cannot_be_cancelled(tmp_path: Path) -> None:
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await waits(service)
        snapshot = service._engine.store.snapshot(run)
    assert snapshot is not None
    with Client.open(str(tmp_path / "copies.db"), create=True, clock=VirtualClock(skipping=False)) as client:
        client.import_execution(exported(snapshot, VirtualClock().now(), include_data=True))
        with pytest.raises(InvalidParameter, match="is an imported copy: there is nothing to stop"):
            client.runs.cancel(run)
        assert client.get(run).state is State.IMPORTED


# --- what is noted


async def test_a_cancel_is_noted_with_the_write_that_cancels_and_once(tmp_path: Path) -> None:
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await waits(service)
        for _ in range(2):
            await service.cancel(run, HERE)
        notes = [noted.note for noted in service._engine.store.audit(NoteFilter())]
    assert [(note.who, note.what, note.on, note.origin, note.outcome) for note in notes] == [
        ("local:ann", "cancel", run, "127.0.0.1", "cancelled")
    ]


async def test_a_program_that_decides_for_itself_is_nobody_to_note(tmp_path: Path) -> None:
    async with worker_service(payer(), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        run, _ = await waits(service, LOCAL)
        await service.cancel(run, LOCAL)
        assert list(service._engine.store.audit(NoteFilter())) == []
