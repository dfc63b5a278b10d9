"""The audit log: rows that are added and read. Triggers of the schema refuse every other way to change one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from holdfast.model.auditing import Note, Noted, NoteFilter
from holdfast.model.execution import Change
from holdfast.store import rows
from holdfast.store.sqlite.writing import Writing


class Auditing(Writing):
    """The part of a store that remembers who did what."""

    def note(self, notes: Sequence[Note]) -> None:
        """Add notes in one transaction."""
        with self._transaction() as writer:
            self._put_notes(writer, notes)

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        """Notes, newest first."""
        return [rows.noted_from(row) for row in self._read("audit", rows.note_question(wanted))]

    def _put_changed_notes(self, changes: Iterable[Change]) -> None:
        """What a batch decided, inside its transaction."""
        notes = [note for change in changes for note in change.notes]
        if notes:
            self._put_notes(self._writer, notes)

    def _put_notes(self, writer: sqlite3.Connection, notes: Sequence[Note]) -> None:
        writer.executemany(self._sql["put_note"], [rows.note_row(note) for note in notes])
