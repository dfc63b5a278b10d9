"""Metrics of queues: what the store says of each queue, and what this process refused and tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Queue, StepConfig, durable_execution
from holdfast.durable.config import Duration
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy
from holdfast.model.clock import SystemClock
from holdfast.model.errors import HoldfastError, StoreBusy
from holdfast.queues.store_queues import StoreQueues
from holdfast.service.runtimes.function_signals import FunctionSignals
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.settings import Settings
from holdfast.workers.policy import Policy
from tests.workers.pages import page, write

ONCE_MORE = create_retry_strategy(RetryStrategyConfig(max_attempts=2, initial_delay=Duration.from_seconds(1)))


@durable_execution
async def send(event: Any, context: AsyncDurableContext) -> str:
    async def sent(_: object) -> str:
        if event.get("fails"):
            raise LookupError("no such address")
        return "sent"

    return await context.step(sent, name="send", config=StepConfig(retry_strategy=ONCE_MORE))


def counts(text: str) -> dict[str, float]:
    return {name: float(value) for line in text.splitlines() if not line.startswith("#") for name, value in [line.rsplit(" ", 1)]}


async def test_depth_oldest_drain_rate_admitted_parked_and_retries_are_shown_by_queue() -> None:
    measured = FunctionSignals({})
    settings = Settings(observers=measured.observers)
    opening = holdfast.open(":memory:", functions=[send], queues=[Queue("emails"), Queue("paused", most_waiting=1)], settings=settings)
    async with opening as engine:
        store = opening.engine.store
        measured.watch(store, SystemClock())
        StoreQueues(store, SystemClock(), settings.ids).pause("paused")
        for event in ({"fails": True}, {}):
            started = await engine.enqueue(send, event, queue="emails")
            await opening.engine.ending(started.id)
        await engine.enqueue(send, {}, queue="paused", delay=60)
        await engine.enqueue(send, {}, queue="paused")
        with pytest.raises(HoldfastError, match="it accepts at most 1"):
            await engine.enqueue(send, {}, queue="paused")
        text = measured.text()
    assert "refused, because the queue was full, was drained, or had reached its limit of cost" in text
    told = counts(text)
    assert told['queue_depth{queue="emails"}'] == 0
    assert told['queue_depth{queue="paused"}'] == 2
    assert told['queue_admitted_count{queue="emails"}'] == 2
    assert told['queue_drain_rate{queue="emails"}'] > 0
    assert told['queue_parked_count{queue="emails"}'] == 1
    assert told['queue_retry_count{queue="emails"}'] == 1
    assert told['queue_refused_count{queue="paused"}'] == 1
    assert told['queue_oldest_seconds{queue="paused"}'] >= 0
    assert told['holdfast_executions_started_total{function="send"}'] == 2


FLAKY = """
from pathlib import Path
from holdfast import WorkerError, worker


@worker("flaky.md")
async def flaky(inputs, ctx):
    tried = Path(inputs["folder"], "tried")
    if not tried.exists():
        tried.touch()
        raise WorkerError("flaky", retryable=True)
    return {}
"""


async def test_a_further_attempt_of_a_worker_counts_for_its_queue(tmp_path: Path) -> None:
    file, measured = write(tmp_path / "w", FLAKY, flaky=page("flaky", attempts=2)), FunctionSignals({})
    settings = Settings(observers=measured.observers)
    worker_settings = WorkerSettings(policy=Policy(isolation="inline"))
    async with holdfast.open(":memory:", workers=[file], settings=settings, worker_settings=worker_settings) as engine:
        queued = await engine.enqueue("flaky", {"folder": str(tmp_path)}, queue="sums")
        response = await queued.result()
        assert (response["status"], response["observability"]["attempt"]) == ("ok", 2)
        (tmp_path / "tried").unlink()
        await engine.run("flaky", {"folder": str(tmp_path)})
        assert counts(measured.queues.text()) == {'queue_retry_count{queue="sums"}': 1}, "a run of no queue counts for none"


def test_a_store_that_cannot_be_read_leaves_the_counts_of_the_process() -> None:
    measured = FunctionSignals({})

    def broken() -> Any:
        raise StoreBusy("busy")

    measured.queues.states = broken
    measured.queues.refused("emails")
    assert counts(measured.queues.text()) == {'queue_refused_count{queue="emails"}': 1}
