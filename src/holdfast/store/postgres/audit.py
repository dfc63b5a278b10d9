"""The audit log: rows are added and read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.audit import Note, Noted, NoteFilter
from holdfast.model.execution import Change
from holdfast.model.verbs import Write
from holdfast.store import rows
from holdfast.store.postgres.columns import arguments
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session


class PostgresAuditLog(PostgresReads):
    """The part of a store that keeps the audit log."""

    _writer: Session

    def note(self, notes: Sequence[Note]) -> None:
        """If the connection is lost, a note may be written twice, which is better than not at all."""
        if notes:
            self._side.ask(self._sql["put_notes"], _arguments(notes))

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        asked = {
            key: value.replace("\0", "\ufffd") if isinstance(value, str) else value for key, value in rows.note_question(wanted).items()
        }
        return [rows.noted_from(row) for row in self._read("audit", asked)]

    def _put_changed_notes(self, changes: Iterable[Change]) -> None:
        """Write the notes of a batch, inside its transaction."""
        notes = [note for change in changes for note in change.notes]
        if notes:
            self._writer.run(self._sql["put_notes"], _arguments(notes))


def has_notes(batch: Iterable[Write]) -> bool:
    """Whether a write of a batch brings notes. Such a batch needs a transaction of several statements."""
    return any(getattr(write, "notes", ()) for write in batch)


def _arguments(notes: Sequence[Note]) -> dict[str, str]:
    return arguments("notes", [rows.note_row(note) for note in notes])
