"""Schedules for one caller: a tenant sees and changes only its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.schedule_steps import due_between
from holdfast.model.schedules import MAX_ASKED, ScheduleState
from holdfast.model.shown_status import ShownStatus
from holdfast.schedules.store_schedules import Schedules

PAGE: Final = 50


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill asks for. `due` has the times, in milliseconds, at which the schedule was due: from `begin` on, before `end`, and not
    later than now."""

    begin: int
    end: int
    due: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many occurrences were due."""
        return len(self.due)


class SchedulesSource(Schedules):
    """The schedules that one caller sees and changes, with what only the pages ask for."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer.store, viewer.clock, actor=viewer.actor, tenant=viewer.tenant)
        self._viewer = viewer

    def page(self, beyond: str) -> tuple[Sequence[ScheduleState], str | None]:
        """Returns a page of schedules, in the order of their names: those after the name `beyond`, or the first ones if `beyond` is empty;
        and the name after which the next page begins, None if this is the last page."""
        found = list(islice(self.list(PAGE + 1, beyond), PAGE + 1))
        return found[:PAGE], found[PAGE - 1].name if len(found) > PAGE else None

    def statuses(self, state: ScheduleState) -> Mapping[str, ShownStatus]:
        """The statuses of the executions that belong to the newest occurrences of a schedule (`state.recent`), by execution id. An
        execution that the store has removed, or that the caller may not see, is left out."""
        found = {}
        for line in state.recent:
            header = None if line.execution is None else self._viewer.store.find(line.execution)
            if header is not None and self._viewer.may_see(header):
                found[header.id] = self._viewer.status(header)
        return found

    def backfill_plan(self, name: str, begin: int, end: int) -> Backfill:
        """What was due from `begin` on and before `end` (milliseconds), but not later than now. Nothing is written. Raises ScheduleInvalid
        if `end` is not after `begin`, or if too many occurrences were due."""
        if end <= begin:
            raise ScheduleInvalid("The end of a backfill must be after its beginning.")
        due = due_between(self.get(name).history, begin, min(end, self._viewer.now + 1), MAX_ASKED)
        if len(due) > MAX_ASKED:
            raise ScheduleInvalid(f"More than {MAX_ASKED:,} occurrences were due in that time. Choose a shorter time.")
        return Backfill(begin=begin, end=end, due=tuple(due))
