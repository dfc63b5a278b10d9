"""What observers and subscribers hear of queues: admissions, refusals and parked executions; and no start before an admission."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Settings, durable_execution
from holdfast.model.errors import ExecutionFailed
from holdfast.model.execution import Execution, Outcome
from holdfast.model.operations import Operation
from holdfast.model.ports import Sight
from holdfast.model.queue_errors import QueueFull
from holdfast.model.signals import StatusSignal
from tests.flow.harness import Harness, eventually
from tests.flow.queue_jobs import Line, declare, echo, held_in


class Looking:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def attach(self, sight: Sight) -> None: ...
    def committed(self, writes: int) -> None: ...
    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None: ...
    def operated(self, header: Execution, operation: Operation) -> None: ...

    def started(self, header: Execution) -> None:
        self.heard.append(("started", header.name))

    def closed(self, header: Execution) -> None:
        self.heard.append(("closed", header.name))

    def admitted(self, header: Execution) -> None:
        self.heard.append(("admitted", header.name))

    def parked(self, header: Execution) -> None:
        self.heard.append(("parked", header.name))

    def refused(self, queue: str) -> None:
        self.heard.append(("refused", queue))


def watched(harness: Harness, looking: Looking) -> Settings:
    return Settings(clock=harness.clock, resting=harness.resting, observers=(looking,))


async def test_an_observer_hears_of_admissions_refusals_and_parked_executions(harness: Harness) -> None:
    @durable_execution
    async def poor(event: Any, context: AsyncDurableContext) -> None:
        raise ValueError("no")

    looking, line = Looking(), Line()
    declare(harness, limits={"at_once": 1}, most_waiting=1)
    async with holdfast.open(harness.store, functions=[held_in(line), poor], settings=watched(harness, looking)) as engine:
        first = await engine.enqueue("job", 1, queue="emails", idempotency_key="a")
        second = await engine.enqueue(poor, 2, queue="emails", idempotency_key="b")
        with pytest.raises(QueueFull):
            await engine.enqueue("job", 3, queue="emails")
        await eventually(lambda: len(looking.heard) == 3)
        assert looking.heard == [("started", "a"), ("admitted", "a"), ("refused", "emails")]
        line.open.set()
        assert await first.result() == 1
        with pytest.raises(ExecutionFailed):
            await second.result()
        await eventually(lambda: len(looking.heard) == 8)
    assert looking.heard[3:] == [("closed", "a"), ("started", "b"), ("admitted", "b"), ("closed", "b"), ("parked", "b")]


async def test_a_subscriber_hears_of_a_start_at_the_admission_and_of_nothing_at_the_enqueue(harness: Harness) -> None:
    line, heard = Line(), []
    declare(harness, limits={"at_once": 1})

    async def receive(signal: StatusSignal) -> None:
        heard.append((signal.name, signal.status.value))

    settings = Settings(clock=harness.clock, resting=harness.resting)
    async with holdfast.open(harness.store, functions=[held_in(line), echo], subscribers={"s": receive}, settings=settings) as engine:
        first = await engine.enqueue("job", 1, queue="emails", idempotency_key="a")
        second = await engine.enqueue("echo", 2, queue="emails", idempotency_key="b")
        await eventually(lambda: heard)
        assert heard == [("a", "RUNNING")]
        line.open.set()
        assert [await first.result(), await second.result()] == [1, 2]
        await eventually(lambda: len(heard) == 4)
    assert heard == [("a", "RUNNING"), ("a", "SUCCEEDED"), ("b", "RUNNING"), ("b", "SUCCEEDED")]
