"""Timing: at which moments the occurrences of a schedule are due. The same timing always gives the same moments.

A cron expression gives wall times (the time that a clock on the wall shows), and a zone gives the moment of each wall time. In many zones
clocks change twice a year. When they are set forward, some wall times are missing; when they are set back, some come twice. The policy
`clock` says what happens to these:

- `once`: each matching wall time gives one occurrence. If the wall time comes twice, the occurrence is at the first time. All wall times
  that are missing in one gap give one occurrence together, at the end of the gap.
- `real`: each moment whose wall time matches gives an occurrence. So a wall time that comes twice gives two, and a missing one gives none.

An interval counts seconds, so clock changes do not affect it. Moments are in milliseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Final

import msgspec

from holdfast.model import cron
from holdfast.model.durations import MAX_SECONDS, duration_of
from holdfast.model.operations import Word
from holdfast.model.schedule_errors import ScheduleInvalid

EARLIEST: Final = 0
LATEST: Final = 7_258_118_400_000
"""The beginning of the year 2200. No occurrence is later."""
MAX_JITTER_SECONDS: Final = 3600
_FOLD: Final = timedelta(hours=4)
"""How far from a moment repeated wall times are looked for. Since 1995 no zone has set its clocks back by more than 3 hours; occurrences
near larger changes before that need not be exact."""
_ZONE_LENGTH: Final = 64


class ClockChanges(Word):
    """What happens to wall times that are missing or come twice because the clocks of the zone change."""

    ONCE = "once"
    """Each matching wall time gives one occurrence: the first time that it comes, or the end of the gap if it is missing. All wall times
    that are missing in one gap give one occurrence together."""
    REAL = "real"
    """Each moment whose wall time matches gives an occurrence: two if the wall time comes twice, none if it is missing."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule is due: a cron expression in a zone, or an interval."""

    cron: str | None = None
    every: int | None = None
    """The interval in seconds; None if the timing has a cron expression. The first occurrence is at `start`, and each further one this many
    seconds after the one before. Without `start`, the intervals are counted from 1970-01-01 00:00 UTC."""
    zone: str = "UTC"
    clock: ClockChanges = ClockChanges.ONCE
    jitter: int = 0
    """Each occurrence begins some time after it is due: a delay of less than this many seconds. One occurrence has the same delay in every
    process. 0: no delay."""
    start: int | None = None
    """No occurrence is before this moment; None: no bound."""
    end: int | None = None
    """No occurrence is after this moment; None: no bound."""


def checked(timing: Timing) -> Timing:
    """The timing; its cron expression has one space between its fields. Raises ScheduleInvalid if a part of the timing is not allowed."""
    if (timing.cron is None) == (timing.every is None):
        raise ScheduleInvalid("A schedule has either a cron expression or an interval. Give exactly one of them.")
    if timing.cron is not None:
        timing = msgspec.structs.replace(timing, cron=cron.check(timing.cron))
    elif type(timing.every) is not int or not 1 <= timing.every <= MAX_SECONDS:
        raise ScheduleInvalid(f"The interval is {timing.every!r:.50} seconds. It must be 1 to {MAX_SECONDS:,} seconds: at most a year.")
    zone_of(timing.zone)
    most = min(MAX_JITTER_SECONDS, timing.every or MAX_JITTER_SECONDS)
    if type(timing.jitter) is not int or not 0 <= timing.jitter <= most:
        raise ScheduleInvalid(
            f"The jitter is {timing.jitter!r:.50} seconds. It must be 0 to {most:,} seconds: at most an hour, and at most the interval."
        )
    for name, at in (("start", timing.start), ("end", timing.end)):
        if at is not None and (type(at) is not int or not EARLIEST <= at <= LATEST):
            raise ScheduleInvalid(f"The {name} of a schedule must be a time from 1970 to the beginning of 2200.")
    if timing.start is not None and timing.end is not None and timing.end < timing.start:
        raise ScheduleInvalid("The end of the schedule is before its start.")
    return timing


@lru_cache(maxsize=256)
def zone_of(name: object) -> tzinfo:
    """The time zone with this IANA name. Raises ScheduleInvalid if there is none."""
    if name == "UTC":
        return UTC
    if isinstance(name, str) and 0 < len(name) <= _ZONE_LENGTH:
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ScheduleInvalid(
        f"{name!r:.80} is not a time zone. Write a name of the IANA database: 'UTC', 'Europe/Berlin', 'America/New_York'."
    )


def after(timing: Timing, at: int) -> int | None:
    """The first occurrence after a moment; None if there is none."""
    at = max(at, EARLIEST, -1 if timing.start is None else timing.start - 1)
    if timing.every is not None:
        found: int | None = _interval_after(timing, at)
    elif timing.clock is ClockChanges.ONCE:
        found = _once_after(timing, at)
    else:
        found = _real_after(timing, at)
    latest = LATEST if timing.end is None else min(LATEST, timing.end)
    return None if found is None or found > latest else found


def occurrences(timing: Timing, at: int) -> Iterator[int]:
    """The occurrences after a moment, in order."""
    found = after(timing, at)
    while found is not None:
        yield found
        found = after(timing, found)


def newest(timing: Timing, beyond: int, until: int, most: int) -> list[int]:
    """The occurrences after `beyond` and not after `until`, the earliest first. If there are more than `most`, only the latest `most` of
    them."""
    beyond = max(beyond, EARLIEST - 1, -1 if timing.start is None else timing.start - 1)
    until = min(until, LATEST, LATEST if timing.end is None else timing.end)
    if until <= beyond or most < 1:
        return []
    if timing.every is not None:
        step, anchor = timing.every * 1000, timing.start or 0
        last = anchor + (until - anchor) // step * step
        return [at for at in range(last - (most - 1) * step, last + 1, step) if at > beyond]
    found = _newest_once(timing, beyond, until) if timing.clock is ClockChanges.ONCE else _newest_real(timing, beyond, until, most)
    return sorted(islice(found, most))


def delay_of(timing: Timing, schedule: str, at: int) -> int:
    """By how many milliseconds the jitter delays the occurrence that is due at `at`. `schedule` is the name of the schedule. The delay is
    the same in every process."""
    if not timing.jitter:
        return 0
    digest = blake2b(f"{schedule}\0{at}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (timing.jitter * 1000)


def in_words(timing: Timing) -> str:
    """In English: when the occurrences of this timing are due."""
    if timing.every is not None:
        words = f"Every {_counted(timing.every).removeprefix('1 ')}"
    else:
        words = f"{cron.in_words(timing.cron or '')} ({timing.zone})"
    return f"{words}, up to {_counted(timing.jitter)} late" if timing.jitter else words


_SPOKEN: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day"}


def _counted(seconds: int) -> str:
    """A duration in words: `5400` is `90 minutes`."""
    text = duration_of(seconds)
    count, unit = int(text[:-1]), _SPOKEN[text[-1]]
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


# --- intervals


def _interval_after(timing: Timing, at: int) -> int:
    step, anchor = (timing.every or 1) * 1000, timing.start or 0
    return anchor if at < anchor else anchor + ((at - anchor) // step + 1) * step


# --- cron: each wall time once


def _once_after(timing: Timing, at: int) -> int | None:
    zone = zone_of(timing.zone)
    for wall in cron.walls_after(timing.cron or "", _wall(at, zone)):
        moment = _first_moment(wall, zone)
        if moment > at:  # a wall time that comes for the second time had its occurrence at the first time
            return moment
    return None


def _newest_once(timing: Timing, beyond: int, until: int) -> Iterator[int]:
    zone = zone_of(timing.zone)
    last = None
    for wall in cron.walls_before(timing.cron or "", _wall(until, zone) + _FOLD):
        moment = _first_moment(wall, zone)
        if moment <= beyond:
            return
        if moment <= until and moment != last:  # all missing wall times of a gap have the same moment: the end of the gap
            yield moment
            last = moment


def _first_moment(wall: datetime, zone: tzinfo) -> int:
    """The moment at which a wall time comes for the first time. If the clocks skip this wall time, it is the moment at which they are set
    forward."""
    before, later = _moment(wall, zone, 0), _moment(wall, zone, 1)
    if _wall(before, zone) == wall:
        return before
    # In a gap, Python uses the offset before the gap for fold=0, and the offset after it for fold=1. The gap ends between the two moments.
    low, high = later // 1000, before // 1000
    offset = _offset(high * 1000, zone)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset(middle * 1000, zone) == offset else (middle, high)
    return high * 1000


# --- cron: each moment whose wall time matches


def _real_after(timing: Timing, at: int) -> int | None:
    zone, expression = zone_of(timing.zone), timing.cron or ""
    here = _wall(at, zone)
    again: int | None = None
    if _wall(at + _ms(_FOLD), zone) - here < _FOLD:  # the clock is set back within four hours, so earlier wall times come again
        for wall in cron.walls_after(expression, here - _FOLD):
            if wall > here:
                break
            again = min((moment for moment in (again, *_moments(wall, zone)) if moment is not None and moment > at), default=None)
    for wall in cron.walls_after(expression, here):
        later = [moment for moment in _moments(wall, zone) if moment > at]
        if later:
            return min(later) if again is None else min(again, *later)
    return again


def _newest_real(timing: Timing, beyond: int, until: int, most: int) -> Iterator[int]:
    zone = zone_of(timing.zone)
    found: list[int] = []
    floor = _wall(beyond, zone) - _FOLD
    for wall in cron.walls_before(timing.cron or "", _wall(until, zone) + _FOLD):
        if wall < floor:
            break
        found += [moment for moment in _moments(wall, zone) if beyond < moment <= until]
        if len(found) >= most:  # the second moment of a repeated wall time may be later than moments found already
            floor = max(floor, _wall(sorted(found)[-most], zone) - _FOLD)
    return iter(sorted(found, reverse=True))


def _moments(wall: datetime, zone: tzinfo) -> list[int]:
    """The moments at which a wall time comes: usually one; none if the clocks skip it; two if the clocks are set back and it comes
    twice."""
    both = {_moment(wall, zone, fold) for fold in (0, 1)}
    return [moment for moment in both if _wall(moment, zone) == wall]


# --- walls and moments


def _wall(at: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at // 1000, zone).replace(tzinfo=None, fold=0)


def _moment(wall: datetime, zone: tzinfo, fold: int) -> int:
    return round(wall.replace(tzinfo=zone, fold=fold).timestamp()) * 1000


def _offset(at: int, zone: tzinfo) -> timedelta | None:
    return datetime.fromtimestamp(at // 1000, zone).utcoffset()


def _ms(span: timedelta) -> int:
    return round(span.total_seconds() * 1000)
