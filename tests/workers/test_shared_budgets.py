"""Budgets that runs share: calls of many runs stay within the budget of the pipeline's run above them, and wait only for each other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Constraints, Response
from holdfast.model.charges import Counter
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import LimitReached
from holdfast.store.seam import Filter
from holdfast.workers import accept, budgets
from holdfast.workers.accepted_request import AcceptedRequest, Budget
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.budgets import Settlements, SharedBudgets, owner
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, ToolFailed, Usage
from tests.postgres import empty_store
from tests.workers.harness import Counted, InlineWorker, contract, request, worker_service

LONG_AFTER = VirtualClock().now() + 10**10
PIPELINE = Budget(key="budget/run-1", max_tokens=100, until=LONG_AFTER)
NODE = Budget(key="budget/run-1/facts", max_tokens=60, until=LONG_AFTER)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "s.db") if request.param == "sqlite" else empty_store()


@pytest.fixture
def under(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets every run that begins be one below these budgets."""

    def put(*above: Budget) -> None:
        first = accept.first_run

        def first_run(*asked: Any) -> AcceptedRequest:
            return msgspec.structs.replace(first(*asked), budgets=above)

        monkeypatch.setattr(accept, "first_run", first_run)

    return put


class Model(Counted):
    """A model's server that counts, and whose answers a test may hold back."""

    def __init__(self, reserves: int = 50, uses: int = 20, effect: Effect = Effect.READ) -> None:
        super().__init__("model", effect)
        self.reserves, self.uses = reserves, uses
        self.counted = self.most_at_once = self.at_once = 0
        self.held: dict[int, asyncio.Event] = {}
        """Calls, by their number from 1, that wait for this before they answer."""
        self.came = asyncio.Event()
        self.failure: ToolFailed | None = None

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        return Reservation(arguments.get("reserves", self.reserves))

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        self.calls.append(call)
        number = len(self.calls)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.came.set()
            await asyncio.sleep(0)
            if number in self.held:
                await self.held[number].wait()
            if self.failure is not None:
                raise self.failure
        finally:
            self.at_once -= 1
        uses = arguments.get("uses", self.uses)
        self.counted += uses
        return CallResult({"number": number}, Usage(uses, 0))


async def thinking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Asks the model as often as it is told."""
    for n in range(inputs.get("times", 1)):
        await ctx.tools.model(n=n, **inputs.get("call", {}))
    return {}


def worker(model: Model, attempts: int = 1, **limits: Any) -> InlineWorker:
    retries = msgspec.structs.replace(contract().retries, max_attempts=attempts)
    return InlineWorker(contract("model", limits=limits, retries=retries), thinking, model)


@contextlib.asynccontextmanager
async def served(model: Model, where: str, folder: Path, later: int = 0, **limits: Any) -> AsyncIterator[WorkerService]:
    clock = VirtualClock(VirtualClock().now() + later, skipping=False)
    async with worker_service(worker(model, **limits), where, folder=folder, clock=clock) as service:
        yield service


def counter(service: WorkerService, budget: Budget = PIPELINE, what: str = "tokens") -> Counter:
    (found,) = service._engine.store.counters([f"{budget.key}/{what}"])
    return found


async def waiting(service: WorkerService) -> None:
    """Return when a call waits for a settlement."""
    while not service.settlements._lines:
        await asyncio.sleep(0)


def told(response: Response) -> tuple[str, str]:
    assert response.error is not None
    return response.error.error_code, response.error.message


# --- many at once


async def test_many_runs_below_one_budget_never_pass_it_and_the_sums_are_equal(where: str, under: Any, tmp_path: Path) -> None:
    budget = msgspec.structs.replace(PIPELINE, max_tokens=1_000)
    under(budget)
    model = Model()
    async with served(model, where, tmp_path) as service:
        responses = await asyncio.gather(*(service.invoke(request(times=3), Caller()) for _ in range(20)))
        end = counter(service, budget)
    codes = [response.error.error_code if response.error else "ok" for response in responses]
    assert set(codes) == {"ok", "budget_exceeded"}
    assert end == Counter("budget/run-1/tokens", model.counted, LONG_AFTER, 0)
    assert 1_000 - 50 < model.counted <= 1_000, "refused only when no call fits any more"
    assert model.counted == sum(response.observability.usage.tokens.input for response in responses)
    assert 1 < model.most_at_once <= 20, "at most 20 reservations of 50 fit into 1,000"


async def test_what_a_call_uses_beyond_its_reservation_is_all_that_a_budget_can_be_passed_by(
    where: str, under: Any, tmp_path: Path
) -> None:
    under(PIPELINE)
    model = Model(reserves=30, uses=45)
    async with served(model, where, tmp_path) as service:
        await asyncio.gather(*(service.invoke(request(times=3), Caller()) for _ in range(5)))
        end = counter(service)
    assert (end.amount, end.reserved) == (model.counted, 0)
    assert model.counted <= 100 + 15 * len(model.calls)


# --- waiting for a settlement


async def test_a_call_that_fits_what_is_spent_waits_until_another_call_is_settled(where: str, under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model(reserves=80)
    first = model.held[1] = asyncio.Event()
    async with served(model, where, tmp_path) as service:
        one = asyncio.ensure_future(service.invoke(request(), Caller()))
        await model.came.wait()
        two = asyncio.ensure_future(service.invoke(request(), Caller()))
        await waiting(service)
        assert (len(model.calls), counter(service)) == (1, Counter("budget/run-1/tokens", 0, LONG_AFTER, 80))
        first.set()
        responses = [await one, await two]
        end = counter(service)
    assert [response.status for response in responses] == [ResponseStatus.OK, ResponseStatus.OK]
    assert (end.amount, end.reserved, model.most_at_once) == (40, 0, 1)
    assert service.settlements._lines == {}


async def test_a_settlement_of_another_process_is_found_by_asking_again(
    where: str, under: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settlements, "told", lambda *_: None)
    under(PIPELINE)
    model = Model(reserves=80)
    first = model.held[1] = asyncio.Event()
    async with served(model, where, tmp_path) as service:
        one = asyncio.ensure_future(service.invoke(request(), Caller()))
        await model.came.wait()
        two = asyncio.ensure_future(service.invoke(request(), Caller()))
        await waiting(service)
        first.set()
        assert [(await each).status for each in (one, two)] == [ResponseStatus.OK, ResponseStatus.OK]


async def test_calls_that_wait_go_on_in_the_order_they_came(under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model(reserves=100, uses=10)
    first = model.held[1] = asyncio.Event()
    async with served(model, ":memory:", tmp_path) as service:
        runs = [asyncio.ensure_future(service.invoke(request(call={"uses": n}), Caller())) for n in range(1)]
        await model.came.wait()
        for n in range(1, 6):
            runs.append(asyncio.ensure_future(service.invoke(request(call={"uses": n, "reserves": 60}), Caller())))
            while sum(map(len, service.settlements._lines.values())) < n:
                await asyncio.sleep(0)
        first.set()
        responses = await asyncio.gather(*runs)
    assert [response.status for response in responses] == [ResponseStatus.OK] * 6
    assert [call.run_id for call in model.calls] == [response.run_id for response in responses]


async def test_the_time_of_an_attempt_stands_still_while_its_call_waits(under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model(reserves=60)
    first = model.held[1] = asyncio.Event()
    seconds, left = 1.0, []

    async def timed(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await asyncio.gather(*(ctx.tools.model(n=n) for n in range(inputs.get("times", 1))))
        left.append(ctx.remaining().total_seconds())
        return {}

    async with worker_service(
        InlineWorker(contract("model"), timed, model), folder=tmp_path, clock=VirtualClock(skipping=False)
    ) as service:
        one = asyncio.ensure_future(service.invoke(request(), Caller()))
        await model.came.wait()
        two = asyncio.ensure_future(service.invoke(request(times=2, constraints=Constraints(timeout_seconds=seconds)), Caller()))
        await waiting(service)
        await asyncio.wait([two], timeout=1.5 * seconds)
        assert not two.done()
        first.set()
        responses = [await one, await two]
        attempt = next(op for op in service._engine.store.operations(responses[1].run_id) if op.sub_type == "Attempt")
    assert [response.status for response in responses] == [ResponseStatus.OK, ResponseStatus.OK]
    assert 0 < left[1] < seconds
    assert json.loads(attempt.result or "")["duration_ms"] < 1000 * seconds
    assert service.settlements._lines == {}


async def test_a_call_that_waits_ends_with_its_run(under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model(reserves=80)
    first = model.held[1] = asyncio.Event()
    async with served(model, ":memory:", tmp_path) as service:
        one = asyncio.ensure_future(service.invoke(request(), Caller()))
        await model.came.wait()
        two = asyncio.ensure_future(service.invoke(request(), Caller()))
        await waiting(service)
        (cancelled,) = [run.id for run in service._engine.store.list(Filter(limit=2)) if run.id != model.calls[0].run_id]
        await service.cancel(cancelled, Caller())
        assert (told(await two)[0], service.settlements._lines) == ("cancelled", {})
        first.set()
        assert (await one).status is ResponseStatus.OK


async def test_a_call_that_waits_while_nothing_is_settled_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedBudgets((NODE,), VirtualClock(), Settlements())
    monkeypatch.setattr(budgets, "_LONGEST_STANDSTILL", 0.0)
    reserved = iter([60, 45, 45])

    async def full() -> None:
        raise LimitReached("budget/run-1/facts/tokens", 60, LONG_AFTER, spent=10, reserved=next(reserved), is_curable=True)

    with pytest.raises(ToolFailed) as failed:
        await shared.admitted("model", AttemptTime(), full, lambda limit: ToolFailed("x", "x"))
    assert (failed.value.code, failed.value.message) == (
        "tool_timeout",
        "model waited for room in a budget, and no call of the budget ended for an hour: node facts of pipeline run run-1 may "
        "spend 60 tokens, and has spent 10 tokens; calls under way have reserved 45 tokens.",
    )
    assert next(reserved, None) is None


# --- refused


async def test_a_call_that_does_not_fit_what_is_spent_is_refused_with_whose_budget_it_is(where: str, under: Any, tmp_path: Path) -> None:
    under(NODE, PIPELINE)
    model = Model(reserves=50, uses=20)
    async with served(model, where, tmp_path) as service:
        first = await service.invoke(request(), Caller())
        second = await service.invoke(request(), Caller())
        assert [counter(service, budget).amount for budget in (NODE, PIPELINE)] == [20, 20]
    assert first.status is ResponseStatus.OK
    assert told(second) == (
        "budget_exceeded",
        "model could use more than is left of a budget: node facts of pipeline run run-1 may spend 60 tokens, and has spent 20 tokens.",
    )
    assert len(model.calls) == 1


async def test_money_is_shared_too(where: str, under: Any, tmp_path: Path) -> None:
    under(Budget(key="budget/run-1", max_cost=Decimal("0.05"), until=LONG_AFTER))

    class Priced(Model):
        def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
            assert remaining.cost_usd is not None, "a budget of money needs a price"
            return Reservation(0, Decimal("0.03"))

        async def call(self, *asked: Any) -> CallResult:
            called = await super().call(*asked)
            return CallResult(called.result, Usage(0, 0, Decimal("0.025")))

    async with served(Priced(), where, tmp_path) as service:
        await service.invoke(request(), Caller())
        assert counter(service, what="cost").amount == 25_000_000
        second = await service.invoke(request(), Caller())
    assert told(second) == (
        "budget_exceeded",
        "model could use more than is left of a budget: pipeline run run-1 may spend $0.05, and has spent $0.025.",
    )


async def test_a_tool_that_can_reserve_less_reserves_what_is_left_of_the_tightest(where: str, under: Any, tmp_path: Path) -> None:
    under(NODE, PIPELINE)
    seen: list[Reservation] = []

    class Flexible(Model):
        """As the language model: the rest of the budget is for the output, but for a least."""

        def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
            assert remaining.tokens is not None
            if remaining.tokens < 15:
                raise ToolFailed("budget_exceeded", f"Too little: {remaining.tokens}.")
            return Reservation(min(40, remaining.tokens))

        async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
            seen.append(reservation)
            return await super().call(call, arguments, reservation)

    async with served(Flexible(uses=25), where, tmp_path) as service:
        response = await service.invoke(request(times=4), Caller())
    assert [reservation.tokens for reservation in seen] == [40, 35]
    assert told(response) == (
        "budget_exceeded",
        "Too little: 10. This is what is left of the budget of node facts of pipeline run run-1.",
    )


async def test_the_runs_own_cap_is_told_as_its_own(under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    async with served(Model(), ":memory:", tmp_path, max_tokens=30) as service:
        code, message = told(await service.invoke(request(), Caller()))
    assert (code, "pipeline run" in message) == ("budget_exceeded", False)


# --- calls that fail, are lost, or are left behind


async def test_a_call_that_was_not_billed_releases_its_reservation(where: str, under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model()
    model.failure = ToolFailed("tool_failed", "no connection")
    async with served(model, where, tmp_path) as service:
        await service.invoke(request(), Caller())
        assert counter(service) == Counter("budget/run-1/tokens", 0, LONG_AFTER, 0)


async def test_a_call_whose_outcome_is_unknown_is_spent_in_full(where: str, under: Any, tmp_path: Path) -> None:
    under(PIPELINE)
    model = Model()
    model.failure = ToolFailed("tool_failed", "cut off", known=False)
    async with served(model, where, tmp_path) as service:
        await service.invoke(request(), Caller())
        assert counter(service) == Counter("budget/run-1/tokens", 50, LONG_AFTER, 0)


async def test_a_read_that_the_end_of_its_attempt_cuts_off_is_spent_and_keeps_no_other_call_waiting(
    where: str, under: Any, tmp_path: Path
) -> None:
    under(PIPELINE)
    model = Model(reserves=60)
    model.held[1] = asyncio.Event()

    async def careless(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        task = asyncio.ensure_future(ctx.tools.model())
        await model.came.wait()
        del task
        return {}

    policy = msgspec.structs.replace(Policy(), grace_seconds=0.0)
    async with worker_service(
        InlineWorker(contract("model"), careless, model), where, folder=tmp_path, policy=policy, clock=VirtualClock(skipping=False)
    ) as service:
        assert (await service.invoke(request(), Caller())).status is ResponseStatus.OK
        assert counter(service) == Counter("budget/run-1/tokens", 60, LONG_AFTER, 0)


@pytest.mark.parametrize("calls", [1, 3])
async def test_a_runner_that_dies_between_intent_and_receipt_leaves_reserved_what_then_counts_as_spent(
    under: Any, tmp_path: Path, calls: int
) -> None:
    """The file is copied in the middle of the calls, as a runner that is killed then leaves it, and another runner has the copy."""
    under(PIPELINE)
    before, after = Model(reserves=30), Model(reserves=30)
    before.held = {n: asyncio.Event() for n in range(1, calls + 1)}
    async with served(before, str(tmp_path / "killed.db"), tmp_path) as service:
        runs = [asyncio.ensure_future(service.invoke(request(times=2), Caller())) for _ in range(calls)]
        while before.at_once < calls:
            await asyncio.sleep(0)
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "killed.db")) as source,
            contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
        ):
            source.backup(copy)
        for held in before.held.values():
            held.set()
        await asyncio.gather(*runs)
    async with served(after, str(tmp_path / "copy.db"), tmp_path, later=1_000) as service:
        assert (counter(service).reserved + counter(service).amount) >= 30 * calls, "what was reserved is not forgotten"
        ids = [header.id for header in service._engine.store.list(Filter(limit=10))]
        responses = await asyncio.gather(*(service.response(run_id, Caller()) for run_id in ids))
        end = counter(service)
    assert (end.amount, end.reserved) == (30 * calls + after.counted, 0), "each lost call counts in full, once"
    assert end.amount <= 100
    assert end.amount == sum(response.observability.usage.tokens.input for response in responses)


@pytest.mark.long
async def test_wherever_a_runner_dies_among_many_calls_the_budget_holds_and_the_sums_are_equal(under: Any, tmp_path: Path) -> None:
    """Twelve runs of three calls. The file is copied at the beginning of every fourth call, and each copy is run to its end."""
    budget = msgspec.structs.replace(PIPELINE, max_tokens=700)
    under(budget)
    copies: list[Path] = []

    class Copied(Model):
        async def call(self, *asked: Any) -> CallResult:
            if len(self.calls) % 4 == 3:
                copies.append(tmp_path / f"copy-{len(copies)}.db")
                with (
                    contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as source,
                    contextlib.closing(sqlite3.connect(copies[-1])) as copy,
                ):
                    source.backup(copy)
            return await super().call(*asked)

    async with served(Copied(), str(tmp_path / "s.db"), tmp_path) as service:
        await asyncio.gather(*(service.invoke(request(times=3), Caller()) for _ in range(12)))
    assert len(copies) >= 5
    for path in copies:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (reserved,) = connection.execute("SELECT reserved FROM counters").fetchone()
        after = Model()
        async with served(after, str(path), tmp_path, later=1_000) as service:
            ids = [header.id for header in service._engine.store.list(Filter(limit=100))]
            responses = await asyncio.gather(*(service.response(run_id, Caller()) for run_id in ids))
            end = counter(service, budget)
        assert reserved % 50 == 0
        assert (end.amount <= 700, end.reserved) == (True, 0)
        assert end.amount == sum(response.observability.usage.tokens.input for response in responses)


# --- words


@pytest.mark.parametrize("key, said", [("budget/run-1", "pipeline run run-1"), ("budget/run-1/facts", "node facts of pipeline run run-1")])
def test_a_budget_is_told_by_who_has_it(key: str, said: str) -> None:
    assert owner(key) == said
