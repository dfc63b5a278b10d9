"""Credentials: a few rows, read whole."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence

from holdfast.model.auditing import Note
from holdfast.model.credentials import Credential
from holdfast.store import rows
from holdfast.store.pages import readable_credentials
from holdfast.store.sqlite.auditing import Auditing


class Credentials(Auditing):
    """The part of a store that knows who may ask a server."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        """Keep a credential, in place of one of the same id."""
        with self._transaction() as writer:
            writer.execute(self._sql["put_credential"], rows.credential_row(credential))
            self._put_notes(writer, notes)

    def credentials(self) -> Sequence[Credential]:
        """All of them."""
        return readable_credentials(self._read("credentials", ()))

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        """Another sealed secret in the place of this one."""
        return self._write_over("reseal_credential", (after, credential, before))

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        """Forget one."""
        return self._write_over("remove_credential", (credential,), notes)

    def _write_over(self, name: str, parameters: Sequence[object], notes: Sequence[Note] = ()) -> bool:
        """Write so that the file does not keep what was there before: neither in free space nor, once no process reads it, in the WAL."""
        with self._write_lock:
            self._writer.execute("PRAGMA secure_delete = ON")
            try:
                with self._transaction() as writer:
                    changed = writer.execute(self._sql[name], parameters).rowcount == 1
                    if changed:
                        self._put_notes(writer, notes)
            finally:
                self._writer.execute("PRAGMA secure_delete = OFF")
            if changed and self._room is not None:
                with contextlib.suppress(sqlite3.OperationalError):  # another process reads: then the last to close the file does it
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return changed
