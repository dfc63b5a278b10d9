"""Sealing the secrets of access keys: the server needs these secrets to verify signatures, so the store cannot keep only their hashes.

The secrets are encrypted with AES-256-GCM. The encryption key is made from two parts that are kept in different places: a key that the
store itself keeps (its seal), and a secret of the operator that is outside of the store (secret.py). Each sealed text begins with the name
of its encryption key:

    v2.FINGERPRINT:…    both parts
    operator:…          of an older release, sealed with the operator's secret alone
    store:…             of an older release, sealed with the seal of the store alone: any reader of a copy of the store could open it

When a server or `holdfast keys` finds one of the last two, or a text of another FINGERPRINT than that of the current secret, and can open
it, the text is replaced by a new one of the first form.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.model.credentials import Credential, CredentialKind
from holdfast.model.errors import CodecFailed, KeysSecretNeeded
from holdfast.model.seal import Seal
from holdfast.store.encryption import AesGcm
from holdfast.web.auth.secret import SECRET_VARIABLE, KeysSecret

Chance = Callable[[int], bytes]
"""Makes random bytes, as `os.urandom` does."""
Find = Callable[[], Sequence[KeysSecret]]
"""A function that finds the operator's secrets of this process. The first secret of its result seals. To open an access key, all of them
are tried."""

_BY_STORE: Final = "store"
_BY_OPERATOR: Final = "operator"
_FINGERPRINT_BYTES: Final = 4


class Sealing:
    """Seals and opens the secrets of one store's access keys."""

    def __init__(self, seal: Seal, find: Find, *, chance: Chance) -> None:
        self._own = seal.derived(b"access keys")
        self._find = find
        self._chance = chance
        self._codecs: list[tuple[str, AesGcm]] | None = None

    def _known(self, *, again: bool = False) -> list[tuple[str, AesGcm]]:
        """For each secret of the operator, in the order in which they were found: the name of its encryption key, and the object that
        encrypts and decrypts with it. They are made only when the first access key is sealed, opened or checked, because a store that has
        only tokens needs no secret of the operator and no package for encryption. `again`: look for the operator's secrets again."""
        if self._codecs is None or again:
            self._codecs = [self._codec(secret.value) for secret in self._find()]
        return self._codecs

    def _codec(self, secret: str) -> tuple[str, AesGcm]:
        key = hmac.digest(secret.encode(), b"holdfast access keys 2" + self._own, "sha256")
        name = f"v2.{hmac.digest(key, b'fingerprint', 'sha256')[:_FINGERPRINT_BYTES].hex()}"
        keys = {name: key, _BY_OPERATOR: hmac.digest(secret.encode(), b"holdfast access keys", "sha256"), _BY_STORE: self._own}
        return name, AesGcm(keys, name, chance=self._chance)

    def sealed(self, key_id: str, secret: str) -> str:
        """The secret of an access key in the form that the store keeps. It can be opened only together with the same `key_id`. Raises
        KeysSecretNeeded if this process has no secret of the operator."""
        known = self._known()
        if not known:
            raise KeysSecretNeeded(
                f"An access key needs a secret of the operator that seals it. Set {SECRET_VARIABLE}: 32 random characters or more."
            )
        return known[0][1].encode(secret, _about(key_id))

    def is_current(self, credential: Credential) -> bool:
        """Whether this access key was sealed with the secret that seals now. Also True if this process has no secret at all: then nothing
        can be sealed anew."""
        known = self._known()
        return not known or credential.secret.startswith(f"{known[0][0]}:")

    def opened(self, credential: Credential) -> str:
        """The secret of an access key, decrypted. Raises KeysSecretNeeded if no secret of this process opens it."""
        name = credential.secret.partition(":")[0]
        for again in (False, True):  # another process may have made a key file in the meantime
            for own, codec in self._known(again=again):
                if name in (own, _BY_OPERATOR, _BY_STORE):
                    try:
                        return codec.decode(credential.secret, _about(credential.id))
                    except CodecFailed:
                        continue
        raise KeysSecretNeeded(
            f"The access key {credential.id} cannot be opened: this process does not have the secret that sealed it, or the row is "
            f"damaged. Give that secret ({SECRET_VARIABLE}). If it is lost, `holdfast keys rotate --lost` revokes all keys that cannot be "
            "opened; then make new keys."
        )

    def opens(self, credential: Credential) -> bool:
        """Whether this process has a secret that opens this access key."""
        try:
            self.opened(credential)
        except KeysSecretNeeded:
            return False
        return True


def _about(key_id: str) -> str:
    return f"access key {key_id}"


def access_keys(credentials: Sequence[Credential]) -> list[Credential]:
    """The access keys among these credentials. Tokens are left out."""
    return [credential for credential in credentials if credential.kind is CredentialKind.ACCESS_KEY]


def needs_outside_secret(credential: Credential) -> bool:
    """Whether this access key was sealed with a secret of the operator. False only for a key that an older release sealed with the seal of
    the store alone."""
    return not credential.secret.startswith(f"{_BY_STORE}:")
