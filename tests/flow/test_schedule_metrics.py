"""Metrics of schedules: what became of occurrences, counted by the process that decided it, and how long a schedule is overdue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, Schedule, durable_execution
from holdfast.model.errors import StoreBusy
from holdfast.service.runtimes.function_signals import FunctionSignals
from tests.flow.test_queue_metrics import counts
from tests.flow.timetables import Stage, at


@durable_execution
async def report(event: Any, context: AsyncDurableContext) -> None:
    await context.wait(Duration.from_minutes(event or 1))


@pytest.fixture
def measured() -> FunctionSignals:
    return FunctionSignals({})


async def test_what_becomes_of_occurrences_is_counted_by_schedule(measured: FunctionSignals, tmp_path: Path) -> None:
    stage = Stage(str(tmp_path / "s.db"))
    measured.watch(stage.store, stage.clock)
    schedules = [
        Schedule("hourly", report, cron="0 * * * *", catch_up="all:2", overlap="allow"),
        Schedule("slow", report, cron="0 * * * *", input=90),
        Schedule("elsewhere", "not-hosted", cron="0 1 * * *"),
    ]
    async with stage.runners(report, schedules=schedules, observers=measured.observers):
        await stage.until("2026-01-01 02:30")
        told = counts(measured.text())
        assert told['schedule_started_count{schedule="hourly"}'] == 2
        assert (told['schedule_started_count{schedule="slow"}'], told['schedule_skipped_count{schedule="slow"}']) == (1, 1)
        assert told['schedule_lag_seconds{schedule="hourly"}'] == 0
        overdue = {name: told[f'schedule_overdue_seconds{{schedule="{name}"}}'] for name in ("hourly", "elsewhere")}
        assert overdue == {"hourly": 0, "elsewhere": 90 * 60}
    stage.clock.move_to(at("2026-01-01 08:30"))
    async with stage.runners(report, schedules=schedules, observers=measured.observers):
        told = counts(measured.text())
    assert told['schedule_started_count{schedule="hourly"}'] == 4
    assert (told['schedule_late_count{schedule="hourly"}'], told['schedule_missed_count{schedule="hourly"}']) == (2, 4)
    assert told['schedule_lag_seconds{schedule="hourly"}'] == 30 * 60
    assert 'schedule_refused_count{schedule="hourly"}' not in told
    stage.store.close()


def test_a_store_that_cannot_be_read_leaves_the_counts_of_the_process(measured: FunctionSignals) -> None:
    def broken() -> Any:
        raise StoreBusy("busy")

    measured.schedules.states = broken
    measured.schedules.occurred("nightly", "refused", 1, None)
    assert counts(measured.schedules.text()) == {'schedule_refused_count{schedule="nightly"}': 1}
