"""A worker is not a function: no payload starts or invokes it by its name, and an execution that was not accepted is not a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import WorkerRequest
from holdfast.durable.exceptions import InvokeError
from holdfast.durable.execution import DurableFunction
from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.invoke import Invoke
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionNotFound, FunctionNotFound
from holdfast.model.execution import ExecutionStatus, Terms
from holdfast.model.history import KIND
from holdfast.model.ids import LATEST, Ids
from holdfast.model.life import new_execution
from holdfast.model.operations import Action, Kind, Type
from holdfast.model.verbs import Start
from holdfast.model.wire import checkpoint_from_json
from holdfast.service.client import Client
from holdfast.service.settings import Settings
from holdfast.store.seam import Store
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approval_pages import undecided
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller, find_run, run_views
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.folder import Folder
from tests.workers.harness import LOCAL, InlineWorker, contract, request, worker_service

RAN: list[str] = []


async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    RAN.append("body")
    return {"done": True}


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def forged() -> str:
    order = AcceptedRequest(
        request=WorkerRequest(worker_id="w", inputs={}),
        version="1.0",
        limits=contract().limits,
        package="p",
        tenant="default",
        requested_by="x",
        family="f",
        trace_id="t",
        span_id="s",
    )
    return msgspec.json.encode(order).decode()


def row(store: Store, clock: VirtualClock, *, name: str = "forged", kind: Kind = Kind.FUNCTION) -> str:
    """An execution of the worker's name that was written directly into the store."""
    header = new_execution(
        Ids(Random(name))(clock.now()), name, "w", LATEST, payload=forged(), now=clock.now(), terms=Terms(), tenant="default"
    )
    store.commit([Start(header, forged(), kind=kind)], clock.now())
    return header.id


async def test_the_engine_starts_no_worker_by_its_name_with_a_forged_order(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        with pytest.raises(FunctionNotFound, match="No function 'w'"):
            await service._engine.start("w", forged(), tenant="default")
        accepted = await service.invoke(request(), LOCAL)
    assert (accepted.status, RAN) == (ResponseStatus.OK, ["body"])


@pytest.mark.parametrize("named", ["w", "w:$LATEST"])
async def test_a_function_that_invokes_a_worker_is_told_that_there_is_no_such_function(tmp_path: Path, named: str) -> None:
    @holdfast.durable_execution
    async def caller(event: Any, context: Any) -> Any:
        try:
            return await context.invoke(named, forged())
        except InvokeError as error:
            return error.error_type

    service = WorkerService(policy=Policy(), artifacts=Artifacts(Folder(tmp_path), 1000), find=_never)
    service.serve(InlineWorker(contract(), body))
    settings = Settings(clock=VirtualClock(), ids=Ids(Random(0)), tune=False)
    async with holdfast.open(":memory:", functions=[caller, *service.functions()], settings=settings) as engine:
        service.attach(engine._engine)
        execution = await engine.start("caller")
        assert await execution.result() == "ResourceNotFoundException"
        assert [header.function for header in [x async for x in engine.list()]] == ["caller"]
    assert RAN == []


async def _never(worker_id: str, package: str) -> Any:
    raise AssertionError("every package of these tests is served")


async def test_the_lambda_api_knows_no_worker(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        api = LambdaApi(service._engine)
        with pytest.raises(FunctionNotFound):
            await api.invoke(Invoke(function="w", qualifier=LATEST, kind="Event", payload=forged().encode(), tenant="default"))
        with pytest.raises(FunctionNotFound):
            await api.start("w", LATEST, forged().encode(), tenant="default")
        assert api.list_functions(None, None, None)["Functions"] == []
    assert RAN == []


def test_no_order_can_be_written_on_the_wire() -> None:
    """An official SDK, or a request made by hand, that brings one brings nothing."""
    update = (
        '{"Id": "a", "Type": "CHAINED_INVOKE", "Action": "START", "Payload": "{}", "Order": {"kind": "worker", "input": "{}"},'
        ' "order": {"kind": "worker", "input": "{}"}, "ChainedInvokeOptions": {"FunctionName": "w", "Order": {"kind": "worker"}}}'
    )
    asked = checkpoint_from_json(f'{{"CheckpointToken": "t", "Updates": [{update}]}}'.encode())
    (read,) = asked.updates
    assert (read.type, read.action, read.order) == (Type.CHAINED_INVOKE, Action.START, None)


async def test_a_row_that_was_not_accepted_runs_nothing_and_is_no_run(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=clock) as service:
        store = service._engine.store
        mine = (await service.accept(request(), LOCAL))[0]
        await asyncio.wait_for(service._engine.ending(mine.id), 30)
        made_up = row(store, clock)
        service._engine.look_for_work()
        over, _ = await asyncio.wait_for(service._engine.ending(made_up), 30)
        assert over.status is ExecutionStatus.FAILED
        assert RAN == ["body"]
        with pytest.raises(ExecutionNotFound):
            find_run(store, made_up, LOCAL)
        assert [one.header.id for one in run_views(store, LOCAL, limit=10)] == [mine.id]
        assert list(undecided(store, LOCAL)) == []


async def test_rows_from_before_runs_were_marked_stay_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=clock) as service:
        store = service._engine.store
        old = row(store, clock, name="old")
        monkeypatch.setattr(type(store), "unmarked", old)
        service._engine.look_for_work()
        over, _ = await asyncio.wait_for(service._engine.ending(old), 30)
        assert over.status is ExecutionStatus.SUCCEEDED
        assert find_run(store, old, Caller())[0].id == old
    assert RAN == ["body"]


async def test_the_mark_is_in_the_history_and_never_on_the_wire(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        mine = (await service.accept(request(), LOCAL))[0]
        (line,) = service._engine.store.history(mine.id, 0, 1)
        assert (line.event.detail or {})[KIND] == "worker"
        shown = LambdaApi(service._engine).history(holdfast_arn(mine), include_data=True)["Events"][0]
    assert KIND not in shown["ExecutionStartedDetails"]


def holdfast_arn(header: Any) -> str:
    from holdfast.descriptions.executions import arn_of

    return arn_of(header)


async def test_a_client_leaves_no_execution_of_a_workers_name(tmp_path: Path) -> None:
    where = str(tmp_path / "store.db")
    async with worker_service(InlineWorker(contract(), body), where, folder=tmp_path / "a"):
        pass

    async def handler(event: Any, context: Any) -> Any:
        return None

    same = DurableFunction(handler, name="w", version=LATEST, terms=Terms())
    with Client.open(where) as client, pytest.raises(FunctionNotFound, match="is a worker"):
        client.start(same, forged())
