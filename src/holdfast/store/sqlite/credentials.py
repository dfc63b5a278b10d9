"""Credentials: a few rows, all read at once."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence

from holdfast.model.audit import Note
from holdfast.model.credentials import Credential
from holdfast.store import rows
from holdfast.store.sqlite.transactions import Transactions


class SqliteCredentials(Transactions):
    """The part of a store that keeps the credentials of a server's callers."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        with self._transaction() as writer:
            writer.execute(self._sql["put_credential"], rows.credential_row(credential))
            self._put_notes(notes)

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        return self._write_over("reseal_credential", (after, credential, before))

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        return self._write_over("remove_credential", (credential,), notes)

    def _write_over(self, name: str, parameters: Sequence[object], notes: Sequence[Note] = ()) -> bool:
        """Run a statement that changes or removes a row, so that nothing of the old row is left in free space of the file, nor in the WAL.
        If another process is reading, the old row stays in the WAL until the WAL is emptied later. Returns whether a row was changed or
        removed; only in that case the notes are written."""
        with self._write_lock:
            self._writer.execute("PRAGMA secure_delete = ON")
            try:
                with self._transaction() as writer:
                    changed = writer.execute(self._sql[name], parameters).rowcount == 1
                    if changed:
                        self._put_notes(notes)
            finally:
                self._writer.execute("PRAGMA secure_delete = OFF")
            if changed and self._wal_space is not None:
                with contextlib.suppress(sqlite3.OperationalError):  # another process reads it: the last one to close empties the WAL
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return changed
