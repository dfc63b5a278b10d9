"""The audit log: rows that are added and read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.auditing import Note, Noted, NoteFilter
from holdfast.model.execution import Change
from holdfast.model.verbs import Write
from holdfast.store import rows
from holdfast.store.postgres.columns import arguments
from holdfast.store.postgres.reads import Reading
from holdfast.store.postgres.session import Session


class Auditing(Reading):
    """The part of a store that remembers who did what."""

    _writer: Session

    def note(self, notes: Sequence[Note]) -> None:
        """Add notes with one statement. Should its connection be lost, they may be there twice: better than not at all."""
        if notes:
            self._side.ask(self._sql["put_notes"], _arguments(notes))

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        """Notes, newest first."""
        asked = {
            key: value.replace("\0", "\ufffd") if isinstance(value, str) else value for key, value in rows.note_question(wanted).items()
        }
        return [rows.noted_from(row) for row in self._read("audit", asked)]

    def _put_changed_notes(self, changes: Iterable[Change]) -> None:
        """What a batch decided, inside its transaction."""
        notes = [note for change in changes for note in change.notes]
        if notes:
            self._writer.run(self._sql["put_notes"], _arguments(notes))


def has_notes(batch: Iterable[Write]) -> bool:
    """Whether a batch may bring notes, so that it needs a transaction of several statements."""
    return any(getattr(write, "notes", ()) for write in batch)


def _arguments(notes: Sequence[Note]) -> dict[str, str]:
    return arguments("notes", [rows.note_row(note) for note in notes])
