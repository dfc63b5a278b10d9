"""Schedules: a write is accepted only if its revision is the one after the stored revision, and its cursor is not before the stored
cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.audit import Note
from holdfast.model.schedules import ScheduleState
from holdfast.model.verbs import Start, Write
from holdfast.store import rows
from holdfast.store.postgres.audit import PostgresAuditLog
from holdfast.store.postgres.session import Statement


class PostgresSchedules(PostgresAuditLog):
    """The part of a store that keeps schedules."""

    _channel: str
    _member: str

    def put_schedule(self, schedule: ScheduleState, notes: Sequence[Note] = ()) -> bool:
        """The other processes are notified."""
        row = rows.schedule_row(schedule, self._codec)
        with self._side.explained_transaction():
            if schedule.revision == 1:
                written = self._side.change(self._sql["add_schedule"], row) == 1
            else:
                written = self._side.change(self._sql["put_schedule"], (*row[1:], *rows.guard(schedule))) == 1
            if written:
                self.note(notes)
        if written:
            self._read("notify", (self._channel, self._member))
        return written

    def move_schedule(self, schedule: ScheduleState) -> bool:
        """Other runners read its next time themselves, so they are not notified."""
        with self._side.explained_transaction():
            return self._side.change(*self._moved(schedule)) == 1

    def remove_schedule(self, name: str, revision: int, notes: Sequence[Note] = ()) -> bool:
        """The other processes are notified."""
        with self._side.explained_transaction():
            removed = self._side.change(self._sql["remove_schedule"], (self._text(name), revision)) == 1
            if removed:
                self.note(notes)
        if removed:
            self._read("notify", (self._channel, self._member))
        return removed

    def _move_schedules(self, schedules: Iterable[ScheduleState]) -> None:
        """Write the schedules of a batch, inside its transaction."""
        for schedule in schedules:
            self._writer.run(*self._moved(schedule))

    def _moved(self, schedule: ScheduleState) -> tuple[Statement, rows.Row]:
        """The statement, and its parameters, with which a runner writes a schedule. If the store has a codec, the statement also writes the
        input again, so that the input is encoded with the current key."""
        if self._codec is not None:
            return self._sql["put_schedule"], (*rows.schedule_row(schedule, self._codec)[1:], *rows.guard(schedule))
        return self._sql["move_schedule"], (*rows.moved_row(schedule, None)[3:], *rows.guard(schedule))


def moved_names(batch: Iterable[Write]) -> list[str]:
    """The names of the schedules that a batch moves, sorted, each once."""
    return sorted({write.moved.name for write in batch if isinstance(write, Start) and write.moved is not None})
