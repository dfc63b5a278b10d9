"""A naive calendar: it looks at every minute of a zone, and knows nothing of how schedules find their occurrences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from holdfast.model.schedule_times import ClockChanges, Timing, zone_of

MINUTE = 60_000
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def minute(text: str) -> int:
    """A time in UTC, in milliseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def _set(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, last = (low, high) if span == "*" else (int(span.split("-")[0]), int(span.split("-")[-1]))
        found |= set(range(first, last + 1, int(step or 1)))
    return found


@cache
def _sets(expression: str) -> list[set[int]]:
    return [_set(field, *bounds) for field, bounds in zip(expression.split(), _RANGES, strict=True)]


def matches(expression: str, wall: datetime) -> bool:
    """Whether a wall time matches a cron expression of numbers, lists, ranges and steps."""
    minutes, hours, days, months, weekdays = _sets(expression)
    if wall.minute not in minutes or wall.hour not in hours:
        return False
    fields = expression.split()
    of_week = (wall.weekday() + 1) % 7 in {day % 7 for day in weekdays}
    both = fields[2].startswith("*") or fields[4].startswith("*")
    day = (wall.day in days and of_week) if both else (wall.day in days or of_week)
    return wall.month in months and day


def _walls(begin: int, end: int, zone: tzinfo) -> Iterator[tuple[int, datetime]]:
    for at in range(begin, end, MINUTE):
        yield at, datetime.fromtimestamp(at // 1000, zone).replace(tzinfo=None, fold=0)


def naive(timing: Timing, begin: int, end: int) -> list[int]:
    """The occurrences of a cron timing from `begin` up to `end`, minute by minute. `begin` lies on a whole minute."""
    assert timing.cron is not None
    found: list[int] = []
    seen: set[datetime] = set()
    before: datetime | None = None
    for at, wall in _walls(begin - 240 * MINUTE, end, zone_of(timing.zone)):
        is_due = matches(timing.cron, wall)
        if timing.clock is ClockChanges.ONCE:
            is_due = is_due and wall not in seen
            missing = before + timedelta(minutes=1) if before is not None else wall
            while missing < wall:  # the clock went forward
                is_due = is_due or (missing not in seen and matches(timing.cron, missing))
                seen.add(missing)
                missing += timedelta(minutes=1)
        if timing.clock is ClockChanges.ONCE:
            seen.add(wall)
        before = wall
        if is_due and at >= begin:
            found.append(at)
    return found
