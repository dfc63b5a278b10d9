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


class SchedulesSource:
    """Reads and changes schedules."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._verbs = Schedules(viewer.store, viewer.clock, actor=viewer.actor, tenant=viewer.tenant)

    def page(self, beyond: str) -> tuple[Sequence[ScheduleState], str | None]:
        """Returns a page of schedules, in the order of their names: those after the name `beyond`, or the first ones if `beyond` is empty;
        and the name after which the next page begins, None if this is the last page."""
        found = list(islice(self._verbs.list(PAGE + 1, beyond), PAGE + 1))
        return found[:PAGE], found[PAGE - 1].name if len(found) > PAGE else None

    def get(self, name: str) -> ScheduleState:
        """One schedule. Raises ScheduleNotFound if there is none."""
        return self._verbs.get(name)

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

    # --- changing

    def pause(self, name: str) -> None:
        """Pause a schedule: nothing that is due is started until the schedule is resumed. `run_now` and `backfill` still start
        occurrences."""
        self._verbs.pause(name)

    def resume(self, name: str) -> None:
        """Resume a schedule. Occurrences that were due during the pause are not started, and neither are those that still waited for an
        earlier occurrence to end."""
        self._verbs.resume(name)

    def run_now(self, name: str) -> None:
        """Ask for one occurrence now, also if another one still runs or the schedule is paused. A runner that hosts the function starts
        it. Raises ScheduleInvalid if too many such requests wait already."""
        self._verbs.run_now(name)

    def backfill(self, name: str, begin: int, end: int) -> int:
        """Ask for the occurrences that were due from `begin` on and before `end` (both in milliseconds), and return how many these are. A
        runner that hosts the function starts them, except those whose execution is still in the store. Raises ScheduleInvalid if there are
        too many, or if `end` is not after `begin`."""
        return self._verbs.backfill(name, begin, end).due
