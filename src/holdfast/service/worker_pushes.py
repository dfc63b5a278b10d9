"""Pushes of runs: each line of a file is the inputs of one run of a worker or pipeline. Each line is checked with the contract, and an
engine that runs nothing itself enqueues the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.engine.enqueues import enqueue_of
from holdfast.model.admission import Enqueue
from holdfast.model.audit import principal
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import Kind
from holdfast.model.payloads import PayloadCodec
from holdfast.model.queue_errors import QueueFull
from holdfast.queues.pushes import PushedLine, PushOptions, member_of, read_line, units_of
from holdfast.service.engines import open as open_engine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.settings import Settings
from holdfast.workers.accept import traced
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService

_BATCH: Final = 200
"""This many lines are enqueued at the same time. Several of their writes share one commit."""


class WorkerPush(msgspec.Struct, frozen=True, kw_only=True):
    """A push to one worker or pipeline."""

    store: str
    file: Path
    worker: str | None
    """The id of the worker or pipeline; None: the only pipeline of the file, or else its only worker."""
    settings: WorkerSettings
    codec: PayloadCodec | None
    options: PushOptions

    def push(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Sequence[PushedLine]]:
        """Push numbered lines of JSON while the caller iterates, and report each batch after it is on disk. A wrong line is refused, and
        the others are still enqueued. If the queue is full or is drained, two kinds of lines of the present batch are still reported: those
        that were enqueued, and those that were wrong. Then QueueFull is raised. What was enqueued stays enqueued."""
        opening = open_engine(
            self.store, workers=[self.file], worker_settings=self.settings, settings=Settings(at_once=0), codec=self.codec
        )
        opening.declares = False  # a push starts nothing: the runner or server of the worker declares its schedule
        with asyncio.Runner() as runner:
            engine = runner.run(opening.__aenter__())
            try:
                service, numbered = engine.worker_service, iter(lines)
                worker = self.worker or _only(service)
                while batch := list(islice(numbered, _BATCH)):
                    told, full = runner.run(self._batch(service, worker, batch))
                    yield told
                    if full is not None:
                        raise full
            finally:
                runner.run(opening.__aexit__())

    async def _batch(
        self, service: WorkerService, worker: str, batch: Sequence[tuple[int, bytes]]
    ) -> tuple[list[PushedLine], QueueFull | None]:
        done = await asyncio.gather(*(self._line(service, worker, text) for _, text in batch), return_exceptions=True)
        told: list[PushedLine] = []
        full: QueueFull | None = None
        for (number, _), one in zip(batch, done, strict=True):
            if isinstance(one, QueueFull):
                full = full or one
            elif isinstance(one, HoldfastError):
                told.append(PushedLine(number, error=one))
            elif isinstance(one, BaseException):
                raise one
            else:
                told.append(PushedLine(number, *one))
        return told, full

    async def _line(self, service: WorkerService, worker: str, text: bytes) -> tuple[str, bool]:
        """Enqueue the run of a line. Returns the id of the run, and whether this line created the run; False if the run existed before."""
        options, inputs = self.options, read_line(text)
        if not isinstance(inputs, dict):
            raise InvalidRequest("The inputs of a worker must be a JSON object.")
        asked: Enqueue = enqueue_of(
            options.queue,
            key=member_of(inputs, options.lane_field),
            delay=options.delay_ms / 1000,
            ttl=None if options.ttl_ms is None else options.ttl_ms / 1000,
            head_start=options.head_start_ms / 1000,
            units=units_of(inputs, options.units_field),
            same=options.same.value,
        )
        key = member_of(inputs, options.key_field)
        document: dict[str, Any] = {"worker_id": worker, "inputs": inputs, **({} if key is None else {"idempotency_key": key})}
        caller = Caller(tenant=options.tenant or "default", principal=principal())
        request = traced(request_from(document))
        header, accepted = await service.accept(request, caller, queue=asked)
        return header.id, accepted.trace_id == request.trace.trace_id  # each line has a trace id of its own, and a run keeps its maker's


def _only(service: WorkerService) -> str:
    """The id of the only pipeline that is served; without pipelines, of the only worker. Raises InvalidRequest if there are several.
    There is always one: a file without a worker is refused when the engine opens."""
    pipelines = [name for name, versions in service.served.items() if any(one.kind is Kind.PIPELINE for one in versions.values())]
    names = pipelines or list(service.served)
    if len(names) > 1:
        raise InvalidRequest(
            f"The file has several {'pipelines' if pipelines else 'workers'}: {', '.join(sorted(names))}. Name one, as FILE:ID."
        )
    return names[0]
