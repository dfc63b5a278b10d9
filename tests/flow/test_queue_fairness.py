"""Fairness by times, in whole engines under virtual time: a tenant with ten jobs beside a tenant with very many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, Queue, Settings, durable_execution
from holdfast.model.clock import VirtualClock
from holdfast.service.engines import OpenEngine
from tests.postgres import new_schema

TEN, JOB_SECONDS = 10, 50


@durable_execution
async def job(event: Any, context: AsyncDurableContext) -> None:
    await context.wait(Duration.from_seconds(JOB_SECONDS))


async def ten(engine: OpenEngine, queue: str) -> float:
    """Seconds of virtual time until ten jobs of the small tenant are enqueued and done."""
    clock = engine._engine.clock
    began = clock.now()
    jobs = await engine.enqueue_many(job, [None] * TEN, queue=queue, tenant="small")
    for one in jobs:
        await one.result()
    return (clock.now() - began) / 1000


@pytest.mark.parametrize(
    "store, others",
    [("sqlite", 1000), pytest.param("postgres", 1000, marks=pytest.mark.long), pytest.param("sqlite", 100_000, marks=pytest.mark.long)],
)
async def test_ten_jobs_beside_very_many_of_another_tenant_take_twice_their_lone_time_and_one_job(
    tmp_path: Path, store: str, others: int
) -> None:
    where = str(tmp_path / "f.db") if store == "sqlite" else new_schema()
    settings, queues = Settings(clock=VirtualClock(), tune=False), [Queue("fair", at_once=1), Queue("alone", at_once=1)]
    async with holdfast.open(where, functions=[job], queues=queues, settings=settings) as engine:
        alone = await ten(engine, "alone")
        await engine.enqueue_many(job, [None] * others, queue="fair", tenant="large")
        before = engine._store.queue_state("fair", 0).waiting
        beside = await ten(engine, "fair")
        ran = before - engine._store.queue_state("fair", 0).waiting
    assert alone == TEN * JOB_SECONDS
    assert beside <= 2 * alone + JOB_SECONDS
    assert 0 < ran <= TEN + 1, "the large tenant has its turns too, and no more"
