"""Metrics and traces of durable functions: each thing once, when it is on disk, and nothing where no observer is given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.durable.config import Duration, JitterStrategy, StepConfig
from holdfast.durable.retries import RetryPresets, RetryStrategyConfig, create_retry_strategy
from holdfast.durable.waits import WaitForConditionConfig, WaitStrategyConfig, create_wait_strategy
from holdfast.lambda_api.functions.function_records import Config
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.serving import open_serving
from holdfast.lambda_api.templates.descriptions import DescribedFunction, TextCode
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Outcome, OutcomeStatus, Terms
from holdfast.model.ids import Ids
from holdfast.model.life import new_execution
from holdfast.model.ports import Observer
from holdfast.server.metrics import MetricsRoutes
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.signals.function_metrics import FunctionMetrics
from holdfast.signals.function_traces import FunctionTraces, TraceParent, trace_of
from holdfast.signals.queue_metrics import QueueMetrics
from holdfast.signals.spans import Spans

NEVER = StepConfig(retry_strategy=RetryPresets.none())
THRICE = StepConfig(
    retry_strategy=create_retry_strategy(
        RetryStrategyConfig(max_attempts=3, initial_delay=Duration.from_seconds(2), jitter_strategy=JitterStrategy.NONE)
    )
)


def failing_until(attempt: int) -> Any:
    tries = iter(range(1, 100))

    async def reserve(_: Any) -> str:
        if next(tries) < attempt:
            raise ValueError("the secret is hunter2")
        return "ok"

    return reserve


@holdfast.durable_execution
async def order(event: dict[str, Any], context: Any) -> Any:
    await context.step(failing_until(event.get("attempt", 1)), name="reserve", config=THRICE)
    await context.wait(holdfast.Duration.from_seconds(5))

    async def inside(child: Any) -> Any:
        return await child.step(failing_until(1), name="charge", config=NEVER)

    await context.run_in_child_context(inside, name="paying")
    if event.get("bad"):
        await context.step(failing_until(99), name="ship", config=NEVER)
    return "done"


@holdfast.durable_execution
async def calling(event: dict[str, Any], context: Any) -> Any:
    return await context.invoke("order", event, name="the order")


@holdfast.durable_execution
async def looking(event: dict[str, Any], context: Any) -> Any:
    async def check(state: int, _: Any) -> int:
        return state + 1

    strategy = create_wait_strategy(WaitStrategyConfig[int](lambda state: state < 3))
    return await context.wait_for_condition(check, WaitForConditionConfig(strategy, 0), name="three")


@holdfast.durable_execution
async def sleeping(event: dict[str, Any], context: Any) -> None:
    await context.wait(holdfast.Duration.from_days(30))


class Scene:
    """An engine, and what was seen of it."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.metrics = FunctionMetrics()
        self.observers: tuple[Observer, ...] = (self.metrics, FunctionTraces(Spans(SimpleSpanProcessor(self._exporter), {})))

    def open(self, where: str = ":memory:", clock: VirtualClock | None = None, **settings: Any) -> Any:
        made = Settings(clock=clock or VirtualClock(), ids=Ids(Random(0)), tune=False, observers=self.observers, **settings)
        return holdfast.open(where, functions=[order, calling, looking, sleeping], settings=made)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def counts(self) -> dict[str, float]:
        """Every count by its name and labels, as Prometheus reads it."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.text()):
            assert family.name.startswith("holdfast_")
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created", "_sum")):
                    found[" ".join([sample.name, *sample.labels.values()])] = sample.value
        return found


async def ended(engine: OpenEngine, function: str, event: dict[str, Any]) -> Any:
    try:
        return await (await engine.start(function, event)).result()
    except holdfast.HoldfastError as error:
        return error


def above(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_what_happened_to_executions_is_counted_once_by_function() -> None:
    scene = Scene()
    async with scene.open() as engine:
        await ended(engine, "order", {"attempt": 3})
        await ended(engine, "order", {"bad": True})
        asleep = await engine.start("sleeping", {})
        await asleep.stop()
        counts = scene.counts()
    assert {name: count for name, count in counts.items() if "duration" not in name and "invocations" not in name} == {
        "holdfast_executions_started_total order": 2,
        "holdfast_executions_started_total sleeping": 1,
        "holdfast_executions_closed_total order SUCCEEDED": 1,
        "holdfast_executions_closed_total order FAILED": 1,
        "holdfast_executions_closed_total sleeping STOPPED": 1,
        "holdfast_steps_total order succeeded": 4,
        "holdfast_steps_total order failed": 1,
        "holdfast_step_retries_total order": 2,
        "holdfast_commit_writes_count": counts["holdfast_commit_writes_count"],
        "holdfast_executions_ready": 0,
        "holdfast_executions_due": 0,
    }
    assert counts["holdfast_execution_duration_seconds_count order"] == 2
    assert counts["holdfast_invocation_duration_seconds_count order"] == sum(
        count for name, count in counts.items() if name.startswith("holdfast_invocations_total order")
    )
    assert (counts["holdfast_invocations_total order failed"], counts["holdfast_invocations_live"]) == (1, 0)
    assert counts["holdfast_commit_writes_count"] > 5


async def test_a_further_check_of_a_condition_is_no_retry_of_a_failed_step() -> None:
    scene, queues = Scene(), QueueMetrics()
    scene.observers += (queues,)
    async with scene.open() as engine:
        queued = await engine.enqueue("looking", {}, queue="looks")
        assert await queued.result() == 3
        counts = scene.counts()
    assert counts["holdfast_steps_total looking succeeded"] == 1
    assert not [name for name in counts if name.startswith("holdfast_step_retries_total")]
    assert "queue_retry_count{" not in queues.text()


async def test_an_execution_that_times_out_and_one_that_is_invoked_are_counted_too() -> None:
    scene, clock = Scene(), VirtualClock()

    @holdfast.durable_execution(execution_timeout=10)
    async def brief(event: Any, context: Any) -> None:
        await context.wait(holdfast.Duration.from_days(1))

    settings = Settings(clock=clock, tune=False, observers=scene.observers)
    async with holdfast.open(":memory:", functions=[order, calling, brief], settings=settings) as engine:
        await ended(engine, "brief", {})
        await ended(engine, "calling", {})
    counts = scene.counts()
    assert counts["holdfast_executions_closed_total brief TIMED_OUT"] == 1
    assert counts["holdfast_executions_started_total order"] == counts["holdfast_executions_closed_total order SUCCEEDED"] == 1
    assert counts["holdfast_executions_closed_total calling SUCCEEDED"] == 1


async def test_an_execution_that_another_process_ends_is_counted_where_it_ends_and_is_one_trace(tmp_path: Path) -> None:
    where, clock = str(tmp_path / "s.db"), VirtualClock(skipping=False)
    first, second = Scene(), Scene()
    async with first.open(where, clock, resting=0) as engine:
        started = await engine.start("order", {})
        while "step reserve" not in [span.name for span in first.spans]:
            [x async for x in engine.list()]
            await _turn()
    later = VirtualClock(clock.now() + 60_000)
    async with second.open(where, later) as engine:
        await (await engine.get(started.id)).result()
    assert "holdfast_executions_closed_total order SUCCEEDED" not in first.counts()
    assert "holdfast_executions_started_total order" not in second.counts()
    assert second.counts()["holdfast_executions_closed_total order SUCCEEDED"] == 1
    trace_id, span_id = of(second.named("execution order"))
    assert (of(first.named("step reserve"))[0], above(first.named("step reserve"))) == (trace_id, span_id)


async def test_spans_of_an_execution_are_one_trace_with_steps_below_their_contexts() -> None:
    scene = Scene()
    async with scene.open() as engine:
        await ended(engine, "order", {"attempt": 2, "bad": True})
    whole = scene.named("execution order")
    trace_id, span_id = of(whole)
    assert {of(span)[0] for span in scene.spans} == {trace_id}
    assert whole.parent is None
    assert above(scene.named("step reserve")) == above(scene.named("context paying")) == span_id
    assert above(scene.named("step charge")) == of(scene.named("context paying"))[1]
    invocations = [span for span in scene.spans if span.name == "invocation"]
    assert len(invocations) > 1
    assert {above(span) for span in invocations} == {span_id}
    assert [(span.attributes or {})["error.type"] for span in (whole, scene.named("step ship"))] == ["FAILED", "ValueError"]
    assert (scene.named("step reserve").attributes or {})["holdfast.attempts"] == 2
    assert not any("hunter2" in span.to_json() for span in scene.spans), "no message of an error is in a span"


async def test_what_an_execution_invokes_is_in_its_trace() -> None:
    scene = Scene()
    async with scene.open() as engine:
        await ended(engine, "calling", {})
    caller, child = scene.named("execution calling"), scene.named("execution order")
    assert (of(child)[0], above(child)) == of(caller)
    assert of(scene.named("step charge"))[0] == of(caller)[0]


async def test_a_callers_trace_is_gone_on_with_and_one_that_is_not_recorded_is_left_alone() -> None:
    root, parent = "5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"
    scene = Scene()
    async with scene.open() as engine:
        for sampled in (1, 0):
            trace = f"Root=1-{root[:8]}-{root[8:]};Parent={parent};Sampled={sampled}"
            header = await engine._engine.start("order", "{}", trace=trace)
            await (await engine.get(header.id)).result()
    whole = scene.named("execution order")
    assert (of(whole)[0], above(whole)) == (int(root, 16), int(parent, 16))


def test_a_trace_header_is_aws_s_or_w3c_s_and_a_broken_one_is_none() -> None:
    assert trace_of("00-" + "a" * 32 + "-" + "b" * 16 + "-01") == TraceParent("a" * 32, "b" * 16, True)
    assert trace_of("Root=1-" + "a" * 8 + "-" + "b" * 24) == TraceParent("a" * 8 + "b" * 24, None, True)
    assert [trace_of(odd) for odd in (None, "", "Root=1-zz", "Root=1-00000000-" + "0" * 24, "x" * 9000)] == [None] * 5


def test_functions_beyond_the_bound_share_one_series() -> None:
    metrics = FunctionMetrics(most_functions=2)
    for number in range(5):
        metrics.started(new_execution(str(number), None, f"f{number}", "$LATEST", payload="{}", now=1, terms=Terms()))
    (family,) = [family for family in text_string_to_metric_families(metrics.text()) if family.name == "holdfast_executions_started"]
    assert {sample.labels["function"]: sample.value for sample in family.samples} == {"f0": 1, "f1": 1, "other": 3}


@pytest.mark.parametrize("status", list(OutcomeStatus))
def test_every_outcome_of_an_invocation_has_a_word(status: OutcomeStatus) -> None:
    metrics = FunctionMetrics()
    metrics.invoked(new_execution("e", None, "f", "$LATEST", payload="{}", now=1, terms=Terms()), Outcome(status), 5)
    assert "holdfast_invocations_total{" in metrics.text()


async def test_an_observer_that_fails_harms_no_execution_and_is_complained_about_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FunctionMetrics):
        def committed(self, writes: int) -> None:
            raise RuntimeError("no")

    settings = Settings(clock=VirtualClock(), tune=False, observers=(Broken(),))
    async with holdfast.open(":memory:", functions=[order], settings=settings) as engine:
        assert await ended(engine, "order", {}) == "done"
    assert [record.message for record in caplog.records if record.name == "holdfast.signals"] == ["Broken cannot take what it sees"]


async def test_without_observers_the_writer_tells_nothing() -> None:
    async with holdfast.open(":memory:", functions=[order], settings=Settings(clock=VirtualClock(), tune=False)) as engine:
        assert engine._engine._writer._saw is None


async def test_functions_in_processes_of_a_server_are_counted_and_shown(tmp_path: Path) -> None:
    scene, clock = Scene(), VirtualClock(skipping=False)
    code = "from holdfast.durable import durable_execution\n\n@durable_execution\ndef handler(event, context):\n"
    code += "    return context.step(lambda _: 5)\n"
    config = Config(handler="app.handler", runtime="python3", timeout=30, terms=Terms(600))
    settings = Settings(store=str(tmp_path / "s.db"), clock=clock, tune=False, observers=scene.observers)
    async with open_serving((), settings=settings, private_app=make_app) as service:
        await service.deploy(DescribedFunction(name="f", config=config, code=TextCode("app.py", code)))
        header = await service.engine.start("f", "{}")
        await service.engine.ending(header.id)
        app = make_app(service.api, more=MetricsRoutes(scene.metrics.text).routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            told = await client.get("/metrics")
    assert (told.status_code, 'holdfast_steps_total{function="f",result="succeeded"} 1.0' in told.text) == (200, True)
    assert 'holdfast_executions_closed_total{function="f",status="SUCCEEDED"} 1.0' in told.text
    assert {span.name.partition(" ")[0] for span in scene.spans} == {"execution", "invocation", "step"}


async def _turn() -> None:
    await asyncio.sleep(0)
