"""What may be wrong with a schedule. Its caller must change something, or look again."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class ScheduleInvalid(Rejected):
    """The schedule cannot be kept as it is."""

    code = "schedule_invalid"


class ScheduleNotFound(Rejected):
    """There is no such schedule."""

    code = "schedule_not_found"


class ScheduleChanged(Rejected):
    """Another process changed the schedule at the same time. Look at it again."""

    code = "schedule_changed"
