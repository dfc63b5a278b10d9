"""A year of Berlin in whole engines, under virtual time: every policy, both changes of the clock, and downtimes beside and around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, Schedule, durable_execution
from holdfast.model.schedule_times import ClockChanges, Timing
from holdfast.model.schedules import CatchUp, Definition, Overlap
from tests.flow.timetables import Stage, at
from tests.postgres import new_schema
from tests.unit.naive_firing import POLICIES, naive

TAKES_HOURS = 80
ZONE, MOST = "Europe/Berlin", 5
TWICE_A_WEEK, SUNDAYS = "30 2 * * SUN,WED", "30 2 * * SUN"
"""At 02:30, which is missing on Sunday 29 March and comes twice on Sunday 25 October. A run lasts longer than from Sunday to Wednesday."""
BEGIN, END = "2026-01-01 00:00", "2027-01-01 00:00"
Downs = list[tuple[str, str]]
BETWEEN: Downs = [("2026-06-05 12:00", "2026-06-21 09:17"), ("2026-11-02 12:00", "2026-11-19 20:00")]
AROUND: Downs = [("2026-03-27 12:00", "2026-04-02 09:17"), ("2026-10-20 12:00", "2026-10-26 20:00")]


@durable_execution(retention_days=400)
async def takes_long(event: Any, context: AsyncDurableContext) -> None:
    await context.wait(Duration.from_hours(TAKES_HOURS))


def named(overlap: Overlap, catch_up: CatchUp) -> str:
    return f"{overlap.value}-{catch_up.value}"


def schedule(overlap: Overlap, catch_up: CatchUp, clock: ClockChanges, cron: str) -> Schedule:
    made_up = f"all:{MOST}" if catch_up is CatchUp.ALL else catch_up.value
    return Schedule(named(overlap, catch_up), takes_long, cron=cron, zone=ZONE, clock=clock.value, overlap=overlap.value, catch_up=made_up)


def expected(overlap: Overlap, catch_up: CatchUp, clock: ClockChanges, cron: str, downs: Downs) -> list[tuple[int, int]]:
    definition = Definition(
        function="f", timing=Timing(cron=cron, zone=ZONE, clock=clock), overlap=overlap, catch_up=catch_up, catch_up_most=MOST
    )
    spans = [(at(down), at(up)) for down, up in downs]
    return naive(definition, TAKES_HOURS * 3_600_000, spans, at(BEGIN), at(END), ends_late=True)


async def year(stage: Stage, clock: ClockChanges, cron: str, downs: Downs) -> None:
    policies = [(overlap, catch_up) for overlap, catch_up, of in POLICIES if of is clock]
    schedules = [schedule(*policy, clock, cron) for policy in policies]
    for (_, up), (down, _), runners in zip([("", BEGIN), *downs], [*downs, (END, "")], (1, 2, 1), strict=True):
        stage.clock.move_to(at(up))
        async with stage.runners(takes_long, schedules=schedules, count=runners):
            await stage.until(at(down) - 1)
    started: dict[str, list[tuple[int, int]]] = {}
    for mark in stage.marks():
        started.setdefault(mark["schedule"], []).append((mark["at"], mark["began"]))
    for policy in policies:
        assert started[named(*policy)] == expected(*policy, clock, cron, downs), policy


@pytest.mark.long
@pytest.mark.parametrize("clock", ClockChanges)
async def test_a_year_of_berlin_in_whole_engines_has_exactly_the_starts_of_a_naive_model(tmp_path: Path, clock: ClockChanges) -> None:
    stage = Stage(str(tmp_path / "s.db"), BEGIN)
    try:
        await year(stage, clock, TWICE_A_WEEK, BETWEEN)
    finally:
        stage.store.close()


@pytest.mark.long
@pytest.mark.parametrize("clock", ClockChanges)
async def test_the_sundays_of_a_year_have_the_same_starts_on_postgres(clock: ClockChanges) -> None:
    """With downtimes around both changes of the clock, which are on Sundays."""
    stage = Stage(new_schema(), BEGIN)
    try:
        await year(stage, clock, SUNDAYS, AROUND)
    finally:
        stage.store.close()
