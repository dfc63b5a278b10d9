"""Credentials: a few rows, read whole."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.credentials import Credential
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writing import Writing


class Credentials(Writing):
    """The part of a store that knows who may ask a server."""

    def put_credential(self, credential: Credential) -> None:
        """Keep a credential, in place of one of the same id."""
        self._write("put_credential", rows.credential_row(credential))

    def credentials(self) -> Sequence[Credential]:
        """All of them."""
        return [rows.credential_from(row) for row in self._read("credentials", ())]

    def remove_credential(self, credential: str) -> bool:
        """Forget one."""
        return self._write("remove_credential", (credential,)) == 1
