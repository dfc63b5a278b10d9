"""What a review of the core found: hostile and odd values, forged orders, clocks that went back, and what must not be shared."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Constraints, Tokens, WorkerRequest
from holdfast.contract.terms import Retries, RunLimits
from holdfast.durable.journal import identity_of
from holdfast.model.charges import Charge, charged
from holdfast.model.clock import SystemClock, VirtualClock, monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Kind, Order, Type
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import Decision
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.body.errors import ToolError, WorkerError
from holdfast.workers.packages import Packages, WorkerMissing
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Call, CallResult, Effect, Reservation, ToolFailed, Usage
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write

ONCE = Retries(max_attempts=1)


async def nothing(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {}


def said(verdict: str, **more: Any) -> Decision:
    return Decision(verdict=verdict, decided_by="bob", decided_at=1, **more)


# --- accept


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", Decimal("1.5"), b"x", 2**70],
    ids=["nan", "inf", "surrogate", "decimal", "bytes", "large"],
)
async def test_inputs_that_are_no_json_are_refused_and_leave_nothing(tmp_path: Path, value: Any) -> None:
    async def echo(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return inputs

    async with worker_service(InlineWorker(contract(), echo), folder=tmp_path) as service:
        for key in (None, "k"):
            response = await service.invoke(request(n=value, idempotency_key=key), LOCAL)
            if value == 2**70:
                assert response.outputs == {"n": value}
            else:
                assert (response.status, response.run_id) == (ResponseStatus.INVALID_REQUEST, "")


async def test_inputs_that_are_too_large_or_too_deep_are_refused(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"a": deep}
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        for inputs in ({"n": "x" * 7_000_000}, deep):
            response = await service.invoke(WorkerRequest(worker_id="w", inputs=inputs), LOCAL)
            assert (response.status, response.run_id) == (ResponseStatus.INVALID_REQUEST, "")


@pytest.mark.parametrize("seconds", [1e300, 1e12, 0.001])
async def test_any_run_timeout_is_granted_as_far_as_there_is_one(tmp_path: Path, seconds: float) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        response = await service.invoke(request(run_timeout_seconds=seconds), LOCAL)
    assert response.status is ResponseStatus.OK


async def test_the_same_key_gets_the_order_of_the_run_that_it_found(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.ask("what?")}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        first = await service.invoke(request(idempotency_key="k"), LOCAL)
        again = await service.invoke(request(idempotency_key="k"), LOCAL)
    assert first.run_id == again.run_id
    assert first.observability == again.observability


async def test_constraints_are_no_part_of_what_a_key_stands_for(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        first = await service.invoke(request(idempotency_key="k"), LOCAL)
        again = await service.invoke(request(idempotency_key="k", constraints=Constraints(timeout_seconds=5)), LOCAL)
    assert first == again


# --- orders that were not made by accept


def forged(**more: Any) -> str:
    told: dict[str, Any] = {
        "request": WorkerRequest(worker_id="w", inputs={}),
        "version": "1.0",
        "limits": contract("pay").limits,
        "package": "p",
        "tenant": "ann",
        "requested_by": "x",
        "family": "f",
        "trace_id": "t",
        "span_id": "s",
    }
    return msgspec.json.encode(AcceptedRequest(**{**told, **more})).decode()


@pytest.mark.parametrize(
    "tenant, more",
    [
        ("bob", {}),
        (None, {}),
        ("ann", {"request": WorkerRequest(worker_id="other", inputs={})}),
        ("ann", {"package": "abc//etc/passwd"}),
    ],
    ids=["another tenant's", "no tenant's", "another worker's", "another file"],
)
async def test_an_order_that_somebody_made_up_runs_nothing(tmp_path: Path, tenant: str | None, more: dict[str, Any]) -> None:
    ran: list[int] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ran.append(1)
        return {}

    async with worker_service(InlineWorker(contract("pay", limits={"max_tokens": 10}), body), folder=tmp_path) as service:
        text = forged(**more)
        header = await service._engine.start("w", text, tenant=tenant, order=Order(Kind.WORKER, text))
        over, _ = await asyncio.wait_for(service._engine.ending(header.id), 30)
    assert over.status is ExecutionStatus.FAILED
    assert ran == []


async def test_an_order_that_somebody_made_up_is_bound_by_the_contract_and_inherits_nothing(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"paid": await ctx.tools.pay()}

    pay = Counted("pay", Effect.WRITE, lambda: {"to": "bob"}, reservation=Reservation(100))
    bobs = Counted("pay", Effect.WRITE, lambda: {"to": "bob"})
    worker = InlineWorker(contract("pay", limits={"max_tokens": 10}), body, bobs)
    async with worker_service(worker, folder=tmp_path) as service:
        first = await service.invoke(request(), Caller(tenant="bob", logged_in=True))
        assert first.status is ResponseStatus.OK
        worker.tools = {"pay": pay}
        text = forged(before=(first.run_id,), limits=RunLimits(max_tokens=10**9))
        header = await service._engine.start("w", text, tenant="ann", order=Order(Kind.WORKER, text))
        response = await service.response(header.id, Caller(tenant="ann", logged_in=True))
    assert response.error is not None
    assert (response.error.error_code, pay.calls) == ("budget_exceeded", [])


# --- the clock of a body


async def test_the_time_of_a_body_never_goes_back(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        times = [ctx.now()]
        await ctx.artifact("a", b"x")
        times.append(ctx.now())
        await ctx.ask("what?")
        times.append(ctx.now())
        await ctx.step(lambda: 1)
        times.append(ctx.now())
        return {"sorted": times == sorted(times), "year": times[-1].year, "moved": times[2] > times[1]}

    clock = VirtualClock(skipping=False)
    for resting in (0, 1000):
        async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=clock, resting=resting) as service:
            asked = await service.invoke(request(), LOCAL)
            clock.move_to(clock.now() + 5000)
            await service.decide(asked.approvals[0]["approval_id"], said("answer", result=1), LOCAL)
            response = await service.response(asked.run_id, LOCAL)
        assert response.outputs is not None
        assert response.outputs["sorted"], response.outputs
        assert response.outputs["year"] > 2000
        assert response.outputs["moved"]


@pytest.mark.parametrize("resting", [0, 1000])
async def test_the_time_before_a_person_was_asked_is_used_up_when_the_body_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resting: int
) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        left.append(ctx.remaining().total_seconds())
        passed.append(10)
        await ctx.ask("what?")
        return {}

    left: list[float] = []
    passed: list[int] = []
    monkeypatch.setattr("holdfast.workers.attempt_time.monotonic", lambda: monotonic() + sum(passed))
    worker = InlineWorker(contract(limits={"timeout_seconds": 60}), body)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False), resting=resting) as service:
        asked = await service.invoke(request(), LOCAL)
        await service.decide(asked.approvals[0]["approval_id"], said("answer"), LOCAL)
        await service.response(asked.run_id, LOCAL)
    assert 49 < left[1] <= 50


# --- what a body and its runner share


@pytest.mark.parametrize("resting", [0, 1000])
async def test_what_a_body_does_to_its_inputs_and_answers_stays_with_it(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        inputs["list"].append(1)
        paid = await ctx.tools.pay()
        paid["list"].append(1)
        seen.append([list(inputs["list"]), list(paid["list"])])
        if len(seen) < 3:
            raise WorkerError("flaky", retryable=True)
        return {"list": inputs["list"]}

    seen: list[Any] = []
    pay = Counted("pay", Effect.WRITE, lambda: {"list": []})
    async with worker_service(InlineWorker(contract("pay"), body, pay), folder=tmp_path, resting=resting) as service:
        response = await service.invoke(request(list=[]), LOCAL)
    assert response.status is ResponseStatus.OK
    assert seen == [[[1], [1]]] * 3


@pytest.mark.parametrize("value", [Decimal(1), b"x", {1, 2}, "\ud800", float("nan")], ids=["decimal", "bytes", "set", "surrogate", "nan"])
async def test_a_body_that_says_what_is_no_json_hears_of_it(tmp_path: Path, value: Any) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> Any:
        if inputs["where"] == "tool":
            await ctx.tools.pay(cents=value)
        elif inputs["where"] == "step":
            await ctx.step(lambda: value)
        elif inputs["where"] == "error":
            raise WorkerError("odd", "odd", details=value)
        return {"n": value}

    pay = Counted("pay", Effect.WRITE)
    async with worker_service(InlineWorker(contract("pay", retries=ONCE), body, pay), folder=tmp_path) as service:
        for where in ("tool", "step", "outputs", "error"):
            response = await asyncio.wait_for(service.invoke(request(where=where), LOCAL), 30)
            assert response.error is not None, where
            assert response.error.error_code in ("worker_crashed", "output_schema_mismatch"), response.error
            assert "runtime" not in response.error.message, where
    assert pay.calls == []


async def test_def_bodies_do_not_wait_for_each_others_threads(tmp_path: Path) -> None:
    together = threading.Barrier(40, timeout=30)

    def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        together.wait()
        return {"kept": ctx.artifact(f"a{inputs['n']}", b"x")["size_bytes"]}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        responses = await asyncio.gather(*(service.invoke(request(n=n), LOCAL) for n in range(40)))
    assert [response.outputs for response in responses] == [{"kept": 1}] * 40


# --- tools


@pytest.mark.parametrize("message", ["\ud800", "x" * 7_000_000], ids=["surrogate", "huge"])
async def test_a_tool_may_fail_with_any_words(tmp_path: Path, message: str) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look()
        return {}

    look = Counted("look", Effect.READ, lambda: ToolFailed("access_denied", message))
    async with worker_service(InlineWorker(contract("look"), body, look), folder=tmp_path) as service:
        response = await asyncio.wait_for(service.invoke(request(), LOCAL), 30)
    assert response.error is not None
    assert (response.error.error_code, len(look.calls)) == ("access_denied", 1)


async def test_a_result_that_only_just_does_not_fit_is_the_tools_failure(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look()
        return {}

    look = Counted("look", Effect.READ, lambda: "x" * (6 * 1024 * 1024 - 5))
    async with worker_service(InlineWorker(contract("look", retries=ONCE), body, look), folder=tmp_path) as service:
        response = await asyncio.wait_for(service.invoke(request(), LOCAL), 30)
    assert response.error is not None
    assert (response.error.error_code, len(look.calls)) == ("tool_failed", 1)


async def test_a_wait_that_a_body_asks_for_is_bounded(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        tried.append(1)
        if len(tried) == 1:
            raise WorkerError("later", retryable=True, retry_after_seconds=1e300)
        return {}

    tried: list[int] = []
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        response = await asyncio.wait_for(service.invoke(request(), LOCAL), 30)
    assert (response.status, len(tried)) == (ResponseStatus.OK, 2)


async def test_a_step_that_nobody_finishes_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        async def never() -> None:
            began.set()
            await asyncio.Event().wait()

        began = asyncio.Event()

        asyncio.ensure_future(ctx.step(never, name="never"))  # noqa: RUF006
        await began.wait()
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, policy=Policy(grace_seconds=30)) as service:
        response = await asyncio.wait_for(service.invoke(request(), LOCAL), 30)
    assert response.status is ResponseStatus.OK


async def test_a_question_with_a_schema_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        try:
            await ctx.ask("what?", schema=inputs["schema"])
        except WorkerError as error:
            return {"code": error.error_code}
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        for schema in ({"type": "nothing"}, {"$ref": "http://127.0.0.1:1/x"}):
            response = await service.invoke(request(schema=schema), LOCAL)
            assert response.outputs == {"code": "tool_failed"}, response


# --- artifacts


def test_the_same_artifact_may_be_kept_by_many_at_once(tmp_path: Path) -> None:
    artifacts = Artifacts(Folder(tmp_path), 1 << 20)
    problems: list[BaseException] = []

    def keep() -> None:
        for _ in range(50):
            left = [b"x" * 1000]
            try:
                kept = artifacts.keep("t", "n", "text/plain", lambda _, left=left: left.pop() if left else b"")  # type: ignore[misc]
                artifacts.find("t", kept.artifact_id)
            except BaseException as error:
                problems.append(error)

    threads = [threading.Thread(target=keep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


async def test_an_attempt_may_keep_so_much_and_no_more(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for number in range(10):
            await ctx.artifact(f"a{number}", b"x" * 500)
        return {}

    worker = InlineWorker(contract(retries=ONCE), body)
    async with worker_service(worker, folder=tmp_path, policy=Policy(artifact_bytes=2000)) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert response.error.error_code == "artifact_too_large"


async def test_an_input_that_refers_to_what_is_no_json_is_refused(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), nothing), folder=tmp_path) as service:
        left = [b"\x89PNG"]
        kept = service.artifacts.keep("default", "a.png", "image/png", lambda _: left.pop() if left else b"")
        response = await service.invoke(request(n={"$artifact": {"artifact_id": kept.artifact_id}}), LOCAL)
    assert (response.status, response.run_id) == (ResponseStatus.INVALID_REQUEST, "")


# --- what waits is told of as fully as what is over


async def test_a_run_that_waits_has_its_log_fields_too(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look()
        await ctx.ask("what?")
        return {}

    look = Counted("look", Effect.READ)
    async with worker_service(InlineWorker(contract("look"), body, look), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        response = await service.invoke(request(), LOCAL)
    seen = response.observability
    assert (seen.attempt, seen.usage.tool_calls) == (1, 1)
    assert seen.log_fields == {
        "worker_id": "w",
        "attempt": 1,
        "duration_ms": seen.duration_ms,
        "status": "needs_human",
        "error_code": "approval_required",
    }


# --- ends in the middle


class Held(Counted):
    """A call that goes on until it is let go."""

    def __init__(self, name: str = "pay") -> None:
        super().__init__(name, Effect.WRITE)
        self.began, self.go = asyncio.Event(), asyncio.Event()

    async def call(self, call: Call, arguments: Any, reservation: Reservation) -> CallResult:
        called = await super().call(call, arguments, reservation)
        self.began.set()
        await self.go.wait()
        return called


async def paying(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"paid": await ctx.tools.pay()}


async def test_a_call_in_flight_is_recorded_when_its_run_is_cancelled_and_cancelling_twice_is_once(tmp_path: Path) -> None:
    pay = Held()
    async with worker_service(InlineWorker(contract("pay"), paying, pay), folder=tmp_path) as service:
        header = (await service.accept(request(), LOCAL))[0]
        await pay.began.wait()
        cancels = [asyncio.ensure_future(service.cancel(header.id, LOCAL)) for _ in range(2)]
        await asyncio.sleep(0)
        pay.go.set()
        responses = await asyncio.gather(*cancels)
        receipts = [op for op in service._engine.store.operations(header.id) if op.sub_type == "Receipt" and op.ended_at]
    assert [response.error.error_code for response in responses if response.error is not None] == ["cancelled"] * 2
    assert len(receipts) == 1
    assert responses[0].observability.usage.tool_calls == 1


async def test_an_engine_that_closes_in_the_middle_of_a_call_leaves_it_to_the_next_one_as_unknown(tmp_path: Path) -> None:
    where, first = str(tmp_path / "s.db"), Held()
    async with worker_service(InlineWorker(contract("pay"), paying, first), where, folder=tmp_path) as service:
        header = (await service.accept(request(), LOCAL))[0]
        await first.began.wait()
    second = Held()
    async with worker_service(
        InlineWorker(contract("pay"), paying, second), where, folder=tmp_path, clock=VirtualClock(skipping=False)
    ) as service:
        response = await asyncio.wait_for(service.response(header.id, LOCAL), 30)
        assert response.error is not None
        assert (response.error.error_code, second.calls) == ("unknown_outcome", [])
        await service.decide(response.approvals[0]["approval_id"], said("happened", result={"id": 7}), LOCAL)
        response = await service.response(header.id, LOCAL)
    assert (response.outputs, len(first.calls), second.calls) == ({"paid": {"id": 7}}, 1, [])


async def test_one_key_from_two_runners_at_once_is_one_run(tmp_path: Path) -> None:
    where, pay = str(tmp_path / "s.db"), Counted("pay", Effect.WRITE)
    worker = InlineWorker(contract("pay"), paying, pay)
    clock = SystemClock()
    async with (
        worker_service(worker, where, folder=tmp_path, clock=clock) as one,
        worker_service(worker, where, folder=tmp_path, clock=clock) as two,
    ):
        for n in range(5):
            asked = [service.invoke(request(n=n, idempotency_key=f"k{n}"), LOCAL) for service in (one, two, one, two)]
            responses = await asyncio.wait_for(asyncio.gather(*asked), 20)
            assert all(response == responses[0] for response in responses)
            assert responses[0].status is ResponseStatus.OK
    assert len(pay.calls) == 5


@pytest.mark.parametrize("resting", [0, 1, 1000])
async def test_many_runs_that_wait_go_on_each_with_its_own_answer(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        drawn = [ctx.random(), str(ctx.uuid()), await ctx.step(lambda: inputs["n"])]
        told = await ctx.ask("what?")
        return {"told": told, "drawn": drawn, "paid": await ctx.tools.pay(n=inputs["n"])}

    pay = Counted("pay", Effect.WRITE, lambda n: n)
    worker = InlineWorker(contract("pay"), body, pay)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False), resting=resting) as service:
        waiting = await asyncio.gather(*(service.invoke(request(n=n), LOCAL) for n in range(10)))
        for n, one in reversed(list(enumerate(waiting))):
            await service.decide(one.approvals[0]["approval_id"], said("answer", result=n), LOCAL)
        responses = await asyncio.gather(*(service.response(one.run_id, LOCAL) for one in waiting))
    outputs = [response.outputs or {} for response in responses]
    assert [(one["told"], one["paid"], one["drawn"][2]) for one in outputs] == [(n, n, n) for n in range(10)]
    assert len({one["drawn"][1] for one in outputs}) == 10
    assert len(pay.calls) == 10


@pytest.mark.parametrize("resting", [0, 1000])
async def test_an_error_in_a_step_keeps_its_code_and_its_meaning_also_when_it_is_replayed(tmp_path: Path, resting: int) -> None:
    def refuse() -> None:
        ran.append(1)
        raise WorkerError("no_such_order", "there is none", needs_human=True, partial={"looked": True}, details={"n": 1})

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        heard = ""
        try:
            await ctx.step(refuse)
        except WorkerError as error:
            heard = error.error_code
            await ctx.ask("go on?")
            raise
        return {"heard": heard}

    ran: list[int] = []
    worker = InlineWorker(contract(), body)
    async with worker_service(worker, folder=tmp_path, resting=resting, clock=VirtualClock(skipping=False)) as service:
        asked = await service.invoke(request(), LOCAL)
        await service.decide(asked.approvals[0]["approval_id"], said("answer", result=True), LOCAL)
        response = await service.response(asked.run_id, LOCAL)
    assert response.error is not None
    assert (response.status, response.error.error_code, response.error.message) == (
        ResponseStatus.NEEDS_HUMAN,
        "no_such_order",
        "there is none",
    )
    assert (response.outputs, response.error.details, len(ran)) == ({"looked": True}, {"n": 1}, 1)


@pytest.mark.parametrize(
    "used, tokens, cost",
    [
        pytest.param(Usage(90, 40, Decimal("0.03")), 30, 0.01, id="tokens and money"),
        pytest.param(Usage(20, 80, Decimal("0.05")), 0, 0.03, id="no tokens, but money: a shorter prompt and a longer answer"),
        pytest.param(ToolFailed("tool_failed", "a refusal", usage=Usage(0, 101, Decimal("0.01"))), 1, 0.0, id="a call that failed"),
    ],
)
async def test_what_a_call_took_beyond_its_reservation_is_reported(tmp_path: Path, used: Any, tokens: int, cost: float) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        with contextlib.suppress(ToolError):
            await ctx.tools.model()
        return {}

    failed = used if isinstance(used, ToolFailed) else None
    usage = used.usage if isinstance(used, ToolFailed) else used
    model = Counted("model", Effect.READ, lambda: failed or "hm", reservation=Reservation(100, Decimal("0.02")), usage=usage)
    async with worker_service(InlineWorker(contract("model", limits={"max_tokens": 120}), body, model), folder=tmp_path) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.observability.usage.tokens == Tokens(usage.input_tokens, usage.output_tokens)
    assert [(line["event"], line["tokens"], line["cost_usd"]) for line in response.logs] == [("overshoot", tokens, cost)]


def test_two_files_of_one_worker_are_refused_and_two_workers_of_one_file_are_two(tmp_path: Path) -> None:
    source = 'from holdfast import worker\n@worker("{0}.md", include=["*.md"])\ndef {0}(inputs, ctx):\n    return {{"name": "{0}"}}\n'
    both = write(tmp_path / "both", source.format("one") + source.format("two"), one=page("one"), two=page("two"))
    again = write(tmp_path / "again", source.format("one"), one=page("one"))
    worker_settings = WorkerSettings(policy=Policy(isolation="inline"))
    with holdfast.open(":memory:", workers=[both, both], worker_settings=worker_settings) as engine:
        assert [engine.run(name, {}).outputs for name in ("one", "two")] == [{"name": "one"}, {"name": "two"}]
    with (
        pytest.raises(InvalidParameter, match=r"Two of these files declare one 1\.0"),
        holdfast.open(":memory:", workers=[both, again], worker_settings=worker_settings),
    ):
        pass


def test_a_charge_that_only_asks_leaves_no_counter_behind() -> None:
    assert charged([Charge("closed/x", 0, 0)], lambda _: None, 1) == {}


@pytest.mark.parametrize("resting", [0, 1000])
async def test_a_run_that_waits_for_its_next_attempt_can_be_cancelled(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        tried.append(1)
        raise WorkerError("later", retryable=True, retry_after_seconds=3600)

    tried: list[int] = []
    worker, clock = InlineWorker(contract(), body), VirtualClock(skipping=False)
    async with worker_service(worker, folder=tmp_path, clock=clock, resting=resting) as service:
        header = (await service.accept(request(), LOCAL))[0]
        await service.response(header.id, LOCAL, wait=0.2)
        response = await service.cancel(header.id, LOCAL)
    assert response.error is not None
    assert (response.error.error_code, response.observability.attempt, len(tried)) == ("cancelled", 1, 1)


async def test_tools_that_a_request_forbids_are_forbidden_in_the_sandbox_too(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> Any:
        return await ctx.tools.json_schema_validate(value=1, schema={})

    worker = InlineWorker(contract("json_schema_validate", retries=ONCE), body)
    async with worker_service(worker, folder=tmp_path) as service:
        response = await service.invoke(request(constraints=Constraints(tools_allowed=())), LOCAL)
    assert response.error is not None
    assert response.error.error_code == "tool_not_allowed"


async def test_the_next_attempt_begins_at_its_own_time(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        times.append(ctx.now().timestamp())
        if len(times) < 3:
            raise WorkerError("later", retryable=True, retry_after_seconds=100)
        return {}

    times: list[float] = []
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.status is ResponseStatus.OK
    assert [later - earlier for earlier, later in pairwise(times)] == [100, 100]


async def test_a_tool_that_cannot_make_sense_of_its_arguments_refuses_the_call_and_no_more(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        try:
            await ctx.tools.look(at=7)
        except WorkerError as error:
            return {"code": error.error_code}
        return {}

    class Fussy(Counted):
        def reserve(self, arguments: Any, remaining: Any) -> Reservation:
            return Reservation(len(arguments["at"]))

    look = Fussy("look", Effect.READ)
    async with worker_service(InlineWorker(contract("look"), body, look), folder=tmp_path) as service:
        response = await asyncio.wait_for(service.invoke(request(), LOCAL), 30)
    assert (response.outputs, look.calls) == ({"code": "tool_failed"}, [])


def test_a_step_may_have_any_name_in_every_store() -> None:
    assert "\0" not in (identity_of(Type.STEP, "BodyStep", "a\0b", 1).name or "")
    assert identity_of(Type.STEP, "BodyStep", "a\0b", 1).operation_id != identity_of(Type.STEP, "BodyStep", "a\ufffdb", 1).operation_id


async def test_a_cancelled_run_says_so_when_nobody_knows_what_became_of_a_call(tmp_path: Path) -> None:
    pay = Held()
    worker = InlineWorker(contract("pay"), paying, pay)
    async with worker_service(worker, folder=tmp_path, policy=Policy(grace_seconds=0.05)) as service:
        header = (await service.accept(request(), LOCAL))[0]
        await pay.began.wait()
        response = await service.cancel(header.id, LOCAL)
    assert response.error is not None
    assert (response.error.error_code, response.error.details) == ("cancelled", {"unknown_outcome": ["pay"]})


def test_a_package_is_found_by_its_own_name_and_no_name_leaves_its_folder(tmp_path: Path) -> None:
    source = 'from holdfast import worker\n@worker("one.md")\ndef one(inputs, ctx):\n    return {}\n'
    file = write(tmp_path / "files", source, one=page("one"))
    packages = Packages(tmp_path / "kept")
    (package,) = packages.add(file)
    assert packages.load(package.name, "one") == msgspec.structs.replace(package, source=None)
    hashed = package.folder.name
    for name, worker_id in (
        (package.name, "two"),
        (f"{hashed}/{file}", "one"),
        (f"{hashed}/../x.py", "one"),
        ("../files/worker.py", "one"),
    ):
        with pytest.raises(WorkerMissing):
            packages.load(name, worker_id)
