"""Schedules: a write is accepted only if its revision is the one after the stored revision, and its cursor is not before the stored
cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.audit import Note
from holdfast.model.schedules import ScheduleState
from holdfast.store import rows
from holdfast.store.sqlite.audit import SqliteAuditLog


class SqliteSchedules(SqliteAuditLog):
    """The part of a store that keeps schedules."""

    def put_schedule(self, schedule: ScheduleState, notes: Sequence[Note] = ()) -> bool:
        row = rows.schedule_row(schedule, self._codec)
        with self._transaction() as writer:
            if schedule.revision == 1:
                written = writer.execute(self._sql["add_schedule"], row).rowcount == 1
            else:
                written = writer.execute(self._sql["put_schedule"], (*row[1:], *rows.guard(schedule))).rowcount == 1
            if written:
                self._put_notes(writer, notes)
        return written

    def move_schedule(self, schedule: ScheduleState) -> bool:
        return self._write(*self._moved(schedule)) == 1

    def remove_schedule(self, name: str, revision: int, notes: Sequence[Note] = ()) -> bool:
        with self._transaction() as writer:
            removed = writer.execute(self._sql["remove_schedule"], (name, revision)).rowcount == 1
            if removed:
                self._put_notes(writer, notes)
        return removed

    def _move_schedules(self, schedules: Iterable[ScheduleState]) -> None:
        """Write the schedules of a batch, inside its transaction."""
        for name, parameters in map(self._moved, schedules):
            self._writer.execute(self._sql[name], parameters)

    def _moved(self, schedule: ScheduleState) -> tuple[str, rows.Row]:
        """The name and the parameters of the statement with which a runner writes a schedule. If the store has a codec, the statement also
        writes the input again, so that the input is encoded with the current key."""
        if self._codec is not None:
            return "put_schedule", (*rows.schedule_row(schedule, self._codec)[1:], *rows.guard(schedule))
        return "move_schedule", (*rows.moved_row(schedule, None)[3:], *rows.guard(schedule))
