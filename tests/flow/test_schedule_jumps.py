"""Two runners, hours of downtime, a clock that jumps forward and back: every policy has exactly the starts of a naive model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, Schedule, durable_execution
from holdfast.model.schedule_times import ClockChanges, Timing
from holdfast.model.schedules import CatchUp, Definition, Overlap
from tests.flow.timetables import Stage, at
from tests.postgres import new_schema
from tests.unit.naive_firing import POLICIES, naive

TAKES_MINUTES, MOST, HOURLY = 70, 3, "0 * * * *"
BEGIN, END = "2026-01-01 00:00", "2026-01-02 02:00"
DOWN = ("2026-01-01 06:30", "2026-01-01 11:58")
FORWARD = ("2026-01-01 13:20", "2026-01-01 17:25")
BACK = ("2026-01-01 19:50", "2026-01-01 18:40")
EVERY = [(overlap, catch_up) for overlap, catch_up, clock in POLICIES if clock is ClockChanges.ONCE]


@durable_execution
async def takes_long(event: Any, context: AsyncDurableContext) -> None:
    await context.wait(Duration.from_minutes(TAKES_MINUTES))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(str(tmp_path / "s.db") if request.param == "sqlite" else new_schema(), BEGIN)
    yield made
    made.store.close()


def named(overlap: Overlap, catch_up: CatchUp) -> str:
    return f"{overlap.value}-{catch_up.value}"


def schedule(overlap: Overlap, catch_up: CatchUp) -> Schedule:
    made_up = f"all:{MOST}" if catch_up is CatchUp.ALL else catch_up.value
    return Schedule(named(overlap, catch_up), takes_long, cron=HOURLY, overlap=overlap.value, catch_up=made_up)


def expected(overlap: Overlap, catch_up: CatchUp) -> list[tuple[int, int]]:
    """A jump forward is downtime. A jump back changes nothing: no occurrence comes twice, and none is left out."""
    definition = Definition(function="f", timing=Timing(cron=HOURLY), overlap=overlap, catch_up=catch_up, catch_up_most=MOST)
    spans = [(at(down), at(up)) for down, up in (DOWN, FORWARD)]
    return naive(definition, TAKES_MINUTES * 60_000, spans, at(BEGIN), at(END), ends_late=True)


async def test_downtime_and_jumps_of_the_clock_have_exactly_the_starts_of_a_naive_model(stage: Stage) -> None:
    schedules = [schedule(*policy) for policy in EVERY]
    async with stage.runners(takes_long, schedules=schedules, count=2):
        await stage.until(at(DOWN[0]))
    stage.clock.move_to(at(DOWN[1]))
    async with stage.runners(takes_long, schedules=schedules, count=2):
        await stage.until(FORWARD[0])
        stage.clock.move_to(at(FORWARD[1]))
        await stage.settled()
        await stage.until(BACK[0])
        stage.clock._now = at(BACK[1])
        await stage.settled()
        await stage.until(at(END) - 1)
    started: dict[str, list[tuple[int, int]]] = {}
    for mark in stage.marks():
        started.setdefault(mark["schedule"], []).append((mark["at"], mark["began"]))
    for policy in EVERY:
        assert started[named(*policy)] == expected(*policy), policy
