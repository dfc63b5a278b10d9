"""Credentials: a few rows, read whole."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.auditing import Note
from holdfast.model.credentials import Credential
from holdfast.store import rows
from holdfast.store.pages import readable_credentials
from holdfast.store.postgres.auditing import Auditing


class Credentials(Auditing):
    """The part of a store that knows who may ask a server."""

    def put_credential(self, credential: Credential, notes: Sequence[Note] = ()) -> None:
        """Keep a credential, in place of one of the same id."""
        with self._side.explained_transaction():
            self._read("put_credential", rows.credential_row(credential))
            self.note(notes)

    def credentials(self) -> Sequence[Credential]:
        """All of them."""
        return readable_credentials(self._read("credentials"))

    def reseal_credential(self, credential: str, before: str, after: str) -> bool:
        """Another sealed secret in the place of this one."""
        return self._side.change(self._sql["reseal_credential"], (after, credential, before)) == 1

    def remove_credential(self, credential: str, notes: Sequence[Note] = ()) -> bool:
        """Forget one."""
        with self._side.explained_transaction():
            found = self._side.change(self._sql["remove_credential"], (credential.replace("\0", "\ufffd"),)) == 1
            if found:
                self.note(notes)
        return found
