"""Signals: the names of the protocol with the right values, each thing told once, no secret among them, and no run that depends on them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Trace, WorkerRequest
from holdfast.model.clock import VirtualClock
from holdfast.signals.observers import RunObserver
from holdfast.signals.traceparent import header_of, parent_of
from holdfast.signals.tracing import Tracing
from holdfast.testing.crashing import AFTER, BEFORE, LAST, Crash
from holdfast.workers.approvals import Decision
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.tools.seam import Call, CallResult, CallVerdict, DidNotHappen, Effect, Happened, ToolFailed, Usage
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service
from tests.workers.recording_observer import Seen, crashing, parent_id, span_id, trace_id

NAMES = {"worker_id", "attempt", "duration_ms", "status", "error_code", "trace_id", "span_id", "parent_span_id", "upstream_request_id"}
CALLER = Trace(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", upstream_request_id="req-9")


async def selling(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    ctx.log("looking", order_id=inputs["order_id"])
    verdict = await ctx.tools.language_model(prompt="?")
    paid = await ctx.tools.pay(cents=5)
    if inputs.get("fails") and verdict == 1:
        raise WorkerError("flaky", "not today", retryable=True)
    return {"verdict": verdict, "paid": paid}


class Model(Counted):
    """Says in which attempt it was asked."""

    def model_of(self, arguments: Any) -> str:
        return "small-1"

    async def call(self, call: Call, arguments: Any, reservation: Any) -> CallResult:
        return CallResult(call.attempt, Usage(7, 3, Decimal("0.002")))


class Till(Counted):
    """Knows what it did."""

    async def reconcile(self, call: Call, arguments: Any) -> CallVerdict:
        return Happened({"cents": 5}) if any(made.idempotency_key == call.idempotency_key for made in self.calls) else DidNotHappen()


def seller(**more: Any) -> InlineWorker:
    pay = Till("pay", Effect.WRITE, lambda cents: {"cents": cents})
    return InlineWorker(contract("language_model", "pay", **more), selling, Model("language_model", Effect.READ), pay)


async def test_every_line_has_the_names_of_the_protocol_and_the_last_one_says_what_the_response_says(tmp_path: Path) -> None:
    worker = seller(log_fields=("worker_id", "attempt", "order_id", "nothing"))
    async with worker_service(worker, folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        asked = WorkerRequest(worker_id="w", inputs={"order_id": 42}, trace=CALLER)
        response = await service.invoke(asked, LOCAL)
    lines = seen.lines()
    assert [line["event"] for line in lines] == ["accepted", "attempt_began", "log", "tool_ended", "tool_ended", "attempt_ended", "ended"]
    assert all(line.keys() >= NAMES for line in lines)
    ended = lines[-1]
    told = response.observability
    assert (ended["worker_id"], ended["attempt"], ended["status"], ended["error_code"]) == ("w", 1, "ok", None)
    assert (ended["duration_ms"], ended["run_id"]) == (told.duration_ms, response.run_id)
    assert (ended["trace_id"], ended["span_id"]) == (CALLER.trace_id, told.span_id)
    assert (ended["parent_span_id"], ended["upstream_request_id"]) == (CALLER.span_id, "req-9")
    assert ended["tokens"] == {"input": 7, "output": 3}
    assert told.log_fields == {"worker_id": "w", "attempt": 1, "order_id": 42, "nothing": None}
    assert {name: ended[name] for name in told.log_fields} == told.log_fields
    (line,) = [line for line in lines if line["event"] == "log"]
    assert (line["message"], line["fields"], line["attempt"]) == ("looking", {"order_id": 42}, 1)


async def test_a_body_cannot_pass_a_line_off_as_anothers(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ctx.log("hi", worker_id="bank", attempt=9, event="tool_refused", status="ok", trace_id="t", error_code="x", tool="pay")
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        response = await service.invoke(request(), LOCAL)
    (line,) = seen.lines("log")
    assert (line["worker_id"], line["attempt"], line["status"], line["error_code"]) == ("w", 1, None, None)
    assert line["trace_id"] == response.observability.trace_id
    assert seen.lines("tool_refused") == []
    assert response.logs[0]["attempt"] == 1


async def test_metrics_count_each_end_once_under_the_exact_names(tmp_path: Path) -> None:
    ordered = {"type": "object", "required": ["order_id"]}
    async with worker_service(seller(input_schema=ordered), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        await service.invoke(request(order_id=1, idempotency_key="k"), LOCAL)
        await service.invoke(request(order_id=1, idempotency_key="k"), LOCAL)
        await service.invoke(request(order_id=2, fails=True), LOCAL)
        await service.invoke(request(order_id=3), LOCAL)
        await service.invoke(request(), LOCAL)
        await service.invoke(WorkerRequest(worker_id="no-such", inputs={}), LOCAL)
    worker = '{version="1.0",worker_id="w"}'
    assert seen.series("success_count") == {worker: 3}
    assert seen.series("retry_count") == {worker: 1}
    assert seen.series("failure_count") == {
        '{error_code="schema_mismatch",status="invalid_request",version="",worker_id="w"}': 1,
        '{error_code="worker_not_found",status="invalid_request",version="",worker_id=""}': 1,
    }
    assert seen.series("duration_ms_count") == {worker: 3}
    assert set(seen.series("p95_duration_ms")) == {worker}


async def test_a_code_that_a_body_makes_up_makes_no_series_of_its_own(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError(f"made_up_{inputs['n']}", needs_human=True)

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        for number in range(3):
            await service.invoke(request(n=number), LOCAL)
    assert seen.series("failure_count") == {'{error_code="other",status="needs_human",version="1.0",worker_id="w"}': 3}
    assert [line["error_code"] for line in seen.lines("ended")] == ["made_up_0", "made_up_1", "made_up_2"]


async def test_spans_of_one_run_are_one_trace_below_its_caller(tmp_path: Path) -> None:
    async with worker_service(seller(), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        response = await service.invoke(WorkerRequest(worker_id="w", inputs={"order_id": 1}, trace=CALLER), LOCAL)
    run, accept, attempt = seen.named("run w"), seen.named("accept"), seen.named("attempt")
    chat, pay = seen.named("chat small-1"), seen.named("execute_tool pay")
    assert len(seen.spans) == 5
    assert {trace_id(span) for span in seen.spans} == {CALLER.trace_id}
    assert (parent_id(run), span_id(run)) == (CALLER.span_id, response.observability.span_id)
    assert parent_id(accept) == parent_id(attempt) == span_id(run)
    assert parent_id(chat) == parent_id(pay) == span_id(attempt)
    about = dict(chat.attributes or {})
    assert (about["gen_ai.operation.name"], about["gen_ai.request.model"]) == ("chat", "small-1")
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"]) == (7, 3)
    assert dict(pay.attributes or {})["gen_ai.tool.name"] == "pay"
    assert {name: dict(run.attributes or {})[name] for name in ("worker_id", "attempt", "status")} == {
        "worker_id": "w",
        "attempt": 1,
        "status": "ok",
    }


async def test_a_caller_who_does_not_record_his_trace_gets_no_spans(tmp_path: Path) -> None:
    async with worker_service(seller(), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        await service.invoke(WorkerRequest(worker_id="w", inputs={"order_id": 1}, trace=CALLER), LOCAL, sampled=False)
        await service.invoke(WorkerRequest(worker_id="no-such", inputs={}, trace=CALLER), LOCAL, sampled=False)
    assert seen.spans == []
    assert seen.series("success_count") != {}


async def test_a_run_that_a_tool_calls_is_below_the_call(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {} if inputs.get("child") else {"got": await ctx.tools.delegate()}

    class Delegate(Counted):
        async def call(self, call: Call, arguments: Any, reservation: Any) -> CallResult:
            parent = parent_of(call.traceparent)
            assert parent is not None
            trace = Trace(trace_id=parent.trace_id, span_id=parent.span_id)
            await service.invoke(WorkerRequest(worker_id="w", inputs={"child": True}, trace=trace), LOCAL, sampled=parent.sampled)
            return CallResult({})

    async with worker_service(InlineWorker(contract("delegate"), body, Delegate("delegate", Effect.WRITE)), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        await service.invoke(request(), LOCAL)
    runs = {parent_id(span): span for span in seen.spans if span.name == "run w"}
    assert len({trace_id(span) for span in seen.spans}) == 1
    assert set(runs) == {None, span_id(seen.named("execute_tool delegate"))}


async def test_what_the_schema_marks_is_in_no_line_no_span_and_no_stored_log(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ctx.log(f"with {inputs['token']}", seen=inputs["token"], nested={"card": inputs["card"]["number"]})
        raise WorkerError("declined", f"the bank did not like {inputs['token']}")

    marked = {"type": "string", "writeOnly": True}
    schema = {"type": "object", "properties": {"token": marked, "card": {"type": "object", "x-redact": True}}}
    async with worker_service(InlineWorker(contract(input_schema=schema), body), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        response = await service.invoke(request(token="tok-5f3a9c", card={"number": "4000-1234-5678"}), LOCAL)
    lines = seen.lines()
    assert "[redacted:token]" in str(lines)
    for told in (str(lines), str(response.logs), str([(dict(span.attributes or {}), span.status.description) for span in seen.spans])):
        assert "tok-5f3a9c" not in told
        assert "4000-1234-5678" not in told


async def test_refusals_are_in_the_log_and_in_the_trace(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for name in ("pay", "look", "look"):
            with pytest.raises(WorkerError):
                await ctx.tools[name]()
        return {}

    look = Counted("look", Effect.READ, lambda: ToolFailed("access_denied", "keep out"))
    worker = InlineWorker(contract("look", limits={"tool_quotas": {"look": 1}}), body, look)
    async with worker_service(worker, folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        response = await service.invoke(request(), LOCAL)
    refused = [("pay", "tool_not_allowed"), ("look", "tool_quota_exceeded")]
    assert [(line["tool"], line["error_code"]) for line in seen.lines("tool_refused")] == refused
    assert [(line["tool"], line["error_code"]) for line in response.logs] == refused
    events = seen.named("attempt").events
    assert [(event.attributes or {})["error_code"] for event in events] == ["tool_not_allowed", "tool_quota_exceeded"]
    assert [line["error_code"] for line in seen.lines("tool_ended")] == ["access_denied"]


async def test_a_receipt_that_is_used_again_is_no_second_call(tmp_path: Path) -> None:
    async with worker_service(seller(), folder=tmp_path) as service:
        seen = Seen(tmp_path).watch(service)
        response = await service.invoke(request(order_id=1, fails=True), LOCAL)
    assert (response.status, response.observability.attempt) == (ResponseStatus.OK, 2)
    assert [span.name for span in seen.spans].count("execute_tool pay") == 1
    assert [span.name for span in seen.spans].count("attempt") == 2
    (reused,) = seen.lines("tool_reused")
    assert (reused["tool"], reused["attempt"], reused["reused"]) == ("pay", 2, True)
    assert [(line["attempt"], line["error_code"]) for line in seen.lines("attempt_ended")] == [(1, "flaky"), (2, None)]
    assert [(line["message"], line["attempt"]) for line in response.logs] == [("looking", 1), ("looking", 2)]


async def test_a_crash_at_any_point_counts_nothing_twice(tmp_path: Path) -> None:
    async def once(point: int, when: str) -> int:
        crash = Crash(point, when)
        folder = tmp_path / f"{point}-{when[:6]}"
        folder.mkdir()
        async with crashing(seller(), folder, crash) as service:
            seen = Seen(folder).watch(service)
            response = await service.invoke(request(order_id=1, fails=True), LOCAL)
        assert response.status is ResponseStatus.OK, (point, when)
        worker = '{version="1.0",worker_id="w"}'
        counts = [seen.series(name) for name in ("success_count", "retry_count", "duration_ms_count")]
        assert counts == [{worker: 1}, {worker: 1}, {worker: 1}], (point, when)
        ids = [span_id(span) for span in seen.spans]
        assert len(ids) == len(set(ids)), (point, when)
        assert [line["status"] for line in seen.lines("ended")] == ["ok"], (point, when)
        return crash.seen

    points = await once(0, BEFORE)
    assert points > 5
    for point in range(1, points + 1):
        for when in (BEFORE, AFTER):
            await once(point, when)
    await once(points, LAST)


async def noting(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    ctx.log("before")
    await ctx.tools.pay()
    ctx.log("after")
    return {}


def noter() -> InlineWorker:
    return InlineWorker(contract("pay"), noting, Counted("pay", Effect.WRITE), approvals=frozenset({"pay"}))


YES = Decision(verdict="approve", decided_by="bob", decided_at=1)


@pytest.mark.parametrize("resting", [1000, 0])
async def test_a_run_that_waited_for_a_person_tells_its_lines_once(tmp_path: Path, resting: int) -> None:
    async with worker_service(noter(), folder=tmp_path, resting=resting, clock=VirtualClock(skipping=False)) as service:
        seen = Seen(tmp_path).watch(service)
        waiting = await service.invoke(request(), LOCAL)
        assert seen.series("duration_ms_count") == {}
        (approval,) = waiting.approvals
        await service.decide(approval["approval_id"], YES, LOCAL)
        response = await service.response(waiting.run_id, LOCAL)
    assert [line["message"] for line in seen.lines("log")] == ["before", "after"]
    assert [record["message"] for record in response.logs] == ["before", "after"]
    assert [line["approval_id"] for line in seen.lines("waits_for_person")] == [approval["approval_id"]]
    assert len(seen.lines("attempt_began")) == len(seen.lines("ended")) == 1


async def test_a_run_that_ends_in_another_process_is_one_log_and_one_trace(tmp_path: Path) -> None:
    store, clock = str(tmp_path / "w.db"), VirtualClock(skipping=False)
    (tmp_path / "two").mkdir()
    async with worker_service(noter(), store, folder=tmp_path, clock=clock) as service:
        first = Seen(tmp_path).watch(service)
        waiting = await service.invoke(request(), LOCAL)
    async with worker_service(noter(), store, folder=tmp_path, clock=clock) as service:
        second = Seen(tmp_path / "two").watch(service)
        (approval,) = waiting.approvals
        await service.decide(approval["approval_id"], YES, LOCAL)
        await service.response(waiting.run_id, LOCAL)
    events = [line["event"] for line in first.lines() + second.lines()]
    assert events == ["accepted", "attempt_began", "log", "waits_for_person", "tool_ended", "log", "attempt_ended", "ended"]
    assert (first.series("success_count"), list(second.series("success_count").values())) == ({}, [1])
    spans = first.spans + second.spans
    assert sorted(span.name for span in spans) == ["accept", "attempt", "execute_tool pay", "run w"]
    assert {trace_id(span) for span in spans} == {waiting.observability.trace_id}
    assert parent_id(second.named("attempt")) == waiting.observability.span_id == span_id(second.named("run w"))


async def test_a_run_that_is_ended_from_outside_is_counted_too(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"answer": await ctx.ask("well?")}

    clock = VirtualClock(skipping=False)
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, resting=0, clock=clock) as service:
        seen = Seen(tmp_path).watch(service)
        late = await service.invoke(WorkerRequest(worker_id="w", inputs={}, run_timeout_seconds=5), LOCAL)
        unwanted = await service.invoke(request(), LOCAL)
        await service.cancel(unwanted.run_id, LOCAL)
        clock.move_to(clock.now() + 6000)
        service._engine.look_for_work()
        response = await service.response(late.run_id, LOCAL)
        while response.status is ResponseStatus.NEEDS_HUMAN:
            await asyncio.sleep(0)
            response = await service.response(late.run_id, LOCAL, wait=0.1)
    assert {labels.split(",")[0] for labels in seen.series("failure_count")} == {'{error_code="timeout"', '{error_code="cancelled"'}
    told = response.observability
    assert (told.attempt, told.duration_ms) == (1, 6000)
    assert told.log_fields == {"worker_id": "w", "attempt": 1, "duration_ms": 6000, "status": "retryable_error", "error_code": "timeout"}


async def test_logs_are_kept_up_to_a_bound_and_say_what_is_missing(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ctx.log("huge", blob="x" * 100_000)
        for number in range(2000):
            ctx.log("line", number=number, text="y" * 200)
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        response = await service.invoke(request(), LOCAL)
    first, *_, last = response.logs
    assert (first["message"], first["truncated"]) == ("huge", True)
    assert len(str(response.logs)) < 400_000
    assert last["message"] == f"{2001 - (len(response.logs) - 1)} more lines were not kept."


class Broken(RunObserver):
    """An observer that can do nothing right."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("out of order")


class Stuck(SpanExporter):
    """An exporter whose other side never answers."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.free.wait(30)
        return SpanExportResult.FAILURE


async def test_an_exporter_that_is_broken_or_never_comes_back_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    tracing = Tracing(BatchSpanProcessor(stuck, schedule_delay_millis=1, max_queue_size=8, max_export_batch_size=4), {})
    async with worker_service(seller(), folder=tmp_path) as plain:
        wanted = await plain.invoke(request(order_id=1), LOCAL)
    async with worker_service(seller(), folder=tmp_path) as service:
        service.observe(Broken())
        service.observe(tracing)
        seen = Seen(tmp_path).watch(service)
        responses = [await service.invoke(request(order_id=1), LOCAL) for _ in range(20)]
    await asyncio.to_thread(tracing.close, 0.05)
    assert stuck.asked.is_set()
    stuck.free.set()
    assert {(each.status, str(each.outputs)) for each in responses} == {(wanted.status, str(wanted.outputs))}
    assert seen.series("success_count") == {'{version="1.0",worker_id="w"}': 20}
    assert caplog.text.count("out of order") == 1


def test_a_header_that_goes_out_comes_back_in() -> None:
    assert CALLER.trace_id is not None
    assert CALLER.span_id is not None
    assert parent_of(header_of(CALLER.trace_id, CALLER.span_id, sampled=False)) == (CALLER.trace_id, CALLER.span_id, False)
