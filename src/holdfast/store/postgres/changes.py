"""Writes outside batches, which use the side connection; and the notes of a batch for the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.model.audit import Note
from holdfast.model.execution import Change
from holdfast.model.verbs import Write
from holdfast.store import rows
from holdfast.store.changes import Changes, RunStatement
from holdfast.store.postgres.columns import arguments
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session


class PostgresChanges(PostgresReads, Changes):
    """The part of a store that writes outside batches, and that writes notes."""

    _writer: Session
    _channel: str
    _member: str

    def _change(self, name: str, parameters: Sequence[object]) -> int:
        return self._side.change(self._sql[name], parameters)

    @contextmanager
    def _changing(self) -> Iterator[RunStatement]:
        with self._side.explained_transaction():
            yield lambda name, parameters: self._side.change(self._sql[name], parameters)

    def _notify(self) -> None:
        self._read("notify", (self._channel, self._member))

    def note(self, notes: Sequence[Note]) -> None:
        """If the connection is lost, a note may be written twice, which is better than not at all."""
        self._put_notes(notes)

    def _put_notes(self, notes: Sequence[Note]) -> None:
        if notes:
            self._side.ask(self._sql["put_notes"], _arguments(notes))

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
