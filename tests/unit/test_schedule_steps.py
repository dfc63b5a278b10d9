"""Firing: which occurrences a runner starts, and when, for every policy, against a naive model that has all occurrences in a list."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.errors import InvalidParameter
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.schedule_steps import begun, due_between, due_step, resumed
from holdfast.model.schedule_times import ClockChanges, Timing
from holdfast.model.schedules import (
    CatchUp,
    Counted,
    Definition,
    How,
    OccurrenceRequest,
    Origin,
    Overlap,
    ScheduleState,
    changed,
    checked_input,
    new_schedule,
)
from tests import parts
from tests.unit.calendars import MINUTE, minute
from tests.unit.naive_firing import POLICIES, naive

HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = minute("2026-01-01 00:00"), minute("2027-01-01 00:00")


class Line:
    """A runner of one schedule, with executions that take a certain time, and times in which no runner is there."""

    def __init__(self, definition: Definition, takes: int, downs: list[tuple[int, int]], now: int) -> None:
        self.state = new_schedule("s", definition, "{}", origin=Origin.CODE, now=now)
        self.takes, self.downs = takes, downs
        self.ends: dict[str, int] = {}
        self.started: list[tuple[int, int]] = []
        """Each occurrence that was started, and when."""

    def run(self, end: int) -> list[tuple[int, int]]:
        """Stop at each moment at which something may happen, as a runner does."""
        now = self.state.cursor
        while True:
            times = [at for at in (self.state.next_at, *(end for end in self.ends.values() if end > now)) if at is not None]
            now = max(now, min(times, default=end))
            now = next((up for down, up in self.downs if down <= now < up), now)
            if now >= end:
                return self.started
            self._look(now)

    def _look(self, now: int) -> None:
        while True:
            open_ones = {execution for execution, ends in self.ends.items() if ends > now}
            step = due_step(self.state, now, open_ones)
            if step is None:
                if self.state.waits and self.state.definition.overlap is Overlap.REPLACE and open_ones:
                    self.ends = {execution: min(ends, now) for execution, ends in self.ends.items()}
                    continue
                return
            if step.start is None:
                assert step.after.cursor >= self.state.cursor, "the cursor never goes back"
                self.state = step.after
                continue
            execution = f"e{len(self.started)}"
            self.state = begun(step, execution)
            self.ends[execution] = now + self.takes
            self.started.append((step.start.at, now))


@pytest.mark.parametrize("overlap, catch_up, clock", POLICIES)
def test_a_year_of_berlin_has_exactly_the_starts_of_a_naive_model(overlap: Overlap, catch_up: CatchUp, clock: ClockChanges) -> None:
    """Daily at 02:30, which is missing in March and comes twice in October, with runs of three quarters of a day, and a week without a
    runner around each change of the clock.
    """
    timing = Timing(cron="30 2 * * *", zone="Europe/Berlin", clock=clock)
    definition = Definition(function="f", timing=timing, overlap=overlap, catch_up=catch_up, catch_up_most=5)
    downs = [(minute("2026-03-26 12:00"), minute("2026-04-02 09:17")), (minute("2026-10-20 12:00"), minute("2026-10-26 20:00"))]
    line = Line(definition, 18 * HOUR, downs, YEAR[0])
    started = line.run(YEAR[1])
    assert started == naive(definition, 18 * HOUR, downs, *YEAR)
    assert len({at for at, _ in started}) == len(started)


@settings(max_examples=parts.examples(300), deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(1, 40 * 60),
    st.lists(st.tuples(st.integers(0, 20 * 24 * 60), st.integers(2, 9 * 24 * 60)), max_size=4),
    st.sampled_from(["daily", "two-hourly", "weekdays"]),
)
def test_any_downtime_and_any_duration_gives_the_starts_of_a_naive_model(
    policy: tuple[Overlap, CatchUp, ClockChanges], hour: int, at_minute: int, takes: int, given_downs: list[tuple[int, int]], kind: str
) -> None:
    overlap, catch_up, clock = policy
    cron = {"daily": f"{at_minute} {hour} * * *", "two-hourly": f"{at_minute} */2 * * *", "weekdays": f"{at_minute} {hour} * * 1-5"}[kind]
    begin = minute("2026-10-15 00:00")
    downs: list[tuple[int, int]] = []
    for offset, length in sorted(given_downs):
        first = begin + offset * MINUTE
        if not downs or first > downs[-1][1] + 2 * HOUR:
            downs.append((first, first + length * MINUTE))
    timing = Timing(cron=cron, zone="Europe/Berlin", clock=clock)
    definition = Definition(function="f", timing=timing, overlap=overlap, catch_up=catch_up, catch_up_most=4)
    line = Line(definition, takes * MINUTE, downs, begin)
    assert line.run(begin + 20 * DAY) == naive(definition, takes * MINUTE, downs, begin, begin + 20 * DAY)


def test_a_paused_schedule_has_no_next_step_and_a_resumed_one_forgets_what_was_due() -> None:
    state = new_schedule("s", Definition(function="f", timing=Timing(every=3600)), "{}", origin=Origin.CLI, now=0)
    paused = msgspec.structs.replace(state, paused=True)
    assert due_step(paused, 5 * HOUR, ()) is None
    on = resumed(paused, 5 * HOUR + 1, catch_up=False)
    assert (on.cursor, on.next_at) == (5 * HOUR + 1, 6 * HOUR)
    assert resumed(paused, 5 * HOUR + 1, catch_up=True).cursor == 0


def test_a_backfill_takes_each_span_by_the_expression_that_counted_in_it() -> None:
    history = (Counted(10 * DAY, Timing(cron="0 2 * * *")), Counted(12 * DAY + HOUR, Timing(cron="0 4 * * *")))
    found = due_between(history, 9 * DAY, 14 * DAY, 100)
    assert found == [9 * DAY + 2 * HOUR, 10 * DAY + 2 * HOUR, 11 * DAY + 2 * HOUR, 12 * DAY + 4 * HOUR, 13 * DAY + 4 * HOUR]
    assert len(due_between(history, 0, 100 * DAY, 7)) == 8


def state_of(**values: object) -> ScheduleState:
    return new_schedule("s", Definition(function="f", timing=Timing(every=60), **values), "{}", origin=Origin.CLI, now=0)  # type: ignore[arg-type]


def test_what_an_operator_asked_for_goes_first_and_holds_up_nothing_of_the_past() -> None:
    state = changed(state_of(), asked=(OccurrenceRequest(5, How.BACKFILL), OccurrenceRequest(7, How.NOW)))
    first = due_step(state, 10, ())
    assert first is not None
    assert first.start == OccurrenceRequest(5, How.BACKFILL)
    after = begun(first, "e1")
    assert after.open == ()
    second = due_step(after, 10, ())
    assert second is not None
    assert begun(second, "e2").open == ("e2",)


def test_an_input_that_is_not_valid_unicode_is_refused_as_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter, match="not valid Unicode"):
        checked_input('"\ud800"')
    with pytest.raises(ScheduleInvalid, match="at most 262,144 bytes"):
        checked_input('"' + "é" * (128 * 1024) + '"')
