"""Timing: the occurrences of cron expressions and intervals where clocks change, against a calendar that looks at every minute."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.schedule_times import ClockChanges, Timing, after, checked, delay_of, in_words, newest, occurrences
from tests import parts
from tests.unit.calendars import MINUTE, minute, naive

DAY = 1440 * MINUTE
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Kathmandu", "UTC"]
CHANGES = {
    "Europe/Berlin": ["2026-03-29 00:00", "2026-10-25 00:00"],
    "America/New_York": ["2026-03-08 06:00", "2026-11-01 05:00"],
    "Australia/Lord_Howe": ["2026-04-04 14:00", "2026-10-03 14:00"],
    "America/Sao_Paulo": ["2018-11-04 02:00", "2019-02-17 01:00"],
    "Africa/Casablanca": ["2026-02-15 01:00", "2026-03-22 01:00"],
}


def between(timing: Timing, begin: int, end: int) -> list[int]:
    found = []
    for at in occurrences(timing, begin - 1):
        if at >= end:
            break
        found.append(at)
    return found


def fields() -> st.SearchStrategy[str]:
    """Cron expressions of numbers, lists, ranges and steps."""

    def field(low: int, high: int) -> st.SearchStrategy[str]:
        number = st.integers(low, high)
        pair = st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}")
        steps = st.integers(1, max(2, high // 2)).map(lambda step: f"*/{step}")
        return st.one_of(
            st.just("*"), number.map(str), pair, steps, st.lists(number, min_size=2, max_size=3).map(lambda x: ",".join(map(str, x)))
        )

    return st.tuples(
        field(0, 59), field(0, 23), st.one_of(st.just("*"), field(1, 28)), st.just("*"), st.one_of(st.just("*"), field(0, 7))
    ).map(" ".join)


@settings(max_examples=parts.examples(150), deadline=None)
@given(fields(), st.sampled_from(ZONES), st.sampled_from(ClockChanges), st.integers(0, 1), st.integers(-20, 28))
def test_occurrences_around_a_clock_change_are_those_of_a_naive_calendar(
    expression: str, zone: str, clock: ClockChanges, change: int, hours: int
) -> None:
    timing = checked(Timing(cron=expression, zone=zone, clock=clock))
    begin = minute(CHANGES.get(zone, ["2026-03-29 00:00"] * 2)[change]) - hours * 60 * MINUTE
    expected = naive(timing, begin, begin + DAY)
    assert between(timing, begin, begin + DAY) == expected
    for most in (1, 3, 500):
        assert newest(timing, begin - 1, begin + DAY - 1, most) == expected[-most:]


YEARS = [(zone, clock, cron) for zone in ZONES[:3] for clock in ClockChanges for cron in ("30 2 * * *", "0 * * * *", "15 1-3 * * 0")]


@pytest.mark.parametrize("zone, clock, expression", parts.one_of_each(YEARS, lambda case: case[1], several=True))
def test_a_year_of_a_zone_has_exactly_the_occurrences_of_a_naive_calendar(zone: str, clock: ClockChanges, expression: str) -> None:
    timing = checked(Timing(cron=expression, zone=zone, clock=clock))
    year = minute("2026-01-01 00:00"), minute("2027-01-01 00:00")
    assert between(timing, *year) == naive(timing, *year)


def times(timing: Timing, begin: str, count: int) -> list[str]:
    return [f"{datetime.fromtimestamp(at / 1000, UTC):%m-%d %H:%M}" for at in islice(occurrences(timing, minute(begin)), count)]


def test_a_wall_time_that_comes_twice_counts_the_first_time_and_a_missing_one_at_the_end_of_the_gap() -> None:
    night = Timing(cron="30 2 * * *", zone="Europe/Berlin")
    assert times(night, "2026-03-28 00:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]
    assert times(night, "2026-10-24 00:00", 3) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


def test_in_real_time_a_wall_time_that_comes_twice_counts_twice_and_a_missing_one_not_at_all() -> None:
    night = Timing(cron="30 2 * * *", zone="Europe/Berlin", clock=ClockChanges.REAL)
    assert times(night, "2026-03-28 00:00", 3) == ["03-28 01:30", "03-30 00:30", "03-31 00:30"]
    assert times(night, "2026-10-24 00:00", 4) == ["10-24 00:30", "10-25 00:30", "10-25 01:30", "10-26 01:30"]


def test_all_wall_times_of_a_gap_come_as_one() -> None:
    often = Timing(cron="*/10 2 * * *", zone="Europe/Berlin")
    assert times(often, "2026-03-29 00:00", 2) == ["03-29 01:00", "03-30 00:00"]


def test_a_whole_day_that_a_zone_left_out_comes_at_its_end() -> None:
    samoa = Timing(cron="0 12 30 12 *", zone="Pacific/Apia")
    assert times(samoa, "2011-12-29 00:00", 1) == ["12-30 10:00"], "the end of the day that never was"


@settings(max_examples=parts.examples(200), deadline=None)
@given(st.integers(1, 10**6), st.integers(0, 10**13), st.none() | st.integers(0, 10**12), st.integers(1, 5))
def test_an_interval_counts_whole_multiples_from_its_start(every: int, at: int, start: int | None, most: int) -> None:
    timing = checked(Timing(every=every, start=start))
    step, anchor = every * 1000, start or 0
    found = after(timing, at)
    if found is None:
        assert at + step > 7_258_118_400_000
        return
    assert found > at
    assert found >= anchor
    assert (found - anchor) % step == 0
    assert found - step <= at or found == anchor
    newer = newest(timing, anchor - 1, found, most)
    assert newer == [found - n * step for n in reversed(range(most)) if found - n * step >= anchor]


def test_start_and_end_are_the_first_and_the_last_moment() -> None:
    timing = Timing(cron="0 2 * * *", start=minute("2026-01-02 02:00"), end=minute("2026-01-04 02:00"))
    assert times(timing, "2025-01-01 00:00", 9) == ["01-02 02:00", "01-03 02:00", "01-04 02:00"]
    assert newest(timing, 0, minute("2030-01-01 00:00"), 2) == [minute("2026-01-03 02:00"), minute("2026-01-04 02:00")]


def test_jitter_is_always_the_same_for_one_occurrence_and_below_its_bound() -> None:
    timing = Timing(cron="0 2 * * *", jitter=600)
    delays = [delay_of(timing, "nightly", minute("2026-01-01 02:00") + day * DAY) for day in range(200)]
    assert delays == [delay_of(timing, "nightly", minute("2026-01-01 02:00") + day * DAY) for day in range(200)]
    assert (min(delays) >= 0, max(delays) < 600_000, len(set(delays)) > 190) == (True, True, True)
    assert delays[0] != delay_of(timing, "other", minute("2026-01-01 02:00"))
    assert delay_of(Timing(cron="0 2 * * *"), "nightly", 0) == 0


@pytest.mark.parametrize(
    "timing, says",
    [
        (Timing(cron="0 0 30 2 *"), "there is no such day in that month"),
        (Timing(cron="0 0 31 4,6 *"), "there is no such day in that month"),
        (Timing(cron="* * * *"), "has 4 fields, and it must have five"),
        (Timing(cron="* * * * * *"), "has 6 fields, and it must have five"),
        (Timing(cron="61 * * * *"), "its minute is not valid"),
        (Timing(cron="*/0 * * * *"), "its minute is not valid"),
        (Timing(cron="0 0 * * " + "1," * 100), "at most 100 characters"),
        (Timing(), "either a cron expression or an interval"),
        (Timing(cron="* * * * *", every=5), "either a cron expression or an interval"),
        (Timing(every=0), "The interval is 0 seconds"),
        (Timing(every=10**9), "at most a year"),
        (Timing(every=True), "The interval is True seconds"),
        (Timing(cron="* * * * *", zone="Mars/Olympus"), "is not a time zone"),
        (Timing(cron="* * * * *", zone="../../etc/passwd"), "is not a time zone"),
        (Timing(cron="* * * * *", zone="x" * 5000), "is not a time zone"),
        (Timing(cron="* * * * *", zone="a\0b"), "is not a time zone"),
        (Timing(cron="* * * * *", jitter=3601), "It must be 0 to 3,600"),
        (Timing(every=10, jitter=11), "at most the interval"),
        (Timing(every=10, start=-1), "from 1970 to the beginning of 2200"),
        (Timing(every=10, start=20, end=10), "The end of the schedule is before its start"),
    ],
)
def test_what_no_runner_could_follow_is_refused_in_words(timing: Timing, says: str) -> None:
    with pytest.raises(ScheduleInvalid, match=says) as refused:
        checked(timing)
    assert len(str(refused.value)) < 400


def test_a_timing_is_told_in_words() -> None:
    assert in_words(Timing(cron="0 2 * * *", zone="Europe/Berlin")) == "At 02:00 every day (Europe/Berlin)"
    assert in_words(Timing(every=5400, jitter=60)) == "Every 90 minutes, up to 1 minute late"
    assert in_words(Timing(every=3600)) == "Every hour"
