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
from holdfast.service.schedules import Schedules

PAGE: Final = 50


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would start: the times that were due from `begin` up to `end`, in milliseconds."""

    begin: int
    end: int
    due: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many occurrences."""
        return len(self.due)


class SchedulesSource:
    """Reads and changes schedules."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._verbs = Schedules(viewer.store, viewer.clock, actor=viewer.actor, tenant=viewer.tenant)

    def page(self, beyond: str) -> tuple[Sequence[ScheduleState], str | None]:
        """Schedules after a name, in the order of names; and the name after which the next page begins, None on the last page."""
        found = list(islice(self._verbs.list(PAGE + 1, beyond), PAGE + 1))
        return found[:PAGE], found[PAGE - 1].name if len(found) > PAGE else None

    def get(self, name: str) -> ScheduleState:
        """One schedule. Raises ScheduleNotFound if there is none."""
        return self._verbs.get(name)

    def statuses(self, state: ScheduleState) -> Mapping[str, ShownStatus]:
        """The statuses of the executions of the last occurrences, by execution id. Executions that the store has removed are left out."""
        found = {}
        for line in state.recent:
            header = None if line.execution is None else self._viewer.store.find(line.execution)
            if header is not None and self._viewer.may_see(header):
                found[header.id] = self._viewer.status(header)
        return found

    def backfill_plan(self, name: str, begin: int, end: int) -> Backfill:
        """What was due from `begin` up to `end`, but not later than now. Nothing is written. Raises ScheduleInvalid if `end` is not after
        `begin`, or if too many occurrences were due."""
        if end <= begin:
            raise ScheduleInvalid("The end of a backfill must be after its beginning.")
        due = due_between(self.get(name).history, begin, min(end, self._viewer.now + 1), MAX_ASKED)
        if len(due) > MAX_ASKED:
            raise ScheduleInvalid(f"More than {MAX_ASKED:,} occurrences were due in that time. Choose a shorter one.")
        return Backfill(begin=begin, end=end, due=tuple(due))

    # --- changing

    def pause(self, name: str) -> None:
        """Pause a schedule: it starts nothing until a person resumes it."""
        self._verbs.pause(name)

    def resume(self, name: str) -> None:
        """Resume a schedule. It does not start what was due during the pause."""
        self._verbs.resume(name)

    def run_now(self, name: str) -> None:
        """Ask for one occurrence now."""
        self._verbs.run_now(name)

    def backfill(self, name: str, begin: int, end: int) -> int:
        """Ask for all occurrences that were due from `begin` up to `end`, and return how many there are. Raises ScheduleInvalid if there
        are too many."""
        return self._verbs.backfill(name, begin, end)[1]
