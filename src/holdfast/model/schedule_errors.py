"""The errors about schedules."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class ScheduleInvalid(Rejected):
    """The schedule is not valid."""

    code = "schedule_invalid"


class ScheduleNotFound(Rejected):
    """There is no such schedule."""

    code = "schedule_not_found"


class ScheduleChanged(Rejected):
    """Another process changed the schedule at the same time. Nothing was written. Look at the schedule, then try again."""

    code = "schedule_changed"
