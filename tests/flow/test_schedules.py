"""Schedules in whole engines under virtual time: every policy, exact occurrences, one runner or two, on both stores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncDurableContext, Duration, Schedule, durable_execution
from holdfast.model.places import Only
from tests.flow.timetables import HOUR, Stage, at
from tests.postgres import new_schema


@durable_execution
async def report(event: Any, context: AsyncDurableContext) -> Any:
    return event


@durable_execution
async def slow(event: Any, context: AsyncDurableContext) -> str:
    await context.wait(Duration.from_minutes(event or 150))
    return "done"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(str(tmp_path / "s.db") if request.param == "sqlite" else new_schema())
    yield made
    made.store.close()


async def test_an_occurrence_starts_at_its_time_with_the_schedules_input_and_is_marked(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 2 * * *", input={"n": 1})]):
        await stage.until("2026-01-03 12:00")
        first = stage.marks()[0]
        assert first["started_at"] == "2026-01-01 02:00"
        assert (first["schedule"], first["how"], first["status"]) == ("s", "due", "SUCCEEDED")
        assert stage.ran() == ["2026-01-01 02:00", "2026-01-02 02:00", "2026-01-03 02:00"]
        assert stage.store.input(first["execution"]) == '{"n":1}'
        header = stage.store.find(first["execution"])
        assert header is not None
        assert header.name == "s-20260101T020000Z"


# --- one firing, whatever the number of runners


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace", "allow"])
async def test_two_runners_start_each_occurrence_once(stage: Stage, overlap: str) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, every="1h", overlap=overlap)], count=2):
        await stage.until("2026-01-02 00:00")
    assert stage.ran() == [f"2026-01-01 {hour:02d}:00" for hour in range(1, 24)] + ["2026-01-02 00:00"]


async def test_two_runners_on_postgres_start_each_occurrence_once_over_a_downtime() -> None:
    stage = Stage(new_schema())
    with contextlib.closing(stage.store):
        assert await down(stage, "all:3", "queue") == ["01:00", "02:00", "05:00", "06:00", "07:00", "08:00"]


async def test_many_schedules_of_one_moment_start_each_once_with_two_runners(stage: Stage) -> None:
    many = [Schedule(f"s{n}", report, cron="0 3 * * *", input=n) for n in range(30)]
    async with stage.runners(report, schedules=many, count=2):
        await stage.until("2026-01-01 04:00")
    assert sorted(mark["schedule"] for mark in stage.marks()) == sorted(f"s{n}" for n in range(30))


# --- runners that take only some executions


@pytest.mark.parametrize(
    "only, ran",
    [
        (Only(tenants=frozenset({"acme"})), ["acmes"]),
        (Only(tenants=frozenset({"default"})), ["nobodys"]),
        (Only(queues=frozenset({"emails"})), []),
        (Only(frozenset({"emails"}), frozenset({"acme"})), []),
    ],
)
async def test_a_runner_of_some_queues_or_tenants_starts_only_schedules_of_its_own(stage: Stage, only: Only, ran: list[str]) -> None:
    both = [Schedule("acmes", report, every="1h", tenant="acme"), Schedule("nobodys", report, every="1h")]
    async with stage.runners(report, schedules=both, only=only):
        stage.clock.move_to(at("2026-01-01 01:00"))
        await stage.settled()
        assert [(mark["schedule"], mark["status"]) for mark in stage.marks()] == [(name, "SUCCEEDED") for name in ran]
    async with stage.runners(report):
        assert sorted(mark["schedule"] for mark in stage.marks()) == ["acmes", "nobodys"], "another runner starts the others"


# --- overlap


async def hours(stage: Stage, overlap: str, until: str = "2026-01-01 06:30") -> None:
    """A run of two and a half hours, due every hour."""
    async with stage.runners(slow, schedules=[Schedule("s", slow, cron="0 * * * *", overlap=overlap)], count=2):
        await stage.until(until)


async def test_skip_leaves_out_what_is_due_while_the_one_before_runs(stage: Stage) -> None:
    await hours(stage, "skip")
    assert stage.ran() == ["2026-01-01 01:00", "2026-01-01 04:00"]
    skipped = ["02:00", "03:00", "05:00", "06:00"]
    assert [line for line in stage.outcomes() if line[1] == "skipped"] == [(f"2026-01-01 {hour}", "skipped") for hour in skipped]


async def test_queue_starts_the_next_when_the_one_before_has_ended(stage: Stage) -> None:
    await hours(stage, "queue")
    marks = [(mark["started_at"][11:], mark["at"]) for mark in stage.marks()]
    assert marks == [("01:00", at("2026-01-01 01:00")), ("03:30", at("2026-01-01 02:00")), ("06:00", at("2026-01-01 03:00"))]
    assert stage.state().waiting == tuple(at(f"2026-01-01 0{hour}:00") for hour in (4, 5, 6))


async def test_queue_lets_a_bounded_number_wait_and_skips_the_rest(stage: Stage) -> None:
    async with stage.runners(slow, schedules=[Schedule("s", slow, every="1m", overlap="queue", input=10_000)]):
        await stage.until("2026-01-01 01:50")
    state = stage.state()
    assert (len(stage.ran()), len(state.waiting)) == (1, 100)
    assert state.recent[0].why == "100 occurrences were waiting already."


async def test_replace_stops_the_one_before_and_starts_then(stage: Stage) -> None:
    await hours(stage, "replace", "2026-01-01 03:30")
    assert [(mark["started_at"][11:], mark["status"]) for mark in stage.marks()] == [
        ("01:00", "STOPPED"),
        ("02:00", "STOPPED"),
        ("03:00", "RUNNING"),
    ]


async def test_allow_starts_everything_on_time(stage: Stage) -> None:
    await hours(stage, "allow", "2026-01-01 03:10")
    assert [(mark["started_at"][11:], mark["status"]) for mark in stage.marks()] == [
        ("01:00", "RUNNING"),
        ("02:00", "RUNNING"),
        ("03:00", "RUNNING"),
    ]


# --- downtime and clocks that jump


async def down(stage: Stage, catch_up: str, overlap: str = "skip") -> list[str]:
    """Five hours without a runner, of a schedule that is due every hour."""
    hourly = Schedule("s", report, cron="0 * * * *", catch_up=catch_up, overlap=overlap)
    async with stage.runners(report, schedules=[hourly]):
        await stage.until("2026-01-01 02:10")
    stage.clock.move_to(at("2026-01-01 07:30"))
    async with stage.runners(report, schedules=[hourly], count=2):
        await stage.until("2026-01-01 08:10")
    return [text[11:] for text in stage.ran()]


async def test_latest_makes_up_for_the_last_one_only(stage: Stage) -> None:
    assert await down(stage, "latest") == ["01:00", "02:00", "07:00", "08:00"]
    missed = [line for line in stage.state().recent if line.outcome == "missed"]
    assert [(line.since, line.at) for line in missed] == [(at("2026-01-01 03:00"), at("2026-01-01 06:00"))]


async def test_none_makes_up_for_nothing(stage: Stage) -> None:
    assert await down(stage, "none") == ["01:00", "02:00", "08:00"]


async def test_all_makes_up_for_the_newest_up_to_its_number(stage: Stage) -> None:
    assert await down(stage, "all:3", "queue") == ["01:00", "02:00", "05:00", "06:00", "07:00", "08:00"]


async def test_all_starts_them_at_once_where_overlap_is_allowed(stage: Stage) -> None:
    assert await down(stage, "all:20", "allow") == [f"0{hour}:00" for hour in range(1, 9)]


async def test_a_clock_that_jumps_forward_is_downtime_and_one_that_jumps_back_repeats_nothing(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 * * * *")], count=2):
        await stage.until("2026-01-01 01:10")
        stage.clock.move_to(at("2026-01-01 05:10"))
        await stage.settled()
        stage.clock._now = at("2026-01-01 03:50")
        for _ in range(3):
            await stage.until(stage.clock.now() + HOUR // 2)
        assert stage.ran() == ["2026-01-01 01:00", "2026-01-01 05:00"]
        await stage.until("2026-01-01 06:10")
    assert stage.ran() == ["2026-01-01 01:00", "2026-01-01 05:00", "2026-01-01 06:00"]


async def test_a_year_of_downtime_of_an_everyminute_schedule_costs_one_look(stage: Stage) -> None:
    every = Schedule("s", report, cron="* * * * *")
    async with stage.runners(report, schedules=[every]):
        await stage.until("2026-01-01 00:01")
    stage.clock.move_to(at("2027-01-01 00:00"))
    async with stage.runners(report, schedules=[every]):
        pass
    assert stage.outcomes()[-1] == ("2027-01-01 00:00", "started")
    missed = stage.state().recent[1]
    assert (missed.outcome, missed.since, missed.at) == ("missed", at("2026-01-01 00:02"), at("2026-12-31 23:59"))


# --- what operators do


async def test_what_was_due_while_it_was_paused_is_not_made_up_for_unless_asked(stage: Stage) -> None:
    schedules = [Schedule("s", report, cron="0 * * * *"), Schedule("t", report, cron="0 * * * *")]
    async with stage.runners(report, schedules=schedules, count=2):
        stage.verbs.pause("s")
        stage.verbs.pause("t")
        await stage.until("2026-01-01 03:10")
        assert stage.ran() == []
        stage.verbs.resume("s")
        stage.verbs.resume("t", catch_up=True)
        await stage.until("2026-01-01 04:10")
    ran = {(mark["schedule"], mark["started_at"][11:]) for mark in stage.marks()}
    assert ran == {("s", "04:00"), ("t", "03:10"), ("t", "04:00")}


async def test_run_now_starts_one_at_once_and_also_while_paused(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 5 * * *", input=7)], count=2):
        stage.verbs.pause("s")
        await stage.until("2026-01-01 01:10")
        stage.verbs.run_now("s")
        await stage.settled()
        (mark,) = stage.marks()
        assert (mark["how"], mark["started_at"], stage.store.input(mark["execution"])) == ("now", "2026-01-01 01:10", "7")


async def test_a_backfill_follows_the_expression_that_counted_at_the_time_and_repeats_nothing(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 2 * * *")], count=2):
        await stage.until("2026-01-03 12:00")
    async with stage.runners(report, schedules=[Schedule("s", report, cron="30 6 * * *")], count=2):
        stage.verbs.pause("s")
        await stage.until("2026-01-06 12:00")
        done = stage.verbs.backfill("s", at("2026-01-02 00:00"), at("2026-01-06 00:00"))
        await stage.settled()
    assert done.due == 4
    filled = sorted(mark["at"] for mark in stage.marks() if mark["how"] == "backfill")
    assert filled == [at("2026-01-04 06:30"), at("2026-01-05 06:30")]
    assert [line for line in stage.outcomes() if line[1] == "found"] == [("2026-01-02 02:00", "found"), ("2026-01-03 02:00", "found")]


async def test_a_backfill_of_more_than_a_thousand_is_refused(stage: Stage) -> None:
    from holdfast.model.schedule_errors import ScheduleInvalid

    stage.verbs.declare(Schedule("s", "report", every="1m"))
    with pytest.raises(ScheduleInvalid, match="More than 1,000 occurrences"):
        stage.verbs.backfill("s", 0, stage.clock.now())


async def test_what_an_operator_changed_counts_more_than_the_declaration(stage: Stage) -> None:
    declared = Schedule("s", report, cron="0 2 * * *")
    async with stage.runners(report, schedules=[declared]):
        stage.verbs.add(Schedule("s", "report", cron="0 4 * * *"), replace=True)
        await stage.until("2026-01-01 12:00")
    async with stage.runners(report, schedules=[declared], count=2):
        await stage.until("2026-01-02 12:00")
    assert stage.ran() == ["2026-01-01 04:00", "2026-01-02 04:00"]
    state = stage.state()
    assert state.changed_by == "operator"
    assert state.declared is not None
    assert state.declared.timing.cron == "0 2 * * *"


async def test_a_declared_schedule_that_an_operator_removed_does_not_come_back(stage: Stage) -> None:
    declared = Schedule("s", report, cron="0 2 * * *")
    async with stage.runners(report, schedules=[declared]):
        stage.verbs.remove("s")
    async with stage.runners(report, schedules=[declared]):
        await stage.until("2026-01-02 12:00")
    assert (stage.ran(), list(stage.verbs.list())) == ([], [])


async def test_a_changed_expression_invents_nothing_of_the_past(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 23 * * *")]):
        await stage.until("2026-01-01 12:00")
    stage.clock.move_to(at("2026-01-01 18:00"))
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 * * * *")]):
        assert stage.ran() == []
        await stage.until("2026-01-01 19:10")
    assert stage.ran() == ["2026-01-01 19:00"]


async def test_what_was_missed_under_the_old_expression_is_made_up_for_when_it_changes(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 2 * * *")]):
        await stage.until("2026-01-01 12:00")
    stage.clock.move_to(at("2026-01-02 12:00"))
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 4 * * *")]):
        pass
    assert stage.ran() == ["2026-01-01 02:00", "2026-01-02 02:00"]


# --- what cannot be started


async def test_a_schedule_whose_function_no_runner_hosts_stays_due_until_one_does(stage: Stage) -> None:
    async with stage.runners(slow, schedules=[Schedule("s", "report", cron="0 2 * * *")]):
        await stage.until("2026-01-01 03:00")
        assert stage.ran() == []
    async with stage.runners(report):
        pass
    assert stage.ran() == ["2026-01-01 02:00"]


async def test_after_retention_freed_its_name_an_occurrence_does_not_run_again(stage: Stage) -> None:
    schedule = Schedule("s", report, cron="0 2 1 * *")
    async with stage.runners(report, schedules=[schedule]):
        await stage.until("2026-01-01 03:00")
    while stage.store.expire(at("2030-01-01 00:00"), 1000):
        pass
    assert stage.ran() == []
    async with stage.runners(report, schedules=[schedule], count=2):
        await stage.until("2026-01-31 23:00")
    assert stage.ran() == []


async def test_an_end_is_the_last_occurrence(stage: Stage) -> None:
    over = Schedule("s", report, cron="0 2 * * *", start="2026-01-02T00:00:00Z", end="2026-01-03T12:00:00+00:00")
    async with stage.runners(report, schedules=[over]):
        await stage.until("2026-01-06 00:00")
    assert stage.ran() == ["2026-01-02 02:00", "2026-01-03 02:00"]
    assert stage.state().next_at is None


async def test_an_occurrence_with_jitter_begins_late_and_always_as_late(stage: Stage) -> None:
    async with stage.runners(report, schedules=[Schedule("s", report, cron="0 2 * * *", jitter="30m")], count=2):
        await stage.until("2026-01-04 00:00")
    late = [(mark["started_at"], mark["at"]) for mark in stage.marks()]
    assert len(late) == 3
    assert all(f"2026-01-0{day} 02:00" <= text < f"2026-01-0{day} 02:30" for day, (text, _) in enumerate(late, 1))
    assert len({text[11:] for text, _ in late}) == 3
