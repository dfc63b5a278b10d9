"""The operator's secret that seals access keys, and where this process finds it. It is kept outside of the store.

The process looks for it in this order: `HOLDFAST_KEYS_SECRET`; the file that `HOLDFAST_KEYS_FILE` names; and, for a store in a file, the
file `keys.secret` in the user's configuration folder, which is made with the first access key. Several machines may use a store on a
database server, so such a store needs one of the first two. `HOLDFAST_KEYS_SECRET_BEFORE` opens what an earlier secret sealed, until a
server or `holdfast keys` has sealed it again with the new one.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from holdfast.files import private
from holdfast.model.credentials import KEYS_FILE_VARIABLE, KEYS_SECRET_BEFORE_VARIABLE, KEYS_SECRET_VARIABLE
from holdfast.model.errors import InvalidParameter, KeysSecretNeeded
from holdfast.operator.trust import configuration_folder

log = logging.getLogger("holdfast.server")

SECRET_VARIABLE: Final = KEYS_SECRET_VARIABLE
_LEAST: Final = 32
_MADE_BYTES: Final = 32
_FILE: Final = "keys.secret"
_LARGEST: Final = 64 * 1024


class KeysSecret:
    """A secret and its source. Its printed form shows only the source."""

    def __init__(self, value: str, source: str) -> None:
        if len(value) < _LEAST:
            raise InvalidParameter(f"The secret in {source} must have at least {_LEAST} characters; make it at random.")
        self.value = value
        self.source = source

    def __repr__(self) -> str:
        return f"KeysSecret({self.source})"


class KeysSecrets:
    """The secrets of one process for one store."""

    def __init__(self, environment: Mapping[str, str], store: str | None = None, given: str | None = None) -> None:
        """`store` is the path or the address of the store; None: an existing key file is read, but none is made. `given` is a secret that
        the program itself gives; it is used in place of `HOLDFAST_KEYS_SECRET`. Raises InvalidParameter if a secret is too short."""
        self._first = _secret(given, "operator_secret") or _secret(environment.get(SECRET_VARIABLE), SECRET_VARIABLE)
        self._before = _secret(environment.get(KEYS_SECRET_BEFORE_VARIABLE), KEYS_SECRET_BEFORE_VARIABLE)
        self._warned = False
        named = environment.get(KEYS_FILE_VARIABLE)
        self._named = Path(named) if named else None
        self._is_shared = store is not None and "://" in store
        self._may_make = store is not None and not self._is_shared
        self._own = None if self._is_shared else configuration_folder(environment) / _FILE

    def __call__(self) -> list[KeysSecret]:
        """All secrets that exist now; the first one seals. Raises KeysSecretNeeded if the file that HOLDFAST_KEYS_FILE names cannot be read
        or is too large. Raises NotPrivate if the key file in the user's configuration folder is a link or belongs to another user. Raises
        InvalidParameter if a secret is too short."""
        found = [self._first, self._from_named(), self._from_own(), self._before]
        return [secret for secret in found if secret is not None]

    @property
    def is_there(self) -> bool:
        """Whether there is a secret that can seal. The secret in HOLDFAST_KEYS_SECRET_BEFORE does not count: it is meant only to open."""
        return any(secret.source != KEYS_SECRET_BEFORE_VARIABLE for secret in self())

    def make(self, chance: Callable[[int], bytes]) -> str:
        """Make the key file, and return its path. If another process has made it already, that file stays. Raises KeysSecretNeeded or
        NotPrivate if the file cannot be made. Raises KeysSecretNeeded also if the store is a database server or is not known: for these no
        file is made, and the operator must give a secret."""
        if not self._may_make or self._own is None:
            raise KeysSecretNeeded(
                f"The store is a database, so every server of it needs the same secret for access keys. Set {SECRET_VARIABLE} (32 random"
                f" characters or more), or {KEYS_FILE_VARIABLE} to a file that has it, for `holdfast keys` and for every server."
                if self._is_shared
                else f"Access keys are sealed with a secret that is not in the store. Set {SECRET_VARIABLE}, or give `operator_secret`."
            )
        try:
            private.given_folder(self._own.parent)
            draft = self._own.with_name(f".{_FILE}-{chance(8).hex()}")
            private.write_new(draft, base64.urlsafe_b64encode(chance(_MADE_BYTES)) + b"\n")
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(draft, self._own)  # a link, not a rename: another process may have made the key file meanwhile
            finally:
                os.unlink(draft)
        except OSError as error:
            raise KeysSecretNeeded(
                f"The key file {self._own} could not be made: {error.strerror}. Set {SECRET_VARIABLE} instead: 32 random characters."
            ) from None
        return str(self._own)

    def _from_named(self) -> KeysSecret | None:
        """The secret in the file that HOLDFAST_KEYS_FILE names; None if the variable is not set. Raises KeysSecretNeeded if the file cannot
        be read or is too large. Several machines may mount the file, so the operator sets its permissions; the log warns if every user may
        read it."""
        if self._named is None:
            return None
        try:
            told = self._named.stat()
            with self._named.open("rb") as file:
                raw = file.read(_LARGEST + 1)  # reading a device may never end
            text = raw.decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise KeysSecretNeeded(f"{KEYS_FILE_VARIABLE}: {self._named} cannot be read: {reason}.") from None
        if len(raw) > _LARGEST:
            raise KeysSecretNeeded(
                f"{KEYS_FILE_VARIABLE}: {self._named} has more than {_LARGEST:,} bytes, and cannot be the file of a secret."
            )
        if told.st_mode & stat.S_IROTH and not self._warned:
            self._warned = True
            log.warning("every user of this machine may read %s, which opens access keys; run `chmod o-r %s`", self._named, self._named)
        return KeysSecret(text, str(self._named))

    def _from_own(self) -> KeysSecret | None:
        text = None if self._own is None else private.read_file(self._own)
        return None if text is None else KeysSecret(text.decode("utf-8", "replace").strip(), str(self._own))

    def says(self) -> str:
        """A sentence for the operator: where the secret that is used comes from, or that there is none."""
        found = self()
        return f"access keys are opened with {found[0].source}" if found else "no secret for access keys is here, and none is needed"


def _secret(value: str | None, source: str) -> KeysSecret | None:
    return KeysSecret(value, source) if value else None
