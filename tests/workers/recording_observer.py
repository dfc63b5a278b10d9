"""Observers for tests of signals: a list of all that was told, and an engine that crashes where it is told to."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.model.clock import Clock, VirtualClock
from holdfast.model.ids import Ids
from holdfast.service.engines import EngineOpening
from holdfast.service.settings import Settings
from holdfast.signals.metrics import Metrics
from holdfast.signals.tracing import Tracing
from holdfast.signals.worker_logs import LineWriter, WorkerLog
from holdfast.testing.crashing import Crash, Crashing
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.policy import Policy
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.folder import Folder
from tests.workers.harness import InlineWorker


class Seen:
    """Logs, metrics and traces of a worker_service, all three of them."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self._path = folder / "workers.log"
        self._exporter = InMemorySpanExporter()
        self.log = WorkerLog(LineWriter(str(self._path)), clock or VirtualClock())
        self.metrics = Metrics()
        self.tracing = Tracing(SimpleSpanProcessor(self._exporter), {})

    def watch(self, service: WorkerService) -> Seen:
        for observer in (self.log, self.metrics, self.tracing):
            service.observe(observer)
        return self

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of the log; it is closed by that."""
        self.log.close()
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [line for line in lines if event is None or line["event"] == event]

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def series(self, name: str) -> dict[str, float]:
        """The series of a metric, by their labels as they are shown."""
        shown = [line.removeprefix(name).rpartition(" ") for line in self.metrics.text().splitlines() if line.startswith(f"{name}{{")]
        return {labels: float(value) for labels, _, value in shown}


def span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def trace_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def parent_id(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


@contextlib.asynccontextmanager
async def crashing(worker: InlineWorker, folder: Path, crash: Crash) -> AsyncIterator[WorkerService]:
    """A worker_service whose runner dies once, where `crash` says."""

    async def not_found(worker_id: str, package: str) -> Any:
        raise AssertionError("every package of these tests is served")

    service = WorkerService(policy=Policy(), artifacts=Artifacts(Folder(folder), 1_000_000), find=not_found)
    service.serve(worker)
    settings = Settings(clock=VirtualClock(), ids=Ids(Random(0)), resting=0, tune=False)
    opening = EngineOpening(":memory:", service.functions(), NO_SUBSCRIBERS, settings)
    opening.wrap = lambda host: Crashing(host, ["w"], crash)
    async with opening as engine:
        service.attach(engine._engine)
        yield service
