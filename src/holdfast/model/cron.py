"""Cron expressions of five fields, and the wall times that match them. Only this module uses the library cronsim.

A wall time is a date and a time without a zone. schedule_times.py finds the moment of a wall time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from holdfast.model.schedule_errors import ScheduleInvalid

LONGEST: Final = 100
_FIELDS: Final = 5
_PROBE: Final = datetime(2026, 1, 1)  # noqa: DTZ001  # a wall time
_YEARS: Final = timedelta(days=366 * 50)


def check(expression: object) -> str:
    """The expression, with one space between its fields. Raises ScheduleInvalid if it is not a cron expression, or if it
    matches no day of the next fifty years."""
    if not isinstance(expression, str) or len(expression) > LONGEST:
        raise ScheduleInvalid(f"A cron expression must be a text of at most {LONGEST} characters; {expression!r:.50} is not.")
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise ScheduleInvalid(
            f"The cron expression {expression!r} has {len(fields)} fields, and it must have five: minute, hour, day of the month, month, "
            "day of the week. `0 2 * * *` is 02:00 of every day."
        )
    plain = " ".join(fields)
    try:
        first = next(CronSim(plain, _PROBE), None)
    except CronSimError as error:
        raise ScheduleInvalid(f"The cron expression {expression!r} cannot be read: {_words(error)}.") from None
    if first is None or first - _PROBE > _YEARS:
        raise ScheduleInvalid(f"The cron expression {expression!r} matches no day of the next fifty years. Check its day and its month.")
    return plain


def walls_after(expression: str, wall: datetime) -> Iterator[datetime]:
    """The wall times after `wall` that match the expression, the earliest first."""
    return CronSim(expression, wall)


def walls_before(expression: str, wall: datetime) -> Iterator[datetime]:
    """The wall times before `wall` that match the expression, the latest first."""
    return CronSim(expression, wall, reverse=True)


def in_words(expression: str) -> str:
    """In English: at which times the expression matches."""
    return CronSim(expression, _PROBE).explain()


def _words(error: CronSimError) -> str:
    text = str(error)
    if text.startswith("Bad "):
        field = text.removeprefix("Bad ")
        never = ", or there is no such day in that month" if field == "day-of-month" else ""
        return f"its {field} is not valid{never}"
    return text[:1].lower() + text[1:]
