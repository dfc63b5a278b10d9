"""Runs of workers in queues: the contract's rate holds at admission, tokens are settled, failed runs are parked and run again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

import holdfast
from holdfast import Settings, WorkerError
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RateLimit, Retries
from holdfast.engine.enqueues import enqueue_of
from holdfast.model.clock import SystemClock, VirtualClock
from holdfast.model.errors import LimitReached
from holdfast.model.execution import State
from holdfast.model.ids import id_at
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import Mode, QueueRow, checked_declaration
from holdfast.model.rates import Rate
from holdfast.queues.store_queues import StoreQueues
from holdfast.server.protocol.queues import Queues
from holdfast.store.backends import open_store
from holdfast.testing.stores.queue_writes import queued
from holdfast.testing.stores.writes import T0
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.queued_runs import redriven_run
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Effect, ToolFailed, Usage
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

ASKED = enqueue_of("emails")


async def nothing(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"given": inputs}


def declare(service: WorkerService, **settings: Any) -> None:
    service._engine.store.declare([checked_declaration("emails", settings)])


def admitted_seconds(service: WorkerService, *runs: str) -> list[int]:
    """When each run was admitted, in seconds after the first was enqueued."""
    headers = [service._engine.store.find(run) for run in runs]
    places = [header.place for header in headers if header is not None and header.place is not None]
    began = min(header.started_at for header in headers if header is not None)
    return [round(((place.admitted_at or 0) - began) / 1000) for place in places]


async def test_a_queued_run_gives_its_response_as_any_run_does(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        run = await service.enqueue(request(a=1), LOCAL, ASKED)
        response = await service.response(run.id, LOCAL)
    assert (response.status, response.outputs) == (ResponseStatus.OK, {"given": {"a": 1}})


async def test_the_rate_of_the_contract_delays_queued_runs_and_refuses_none(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(rate_limit=RateLimit(2, 60)), nothing), folder=tmp_path) as service:
        runs = [await service.enqueue(request(n=n), LOCAL, ASKED) for n in range(5)]
        responses = [await service.response(run.id, LOCAL) for run in runs]
        assert [response.status for response in responses] == [ResponseStatus.OK] * 5
        assert admitted_seconds(service, *(run.id for run in runs)) == [0, 0, 30, 60, 90]


@pytest.mark.parametrize("changed", ["a new version", "the operator's file", "no rate any more"])
async def test_runs_that_wait_follow_a_rate_that_changes(tmp_path: Path, changed: str) -> None:
    """One an hour at first, and then one a minute, for runs that wait since before the change."""
    slow, quick = RateLimit(1, 3600), None if changed == "no rate any more" else RateLimit(1, 60)
    clock, where = VirtualClock(), str(tmp_path / "w.db")
    async with worker_service(InlineWorker(contract(rate_limit=slow), nothing), where, folder=tmp_path, clock=clock) as service:
        declare(service, limits={"at_once": 1})
        runs = [await service.enqueue(request(n=n), LOCAL, ASKED) for n in range(3)]
        assert (await service.response(runs[0].id, LOCAL)).status is ResponseStatus.OK
    renewed = contract(version="1.0" if changed == "the operator's file" else "1.1", rate_limit=slow if "file" in changed else quick)
    policy = Policy(rate_limits={"w": quick}) if "file" in changed and quick is not None else Policy()
    async with worker_service(InlineWorker(renewed, nothing), where, folder=tmp_path, clock=clock, policy=policy) as service:
        service._engine.look_for_work()
        for run in runs:
            assert (await service.response(run.id, LOCAL)).status is ResponseStatus.OK
        assert admitted_seconds(service, *(run.id for run in runs)) == ([0, 0, 0] if quick is None else [0, 60, 120])


async def test_a_lane_that_another_process_made_with_an_older_rate_follows_with_the_next_chore(tmp_path: Path) -> None:
    where, newer = str(tmp_path / "w.db"), InlineWorker(contract(rate_limit=RateLimit(1, 60)), nothing)
    async with worker_service(newer, where, folder=tmp_path) as service:
        store = service._engine.store
        assert store.set_queue(QueueRow(name="emails", mode=Mode.PAUSED))
        assert store.commit([queued("late", queue="emails", function="w", rates=(Rate(1, 3600, 1),))], T0)
        (chore,) = service._engine.chores
        await chore()
        assert not store.set_rate("w", Rate(1, 60, 1))


async def test_a_rate_for_each_user_makes_the_user_the_key_of_the_lane(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(rate_limit=RateLimit(1, 60, "user")), nothing), folder=tmp_path) as service:
        runs = [await service.enqueue(request(user=user), LOCAL, ASKED) for user in ("a", "a", "b")]
        for run in runs:
            assert (await service.response(run.id, LOCAL)).status is ResponseStatus.OK
        assert admitted_seconds(service, *(run.id for run in runs)) == [0, 60, 0]


@pytest.mark.parametrize("per, seconds", [("tenant", [0, 60, 120, 180]), ("user", [0, 0, 60, 60])])
async def test_another_key_or_another_queue_does_not_lead_around_the_rate_of_the_contract(
    tmp_path: Path, per: Literal["tenant", "user"], seconds: list[int]
) -> None:
    async with worker_service(InlineWorker(contract(rate_limit=RateLimit(1, 60, per)), nothing), folder=tmp_path) as service:
        places = [enqueue_of(queue, key=key) for queue, key in (("emails", "a"), ("emails", "b"), ("second", None), ("second", "a"))]
        runs = [await service.enqueue(request(n=n, user=f"u{n % 2}"), LOCAL, place) for n, place in enumerate(places)]
        for run in runs:
            assert (await service.response(run.id, LOCAL)).status is ResponseStatus.OK
        assert sorted(admitted_seconds(service, *(run.id for run in runs))) == seconds


async def test_a_day_cap_is_charged_when_the_run_is_enqueued(tmp_path: Path) -> None:
    policy = Policy(caps=DayCaps(runs=1))
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path, policy=policy) as service:
        await service.enqueue(request(), LOCAL, ASKED)
        with pytest.raises(LimitReached):
            await service.enqueue(request(), LOCAL, ASKED)


async def test_a_request_that_does_not_fit_and_a_full_queue_enqueue_nothing(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["url"]}
    async with worker_service(InlineWorker(contract(input_schema=schema), nothing), folder=tmp_path) as service:
        with pytest.raises(InvalidRequest):
            await service.enqueue(request(), LOCAL, ASKED)
        declare(service, most_waiting=1)
        late = enqueue_of("emails", delay=60)
        waiting = await service.enqueue(request(url="a"), LOCAL, late)
        assert waiting.state is State.DELAYED
        assert service._engine.store.queue_state("emails", 0).waiting == 0


async def test_a_second_request_of_a_key_finds_the_queued_run(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        first = await service.enqueue(request(a=1, idempotency_key="k"), LOCAL, ASKED)
        again = await service.enqueue(request(a=1, idempotency_key="k"), LOCAL, ASKED)
        asked = await service.invoke(request(a=1, idempotency_key="k"), LOCAL)
        with pytest.raises(InvalidRequest, match="used before"):
            await service.enqueue(request(a=2, idempotency_key="k"), LOCAL, ASKED)
    assert first.id == again.id == asked.run_id


async def test_tokens_that_a_run_did_not_use_are_free_for_the_next_one(tmp_path: Path) -> None:
    """Each run may use 100 tokens and uses 10: of 100 a minute, ten runs fit instead of one."""
    tool = Counted("think", Effect.READ, usage=Usage(input_tokens=6, output_tokens=4))

    async def thinks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.think()
        return {}

    worker = InlineWorker(contract("think", limits={"max_tokens": 100}), thinks, tool)
    async with worker_service(worker, folder=tmp_path) as service:
        declare(service, limits={"rates": ["100 tokens/60s burst 100"]})
        runs = [await service.enqueue(request(n=n), LOCAL, ASKED) for n in range(3)]
        assert runs[0].place is not None
        assert runs[0].place.units == 100
        for run in runs:
            assert (await service.response(run.id, LOCAL)).status is ResponseStatus.OK
        assert admitted_seconds(service, *(run.id for run in runs)) == [0, 6, 12]


async def test_a_failed_run_is_parked_and_its_redrive_inherits_its_receipts(tmp_path: Path) -> None:
    paid = Counted("pay", Effect.WRITE, lambda: {"id": 7})
    tries: list[int] = []

    async def pays(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        receipt = await ctx.tools.pay()
        tries.append(1)
        if len(tries) == 1:
            raise WorkerError("permanent_error", "not today")
        return {"paid": receipt}

    worker = InlineWorker(contract("pay", retries=Retries(max_attempts=1)), pays, paid)
    async with worker_service(worker, folder=tmp_path) as service:
        first = await service.enqueue(request(idempotency_key="k"), LOCAL, ASKED)
        assert (await service.response(first.id, LOCAL)).status is not ResponseStatus.OK
        assert [header.id for header in service._engine.store.parked("emails")] == [first.id]
        again = await service._engine.redrive(first.id, redriven_run)
        response = await service.response(again.id, LOCAL)
        assert (response.status, response.outputs) == (ResponseStatus.OK, {"paid": {"id": 7}})
        assert (again.name, len(paid.calls)) == (first.name, 1)
        assert service._engine.store.parked("emails") == []


async def redriven_by_an_engine(where: str, run: str) -> None:
    async with holdfast.open(where, settings=Settings(clock=VirtualClock(), tune=False)) as engine:
        await engine.redrive(run)


async def redriven_in_the_store(where: str, run: str) -> None:
    with closing(open_store(where, "a look from outside", None)) as store:
        header = store.find(run)
        assert header is not None
        (done,) = StoreQueues(store, SystemClock(), id_at).redrive([header])
        assert done.error is None


async def redriven_over_http(where: str, run: str) -> None:
    async with holdfast.open(where, settings=Settings(clock=VirtualClock(), tune=False)) as engine:
        told = await Queues(engine._engine, id_at, None)._redriven(engine._store.find(run), run)
        assert "error" not in told


@pytest.mark.parametrize("redrive", [redriven_by_an_engine, redriven_in_the_store, redriven_over_http])
async def test_a_run_that_a_process_without_its_worker_redrives_makes_no_write_twice(
    tmp_path: Path, redrive: Callable[[str, str], Awaitable[None]]
) -> None:
    paid, where, tries = Counted("pay", Effect.WRITE, lambda: {"id": 7}), str(tmp_path / "w.db"), count(1)

    async def pays(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        receipt = await ctx.tools.pay()
        if next(tries) <= 2:
            raise WorkerError("permanent_error", "not today")
        return {"paid": receipt}

    worker = InlineWorker(contract("pay", retries=Retries(max_attempts=1)), pays, paid)
    async with worker_service(worker, where, folder=tmp_path) as service:
        run = (await service.enqueue(request(idempotency_key="k"), LOCAL, ASKED)).id
        await service.response(run, LOCAL)
    for status in (ResponseStatus.PERMANENT_ERROR, ResponseStatus.OK):
        await redrive(where, run)
        async with worker_service(worker, where, folder=tmp_path) as service:
            run = service._engine.store.find(run).superseded_by  # type: ignore[union-attr, assignment]
            assert (await service.response(run, LOCAL)).status is status
    assert len(paid.calls) == 1


async def test_a_server_that_says_come_back_later_closes_the_lane_until_then(tmp_path: Path) -> None:
    told: list[int] = []

    def busy() -> Any:
        told.append(1)
        return ToolFailed("rate_limited", "slow down", retry_after_seconds=40.0) if len(told) == 1 else {"ok": True}

    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.tools.ask_it()}

    worker = InlineWorker(contract("ask_it", retries=Retries(max_attempts=1)), asks, Counted("ask_it", Effect.READ, busy))
    async with worker_service(worker, folder=tmp_path) as service:
        declare(service, limits={"at_once": 1})
        runs = [await service.enqueue(request(n=n), LOCAL, ASKED) for n in range(2)]
        statuses = [(await service.response(run.id, LOCAL)).status for run in runs]
        assert statuses == [ResponseStatus.RETRYABLE_ERROR, ResponseStatus.OK]
        assert admitted_seconds(service, *(run.id for run in runs)) == [0, 40]


async def test_many_requests_are_enqueued_in_one_commit(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        declare(service, most_waiting=150)
        done = await service.enqueue_many([request(n=n) for n in range(200)], LOCAL, ASKED)
        runs = [one for one in done if not isinstance(one, Exception)]
        assert (len(runs), type(done[-1])) == (150, QueueFull)
        for n, run in enumerate(runs):
            assert (await service.response(run.id, LOCAL)).outputs == {"given": {"n": n}}
