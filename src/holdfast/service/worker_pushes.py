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
from holdfast.model.execution import Execution
from holdfast.model.operations import Kind
from holdfast.model.payloads import PayloadCodec
from holdfast.model.queue_errors import QueueFull
from holdfast.service.engines import open as open_engine
from holdfast.service.queues.pushes import PushedLine, PushOptions, member_of, read_line, units_of
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.settings import Settings
from holdfast.workers.run_lookup import Asker
from holdfast.workers.service import WorkerService

_BATCH: Final = 200
"""This many lines are enqueued at the same time. Several of their writes share one commit."""


class _Known:
    """Tells by the times of runs whether a line of this push made its run. Otherwise the run existed before the push, or an earlier line
    with the same key made it. A run that another caller made with the same key during the push counts as made by the line."""

    def __init__(self, began: int) -> None:
        self._began = began
        self._seen: set[str] = set()

    def is_new(self, header: Execution) -> bool:
        """Whether a run began after the push began, and no earlier line has reported it."""
        new = header.started_at >= self._began and header.id not in self._seen
        self._seen.add(header.id)
        return new


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
        """Push numbered lines of JSON, and report each batch after it is on disk. A wrong line is refused, and the others are still
        enqueued. If the queue is full or is drained, two kinds of lines of the present batch are still reported: those that were enqueued,
        and those that were wrong. Then QueueFull is raised. What was enqueued stays enqueued."""
        opening = open_engine(
            self.store, workers=[self.file], worker_settings=self.settings, settings=Settings(at_once=0), codec=self.codec
        )
        opening.declares = False  # a push starts nothing: the runner or server of the worker declares its schedule
        with asyncio.Runner() as runner:
            engine = runner.run(opening.__aenter__())
            try:
                service, numbered, known = engine.worker_service, iter(lines), _Known(opening.engine.clock.now())
                worker = self.worker or _only(service)
                while batch := list(islice(numbered, _BATCH)):
                    told, full = runner.run(self._batch(service, worker, batch, known))
                    yield told
                    if full is not None:
                        raise full
            finally:
                runner.run(opening.__aexit__())

    async def _batch(
        self, service: WorkerService, worker: str, batch: Sequence[tuple[int, bytes]], known: _Known
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
                told.append(PushedLine(number, one.id, known.is_new(one)))
        return told, full

    async def _line(self, service: WorkerService, worker: str, text: bytes) -> Execution:
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
        asker = Asker(tenant=options.tenant or "default", principal=principal())
        return await service.enqueue(request_from(document), asker, asked)


def _only(service: WorkerService) -> str:
    """The id of the only pipeline that is served; without pipelines, of the only worker. Raises InvalidRequest if there is not exactly
    one."""
    pipelines = [name for name, versions in service.served.items() if any(one.kind is Kind.PIPELINE for one in versions.values())]
    names = pipelines or list(service.served)
    if len(names) != 1:
        raise InvalidRequest(f"The file has several workers: {', '.join(sorted(names))}. Name one, as FILE:ID.")
    return names[0]
