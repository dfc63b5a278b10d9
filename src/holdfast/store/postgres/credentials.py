"""Credentials: a few rows, all read at once."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.audit import Note
from holdfast.model.credentials import Credential
from holdfast.store import rows
from holdfast.store.postgres.changes import PostgresChanges


class PostgresCredentials(PostgresChanges):
    """The part of a store that keeps the credentials of a server's callers."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        with self._side.explained_transaction():
            self._read("put_credential", rows.credential_row(credential))
            self._put_notes(notes)

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        return self._side.change(self._sql["reseal_credential"], (after, credential, before)) == 1

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        with self._side.explained_transaction():
            found = self._side.change(self._sql["remove_credential"], (credential.replace("\0", "\ufffd"),)) == 1
            if found:
                self._put_notes(notes)
        return found
