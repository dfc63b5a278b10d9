"""The audit log: rows are added and read. Triggers of the schema refuse every change of a row, and refuse to remove a row before its time
is over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from holdfast.model.audit import Note, Noted, NoteFilter
from holdfast.model.execution import Change
from holdfast.store import rows
from holdfast.store.sqlite.transactions import Transactions


class SqliteAuditLog(Transactions):
    """The part of a store that keeps the audit log."""

    def note(self, notes: Sequence[Note]) -> None:
        with self._transaction() as writer:
            self._put_notes(writer, notes)

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        return [rows.noted_from(row) for row in self._read("audit", rows.note_question(wanted))]

    def _put_changed_notes(self, changes: Iterable[Change]) -> None:
        """Write the notes of a batch, inside its transaction."""
        notes = [note for change in changes for note in change.notes]
        if notes:
            self._put_notes(self._writer, notes)

    def _put_notes(self, writer: sqlite3.Connection, notes: Sequence[Note]) -> None:
        writer.executemany(self._sql["put_note"], [rows.note_row(note) for note in notes])
